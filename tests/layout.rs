//! Rules that a compiler does not check: which crate may import which, in which crate each heavy
//! dependency may be, and that manifests are complete.

use std::{collections::BTreeSet, path::Path};

/// Folder, our crates it may import, heavy dependencies that live there.
const ROOMS: &[(&str, &[&str], &[&str])] = &[
    ("graph", &[], &[]),
    ("search_space", &["vitempo-graph"], &[]),
    ("profiler", &["vitempo-graph"], &["ort", "rten"]),
    ("datasets", &["vitempo-graph"], &["object_store", "polars", "tokio"]),
    ("predictors", &["vitempo-graph"], &["lightgbm", "linfa", "linfa-elasticnet", "smartcore"]),
    ("planners", &["vitempo-graph", "vitempo-aria"], &[]),
    ("aria", &[], &[]),
    (
        ".",
        &[
            "vitempo-graph",
            "vitempo-search-space",
            "vitempo-profiler",
            "vitempo-datasets",
            "vitempo-predictors",
            "vitempo-planners",
            "vitempo-aria",
        ],
        &[],
    ),
    ("serve", &["vitempo"], &["axum", "hyper", "tokio"]),
    ("report", &["vitempo"], &[]),
    ("cli", &["vitempo", "vitempo-serve", "vitempo-report"], &["clap"]),
    ("python", &["vitempo"], &["numpy", "pyo3"]),
    ("web", &["vitempo"], &[]),
    ("studies", &["vitempo", "vitempo-report"], &["clap"]),
    ("fuzz/bodies", &["vitempo", "vitempo-serve"], &[]),
];

/// A crate's manifest.
fn manifest(folder: &str) -> toml::Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names under `[dependencies]` of a crate; `optional`: optional ones too.
fn dependencies(folder: &str, optional: bool) -> BTreeSet<String> {
    let manifest = manifest(folder);
    let is_optional =
        |value: &toml::Value| value.get("optional").and_then(toml::Value::as_bool) == Some(true);
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    let named = table.into_iter().flatten().filter(|(_, value)| optional || !is_optional(value));
    named.map(|(name, _)| name.clone()).collect()
}

#[test]
fn crates_import_only_what_the_architecture_allows() {
    for (folder, allowed, _) in ROOMS {
        let ours: BTreeSet<String> =
            dependencies(folder, true).into_iter().filter(|n| n.starts_with("vitempo")).collect();
        let allowed: BTreeSet<String> = allowed.iter().map(|&n| n.to_owned()).collect();
        assert!(
            ours.is_subset(&allowed),
            "{folder} imports {:?}",
            ours.difference(&allowed).collect::<Vec<_>>()
        );
    }
}

#[test]
fn heavy_dependencies_stay_in_one_room() {
    let heavy: BTreeSet<&str> = ROOMS.iter().flat_map(|r| r.2.iter().copied()).collect();
    for (folder, _, rooms_own) in ROOMS {
        let here = dependencies(folder, true);
        for dependency in &heavy {
            let belongs = rooms_own.contains(dependency);
            assert!(belongs || !here.contains(*dependency), "{dependency} is used in {folder}");
        }
        for own in *rooms_own {
            assert!(here.contains(*own), "{folder} no longer uses {own}: update this test");
        }
    }
}

/// A program that only forecasts builds without engines, training libraries and dataframes.
#[test]
fn forecasting_needs_no_feature() {
    let facade = dependencies(".", false);
    for optional in ["vitempo-profiler", "vitempo-datasets", "vitempo-planners", "vitempo-aria"] {
        assert!(!facade.contains(optional), "the facade always imports {optional}");
    }
    let predictors = dependencies("predictors", false);
    for (_, _, heavy) in ROOMS.iter().filter(|room| room.0 == "predictors") {
        for library in *heavy {
            assert!(!predictors.contains(*library), "forecasting needs {library}");
        }
    }
}

