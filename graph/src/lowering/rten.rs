//! The kernels that rten 0.27 runs for a graph: its optimiser's rewrites, derived from its source
//! (`optimize.rs`, `optimize/fusions.rs`).
//!
//! In: a [`Graph`] as read from ONNX. Out: a graph in rten's execution order, one node per kernel,
//! each named and with outputs named as rten prints them. Fused kernels carry the kind of their
//! dominant part:
//!
//! | rten's kernel | here |
//! |---|---|
//! | `FusedMatMul` | `linear` or `matmul`, a third input for the bias, `alpha` for the scale |
//! | `TransformInputs(op)` | the operator; its inputs as it sees them, `perm_a`, `perm_b` (products), `perm_N` (others): how they lie in memory |
//! | `MatMulIntegerToFloat`, `ConvIntegerToFloat` | the product with `integer` = 1 whose output is floats; zero points and scale as last inputs |
//! | `AddSoftmax` | `softmax` with `mask` = 1 and the mask as second input |
//! | `Swish` | `silu` with `alpha` |
//! | a reshape whose input is needed again, so that it must copy | `reshape` with `copy` = 1; all others move nothing |
//!
//! An input of a product whose innermost dimension in memory is its last but one has `trans_a` /
//! `trans_b` = 1, as in all lowerings: its shape is written before the swap.

mod fusion;
mod normalization;
mod pattern;
mod plan;
mod product;
mod program;
mod rewrite;
#[cfg(test)]
mod tests;
mod transpose;

use crate::{Budget, Environment, Graph, GraphError, Precision, quantize};
use fusion::Rules;
use program::Program;
use std::borrow::Cow;

/// Rounds of fusions rten makes at most.
const MAX_ROUNDS: usize = 3;

/// The kernels rten runs for `graph` at the environment's precision.
///
/// # Errors
/// As [`lower`].
pub fn lower_for(
    graph: &Graph,
    environment: &Environment,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    match environment.precision {
        Precision::I8 => {
            let graph = quantize::integer_within(graph, &quantize::Options::default(), budget)?;
            lower_within(Cow::Owned(graph), budget)
        }
        _ => lower_within(Cow::Borrowed(graph), budget),
    }
}

/// The kernels rten runs for `graph`.
///
/// # Errors
/// [`GraphError`] when the result is no graph, which would be a mistake in the rules.
pub fn lower(graph: &Graph) -> Result<Graph, GraphError> {
    lower_within(Cow::Borrowed(graph), &Budget::default())
}

fn lower_within(graph: Cow<'_, Graph>, budget: &Budget) -> Result<Graph, GraphError> {
    let mut program = Program::from_graph(graph, budget);
    program.pass(&[&fusion::cast, &fusion::identity])?;
    program.fold_constants();
    let rules = Rules::new();
    for _ in 0..MAX_ROUNDS {
        if program.pass(&rules.in_order())? == 0 {
            break;
        }
    }
    program.into_graph()
}
