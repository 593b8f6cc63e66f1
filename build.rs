//! Writes the table of embedded bundles: the `.vtb` files of `bundles/` and `bundles/adapted/` with
//! the feature `embedded-bundles`, none without it. Bundles are compressed files.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

const EXTENSION: &str = "vtb";

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let folder = variable("CARGO_MANIFEST_DIR").join("bundles");
    println!("cargo::rerun-if-changed={}", folder.display());
    let files = if env::var_os("CARGO_FEATURE_EMBEDDED_BUNDLES").is_some() {
        bundles(&folder)?
    } else {
        Vec::new()
    };
    fs::write(variable("OUT_DIR").join("embedded_bundles.rs"), table(&files))
}

/// The bundles in a folder and in its subfolders, by name.
fn bundles(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(bundles(&path)?);
        } else if path.extension().is_some_and(|extension| extension == EXTENSION) {
            found.push(path);
        }
    }
    found.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
    Ok(found)
}

fn table(files: &[PathBuf]) -> String {
    let row = |file: &PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        format!("    ({name:?}, include_bytes!({:?})),\n", file.display().to_string())
    };
    let rows: String = files.iter().map(row).collect();
    format!("static EMBEDDED: &[(&str, &[u8])] = &[\n{rows}];\n")
}
