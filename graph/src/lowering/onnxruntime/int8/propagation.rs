//! Q/DQ pairs travel over operators that only move elements, so that these work on integers.
//!
//! Rules after `qdq_propagation.cc`, `ensure_unique_dq_for_node_unit.cc` and
//! `double_qdq_pairs_remover.cc` of ONNX Runtime.

use super::super::{
    pairs,
    reshape::{self, Form},
};
use crate::{
    OpKind, ValueId,
    patterns::{
        readers::Reading,
        rewriter::{NodeIndex, Rewriter},
    },
};

/// Puts pairs behind operators that read a DQ, and before those that a Q reads. Whether anything
/// changed.
pub(in super::super) fn propagate(graph: &mut Rewriter) -> bool {
    let order = graph.order();
    let mut changed = false;
    for &index in &order {
        changed |= backward(graph, index);
    }
    for &index in &order {
        changed |= forward(graph, index);
    }
    changed
}

/// Whether pairs travel over an operator.
fn moves(graph: &Rewriter, index: NodeIndex) -> bool {
    let Some(node) = graph.node(index).filter(|n| n.inputs.len() == 1 && n.outputs.len() == 1)
    else {
        return false;
    };
    match node.op.kind {
        OpKind::Reshape => reshape::form(graph, index) != Some(Form::Flatten),
        OpKind::Transpose | OpKind::MaxPool | OpKind::Slice => true,
        _ => false,
    }
}

/// Pairs before the operators that lead to a Q, as far back as each is the only reader.
fn backward(graph: &mut Rewriter, quantize: NodeIndex) -> bool {
    if !pairs::is_q(graph, quantize) || !pairs::is_per_tensor(graph, quantize) {
        return false;
    }
    let mut changed = false;
    let mut reader = quantize;
    while let Some((value, _)) = graph.ends(reader) {
        let leads = graph.only_consumer(value) == Some(reader);
        let Some(mover) = graph.producer(value).filter(|&m| leads && moves(graph, m)) else {
            break;
        };
        let Some((source, _)) = graph.ends(mover) else { break };
        if graph.only_consumer(source) != Some(mover) || pairs::dq_of(graph, source).is_some() {
            break;
        }
        let Some(reading) = graph.readings(source).next() else { break };
        if !graph.spend(1) || pairs::insert(graph, quantize, source, &[reading]).is_none() {
            break;
        }
        changed = true;
        // Go on before the new Q.
        let Some(new) = graph.only_consumer(source) else { break };
        reader = new;
    }
    changed
}

/// Pairs behind the operators that a DQ leads to.
fn forward(graph: &mut Rewriter, dequantize: NodeIndex) -> bool {
    if !graph.is(dequantize, &OpKind::Dequantize) || !pairs::is_per_tensor(graph, dequantize) {
        return false;
    }
    let first = graph.ends(dequantize).and_then(|(_, floats)| graph.only_consumer(floats));
    let mut movers: Vec<NodeIndex> = first.into_iter().collect();
    let mut changed = false;
    while let Some(mover) = movers.pop().filter(|_| graph.spend(1)) {
        let Some((_, value)) = graph.ends(mover).filter(|_| moves(graph, mover)) else { continue };
        changed |= behind(graph, dequantize, value, &mut movers).is_some();
    }
    changed
}

/// One Q, and a DQ for each reader, if none of them is a Q. The readers are the next movers.
fn behind(
    graph: &mut Rewriter,
    dequantize: NodeIndex,
    value: ValueId,
    movers: &mut Vec<NodeIndex>,
) -> Option<()> {
    let readers: Vec<Reading> = graph.readings(value).collect();
    match (graph.is_output(value), readers.is_empty()) {
        (true, true) => return pairs::insert_behind(graph, dequantize, value),
        (false, false) => {}
        _ => return None,
    }
    if readers.iter().any(|reading| pairs::is_q(graph, reading.node())) {
        return None;
    }
    pairs::insert(graph, dequantize, value, &readers)?;
    movers.extend(readers.iter().map(|reading| reading.node()));
    Some(())
}

/// Gives every reader of dequantised numbers a DQ of its own. Whether anything changed.
pub(in super::super) fn one_per_reader(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        changed |= split(graph, index).is_some_and(|split| split);
    }
    changed
}

fn split(graph: &mut Rewriter, index: NodeIndex) -> Option<bool> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Dequantize)?;
    let (inputs, attributes, floats) =
        (node.inputs.clone(), node.op.attributes.clone(), *node.outputs.first()?);
    let tensor = graph.tensor(floats)?.clone();
    let others: Vec<Reading> =
        graph.readings(floats).skip(usize::from(!graph.is_output(floats))).collect();
    for reading in &others {
        let own = graph.add_with_output(
            "dequantize",
            OpKind::Dequantize,
            attributes.clone(),
            inputs.clone(),
            Some(tensor.clone()),
        );
        graph.set_input(reading.node(), reading.position(), own);
    }
    Some(!others.is_empty())
}

/// Makes one of two pairs in a row. Whether anything changed.
pub(in super::super) fn merge_double_pairs(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        changed |= merge_pair(graph, index).is_some();
    }
    changed
}

/// Q, DQ (at `index`), Q, DQ: the outer two are left.
fn merge_pair(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (integers, floats) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Dequantize))?;
    let parent = graph.producer_of(integers, &OpKind::Quantize)?;
    let child = pairs::only_q(graph, floats)?;
    let (_, again) = graph.ends(child)?;
    let last = graph.only_consumer(again).filter(|&n| graph.is(n, &OpKind::Dequantize))?;
    let fits = graph.only_consumer(integers) == Some(index)
        && pairs::agree(graph, parent, index)
        && pairs::agree(graph, child, last);
    if !fits {
        return None;
    }
    graph.set_input(last, 0, integers);
    graph.remove(child);
    graph.remove(index);
    Some(())
}
