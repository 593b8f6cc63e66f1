//! Selects the tensors that are quantised around 0: operands of products of two computed tensors,
//! except results of functions that are never negative.
//!
//! Engines have other kernels for a zero point in the middle of the range (OpenVINO reads the
//! values of an attention as bytes then). Ranges of projections are nearly symmetric, so that
//! without this rule the kernels would depend on rounding. The rule depends only on the graph,
//! because forecasts have no values. It also applies to everything that a tensor was moved from and
//! to, because engines require equal scales on both sides of a movement.

use crate::{Graph, Node, OpKind, ValueId};
use foldhash::HashSet;

/// The tensors, each by the origin of its elements.
#[derive(Debug)]
pub(super) struct Symmetry {
    /// What the elements of each tensor were before they were moved.
    origin: Vec<ValueId>,
    around_zero: HashSet<ValueId>,
}

impl Symmetry {
    /// Of the operands of `products`.
    pub(super) fn of<'a>(graph: &'a Graph, products: impl Iterator<Item = &'a Node>) -> Self {
        let origin = origins(graph);
        let operands = products.flat_map(|node| node.inputs.iter().take(2));
        let around_zero = operands
            .map(|&id| origin[id.0 as usize])
            .filter(|&id| !never_negative(graph, id))
            .collect();
        Self { origin, around_zero }
    }

    /// Whether a tensor is quantised around 0.
    pub(super) fn holds(&self, id: ValueId) -> bool {
        self.origin.get(id.0 as usize).is_some_and(|origin| self.around_zero.contains(origin))
    }
}

/// For each tensor, what its elements were before they were moved.
fn origins(graph: &Graph) -> Vec<ValueId> {
    use OpKind as K;
    let mut origin: Vec<ValueId> = (0..graph.values().len() as u32).map(ValueId).collect();
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
    for node in graph.nodes().iter().filter(|node| moves(&node.op.kind)) {
        if let Some(before) = node.inputs.first().map(|id| origin[id.0 as usize]) {
            node.outputs.iter().for_each(|output| origin[output.0 as usize] = before);
        }
    }
    origin
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
