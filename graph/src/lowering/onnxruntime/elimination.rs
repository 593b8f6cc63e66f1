//! Removes what ONNX Runtime removes first: operators that do nothing, constants that can be
//! computed, and repeated work.

use super::reshape;
use crate::{
    Node, OpKind, TensorSpec, ValueId,
    lowering::elimination,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::HashMap;

/// Removes operators that pass their input on unchanged. Whether anything changed.
pub(super) fn no_ops(graph: &mut Rewriter) -> bool {
    elimination::bypass(graph, passed_on)
}

/// The input that is passed on unchanged, if there is one.
fn passed_on(graph: &Rewriter, index: NodeIndex) -> Option<ValueId> {
    let node = graph.node(index)?;
    let (input, output) = graph.ends(index)?;
    let same_shape = graph.shape(input) == graph.shape(output);
    match node.op.kind {
        OpKind::Identity | OpKind::Cast => Some(input),
        // A slice of everything stays: the engine removes only one without an end.
        OpKind::Expand if same_shape => Some(input),
        OpKind::Add | OpKind::Mul => {
            let neutral = if node.op.kind == OpKind::Add { 0.0 } else { 1.0 };
            graph
                .scalar_operand(index)
                .filter(|(number, _)| *number == neutral)
                .map(|(_, other)| other)
        }
        OpKind::Sub | OpKind::Div => {
            let neutral = if node.op.kind == OpKind::Sub { 0.0 } else { 1.0 };
            node.inputs
                .get(1)
                .and_then(|&v| graph.scalar(v))
                .filter(|number| *number == neutral)
                .map(|_| input)
        }
        _ => None,
    }
}

/// Replaces operators that read nothing but constants by constants. Whether anything changed.
pub(super) fn fold_constants(graph: &mut Rewriter) -> bool {
    let foldable = |graph: &Rewriter, index: NodeIndex| {
        graph.node(index).is_some_and(|node| {
            let known =
                !node.inputs.is_empty() && node.inputs.iter().all(|&v| graph.is_constant(v));
            known && !matches!(node.op.kind, OpKind::Unsupported(_))
        })
    };
    elimination::fold(graph, foldable, |kind| {
        matches!(kind, OpKind::Reshape | OpKind::Identity | OpKind::Cast)
    })
}

/// Lets equal operators on equal inputs be computed once, except DQs: every reader has its own. Whether anything changed.
pub(super) fn share(graph: &mut Rewriter) -> bool {
    let scalars = shared_scalars(graph);
    let private = |node: &Node| {
        node.op.kind == OpKind::Dequantize
            || node.op.attributes.text(reshape::ORIGIN) == Some(reshape::OF_GEMM)
    };
    elimination::share(graph, private, |v| *scalars.get(&v).unwrap_or(&v))
}

/// Constants of one element with the same number and type count as one.
fn shared_scalars(graph: &Rewriter) -> HashMap<ValueId, ValueId> {
    let mut first: HashMap<(u64, &TensorSpec), ValueId> = HashMap::default();
    let mut map = HashMap::default();
    for index in graph.order() {
        for &value in graph.node(index).map(|n| n.inputs.as_slice()).unwrap_or_default() {
            let (Some(number), Some(tensor)) = (graph.scalar(value), graph.tensor(value)) else {
                continue;
            };
            map.insert(value, *first.entry((number.to_bits(), tensor)).or_insert(value));
        }
    }
    map
}
