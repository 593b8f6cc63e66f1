//! Every command in the guides runs: `vitempo` lines of ```sh blocks, file by file, each in a fresh
//! folder with the shipped models under `real/` and what ships under `datasets/measured/`,
//! `datasets/stitching/`, `tests/models/` and `tests/published/`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn commands(markdown: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let mut inside = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && line.starts_with("vitempo ") {
            commands.push(line);
        }
    }
    commands
}

fn run(command: &str, folder: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_vitempo"));
    // As a reader who has installed it: commands in commands find it too.
    let path = std::env::join_paths(
        program
            .parent()
            .map(Path::to_owned)
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut process = Command::new(program);
    process
        .args(words(command).skip(1))
        .current_dir(folder)
        .env("PATH", path.expect("folders"))
        .output()
        .unwrap_or_else(|e| panic!("{command}: {e}"))
}

/// As a shell would take them: spaces divide, but not between single quotes.
fn words(command: &str) -> impl Iterator<Item = String> {
    let mut quoted = false;
    let divided = command.split(move |c| {
        quoted ^= c == '\'';
        c == ' ' && !quoted
    });
    divided
        .filter(|word| !word.is_empty())
        .map(|word| word.replace('\'', ""))
        .collect::<Vec<_>>()
        .into_iter()
}

fn run_guide(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let real = folder.path().join("real");
    std::fs::create_dir(&real).expect("a folder");
    for entry in
        std::fs::read_dir(root().join("tests/models")).expect("the shipped models").flatten()
    {
        std::fs::copy(entry.path(), real.join(entry.file_name())).expect("a copy");
    }
    ["datasets/measured", "datasets/stitching", "tests/models", "tests/published"]
        .iter()
        .for_each(|shipped| link(shipped, folder.path()));
    let commands = commands(&text);
    for command in &commands {
        let output = run(command, folder.path());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{}: `{command}` failed with {}:\n{stderr}",
            file.display(),
            output.status
        );
        assert!(!output.stdout.is_empty(), "{}: `{command}` printed nothing", file.display());
    }
    commands.len()
}

/// What ships with vitempo, found in `folder` as in the repository.
fn link(shipped: &str, folder: &Path) {
    let link = folder.join(shipped);
    std::fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
    std::os::unix::fs::symlink(root().join(shipped), link).expect("a link");
}

fn guides() -> Vec<PathBuf> {
    let mut files = vec![root().join("README.md")];
    files
        .extend(std::fs::read_dir(root().join("docs")).expect("docs/").flatten().map(|e| e.path()));
    files.retain(|f| f.extension().is_some_and(|e| e == "md"));
    files.sort();
    files
}

#[test]
fn every_command_in_the_guides_runs() {
    let ran: usize = guides().iter().map(|f| run_guide(f)).sum();
    assert!(ran >= 15, "only {ran} commands found: the guides or their blocks changed");
}

#[test]
fn tables_of_accuracy_are_those_of_the_report() {
    let check = Command::new("python3")
        .arg(root().join("scripts/accuracy_tables.py"))
        .arg("--check")
        .output()
        .expect("python3");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn every_adapted_bundle_that_ships_is_in_the_guide() {
    let guide = std::fs::read_to_string(root().join("docs/adapting.md")).expect("the guide");
    let ships = std::fs::read_dir(root().join("bundles/adapted")).expect("bundles").flatten();
    let mut names: Vec<String> =
        ships.filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned())).collect();
    names.retain(|name| !guide.contains(&format!("| `{name}` |")));
    assert!(names.is_empty(), "not in docs/adapting.md: {names:?}");
}
