//! Canonical patterns: what exporters spell out, under its own name again.
//!
//! | question | where |
//! |---|---|
//! | the graph with GELU, SiLU, LayerNorm, ... as single operators | [`canonicalize`] |
//! | where is scaled dot-product attention, and how large? | [`attention`] |

pub(crate) mod activation;
mod attention;
mod normalization;
pub(crate) mod rewriter;
#[cfg(test)]
mod tests;

pub use attention::{AttentionPattern, attention};

use crate::Graph;
use rewriter::Rewriter;

/// Replaces spelled-out GELU (by erf and by tanh), SiLU, hard sigmoid, hard swish, LayerNorm and
/// GroupNorm by single operators. A graph without such patterns comes back as it is. Attention
/// stays spelled out; see [`attention`].
#[must_use]
pub fn canonicalize(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    normalization::canonicalize(&mut rewriter);
    activation::canonicalize(&mut rewriter);
    rewriter.finish().unwrap_or_else(|_| graph.clone())
}
