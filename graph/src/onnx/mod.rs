//! ONNX in and out.
//!
//! Reading: [`read_file`] looks at the file's messages (`view`), takes shapes and small values of
//! initializers (`payload`) and of inputs (`dimensions`), maps each node to an [`crate::OpKind`]
//! (`operators`, `onnxruntime_domain`), infers its outputs ([`crate::shape`]), folds what is known
//! beforehand (`fold`), and drops what nothing needs (`prune`). An operator that is not known stays
//! as `Unsupported`, by name.

mod call;
mod constants;
mod dimensions;
mod divide;
mod fold;
mod foreign;
mod onnxruntime_domain;
mod operators;
mod order;
mod payload;
pub mod proto;
mod prune;
pub(crate) mod quantized;
mod reader;
mod view;
mod weights;
pub mod wire;
mod writer;

pub use constants::Constants;
pub use divide::divide;
pub(crate) use payload::tensor_values;
pub use weights::{materialize, self_contained, weights_present};
pub use writer::{WeightFill, WriteOptions, to_bytes, write_file};

use crate::{Graph, GraphError, TensorSpec};
use payload::Limits;
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
    #[error("{path}: not an ONNX model: {reason}")]
    NotOnnx { path: PathBuf, reason: String },
    #[error("{path}: node `{node}`: {reason}")]
    Node { path: PathBuf, node: String, reason: String },
    #[error(
        "{path}: dimension {index} of input `{input}` is dynamic; give it a value, e.g. --dim \
        {symbol}=1"
    )]
    Dynamic { path: PathBuf, input: String, index: usize, symbol: String },
    #[error(
        "{path}: node `{node}`: a shape depends on the values of `{initializer}`, which are not \
        in the file; export small tensors inside the model"
    )]
    AbsentValues { path: PathBuf, node: String, initializer: String },
    #[error("{path}: {source}")]
    Graph { path: PathBuf, source: GraphError },
}

/// How to read a model.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Values for symbolic dimensions by name (`batch` = 1), and for unnamed ones by input:
    /// `input:0`.
    pub dimensions: std::collections::BTreeMap<String, usize>,
}

/// Reads a model; weights may be absent. The graph is named like the file.
///
/// # Errors
/// [`OnnxError`] naming the file and, where there is one, the node.
pub fn read_file(path: &Path, options: &ReadOptions) -> Result<Graph, OnnxError> {
    let bytes =
        std::fs::read(path).map_err(|source| OnnxError::Io { path: path.to_owned(), source })?;
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    read(path, &name, &bytes, options, Limits::SHAPES)
}

/// Reads a model from memory; `name` becomes the graph's name and stands for the file in errors.
///
/// # Errors
/// As [`read_file`].
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Graph, OnnxError> {
    read(Path::new(name), name, bytes, options, Limits::SHAPES)
}

/// Reads a model that has its weights inside, with the values of all of them: what quantisation
/// works on. Eight bytes per parameter.
///
/// # Errors
/// As [`read_file`].
pub fn read_weights(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Graph, OnnxError> {
    read(Path::new(name), name, bytes, options, Limits::WEIGHTS)
}

/// The values a seeded file has for a floating-point weight of a product: what [`to_bytes`] writes
/// for [`WeightFill::Seeded`].
pub(crate) fn seeded_weight(name: &str, tensor: &TensorSpec, seed: u64) -> Vec<f64> {
    let elements = usize::try_from(tensor.elements()).unwrap_or(usize::MAX);
    weights::fill::values(elements, weights::fill::Distribution::Small, seed, name)
}

fn read(
    path: &Path,
    name: &str,
    bytes: &[u8],
    options: &ReadOptions,
    limits: Limits,
) -> Result<Graph, OnnxError> {
    let foreign = |reason: String| OnnxError::NotOnnx { path: path.to_owned(), reason };
    let model: view::ModelView<'_> =
        view::decode(bytes).map_err(|error| match foreign::looks_like(bytes) {
            Some(what) => foreign(format!("this looks like {what}")),
            None => foreign(format!("the file is damaged or truncated ({error})")),
        })?;
    if model.graph.is_none() {
        let what = foreign::looks_like(bytes).map_or_else(
            || "it holds no graph".to_owned(),
            |what| format!("this looks like {what}"),
        );
        return Err(foreign(what));
    }
    reader::read(path, name, &model, options, limits)
}
