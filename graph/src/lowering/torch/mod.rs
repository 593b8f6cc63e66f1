//! The ATen calls that eager torch makes for a graph, in order. Both the forecast ([`lower`]) and
//! the profiler's executor use them.
//!
//! Torch runs one operator after the other, as the model's author wrote them. A file from its
//! exporter has several operators for some of them:
//!
//! | in the file | one call |
//! |---|---|
//! | spelled-out GELU, SiLU, hard swish, LayerNorm, GroupNorm ([`crate::patterns`]), Mish | that operator |
//! | MatMul with a constant, then Add of a constant vector; Gemm | `linear` with bias |
//! | Conv and pooling whose padding is uneven, or more than half of a maximum's window | `pad`, then the operator without padding |
//! | Identity; Cast to the type a tensor has | none |
//!
//! Attention stays as the file has it: two products and a softmax. Conv and BatchNorm are two calls
//! unless the exporter folded them. Views (transpose, slice, reshape where it can be) are calls
//! that move nothing; a reshape that must copy has `copy` = 1. An input that is stored neither row
//! by row nor channels last has its order of dimensions in memory as `perm_N`. Memory formats
//! follow the strides ([`strides`]).

mod propagation;
mod rewrite;
pub mod strides;
#[cfg(test)]
mod tests;

use crate::{Budget, Environment, Graph, GraphError, MemoryFormat, Precision};
pub use propagation::describe;

/// The calls torch makes for `graph` in this environment.
///
/// # Errors
/// As [`program`].
pub fn lower(
    graph: &Graph,
    environment: &Environment,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    let format = environment.memory_format.unwrap_or_default();
    program_within(graph, environment.precision, format, budget)
}

/// The calls torch makes for `graph`, with floating-point tensors in `precision` and images in
/// `format`. One node per call, or per few calls for which ONNX has one operator.
///
/// # Errors
/// [`GraphError`] if the rewritten graph is invalid.
pub fn program(
    graph: &Graph,
    precision: Precision,
    format: MemoryFormat,
) -> Result<Graph, GraphError> {
    program_within(graph, precision, format, &Budget::default())
}

fn program_within(
    graph: &Graph,
    precision: Precision,
    format: MemoryFormat,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    let calls = rewrite::calls(graph, budget)?;
    budget.steps(calls.nodes().len() as u64)?;
    propagation::annotate(&calls, precision, format)
}
