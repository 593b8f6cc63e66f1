//! Which Qs and DQs have the same scale, in a graph that was quantised without values.
//!
//! vitempo's quantiser gives tensors that hold the same elements the same scale, wherever they were
//! moved. Where no scale is known, Qs and DQs of the same elements get one constant for it, so that
//! later rules need only compare constants.

use crate::{
    OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::{HashMap, HashMapExt};

/// Elements before they were moved, and whether their zero point is known.
type Class = (ValueId, bool);

/// Lets Qs and DQs of the same elements read the same scale and zero point.
pub(in super::super) fn share(graph: &mut Rewriter) {
    let mut origins: HashMap<ValueId, ValueId> = HashMap::new();
    let mut first: HashMap<Class, Vec<ValueId>> = HashMap::new();
    for index in graph.order() {
        let Some((input, _)) = graph.ends(index) else { continue };
        if !keeps_elements(graph, index) {
            continue;
        }
        let origin = *origins.get(&input).unwrap_or(&input);
        let outputs = graph.node(index).map(|n| n.outputs.clone()).unwrap_or_default();
        origins.extend(outputs.into_iter().map(|output| (output, origin)));
        read_first(graph, index, origin, &mut first);
    }
}

/// Whether an operator's results have the scale of its first input.
fn keeps_elements(graph: &Rewriter, index: NodeIndex) -> bool {
    use OpKind as K;
    graph.node(index).is_some_and(|node| {
        matches!(
            node.op.kind,
            K::Quantize
                | K::Dequantize
                | K::Reshape
                | K::Transpose
                | K::Slice
                | K::Split
                | K::Gather
                | K::GatherElements
                | K::Expand
                | K::Tile
                | K::Pad
                | K::Resize
                | K::DepthToSpace
                | K::SpaceToDepth
                | K::MaxPool
                | K::ReduceMax
                | K::ReduceMin
                | K::Identity
        )
    })
}

/// Lets a Q or DQ without a known scale read the constants of the first one of its class.
fn read_first(
    graph: &mut Rewriter,
    index: NodeIndex,
    origin: ValueId,
    first: &mut HashMap<Class, Vec<ValueId>>,
) -> Option<()> {
    let node = graph
        .node(index)
        .filter(|node| matches!(node.op.kind, OpKind::Quantize | OpKind::Dequantize))?;
    let operands = node.inputs.get(1..).filter(|operands| operands.len() == 2)?.to_vec();
    if graph.data(operands[0]).is_some() {
        return None;
    }
    let class = (origin, graph.data(operands[1]).is_some());
    let shared = first.entry(class).or_insert_with(|| operands.clone()).clone();
    for (position, value) in shared.into_iter().enumerate() {
        graph.set_input(index, position + 1, value);
    }
    Some(())
}
