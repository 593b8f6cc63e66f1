//! The kernels that rten runs are those that its lowering forecasts: same operators, same shapes,
//! same order. On the models that ship with the project, and on every vision transformer under
//! `VITEMPO_ZOO` where that is set.

#![cfg(feature = "rten")]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use vitempo_graph::{OpKind, OpSpec, lowering, onnx};
use vitempo_profiler::{Backend, Model, ModelSource, RunOptions, backends::rten::Rten};

fn models() -> Vec<PathBuf> {
    let folder = std::env::var_os("VITEMPO_ZOO").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models"),
        |zoo| Path::new(&zoo).join("vit"),
    );
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "onnx"));
    found.sort();
    assert!(!found.is_empty(), "no models in {}", folder.display());
    found
}

/// Kernels in execution order, with the names of their nodes.
type Kernels = Vec<(String, OpSpec)>;

/// The kernels predicted for a model, and those one run with seeded weights brought.
fn predicted_and_executed(path: &Path) -> (Kernels, Kernels) {
    let graph = onnx::read_file(path, &onnx::ReadOptions::default()).unwrap();
    let bytes = onnx::materialize(path, 0).unwrap();
    let predicted = lowering::rten::lower(&graph)
        .unwrap()
        .nodes()
        .iter()
        .map(|node| (node.name.clone(), node.op.clone()))
        .collect();
    let model =
        Model { name: path.display().to_string(), graph, source: ModelSource::Bytes(bytes) };
    let rows = Rten.load(&model, &RunOptions::default()).unwrap().profile(0, 1).unwrap().operators;
    (predicted, rows.into_iter().map(|row| (row.node, row.op.as_ref().clone())).collect())
}

#[test]
fn kernels_are_foretold() {
    for path in models() {
        let (predicted, executed) = predicted_and_executed(&path);
        let unknown: Vec<_> =
            executed.iter().filter(|(_, op)| matches!(op.kind, OpKind::Unsupported(_))).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", path.display());
        assert_eq!(predicted.len(), executed.len(), "{}", path.display());
        for (position, (predicted, executed)) in predicted.iter().zip(&executed).enumerate() {
            assert_eq!(predicted, executed, "{}: kernel {position}", path.display());
        }
    }
}
