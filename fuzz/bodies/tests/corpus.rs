//! Every file of the corpus goes through its body: no panic, and no memory out of proportion.
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, PoisonError};
use vitempo_fuzz_bodies::{
    MEMORY_LIMIT, TARGETS, corpus,
    memory::{Counting, peak_of},
    target,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory is counted for the whole process: one target at a time.
static TURN: Mutex<()> = Mutex::new(());

fn run(name: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let target = target(name).unwrap();
    let files = corpus::files(target).unwrap();
    assert!(!files.is_empty(), "no file for {name}");
    // What is set up once is no input's own.
    (target.body)(&files[0].1);
    for (file, bytes) in files {
        let result = std::panic::catch_unwind(|| peak_of(|| (target.body)(&bytes)));
        let ((), peak) = result.unwrap_or_else(|_| panic!("fuzz/corpus/{name}/{file} panics"));
        let over = peak.saturating_sub(bytes.len());
        assert!(over <= MEMORY_LIMIT, "fuzz/corpus/{name}/{file} takes {over} bytes");
    }
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test] fn $name() { run(stringify!($name)); })*

        #[test]
        fn every_target_is_tested_and_has_a_program_for_cargo_fuzz() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            let fuzz = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
            for name in names {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
                assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).exists(), "{name}");
            }
        }
    };
}

targets!(
    onnx_read,
    onnx_lower,
    bundle,
    adapted_bundle,
    journal,
    parquet,
    encoding,
    costs,
    space,
    http,
    agent_frames
);
