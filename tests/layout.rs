//! The house rules that a compiler does not hold: which crate may import which, and that heavy
//! dependencies stay in one room.

use std::{collections::BTreeSet, path::Path};

/// Folder, our crates it may import, heavy dependencies that live there.
const ROOMS: &[(&str, &[&str], &[&str])] = &[
    ("graph", &[], &[]),
    ("search_space", &["vitempo-graph"], &[]),
    ("profiler", &["vitempo-graph"], &["ort", "rten"]),
    ("datasets", &["vitempo-graph"], &["polars"]),
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
        &["axum", "clap", "hyper"],
    ),
];

/// Names under `[dependencies]` and `[dev-dependencies]` of a manifest.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with('[') {
            inside = matches!(line, "[dependencies]" | "[dev-dependencies]");
        } else if inside && !line.starts_with('#') {
            names.extend(
                line.split(['.', ' ', '=']).next().filter(|n| !n.is_empty()).map(str::to_owned),
            );
        }
    }
    names
}

#[test]
fn crates_import_only_what_the_architecture_allows() {
    for (folder, allowed, _) in ROOMS {
        let ours: BTreeSet<String> =
            dependencies(folder).into_iter().filter(|n| n.starts_with("vitempo-")).collect();
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
        let here = dependencies(folder);
        for dependency in &heavy {
            let belongs = rooms_own.contains(dependency);
            assert!(belongs || !here.contains(*dependency), "{dependency} is used in {folder}");
        }
        for own in *rooms_own {
            assert!(here.contains(*own), "{folder} no longer uses {own}: update this test");
        }
    }
}

#[test]
fn every_workspace_member_has_a_room() {
    let manifest =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .expect("the workspace's manifest");
    let members = manifest.lines().find(|l| l.starts_with("members")).expect("a members line");
    for member in members.split('"').skip(1).step_by(2) {
        assert!(ROOMS.iter().any(|r| r.0 == member), "{member} is not in the table above");
    }
}
