//! What ONNX Runtime removes before anything else: operators that do nothing, constants that can be computed, and work done twice.

use super::reshape;
use crate::{
    ConstantData, OpKind, Operand, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use std::collections::HashMap;

/// Removes operators that pass their input on unchanged. Whether anything changed.
pub(super) fn no_ops(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some(kept) = passed_on(graph, index) else { continue };
        let Some((_, output)) = graph.ends(index) else { continue };
        let renames_an_output = graph.is_output(output) && graph.producer(kept).is_none();
        if renames_an_output || graph.tensor(kept) != graph.tensor(output) {
            continue;
        }
        graph.remove(index);
        graph.replace_value(output, kept);
        changed = true;
    }
    changed
}

/// The input that comes out unchanged, if one does.
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
            graph.scalar_operand(index).filter(|(number, _)| *number == neutral).map(|(_, other)| other)
        }
        OpKind::Sub | OpKind::Div => {
            let neutral = if node.op.kind == OpKind::Sub { 0.0 } else { 1.0 };
            node.inputs.get(1).and_then(|&v| graph.scalar(v)).filter(|number| *number == neutral).map(|_| input)
        }
        _ => None,
    }
}

/// Replaces operators that read nothing but constants by constants. Whether anything changed.
pub(super) fn fold_constants(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let foldable = !node.inputs.is_empty() && node.inputs.iter().all(|&v| graph.is_constant(v));
        let known = node.outputs.iter().all(|&v| graph.tensor(v).is_some());
        if !foldable || !known || matches!(node.op.kind, OpKind::Unsupported(_)) {
            continue;
        }
        let data = folded(graph, index);
        let Some(node) = graph.remove(index) else { continue };
        for output in node.outputs {
            graph.make_constant(output, data.clone());
        }
        changed = true;
    }
    changed
}

/// The payload of a folded operator, as far as patterns need it: scalars, and what only changes its shape.
fn folded(graph: &Rewriter, index: NodeIndex) -> Option<ConstantData> {
    let node = graph.node(index)?;
    let (input, _) = graph.ends(index)?;
    let pair = || Some((graph.scalar(input)?, graph.scalar(*node.inputs.get(1)?)?));
    let scalar = match node.op.kind {
        OpKind::Reshape | OpKind::Identity | OpKind::Cast => return graph.data(input).cloned(),
        OpKind::Mul => pair().map(|(a, b)| a * b),
        OpKind::Div => pair().map(|(a, b)| a / b),
        OpKind::Add => pair().map(|(a, b)| a + b),
        OpKind::Sub => pair().map(|(a, b)| a - b),
        OpKind::Sqrt => graph.scalar(input).map(f64::sqrt),
        _ => None,
    };
    scalar.map(|number| ConstantData::Floats(vec![number]))
}

/// Lets equal operators on equal inputs be computed once. Whether anything changed.
pub(super) fn share(graph: &mut Rewriter) -> bool {
    type Key = (String, Vec<ValueId>, Vec<Option<TensorSpec>>);
    let scalars = shared_scalars(graph);
    let mut seen: HashMap<Key, NodeIndex> = HashMap::new();
    let mut changed = false;
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let private = node.op.attributes.text(reshape::ORIGIN) == Some(reshape::OF_GEMM);
        if private || matches!(node.op.kind, OpKind::Unsupported(_)) || node.outputs.iter().any(|&v| graph.is_output(v)) {
            continue;
        }
        let inputs = node.inputs.iter().map(|v| *scalars.get(v).unwrap_or(v)).collect();
        let tensors = node.outputs.iter().map(|&v| graph.tensor(v).cloned()).collect();
        let what = format!("{} {}", node.op.kind, serde_json::to_string(&node.op.attributes).unwrap_or_default());
        let Some(&twin) = seen.get(&(what.clone(), Vec::clone(&inputs), Vec::clone(&tensors))) else {
            seen.insert((what, inputs, tensors), index);
            continue;
        };
        let outputs = graph.node(twin).map(|n| n.outputs.clone()).unwrap_or_default();
        let Some(node) = graph.remove(index) else { continue };
        for (old, new) in node.outputs.into_iter().zip(outputs) {
            graph.replace_value(old, new);
        }
        changed = true;
    }
    changed
}

/// Constants of one element with the same number and type count as one.
fn shared_scalars(graph: &Rewriter) -> HashMap<ValueId, ValueId> {
    let mut first: HashMap<(u64, Operand), ValueId> = HashMap::new();
    let mut map = HashMap::new();
    for index in graph.order() {
        for &value in graph.node(index).map(|n| n.inputs.as_slice()).unwrap_or_default() {
            let (Some(number), Some(tensor)) = (graph.scalar(value), graph.tensor(value)) else { continue };
            let operand = Operand { tensor: tensor.clone(), constant: true };
            map.insert(value, *first.entry((number.to_bits(), operand)).or_insert(value));
        }
    }
    map
}
