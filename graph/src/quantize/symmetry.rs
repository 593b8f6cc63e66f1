//! Selects the tensors that are quantised around 0: operands of products of two computed tensors,
//! except results of functions that are never negative.
//!
//! Engines have other kernels for a zero point in the middle of the range (OpenVINO reads the
//! values of an attention as bytes then). Ranges of projections are nearly symmetric, so that
//! without this rule the kernels would depend on rounding. The rule depends only on the graph,
//! because forecasts have no values. It also applies to everything that a tensor was moved from and
//! to, because engines require equal scales on both sides of a movement.

use crate::{Graph, Node, OpKind, ValueId};
use std::collections::HashSet;

/// The tensors, each by the origin of its elements.
#[derive(Debug)]
pub(super) struct Symmetry<'a> {
    graph: &'a Graph,
    origins: HashSet<ValueId>,
}

impl<'a> Symmetry<'a> {
    /// Of the operands of `products`.
    pub(super) fn of(graph: &'a Graph, products: impl Iterator<Item = &'a Node>) -> Self {
        let operands = products.flat_map(|node| node.inputs.iter().take(2));
        let origins = operands
            .map(|&id| origin(graph, id))
            .filter(|&id| !never_negative(graph, id))
            .collect();
        Self { graph, origins }
    }

    /// Whether a tensor is quantised around 0.
    pub(super) fn holds(&self, id: ValueId) -> bool {
        self.origins.contains(&origin(self.graph, id))
    }
}

/// The tensor from which a tensor's elements were moved.
fn origin(graph: &Graph, mut id: ValueId) -> ValueId {
    use OpKind as K;
    let moves = |kind: &K| {
        matches!(
            kind,
            K::Reshape
                | K::Transpose
                | K::Split
                | K::Slice
                | K::Expand
                | K::Tile
                | K::Gather
                | K::Identity
                | K::MaxPool
        )
    };
    while let Some(node) = graph.producer(id).filter(|node| moves(&node.op.kind)) {
        let Some(&before) = node.inputs.first() else { break };
        id = before;
    }
    id
}

fn never_negative(graph: &Graph, id: ValueId) -> bool {
    use OpKind as K;
    graph.producer(id).is_some_and(|node| match node.op.kind {
        K::Softmax => node.op.attributes.int("log") != Some(1),
        K::Relu | K::Sigmoid | K::HardSigmoid | K::Softplus | K::Exp | K::Sqrt | K::Abs => true,
        K::Clip => node.op.attributes.float("min").is_some_and(|least| least >= 0.0),
        _ => false,
    })
}
