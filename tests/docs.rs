//! Every command in the guides runs: `vitempo` lines of ```sh blocks, file by file, each in a fresh
//! folder with the shipped models under `real/` and what ships under `datasets/measured/`,
//! `datasets/stitching/`, `tests/models/` and `tests/published/`.

mod program;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
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
    let program = Path::new(program::PROGRAM);
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

/// Lines of prose: neither code nor tables nor headings.
fn prose(markdown: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let lines = markdown.lines().enumerate().map(|(index, line)| (index + 1, line));
    let prose = |(_, line): &(usize, &str)| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence && !["|", "#", "    ", "!["].iter().any(|s| line.starts_with(s))
    };
    lines.filter(prose).collect()
}

/// Pages that a verb writes.
const WRITTEN: [&str; 2] = ["docs/stitching.md", "docs/aria/report.md"];

#[test]
fn the_readme_is_short_and_prose_is_wrapped() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(readme.lines().count() <= 120, "README.md has more than 120 lines");
    let written = WRITTEN.map(|name| root().join(name));
    for page in pages().into_iter().filter(|page| !written.contains(page)) {
        let text = std::fs::read_to_string(&page).expect("a page");
        let wide: Vec<usize> = prose(&text)
            .into_iter()
            .filter(|(_, line)| line.chars().count() > 100)
            .map(|(number, _)| number)
            .collect();
        let page = page.display();
        assert!(wide.is_empty(), "{page}: lines {wide:?} have more than 100 characters");
    }
}

#[test]
fn decisions_have_one_form_and_at_most_a_page() {
    let mut numbers = std::collections::BTreeSet::new();
    for page in pages().into_iter().filter(|page| page.starts_with(root().join("docs/decisions"))) {
        let text = std::fs::read_to_string(&page).expect("a decision");
        let name = page.file_stem().and_then(|name| name.to_str()).expect("a name");
        let number = name.split('-').next().expect("a number");
        assert!(text.starts_with(&format!("# {number}: ")), "{name} has another number");
        assert!(numbers.insert(number.to_owned()), "two decisions have the number {number}");
        for part in ["Status: ", "## Context", "## Decision", "## Consequences"] {
            assert!(text.lines().any(|line| line.starts_with(part)), "{name} has no `{part}`");
        }
        assert!(text.lines().count() <= 60, "{name} has more than 60 lines");
    }
    assert!(numbers.len() > 20, "only {} decisions found", numbers.len());
}

/// Every page of the documentation.
fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/aria", "docs/decisions", "datasets/measured", "studies"];
    let entries = |folder: &str| std::fs::read_dir(root().join(folder)).expect("a folder");
    let mut pages: Vec<PathBuf> =
        folders.into_iter().flat_map(entries).flatten().map(|e| e.path()).collect();
    pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
    pages.sort();
    pages
}

/// Targets of a page's links and images, without those on the web.
fn links(markdown: &str) -> impl Iterator<Item = &str> {
    markdown
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .filter(|target| !target.contains("://"))
}

/// The anchors of a page's headings.
fn anchors(markdown: &str) -> Vec<String> {
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || *c == '-' || *c == ' ')
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    markdown.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut checked = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.parent().expect("a folder").join(file)
            };
            assert!(target.exists(), "{}: there is no {link}", page.display());
            let there = anchor.is_empty()
                || anchors(&std::fs::read_to_string(&target).expect("a page"))
                    .contains(&anchor.to_owned());
            assert!(there, "{}: there is no heading {link}", page.display());
            checked += 1;
        }
    }
    assert!(checked > 60, "only {checked} links found");
}

/// Commands in indented blocks do not run here, as they need engines, hours or a network; their
/// verbs and flags exist.
#[test]
fn commands_that_are_only_shown_exist() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut checked = 0;
    for guide in guides() {
        let text = std::fs::read_to_string(&guide).expect("a guide");
        let lines = text.lines().filter(|line| line.starts_with("    vitempo "));
        for command in lines.flat_map(|line| line.trim().split(" && ")) {
            let command = format!("{command} --help");
            let output = run(&command, folder.path());
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: `{command}`:\n{stderr}", guide.display());
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} commands found");
}

#[test]
fn the_readme_lists_the_bundles_that_ship() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    let mut listed: Vec<&str> = readme
        .lines()
        .filter_map(|line| line.strip_suffix("` |")?.rsplit_once('`').map(|(_, name)| name))
        .collect();
    let ships = std::fs::read_dir(root().join("bundles")).expect("bundles").flatten();
    let files: Vec<PathBuf> = ships.map(|entry| entry.path()).collect();
    let mut names: Vec<&str> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|e| e == "vtb"))
        .filter_map(|file| file.file_stem()?.to_str())
        .collect();
    listed.sort_unstable();
    names.sort_unstable();
    assert_eq!(listed, names);
}
