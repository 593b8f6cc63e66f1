//! Makes a model's bytes ready for an engine: weights the file lacks are filled with seeded random values.

use crate::backends::ModelSource;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use vitempo_graph::{Graph, onnx};

/// Where a model to be measured comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An ONNX file, with or without its weights.
    File(PathBuf),
    /// The graph itself, written as ONNX when it is needed.
    Graph,
}

/// Bytes or file an engine can load, weights included.
///
/// # Errors
/// A sentence with the file's name.
pub fn ready(source: &Source, graph: &Graph, seed: u64) -> Result<ModelSource, String> {
    match source {
        Source::Graph => bytes_of_graph(graph, seed).map(ModelSource::Bytes),
        Source::File(path) => {
            if onnx::weights_present(path).map_err(|e| e.to_string())? {
                return Ok(ModelSource::File(path.clone()));
            }
            onnx::materialize(path, seed).map(ModelSource::Bytes).map_err(|e| e.to_string())
        }
    }
}

/// The graph as ONNX with seeded random weights.
///
/// # Errors
/// A sentence with the node's name, when something has no ONNX form.
pub fn bytes_of_graph(graph: &Graph, seed: u64) -> Result<Vec<u8>, String> {
    onnx::to_bytes(graph, &onnx::WriteOptions::seeded(seed)).map_err(|e| e.to_string())
}
