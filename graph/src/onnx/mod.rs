//! ONNX in and out.

mod onnxruntime_domain;
pub mod proto;
mod weights;
mod writer;

pub use weights::{materialize, weights_present};
pub use writer::{WeightFill, WriteOptions, to_bytes, write_file};

use crate::Graph;
use std::path::{Path, PathBuf};

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum OnnxError {
    #[error("cannot read {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("model `{model}` cannot be written as ONNX: {reason}")]
    Unwritable { model: String, reason: String },
    #[error("{path}: {reason}")]
    Format { path: PathBuf, reason: String },
}

/// How to read a model.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Values for symbolic dimensions by name (`batch` = 1), and for unnamed ones by input: `input:0`.
    pub dimensions: std::collections::BTreeMap<String, usize>,
}

/// Reads a model; weights may be absent.
///
/// # Errors
/// [`OnnxError`] naming the file and, where there is one, the node.
pub fn read_file(path: &Path, _options: &ReadOptions) -> Result<Graph, OnnxError> {
    Err(OnnxError::Format { path: path.to_owned(), reason: "not there yet".to_owned() })
}
