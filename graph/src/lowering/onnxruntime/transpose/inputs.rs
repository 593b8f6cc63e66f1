//! Inputs of a node that a transpose passes are transposed the other way, after they got the same
//! rank.
//!
//! A DQ is looked past: a transpose or squeeze before it is cancelled. Where none is, the new
//! transpose behind the DQ gets a Q and a DQ of its own.

use super::{
    super::{
        pairs, permutation as perms,
        reshape::{self, Form},
    },
    permutation, permuted, push_through_unsqueeze, transpose_attributes, units,
};
use crate::{
    OpKind, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Transposes an input by `perm`.
pub(super) fn transpose_input(
    graph: &mut Rewriter,
    index: NodeIndex,
    position: usize,
    perm: &[usize],
) {
    let Some(input) = graph.node(index).and_then(|n| n.inputs.get(position).copied()) else {
        return;
    };
    let tensor = permuted(graph.tensor(input), perm);
    if graph.is_constant(input) {
        let single = graph.tensor(input).is_none_or(|t| t.elements() == 1);
        if let (false, Some(tensor)) = (single, tensor) {
            let turned = graph.constant("transposed", tensor, None);
            graph.set_input(index, position, turned);
        }
        return;
    }
    if cancel_before_dq(graph, index, position, perm).is_some() {
        return;
    }
    if let Some(before) = graph.producer(input)
        && let Some(first) = permutation(graph, before).filter(|p| p.len() == perm.len())
        && let Some((source, _)) = graph.ends(before)
    {
        let combined = perms::compose(&first, perm);
        let value = if perms::is_identity(&combined) {
            source
        } else {
            transposed(graph, source, &combined, tensor)
        };
        graph.set_input(index, position, value);
        if graph.uses(input) == 0 {
            graph.remove(before);
        }
        return;
    }
    let same = graph
        .consumers(input)
        .find(|&c| c != index && permutation(graph, c).as_deref() == Some(perm));
    if let Some((_, output)) = same.and_then(|c| graph.ends(c)) {
        graph.set_input(index, position, output);
        return;
    }
    let value = transposed(graph, input, perm, tensor);
    graph.set_input(index, position, value);
    units::complete(graph, input);
}

fn transposed(
    graph: &mut Rewriter,
    source: ValueId,
    perm: &[usize],
    tensor: Option<TensorSpec>,
) -> ValueId {
    let attributes = transpose_attributes(perm);
    graph.add_with_output("transpose", OpKind::Transpose, attributes, vec![source], tensor)
}

/// Cancels a transpose before the DQ that provides an input.
fn cancel_before_dq(
    graph: &mut Rewriter,
    index: NodeIndex,
    position: usize,
    perm: &[usize],
) -> Option<()> {
    let input = *graph.node(index)?.inputs.get(position)?;
    let transpose = graph.producer_of(pairs::integers(graph, input)?, &OpKind::Transpose)?;
    let first = permutation(graph, transpose).filter(|p| p.len() == perm.len())?;
    let (source, _) = graph.ends(transpose)?;
    if !perms::is_identity(&perms::compose(&first, perm)) {
        return None;
    }
    let tensor = permuted(graph.tensor(input), perm);
    read_past_dq(graph, (index, position), transpose, source, tensor)
}

/// Lets the DQ that provides an input read `source`, which `skipped` moved before.
fn read_past_dq(
    graph: &mut Rewriter,
    (index, position): (NodeIndex, usize),
    skipped: NodeIndex,
    source: ValueId,
    tensor: Option<TensorSpec>,
) -> Option<()> {
    let input = *graph.node(index)?.inputs.get(position)?;
    let dequantize = pairs::dq_of(graph, input)?;
    if graph.only_consumer(input) != Some(index) {
        return None;
    }
    let (moved, _) = graph.ends(dequantize)?;
    graph.set_input(dequantize, 0, source);
    let floats = graph.value("dequantized", tensor);
    graph.set_output(dequantize, 0, floats);
    graph.set_input(index, position, floats);
    if graph.uses(moved) == 0 {
        graph.remove(skipped);
    }
    Some(())
}

/// Gives all inputs at `positions` the rank `rank`, by dimensions of extent 1 in front.
pub(super) fn normalize_ranks(
    graph: &mut Rewriter,
    index: NodeIndex,
    rank: usize,
    positions: &[usize],
) -> bool {
    let inputs = graph.node(index).map(|n| n.inputs.clone()).unwrap_or_default();
    if positions.iter().any(|&p| graph.tensor(inputs[p]).is_none_or(|t| t.rank() > rank)) {
        return false;
    }
    for &position in positions {
        let missing = rank - graph.shape(inputs[position]).len();
        if missing > 0 {
            unsqueeze_input(graph, index, position, missing);
        }
    }
    true
}

fn unsqueeze_input(graph: &mut Rewriter, index: NodeIndex, position: usize, missing: usize) {
    let Some(input) = graph.node(index).and_then(|n| n.inputs.get(position).copied()) else {
        return;
    };
    let axes: Vec<usize> = (0..missing).collect();
    let Some(tensor) = graph.tensor(input).cloned() else { return };
    let shape =
        std::iter::repeat_n(1, missing).chain(tensor.shape.iter().copied()).collect::<Vec<_>>();
    let tensor = TensorSpec { shape: shape.into(), ..tensor };
    let producer = graph.producer(input);
    if cancel_squeeze_before_dq(graph, (index, position), &axes, &tensor).is_some() {
        return;
    }
    let value = if graph.is_constant(input) {
        let data = graph.data(input).cloned();
        graph.constant("unsqueezed", tensor, data)
    } else if let Some(squeeze) =
        producer.filter(|&p| reshape::form(graph, p) == Some(Form::Squeeze(axes.clone())))
    {
        graph.ends(squeeze).map_or(input, |(source, _)| source)
    } else {
        let output = graph.add_with_output(
            "unsqueeze",
            OpKind::Reshape,
            reshape::attributes("Unsqueeze", &axes),
            vec![input],
            Some(tensor),
        );
        let perm = producer.and_then(|p| permutation(graph, p));
        match (perm, graph.producer(output)) {
            (Some(perm), Some(unsqueeze)) => {
                push_through_unsqueeze(graph, unsqueeze, &perm).unwrap_or(output)
            }
            _ => output,
        }
    };
    graph.set_input(index, position, value);
    if let Some(orphan) = producer.filter(|_| graph.uses(input) == 0) {
        graph.remove_with_inputs(orphan);
    }
    units::complete(graph, input);
}

/// Cancels a squeeze of these dimensions before the DQ that provides an input.
fn cancel_squeeze_before_dq(
    graph: &mut Rewriter,
    (index, position): (NodeIndex, usize),
    axes: &[usize],
    tensor: &TensorSpec,
) -> Option<()> {
    let input = *graph.node(index)?.inputs.get(position)?;
    let squeeze = graph.producer(pairs::integers(graph, input)?)?;
    reshape::form(graph, squeeze).filter(|form| *form == Form::Squeeze(axes.to_vec()))?;
    let (source, _) = graph.ends(squeeze)?;
    read_past_dq(graph, (index, position), squeeze, source, Some(tensor.clone()))
}