/// A wheel is small and builds in minutes: engines, training and polars are not in it.
#[test]
fn the_python_package_has_no_engine_training_or_polars() {
    let package = manifest("python");
    let features = &package["dependencies"]["vitempo"]["features"];
    let features: BTreeSet<&str> =
        features.as_array().expect("a list").iter().filter_map(toml::Value::as_str).collect();
    assert_eq!(features, BTreeSet::from(["dataset-read", "embedded-bundles", "plan"]));
    let reading = manifest_features(".", "dataset-read");
    assert!(!reading.contains("vitempo-datasets/write"), "{reading:?}");
    let workspace = manifest(".");
    let datasets = &workspace["workspace"]["dependencies"]["vitempo-datasets"];
    assert!(!dependencies("datasets", false).contains("polars"), "reading needs polars");
    assert_eq!(datasets["default-features"].as_bool(), Some(false), "defaults bring polars");
    let planning = manifest_features(".", "plan");
    for heavy in ["dep:vitempo-datasets", "dep:vitempo-profiler"] {
        assert!(!planning.contains(heavy), "plans need {heavy}");
    }
}

/// What a feature of a crate enables.
fn manifest_features(folder: &str, feature: &str) -> BTreeSet<String> {
    let manifest = manifest(folder);
    let enabled = manifest["features"][feature].as_array().expect("a list");
    enabled.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

#[test]
fn every_workspace_member_has_a_room() {
    let workspace = manifest(".");
    let members = workspace["workspace"]["members"].as_array().expect("a list of members");
    for member in members.iter().filter_map(toml::Value::as_str) {
        assert!(ROOMS.iter().any(|r| r.0 == member), "{member} is not in the table above");
    }
}

/// The fields that a package needs, and versions of our own crates.
#[test]
fn every_crate_can_be_packaged() {
    let workspace = manifest(".");
    for (name, dependency) in workspace["workspace"]["dependencies"].as_table().expect("a table") {
        let is_ours = dependency.get("path").is_some();
        assert!(!is_ours || dependency.get("version").is_some(), "{name} has no version");
    }
    for (folder, _, _) in ROOMS {
        let manifest = manifest(folder);
        let package = &manifest["package"];
        for field in ["description", "keywords", "categories", "readme", "include", "publish"] {
            assert!(package.get(field).is_some(), "{folder}/Cargo.toml: no `{field}`");
        }
        assert!(package["keywords"].as_array().is_some_and(|words| words.len() <= 5), "{folder}");
    }
}

/// Manifests list tests and benchmarks one by one, because those of the binary lie here too.
#[test]
fn every_test_and_benchmark_is_a_target() {
    for (folder, kind) in [("tests", "test"), ("benches", "bench")] {
        let targets: BTreeSet<String> = [".", "cli", "serve", "web"]
            .iter()
            .flat_map(|of| {
                let manifest = manifest(of);
                let listed = manifest.get(kind).and_then(toml::Value::as_array).cloned();
                listed.unwrap_or_default()
            })
            .filter_map(|target| target["name"].as_str().map(str::to_owned))
            .collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in std::fs::read_dir(path).expect("a folder").flatten() {
            let file = entry.path();
            let name = file.file_stem().and_then(|s| s.to_str()).expect("a name");
            let is_source = file.extension().is_some_and(|e| e == "rs");
            assert!(!is_source || targets.contains(name), "{} is never built", file.display());
        }
    }
}

/// Libraries are used by other programs too: they say what is wrong, and the binary says which flag
/// mends it. `report` is left out: its pages name commands of the program.
#[test]
fn libraries_name_no_flag() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_a_binary = |file: &Path| file.components().any(|part| part.as_os_str() == "bin");
    let mut named = Vec::new();
    for (folder, _, _) in ROOMS.iter().filter(|room| !["cli", "report"].contains(&room.0)) {
        for file in sources(&root.join(folder).join("src")) {
            if of_a_binary(&file) || file.file_name().is_some_and(|name| name == "tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a source file");
            let code = text.split("\nmod tests {").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate().filter(|(_, line)| names_a_flag(line)) {
                named.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(named.is_empty(), "flags are named by libraries:\n{}", named.join("\n"));
    assert!(names_a_flag("    hint: \"give it one (--dim batch=1)\","));
    assert!(names_a_flag("        --cores 0,1\""));
    assert!(!names_a_flag("    .arg(\"--dest\") // not `--dest FOLDER`"));
}

/// Most lines of a file of the binary.
const LONGEST: usize = 300;

/// A verb parses its arguments, calls a function of the facade and renders the value. That is
/// short; a file that grows beyond this has two jobs, and the second one is often a decision that
/// programs without the binary cannot reach.
#[test]
fn files_of_the_binary_are_short() {
    let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/src"));
    assert!(files.iter().any(|file| file.ends_with("verbs/predict/mod.rs")), "not all are read");
    let too_long = files.iter().filter_map(|file| {
        let lines = std::fs::read_to_string(file).expect("a source file").lines().count();
        (lines > LONGEST).then(|| format!("{}: {lines} lines", file.display()))
    });
    let too_long: Vec<String> = too_long.collect();
    assert!(too_long.is_empty(), "more than {LONGEST} lines:\n{}", too_long.join("\n"));
}

/// What the binary uses of `report`: whole sites and figures, and the words that both print.
const OF_REPORT: &[&str] = &[
    "Options",
    "Progress",
    "ReportError",
    "Site",
    "Topic",
    "aria",
    "build",
    "devices",
    "front",
    "site",
    "sizes",
];

/// What a figure shows is decided in `report`, where a program that writes the same page finds it;
/// the binary names neither charts nor the drawing of them. A name that is no longer used leaves
/// the list, so that it does not come back unseen.
#[test]
fn the_binary_draws_nothing() {
    let mut used = BTreeSet::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/src")) {
        let text = std::fs::read_to_string(&file).expect("a source file");
        used.extend(names_within(&text, "vitempo_report"));
    }
    let listed: BTreeSet<String> = OF_REPORT.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(used, listed);
    let names = |text| names_within(text, "vitempo_report").into_iter().collect::<Vec<_>>();
    let grouped = "use vitempo_report::{\n    chart::{Axis, Chart},\n    draw, Site as Sheet,\n};";
    assert_eq!(names(grouped), ["Site", "chart", "draw"]);
    assert_eq!(names("vitempo_report::draw::svg(&vitempo_report::build(x))"), ["build", "draw"]);
    assert_eq!(names("use vitempo_report as r; use vitempo_report::*;"), ["", "*"]);
}

/// The first names that a text uses of a crate; an empty one where it uses the crate as a whole.
fn names_within(text: &str, of: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices(of) {
        let path = text[at + of.len()..].strip_prefix("::").unwrap_or_default();
        let Some(group) = path.strip_prefix('{') else {
            let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '*';
            names.insert(path.chars().take_while(|&c| is_name(c)).collect());
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (end, c) in group.char_indices() {
            if depth == 0 && (c == ',' || c == '}') {
                let name =
                    group[start..end].split([':', ' ', '{']).find(|part| !part.trim().is_empty());
                names.extend(name.map(|name| name.trim().to_owned()));
                start = end + 1;
            }
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    names
}

/// Whether a line of code names a flag within a sentence. A text that is a flag and nothing else is
/// an argument for another program.
fn names_a_flag(line: &str) -> bool {
    let code = line.trim_start();
    if code.starts_with("//") {
        return false;
    }
    let code = code.split(" // ").next().unwrap_or_default();
    code.match_indices("--").any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + 2..]);
        let name = after.trim_start_matches(|c: char| c.is_ascii_lowercase() || c == '-');
        let is_word = after.starts_with(|c: char| c.is_ascii_lowercase())
            && !before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        let is_alone = before.ends_with('"') && (name.starts_with('"') || name.starts_with('='));
        is_word && !is_alone
    })
}

/// The Rust files of a folder and of those inside it.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
