//! What ARCHITECTURE.md, CONTRIBUTING.md, README.md and the guides name exists: files and folders,
//! cargo's packages and targets, make's targets, search spaces, and encodings of architectures.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo::sampling::small;
use vitempo::search_space::{Architecture, Space, operators};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The guides in `docs/`, and the documents of the root.
fn documents() -> Vec<(PathBuf, String)> {
    let mut files: Vec<PathBuf> =
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].map(PathBuf::from).to_vec();
    let guides = std::fs::read_dir(root().join("docs")).expect("docs/").flatten();
    files.extend(guides.map(|entry| Path::new("docs").join(entry.file_name())));
    files.retain(|file| file.extension().is_some_and(|e| e == "md"));
    files.into_iter().map(|file| (file.clone(), read(file))).collect()
}

/// What stands between backquotes in a line.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a piece of code is a path without a placeholder.
fn is_path(code: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let named = code.contains('/') || code.ends_with(".rs") || code.ends_with(".toml");
    named && code.chars().all(plain) && !code.starts_with('/')
}

#[test]
fn files_and_folders_that_are_named_exist() {
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let mut found = 0;
        for line in read(document).lines() {
            // A row of a table names its folder first; other cells are about that.
            let folder = code(line).next().filter(|_| line.starts_with('|')).unwrap_or_default();
            for path in code(line).filter(|code| is_path(code)) {
                let there = [root().join(path), root().join(folder).join(path)];
                assert!(there.iter().any(|p| p.exists()), "{document} names `{path}`: {line}");
                found += 1;
            }
        }
        assert!(found > 10, "only {found} paths found in {document}");
    }
}

/// Name of the package in a folder, and its targets: `test` or `bench` and a name.
fn package(folder: &Path) -> Option<(String, BTreeSet<(String, String)>)> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let name = manifest.split("[package]").nth(1)?.split("name = \"").nth(1)?.split('"').next()?;
    let mut targets = BTreeSet::new();
    for (kind, folder) in [("test", folder.join("tests")), ("bench", folder.join("benches"))] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let program =
                path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").exists();
            if let Some(name) = path.file_stem().filter(|_| program) {
                targets.insert((kind.to_owned(), name.to_string_lossy().into_owned()));
            }
        }
    }
    // Targets that lie elsewhere are listed by hand.
    for kind in ["test", "bench"] {
        for listed in manifest.split(&format!("[[{kind}]]")).skip(1) {
            let name = listed.split("name = \"").nth(1).and_then(|rest| rest.split('"').next());
            targets.extend(name.map(|name| (kind.to_owned(), name.to_owned())));
        }
    }
    Some((name.to_owned(), targets))
}

#[test]
fn commands_name_packages_and_targets_that_exist() {
    let folders = std::fs::read_dir(root()).expect("the root").flatten().map(|entry| entry.path());
    let folders = folders.chain([root().to_owned(), root().join("fuzz/bodies")]);
    let packages: Vec<_> = folders.filter_map(|folder| package(&folder)).collect();
    let makefile = read("Makefile");
    let mut found = 0;
    for (file, text) in documents() {
        let file = file.display();
        for command in text.lines().flat_map(code).chain(text.lines()) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let after = |flag: &str| {
                words.iter().position(|w| *w == flag).and_then(|i| words.get(i + 1)).copied()
            };
            if let (Some(&"make"), Some(target), None) = (words.first(), words.get(1), words.get(2))
            {
                let rule = format!("\n{target}:");
                assert!(makefile.contains(&rule), "{file}: no `make {target}`");
                found += 1;
            }
            if words.first() != Some(&"cargo") {
                continue;
            }
            let named = after("-p");
            let (_, targets) = packages
                .iter()
                .find(|(name, _)| name == named.unwrap_or("vitempo"))
                .unwrap_or_else(|| panic!("{file}: no package {named:?}: {command}"));
            for kind in ["test", "bench"] {
                if let Some(name) = after(&format!("--{kind}")) {
                    let target = (kind.to_owned(), name.to_owned());
                    assert!(targets.contains(&target), "{file}: no {kind} `{name}`: {command}");
                }
            }
            found += 1;
        }
    }
    assert!(found > 5, "only {found} commands found");
}

