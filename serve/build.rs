//! Writes the table of the explorer's files: what `make web` left in `web/dist`, without the
//! bundles, which the program has; none where there is no such folder.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Bundles are served from the registry.
const LEFT_OUT: &str = "bundles";

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let folder = variable("CARGO_MANIFEST_DIR").join("../web/dist");
    // What is missing counts as changed in every build: `make web` touches this file instead.
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if folder.join("index.html").is_file() {
        println!("cargo::rerun-if-changed={}", folder.display());
        collect(&folder, &mut files)?;
    }
    files.sort();
    fs::write(variable("OUT_DIR").join("page_files.rs"), table(&folder, &files))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.is_dir() {
            files.push(path);
        } else if path.file_name().is_some_and(|name| name != LEFT_OUT) {
            collect(&path, files)?;
        }
    }
    Ok(())
}

fn table(folder: &Path, files: &[PathBuf]) -> String {
    let row = |file: &PathBuf| {
        let name = file.strip_prefix(folder).unwrap_or(file).to_string_lossy().replace('\\', "/");
        format!(
            "    ({:?}, include_bytes!({:?})),\n",
            format!("/{name}"),
            file.display().to_string()
        )
    };
    let rows: String = files.iter().map(row).collect();
    format!("static FILES: &[(&str, &[u8])] = &[\n{rows}];\n")
}
