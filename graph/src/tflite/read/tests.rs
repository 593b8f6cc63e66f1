//! Files that were written are read again: the same operators, the same kernels. Damaged files end
//! in an error.

use super::*;
use crate::lowering::litert;
use crate::onnx::{ReadOptions, read_file as read_onnx};
use crate::tflite::{Weights, plan, write};
use crate::{Limits, OpSpec, Precision};
use std::path::{Path, PathBuf};

fn models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "onnx"));
    files.sort();
    assert!(files.len() >= 3);
    files
}

/// A model that ships and its .tflite file with seeded weights.
fn written(file: &Path) -> (Graph, Vec<u8>) {
    let options = ReadOptions::default();
    let graph = read_onnx(file, &options).unwrap();
    let weights = Weights::seeded(&graph, 1).unwrap();
    let bytes = write(&graph, &weights).unwrap().bytes;
    (graph, bytes)
}

fn kernels(graph: &Graph, xnnpack: bool) -> Vec<OpSpec> {
    let lowered = litert::lower(graph, xnnpack, Precision::F32).unwrap();
    lowered.nodes().iter().map(|node| node.op.clone()).collect()
}

#[test]
fn a_file_that_was_written_has_the_same_operators_and_kernels() {
    for file in models() {
        let (graph, bytes) = written(&file);
        let again = read_bytes("again", &bytes, &Budget::default()).unwrap();
        let (before, after) =
            (plan(&graph, Precision::F32).unwrap(), plan(&again, Precision::F32).unwrap());
        assert_eq!(before.1, after.1, "{}", file.display());
        for (one, other) in before.0.nodes().iter().zip(after.0.nodes()) {
            assert_eq!(one.op, other.op, "{}: {}, {}", file.display(), one.name, other.name);
        }
        for xnnpack in [false, true] {
            assert_eq!(kernels(&graph, xnnpack), kernels(&again, xnnpack), "{}", file.display());
        }
    }
}

/// Models of a folder with ONNX files, in the variable `VITEMPO_ZOO`: how many have the same
/// kernels after they were written and read, and which differ.
#[test]
fn models_of_a_zoo_are_read_as_they_were_written() {
    let Some(folder) = std::env::var_os("VITEMPO_ZOO") else { return };
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (mut same, mut other) = (0, Vec::new());
    for file in files.filter(|file| file.extension().is_some_and(|e| e == "onnx")) {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let graph = read_onnx(&file, &ReadOptions::default()).unwrap();
        let weights = Weights::seeded(&graph, 1).unwrap();
        let Ok(written) = write(&graph, &weights) else { continue };
        match read_bytes(&name, &written.bytes, &Budget::default()) {
            Ok(again) if kernels(&graph, true) == kernels(&again, true) => same += 1,
            Ok(again) => {
                let [before, after] = [&graph, &again].map(|graph| kernels(graph, true).len());
                other.push(format!("{name}: {before} kernels, then {after}"));
            }
            Err(error) => other.push(format!("{name}: {error}")),
        }
    }
    eprintln!("{same} models are the same, {} are not:\n{}", other.len(), other.join("\n"));
    assert!(same > 9 * other.len(), "{other:#?}");
}

#[test]
fn what_is_damaged_is_refused_and_never_a_panic() {
    let (_, bytes) = written(&models()[1]);
    let tables = bytes.len().min(1 << 16);
    for length in (0..tables).step_by(97) {
        assert!(read_bytes("cut", &bytes[..length], &Budget::default()).is_err(), "{length}");
    }
    let mut changed = bytes.clone();
    for (index, at) in (0..bytes.len()).rev().step_by(1013).enumerate().take(2000) {
        let before = changed[at];
        changed[at] = [0, 1, 0x7f, 0x80, 0xff][index % 5];
        // It may be another model, or none.
        let _ = read_bytes("changed", &changed, &Budget::default());
        changed[at] = before;
    }
    let error = read_bytes("x.tflite", b"no model at all", &Budget::default()).unwrap_err();
    assert!(error.to_string().starts_with("x.tflite: not a TensorFlow Lite model"), "{error}");
}

#[test]
fn work_is_bounded_by_the_budget() {
    let (_, bytes) = written(&models()[0]);
    for limits in
        [Limits { steps: 100, ..Limits::default() }, Limits { nodes: 10, ..Limits::default() }]
    {
        let error = read_bytes("m", &bytes, &Budget::new(limits)).unwrap_err();
        assert!(matches!(error, TfliteReadError::Budget { .. }), "{error}");
    }
}