/// What continuous integration runs: make's targets, packages, features of the library and fuzz
/// targets.
#[test]
fn continuous_integration_names_what_exists() {
    let workflow = read(".github/workflows/ci.yml");
    let makefile = read("Makefile");
    let words: Vec<&str> = workflow.split_whitespace().collect();
    let following = |flags: &[&str]| -> Vec<&str> {
        let pairs = words.windows(2).filter(|pair| flags.contains(&pair[0]));
        pairs.map(|pair| pair[1]).filter(|word| *word != "${{").collect()
    };
    let targets = following(&["make"]);
    assert!(targets.len() > 5, "{targets:?}");
    for target in targets {
        assert!(makefile.contains(&format!("\n{target}:")), "no `make {target}`");
    }
    let folders = std::fs::read_dir(root()).expect("the root").flatten().map(|entry| entry.path());
    let folders = folders.chain([root().to_owned(), root().join("fuzz/bodies")]);
    let packages: BTreeSet<String> = folders.filter_map(|f| package(&f)).map(|p| p.0).collect();
    for name in following(&["-p", "--package"]) {
        let name = name.trim_end_matches('}');
        assert!(packages.contains(name), "no package `{name}`");
    }
    let manifest = read("Cargo.toml");
    let features = manifest.split("\n[features]\n").nth(1).expect("features");
    let features = features.split("\n[").next().expect("a section");
    let listed = workflow.split("feature: [").nth(1).and_then(|rest| rest.split(']').next());
    for feature in listed.expect("a matrix of features").split(", ") {
        assert!(features.contains(&format!("\n{feature} = ")), "no feature `{feature}`");
    }
    let fuzzed = words.windows(3).filter(|w| w[0] == "{" && w[1] == "target:").map(|w| w[2]);
    let fuzzed: Vec<&str> = fuzzed.map(|name| name.trim_end_matches(',')).collect();
    assert!(fuzzed.len() > 5, "{fuzzed:?}");
    for target in fuzzed {
        let file = format!("fuzz/fuzz_targets/{target}.rs");
        assert!(root().join(&file).exists(), "no `{file}`");
    }
    let oldest = manifest.split("rust-version = \"").nth(1).and_then(|v| v.split('"').next());
    let oldest = oldest.expect("the oldest compiler");
    assert!(workflow.contains(&format!("toolchain install {oldest} ")), "not {oldest}");
    assert!(workflow.contains(&format!("cargo +{oldest} check ")), "not {oldest}");
}

#[test]
fn spaces_that_are_named_ship_with_vitempo() {
    let mut known: BTreeSet<&str> = Space::names().collect();
    known.extend([operators::NAME, operators::BLOCKS, operators::RARE]);
    known.extend([operators::ENDS, operators::SERIES, operators::STUDY, small::NAME]);
    let mut named = BTreeSet::new();
    for (file, text) in documents() {
        for text in [text.replace("Space::named(\"", "--space "), text] {
            for after in text.split("--space ").skip(1) {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                let space: String = after.chars().take_while(|c| plain(*c)).collect();
                let ships = known.contains(space.as_str()) || space.ends_with(".toml");
                assert!(ships, "{}: no space `{space}`", file.display());
                named.insert(space);
            }
        }
    }
    for space in Space::names() {
        assert!(named.contains(space), "no guide samples `{space}`");
        assert!(read("docs/search-space.md").contains(&format!("`{space}`")), "{space}");
    }
}

#[test]
fn encodings_in_the_guides_are_in_their_spaces() {
    let mut families = BTreeSet::new();
    for (file, text) in documents() {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        for word in text.split(|c| !plain(c)) {
            let Some(family) = Architecture::family_of(word) else { continue };
            // `hv1` alone is the name of an encoding, and `hv1-...` stands for any.
            if word.len() < 8 {
                continue;
            }
            let space = Space::named(family).expect("a space named as its family");
            if let Err(error) = space.decode(word) {
                panic!("{}: {error}", file.display());
            }
            families.insert(family);
        }
    }
    assert_eq!(families.len(), Space::names().count(), "{families:?}");
}

