//! Canonical patterns: what exporters spell out, under its own name again.

pub(crate) mod activation;
pub(crate) mod rewriter;

use crate::Graph;
use rewriter::Rewriter;

/// Replaces spelled-out GELU, SiLU, LayerNorm, hard-swish, ... by single operators.
#[must_use]
pub fn canonicalize(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    activation::canonicalize(&mut rewriter);
    rewriter.finish().unwrap_or_else(|_| graph.clone())
}
