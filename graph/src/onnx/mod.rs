//! ONNX in and out.
//!
//! Reading: [`read_file`] parses the file's messages (`view`), takes shapes and small values of
//! initializers (`payload`) and of inputs (`dimensions`), maps each node to an [`crate::OpKind`]
//! (`operators`; [`Domain`] for what frameworks add), infers its outputs ([`crate::shape`]), folds
//! constants (`fold`), and drops unused parts (`prune`). An unknown operator becomes `Unsupported`,
//! with its name.

mod call;
mod constants;
mod dimensions;
mod divide;
pub(crate) mod domain;
mod external;
mod fold;
mod foreign;
mod operators;
mod order;
mod payload;
pub mod proto;
mod prune;
pub(crate) mod quantized;
mod reader;
mod types;
pub(crate) mod view;
mod weight_inputs;
mod weights;
pub mod wire;
mod writer;

pub use constants::Constants;
pub use divide::divide;
pub use domain::Domain;
pub(crate) use payload::tensor_values;
pub use weights::{materialize, self_contained, weights_present};
pub use writer::{WeightFill, WriteOptions, to_bytes, to_bytes_within, write_file};

use crate::spending::Spending;
use crate::{Budget, Exceeded, Graph, GraphError, TensorSpec};
use payload::Limits;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// ONNX has no form for the graph.
    #[error("model `{model}` cannot be written as ONNX: {reason}")]
    Unwritable {
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: String,
    },
    /// The file contradicts itself.
    #[error("{path}: {reason}")]
    Format {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file has another format.
    #[error("{path}: not an ONNX model: {reason}")]
    NotOnnx {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A node is wrong.
    #[error("{path}: node `{node}`: {reason}")]
    Node {
        /// The file or folder.
        path: PathBuf,
        /// Name of the node.
        node: String,
        /// What is wrong.
        reason: String,
    },
    /// An extent of an input is not known.
    #[error("{path}: dimension {index} of input `{input}` is dynamic: `{symbol}` has no value")]
    Dynamic {
        /// The file or folder.
        path: PathBuf,
        /// Name of the input.
        input: String,
        /// Which dimension, counted from 0.
        index: usize,
        /// Name of the dimension.
        symbol: String,
    },
    /// A value for a dimension that no tensor of the model has.
    #[error("{model} has no dimension `{name}` to give a value: {open}")]
    UnusedDimension {
        /// Name of the model.
        model: String,
        /// Name that has a value.
        name: String,
        /// Which dimensions have none in the file.
        open: String,
    },
    /// A shape depends on values that are elsewhere.
    #[error(
        "{path}: node `{node}`: a shape depends on the values of `{initializer}`, which are not \
        in the file; export small tensors inside the model"
    )]
    AbsentValues {
        /// The file or folder.
        path: PathBuf,
        /// Name of the node.
        node: String,
        /// Name of the initializer.
        initializer: String,
    },
    /// The model takes more than reading or writing it may cost.
    #[error("{path}: {place}: the model {source}")]
    Budget {
        /// The file or folder; of a model that is written, its name.
        path: PathBuf,
        /// Where the budget ended.
        place: Place,
        /// The resource and its limit.
        source: Exceeded,
    },
    /// The nodes make up no graph.
    #[error("{path}: {source}")]
    Graph {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: GraphError,
    },
}

impl OnnxError {
    /// The node that is at fault, where it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Node { node, .. } | Self::AbsentValues { node, .. } => Some(node),
            Self::Budget { place, .. } => place.node(),
            Self::Graph { source, .. } => source.node(),
            _ => None,
        }
    }
}

/// Where in a model a budget ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before anything that has a name.
    Beginning,
    /// At this node.
    Node(String),
    /// At this initializer.
    Initializer(String),
}

impl Place {
    /// Name of the node, where it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Node(node) => Some(node),
            Self::Beginning | Self::Initializer(_) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("before its first node"),
            Self::Node(name) => write!(f, "node `{name}`"),
            Self::Initializer(name) => write!(f, "initializer `{name}`"),
        }
    }
}

/// How to read a model. By default, with the domains of all frameworks that
/// [`lowering`](crate::lowering) has rules for.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Values for symbolic dimensions by name (`batch` = 1), and for unnamed ones by input:
    /// `input:0`.
    pub dimensions: std::collections::BTreeMap<String, usize>,
    /// What operators beside ONNX's own mean.
    pub domains: &'static [Domain],
    /// What reading one model may cost; each read begins with all of it.
    pub limits: crate::Limits,
    /// Ends a read early: a deadline, a client that left.
    pub stop: crate::Stop,
}

impl ReadOptions {
    /// A new budget for one read, or for later work on the model.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget::new(self.limits).with_stop(self.stop.clone())
    }
}

/// A model as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadModel {
    /// Its operators.
    pub graph: Graph,
    /// Differences between the graph and the file.
    pub notes: Vec<ReadNote>,
}