/// Names that a step of CONTRIBUTING.md mentions occur in the files that it names.
#[test]
fn steps_of_contributing_name_what_their_files_contain() {
    let text = read("CONTRIBUTING.md");
    let mut checked = 0;
    for step in steps(&text) {
        let codes: Vec<&str> = code(&step).collect();
        let files: Vec<PathBuf> =
            codes.iter().map(|code| root().join(code)).filter(|path| path.exists()).collect();
        let contents: String = files.iter().map(|path| contents(path)).collect();
        for name in codes.into_iter().filter(|code| is_name(code)) {
            let last = name.rsplit("::").next().unwrap_or(name);
            assert!(files.is_empty() || contents.contains(last), "no `{name}`: {step}");
            checked += usize::from(!files.is_empty());
        }
    }
    assert!(checked > 8, "only {checked} names found");
}

/// The numbered steps of a document, each on one line.
fn steps(text: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            steps.push(line.to_owned());
        } else if let Some(step) = steps.last_mut().filter(|_| line.starts_with(' ')) {
            step.push_str(line);
        }
    }
    steps
}

/// Whether a piece of code is the name of an item, such as `Method::ALL` or `families!`.
fn is_name(code: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_:!".contains(c);
    code.chars().all(plain) && code.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// The text of a file, or of all files below a folder.
fn contents(path: &Path) -> String {
    if path.is_file() {
        return std::fs::read_to_string(path).unwrap_or_default();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| contents(&entry.path())).collect()
}

/// The table of ARCHITECTURE.md has every member of the workspace under its package's name.
#[test]
fn the_architecture_lists_every_crate() {
    let architecture = read("ARCHITECTURE.md");
    let workspace: toml::Table = read("Cargo.toml").parse().expect("the workspace");
    let members = workspace["workspace"]["members"].as_array().expect("members");
    for member in members.iter().filter_map(toml::Value::as_str) {
        let (name, _) = package(&root().join(member)).expect("a package");
        let row = format!("| `{member}/` | `{name}` |");
        assert!(architecture.contains(&row), "no row {row}");
    }
    assert!(architecture.contains("| `src/` | `vitempo` |"));
}

/// ARCHITECTURE.md names every feature of the library, and no other.
#[test]
fn the_architecture_lists_the_features() {
    let text = read("ARCHITECTURE.md").replace('\n', " ");
    let paragraph = text.split("**Features of the facade.**").nth(1).expect("the features");
    let named: BTreeSet<&str> = code(paragraph.split("  ").next().expect("text")).collect();
    let manifest: toml::Table = read("Cargo.toml").parse().expect("a manifest");
    let features = manifest["features"].as_table().expect("features");
    // `tract` is a second engine for cross-checks, described in docs/backends.md.
    let listed: BTreeSet<&str> =
        features.keys().map(String::as_str).filter(|f| !["default", "tract"].contains(f)).collect();
    assert_eq!(named, listed);
}

/// Numbers of the README that the repository determines.
#[test]
fn numbers_of_the_readme_hold() {
    let readme = read("README.md").replace('\n', " ");
    let bundles = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).expect("bundles").flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "vtb")).count()
    };
    assert_eq!(bundles("bundles"), 11, "the README says eleven");
    assert!(readme.contains("Bundles of eleven environments ship"));
    let adapted = bundles("bundles/adapted");
    assert!(readme.contains(&format!("and {adapted} of phones")), "{adapted} adapted bundles");
    let embedded = format!("The {} shipped bundles", 9 + adapted);
    assert!(read("docs/decisions/0020-bundles-by-name.md").contains(&embedded), "{embedded}");
    let manifest: toml::Table = read("Cargo.toml").parse().expect("a manifest");
    let rust = manifest["workspace"]["package"]["rust-version"].as_str().expect("a version");
    assert!(readme.contains(&format!("needs Rust {rust} or later")), "Rust {rust}");
}
