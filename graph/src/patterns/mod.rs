//! Recognises operators that exporters decompose, and restores them as single operators.
//!
//! | question | where |
//! |---|---|
//! | the graph with GELU, SiLU, LayerNorm, ... as single operators | [`canonicalize`] |
//! | where is scaled dot-product attention, and how large? | [`attention`] |

pub(crate) mod activation;
mod attention;
mod normalization;
pub(crate) mod readers;
pub(crate) mod rewriter;
mod spending;
#[cfg(test)]
mod tests;

pub use attention::{AttentionPattern, attention};

use crate::{Budget, Graph, GraphError, Limits};
use rewriter::Rewriter;

/// Replaces decomposed GELU (by erf and by tanh), SiLU, hard sigmoid, hard swish, LayerNorm and
/// GroupNorm by single operators. A graph without such patterns is returned unchanged. Attention
/// remains decomposed; see [`attention`].
#[must_use]
pub fn canonicalize(graph: &Graph) -> Graph {
    canonicalize_within(graph, &Budget::new(Limits::NONE)).unwrap_or_else(|_| graph.clone())
}

/// [`canonicalize`] within a budget.
///
/// # Errors
/// [`GraphError::Exceeded`] when it is spent.
pub fn canonicalize_within(graph: &Graph, budget: &Budget) -> Result<Graph, GraphError> {
    let mut rewriter = Rewriter::within(graph, budget);
    normalization::canonicalize(&mut rewriter);
    activation::canonicalize(&mut rewriter);
    match rewriter.finish() {
        Err(GraphError::Exceeded(exceeded)) => Err(exceeded.into()),
        canonical => Ok(canonical.unwrap_or_else(|_| graph.clone())),
    }
}