impl ReadModel {
    /// A model of another format, whose file fixes all dimensions.
    #[must_use]
    pub fn of_fixed(graph: Graph, options: &ReadOptions) -> Self {
        Self { graph, notes: dimensions::unused([], options) }
    }

    /// The same, where every value for a dimension had an effect.
    ///
    /// # Errors
    /// [`OnnxError::UnusedDimension`] for one that no tensor has.
    pub fn with_all_dimensions_used(self) -> Result<Self, OnnxError> {
        let unused = self.notes.iter().find_map(|note| match note {
            ReadNote::UnusedDimension { name, open } => Some((name.clone(), open.clone())),
            ReadNote::WeightsAsInputs { .. } => None,
        });
        match unused {
            None => Ok(self),
            Some((name, open)) => {
                let model = self.graph.name().to_owned();
                Err(OnnxError::UnusedDimension { model, name, open })
            }
        }
    }
}

/// How a graph differs from what its file says literally.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadNote {
    /// Inputs without values that are weights.
    #[error(
        "{count} of its inputs are weights without values (the first is `{first}`); they are read \
        as weights, and {inputs} as the model's inputs"
    )]
    WeightsAsInputs {
        /// How many.
        count: usize,
        /// The first one's name.
        first: String,
        /// Names of the inputs that are left.
        inputs: String,
    },
    /// A value that the caller gave for a dimension which the model does not have.
    #[error("it has no dimension `{name}` to give a value: {open}")]
    UnusedDimension {
        /// The name that has a value.
        name: String,
        /// Which dimensions have none in the file.
        open: String,
    },
}

/// Reads a model; weights may be absent. Of external data in the model's folder, small constants
/// are read: shapes can depend on them. The graph is named like the file.
///
/// # Errors
/// [`OnnxError`] naming the file and, where there is one, the node.
pub fn read_file(path: &Path, options: &ReadOptions) -> Result<Graph, OnnxError> {
    read_file_with_notes(path, options).map(|model| model.graph)
}

/// The same, with notes on the file.
///
/// # Errors
/// As [`read_file`].
pub fn read_file_with_notes(path: &Path, options: &ReadOptions) -> Result<ReadModel, OnnxError> {
    let bytes = weights::read(path)?;
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new(""));
    read((path, Some(folder)), &name, &bytes, options, Limits::SHAPES)
}

/// Reads a model from memory; `name` becomes the graph's name and is shown as the file in errors.
/// External data is not read.
///
/// # Errors
/// As [`read_file`].
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Graph, OnnxError> {
    read_bytes_with_notes(name, bytes, options).map(|model| model.graph)
}

/// The same, with notes on the model.
///
/// # Errors
/// As [`read_file`].
pub fn read_bytes_with_notes(
    name: &str,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<ReadModel, OnnxError> {
    read((Path::new(name), None), name, bytes, options, Limits::SHAPES)
}

/// Reads a model that has its weights inside, with the values of all of them: what quantisation
/// works on. Eight bytes per parameter.
///
/// # Errors
/// As [`read_file`].
pub fn read_weights(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Graph, OnnxError> {
    read((Path::new(name), None), name, bytes, options, Limits::WEIGHTS).map(|model| model.graph)
}

/// The values a seeded file has for a floating-point weight of a product: what [`to_bytes`] writes
/// for [`WeightFill::Seeded`].
pub(crate) fn seeded_weight(name: &str, tensor: &TensorSpec, seed: u64) -> Vec<f64> {
    let elements = usize::try_from(tensor.elements()).unwrap_or(usize::MAX);
    weights::fill::values(elements, weights::fill::Distribution::Small, seed, name)
}

/// Reads a model whose external data may lie in a folder.
fn read(
    (path, folder): (&Path, Option<&Path>),
    name: &str,
    bytes: &[u8],
    options: &ReadOptions,
    limits: Limits,
) -> Result<ReadModel, OnnxError> {
    let foreign = |reason: String| OnnxError::NotOnnx { path: path.to_owned(), reason };
    let budget = options.budget();
    let spending = Spending::new(&budget);
    let mut model = view::ModelView::default();
    let decoded = view::decode_into(&mut model, bytes, &spending);
    spending.settle();
    if let Some(source) = spending.exceeded() {
        let place = reader::last_decoded(&model);
        return Err(OnnxError::Budget { path: path.to_owned(), place, source });
    }
    decoded.map_err(|error| match foreign::looks_like(bytes) {
        Some(what) => foreign(format!("this looks like {what}")),
        None if error == view::TOO_DEEP => {
            OnnxError::Format { path: path.to_owned(), reason: error }
        }
        None => foreign(format!("the file is damaged or truncated ({error})")),
    })?;
    if model.graph.is_none() {
        let what = foreign::looks_like(bytes).map_or_else(
            || "it holds no graph".to_owned(),
            |what| format!("this looks like {what}"),
        );
        return Err(foreign(what));
    }
    reader::read((path, folder), name, &model, (options, limits, budget))
}
