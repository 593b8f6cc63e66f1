//! Writes a [`Graph`] as the bytes of a .tflite file, channels last, and reports which operator in
//! it comes from which node; and reads such a file into a graph.
//!
//! | question | where |
//! |---|---|
//! | how are the tensors stored? | `layout`: permutations; `convert`: which operator needs which |
//! | which operators does a node become? | `convert/`, one file per family |
//! | what are the constants? | `expression` over `weights` |
//! | how does it compute in int8? | `quantize` |
//! | what are the bytes? | `flatbuffer`, with the numbers of `schema` |
//! | how is a file read? | `read` |

mod convert;
mod expression;
mod flatbuffer;
mod generated;
mod layout;
mod program;
mod quantize;
mod read;
mod schema;
mod weights;

pub use program::Port;
pub use read::{TfliteReadError, read_bytes, read_file};
pub use weights::Weights;

use crate::{Budget, Exceeded, Graph, GraphError, OpSpec, Precision, patterns};
use program::Program;

/// Why a graph has no TensorFlow Lite form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TfliteError {
    /// TensorFlow Lite has no form for a node.
    #[error("node `{node}` cannot be written for TensorFlow Lite: {reason}")]
    Node {
        /// Name of the node.
        node: String,
        /// What is wrong.
        reason: String,
    },
    /// A shape is not known.
    #[error("the shape of `{value}` is not known, and TensorFlow Lite needs it")]
    Unknown {
        /// Name of the value.
        value: String,
    },
    /// The operators make up no graph.
    #[error("its operators are no graph: {0}")]
    Graph(GraphError),
    /// The model takes more than its budget.
    #[error("{source}")]
    Exceeded {
        /// The node at which it ran out, where it is one.
        node: Option<String>,
        /// The exceeded limit.
        source: Exceeded,
    },
    /// The weights cannot be written.
    #[error("its weights cannot be written for TensorFlow Lite: {reason}")]
    Weights {
        /// What is wrong.
        reason: String,
    },
}

impl TfliteError {
    /// The node that cannot be expressed, where it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Node { node, .. } => Some(node),
            Self::Graph(error) => error.node(),
            Self::Exceeded { node, .. } => node.as_deref(),
            Self::Unknown { .. } | Self::Weights { .. } => None,
        }
    }
}

impl From<GraphError> for TfliteError {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Exceeded { node, source } => Self::Exceeded { node, source },
            other => Self::Graph(other),
        }
    }
}

impl From<Exceeded> for TfliteError {
    fn from(source: Exceeded) -> Self {
        Self::Exceeded { node: None, source }
    }
}

/// A model as a .tflite file.
#[derive(Clone, Debug)]
pub struct Written {
    /// The file.
    pub bytes: Vec<u8>,
    /// The inputs, in the graph's order.
    pub inputs: Vec<Port>,
    /// The outputs, in the graph's order.
    pub outputs: Vec<Port>,
    /// The operators in the file's order, which is the order of execution.
    pub operators: Vec<Operator>,
    /// The same operators as a graph: which reads what which one computes.
    pub graph: Graph,
}

/// One operator of a .tflite file.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The name the interpreter gives it: `FULLY_CONNECTED`.
    pub code: &'static str,
    /// The node of the graph it comes from.
    pub node: String,
    /// Its operator: images channels first with format channels last, everything else in stored
    /// order.
    pub op: OpSpec,
}

/// A graph as a .tflite file with these weights.
///
/// # Errors
/// [`TfliteError`] with the node that cannot be expressed and the reason, or the weight that is
/// absent.
pub fn write(graph: &Graph, weights: &Weights) -> Result<Written, TfliteError> {
    let budget = Budget::default();
    written(program(graph, &budget)?, weights, &budget)
}

/// The same with its products, and the operators between them, in 8-bit integers. `input`: least
/// and greatest value of the model's inputs, whose types stay.
///
/// # Errors
/// As [`write()`].
pub fn write_int8(
    graph: &Graph,
    weights: &Weights,
    input: (f64, f64),
) -> Result<Written, TfliteError> {
    let budget = Budget::default();
    let program = program(graph, &budget)?;
    written(quantize::quantize(program, Some((weights, input)), &budget)?, weights, &budget)
}

fn written(program: Program, weights: &Weights, budget: &Budget) -> Result<Written, TfliteError> {
    let bytes = flatbuffer::write(&program, weights, budget)?;
    let operators = operators(&program);
    let ports = |ports: Vec<(usize, Port)>| ports.into_iter().map(|(_, port)| port).collect();
    let graph = program.graph()?;
    Ok(Written {
        bytes,
        inputs: ports(program.inputs),
        outputs: ports(program.outputs),
        operators,
        graph,
    })
}

/// The operators a graph becomes, in the file's order, and the name of each (`FULLY_CONNECTED`);
/// needs no weights. `precision`: I8 as [`write_int8`], anything else as [`write()`].
///
/// # Errors
/// [`TfliteError`] with the node that cannot be expressed and the reason.
pub fn plan(
    graph: &Graph,
    precision: Precision,
) -> Result<(Graph, Vec<&'static str>), TfliteError> {
    plan_within(graph, precision, &Budget::default())
}

/// [`plan`] within a budget.
///
/// # Errors
/// As [`plan`], and [`TfliteError::Exceeded`] when the budget is spent.
pub fn plan_within(
    graph: &Graph,
    precision: Precision,
    budget: &Budget,
) -> Result<(Graph, Vec<&'static str>), TfliteError> {
    let mut program = program(graph, budget)?;
    if precision == Precision::I8 {
        program = quantize::quantize(program, None, budget)?;
    }
    let codes = program.operations.iter().map(|o| o.code.name()).collect();
    Ok((program.graph()?, codes))
}

fn program(graph: &Graph, budget: &Budget) -> Result<Program, TfliteError> {
    convert::convert(&patterns::canonicalize_within(graph, budget)?, budget)
}

fn operators(program: &Program) -> Vec<Operator> {
    program
        .operations
        .iter()
        .map(|o| Operator { code: o.code.name(), node: o.node.clone(), op: program.spec(o) })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
