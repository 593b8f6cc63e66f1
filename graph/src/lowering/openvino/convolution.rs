//! Convolutions: what is folded into weights and bias, and which operators after them the plugin's
//! graph optimizer fuses.

use super::{
    common,
    pattern::{
        QUANTIZED_FIRST, absorb, ends_quantized, is_elementwise, is_quantize, is_simple, note,
        scales_along,
    },
};
use crate::{
    Attribute, OpKind, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use std::collections::HashSet;

fn is_convolution(graph: &Rewriter, index: NodeIndex) -> bool {
    graph.is(index, &OpKind::Conv) || graph.is(index, &OpKind::ConvTranspose)
}

/// Folds scales and shifts per channel after convolutions into weights and bias, and zero padding
/// before them into the convolution's own.
pub(super) fn fold(graph: &mut Rewriter) {
    for index in graph.order() {
        if is_convolution(graph, index) {
            while fold_next(graph, index).is_some() {}
            fold_padding(graph, index);
        }
    }
}

/// A bias that several convolutions read is added after them.
pub(super) fn spell_out_shared_biases(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(bias) = graph
            .node(index)
            .filter(|_| is_convolution(graph, index))
            .and_then(|n| n.inputs.get(2).copied())
        else {
            continue;
        };
        if graph.uses(bias) > 1 {
            spell_out_bias(graph, index, bias);
        }
    }
}

fn spell_out_bias(graph: &mut Rewriter, index: NodeIndex, bias: ValueId) -> Option<()> {
    let (_, output) = graph.ends(index)?;
    let tensor = graph.tensor(output)?.clone();
    let shape: Vec<usize> =
        tensor.shape.iter().enumerate().map(|(i, &d)| if i == 1 { d } else { 1 }).collect();
    let node = graph.remove(index)?;
    let inputs: Vec<ValueId> = node.inputs.iter().copied().filter(|&v| v != bias).collect();
    let bias = graph.constant(SHARED, TensorSpec::f32(shape), None);
    let product =
        graph.add_with_output(&node.name, node.op.kind, node.op.attributes, inputs, Some(tensor));
    let attributes = crate::Attributes::new().with_int(SHARED, 1);
    graph.add(
        &format!("{}/bias", node.name),
        OpKind::Add,
        attributes,
        vec![product, bias],
        vec![output],
    );
    Some(())
}

/// Marks a sum with a shared bias, which is not fused into a convolution.
const SHARED: &str = "shared_bias";

fn fold_next(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (_, output) = graph.ends(index)?;
    let next = graph.only_consumer(output)?;
    let kind = graph.node(next)?.op.kind.clone();
    if graph.node(next)?.op.attributes.has(SHARED)
        || !matches!(kind, OpKind::Add | OpKind::Sub | OpKind::Mul)
        || !scales_along(graph, next, output, 1)
    {
        return None;
    }
    let first = graph.ends(next).is_some_and(|(x, _)| x == output);
    let one = graph
        .other_input(next, output)
        .is_some_and(|v| graph.shape(v).iter().product::<usize>() == 1);
    let biased = graph.node(index)?.inputs.len() > 2;
    if kind != OpKind::Mul && (biased || one)
        || kind == OpKind::Sub && !first
        || !graph.is_constant(*graph.node(index)?.inputs.get(1)?)
    {
        return None;
    }
    let removed = graph.remove(next)?;
    graph.set_output(index, 0, *removed.outputs.first()?);
    if kind != OpKind::Mul {
        let channels = graph.shape(output).get(1).copied()?;
        let bias = graph.constant("bias", TensorSpec::f32([channels]), None);
        graph.push_input(index, bias);
    }
    Some(())
}

fn fold_padding(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    if !graph.is(index, &OpKind::Conv) {
        return None;
    }
    let (input, _) = graph.ends(index)?;
    let pad =
        graph.producer_of(input, &OpKind::Pad).filter(|_| graph.only_consumer(input).is_some())?;
    let (added, rank) = (graph.node(pad)?.op.attributes.clone(), graph.shape(input).len());
    let pads = added.ints("pads");
    let own = graph.node(index)?.op.attributes.ints("pads").to_vec();
    let zero = added.text("mode").unwrap_or("constant") == "constant"
        && added.float("value").unwrap_or(0.0) == 0.0;
    let outer =
        pads.len() == 2 * rank && pads[..2].iter().chain(&pads[rank..rank + 2]).all(|&p| p == 0);
    if !zero || !outer || own.len() + 4 != pads.len() || pads.iter().any(|&p| p < 0) {
        return None;
    }
    let spatial = pads[2..rank].iter().chain(&pads[rank + 2..]);
    let both: Vec<i64> = own.iter().zip(spatial).map(|(a, b)| a.saturating_add(*b)).collect();
    let (source, _) = graph.ends(pad)?;
    graph.set_input(index, 0, source);
    graph.remove(pad);
    graph.attributes_mut(index)?.set("pads", Attribute::Ints(both.into()));
    Some(())
}

/// First sums, then what follows: as the graph optimizer goes about it.
pub(super) fn fuse(graph: &mut Rewriter) {
    for index in graph.order() {
        if graph.is(index, &OpKind::Add) {
            fuse_sum(graph, index);
        }
    }
    for index in graph.order() {
        if is_convolution(graph, index) {
            while fuse_next(graph, index).is_some() {}
        }
    }
}

/// Functions of one number that may follow a sum inside a convolution.
fn follows_sum(kind: &OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::Relu
            | K::LeakyRelu
            | K::Elu
            | K::Sigmoid
            | K::HardSigmoid
            | K::Clip
            | K::Silu
            | K::HardSwish
            | K::Mish
            | K::Round
            | K::Quantize
    )
}

/// The sum of a convolution and another tensor is computed in place of that tensor, which must have
/// no later reader.
fn fuse_sum(graph: &mut Rewriter, add: NodeIndex) -> Option<()> {
    let [a, b] = graph.node(add)?.inputs[..] else { return None };
    let (_, output) = graph.ends(add)?;
    for (value, other) in [(a, b), (b, a)] {
        if !is_gate(graph, other) {
            take_quantize(graph, value);
        }
    }
    if graph.shape(a) != graph.shape(b) || graph.is_constant(a) || graph.is_constant(b) || a == b {
        return None;
    }
    let plain = |n: &crate::Node| {
        n.op.attributes.has(QUANTIZED_FIRST) || !n.op.attributes.has("activation")
    };
    let free = |n: &crate::Node| plain(n) && !n.op.attributes.has("residual");
    let conv = |v: ValueId| {
        graph.producer_of(v, &OpKind::Conv).filter(|&i| graph.node(i).is_some_and(free))
    };
    let (mut merged, mut peer) = match (conv(a), conv(b)) {
        (Some(_), Some(_)) if graph.uses(a) != 1 => (b, a),
        (Some(_), _) => (a, b),
        (None, Some(_)) => (b, a),
        (None, None) => return None,
    };
    if graph.only_consumer(merged).is_none() {
        std::mem::swap(&mut merged, &mut peer);
        if conv(merged).is_none()
            || graph.only_consumer(merged).is_none()
            || conv(a).is_some() != conv(b).is_some()
        {
            return None;
        }
    }
    let index = conv(merged)?;
    let reads_peer = graph.node(index)?.inputs.contains(&peer);
    if reads_peer
        || !siblings(graph, peer).iter().all(|&v| {
            !graph.is_output(v) && graph.consumers(v).all(|r| r == add || leads_to(graph, r, add))
        })
    {
        return None;
    }
    graph.remove(add)?;
    graph.set_output(index, 0, output);
    graph.push_input(index, peer);
    graph.attributes_mut(index)?.set("residual", Attribute::Int(1));
    let next = graph.only_consumer(output)?;
    let kind = graph.node(next)?.op.kind.clone();
    follows_sum(&kind).then(|| absorb(graph, index, next)).flatten()
}

/// Whether an elementwise operator on computed tensors alone computes a value: it runs together
/// with the Quantize after a sum.
fn is_gate(graph: &Rewriter, value: ValueId) -> bool {
    let Some(node) = graph.producer(value).and_then(|i| graph.node(i)) else { return false };
    let scales = matches!(node.op.kind, OpKind::Quantize | OpKind::Add | OpKind::Sub)
        || node.inputs.iter().any(|&v| graph.is_constant(v));
    is_elementwise(&node.op.kind) && !scales
}

/// A convolution whose result is quantised and then only added to something takes the Quantize in
/// first.
fn take_quantize(graph: &mut Rewriter, value: ValueId) -> Option<()> {
    let quantize = graph
        .producer_of(value, &OpKind::Quantize)
        .filter(|_| graph.only_consumer(value).is_some())?;
    let (product, _) = graph.ends(quantize)?;
    let conv = graph
        .producer_of(product, &OpKind::Conv)
        .filter(|_| graph.only_consumer(product).is_some())?;
    graph.remove(quantize)?;
    graph.set_output(conv, 0, value);
    note(graph, conv, "activation", OpKind::Quantize.name());
    graph.attributes_mut(conv)?.set(QUANTIZED_FIRST, Attribute::Int(1));
    Some(())
}

/// Everything the provider of `value` provides.
fn siblings(graph: &Rewriter, value: ValueId) -> Vec<ValueId> {
    graph
        .producer(value)
        .and_then(|i| graph.node(i))
        .map_or_else(|| vec![value], |n| n.outputs.clone())
}

/// Whether `to` depends on what `from` computes.
fn leads_to(graph: &Rewriter, from: NodeIndex, to: NodeIndex) -> bool {
    let (mut seen, mut open) = (HashSet::new(), vec![from]);
    while let Some(index) = open.pop() {
        if index == to {
            return true;
        }
        if seen.insert(index) {
            open.extend(
                graph
                    .node(index)
                    .into_iter()
                    .flat_map(|n| &n.outputs)
                    .flat_map(|&v| graph.consumers(v)),
            );
        }
    }
    false
}

fn fuse_next(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (_, output) = graph.ends(index)?;
    let next = graph.only_consumer(output)?;
    let node = graph
        .node(next)
        .filter(|n| !n.op.attributes.has(SHARED) && !n.op.attributes.has(common::OWN))?;
    // With a fused Quantize the convolution writes bytes, and operators on floats after it are
    // kernels of their own.
    if graph.node(index).is_some_and(ends_quantized) && !is_quantize(graph, next) {
        return None;
    }
    (is_simple(&node.op.kind) || scales_along(graph, next, output, 1))
        .then(|| absorb(graph, index, next))
        .flatten()
}

/// Marks the sums that look as if a convolution would take them in, but that none did: tokenization
/// has passed them over.
pub(super) fn mark_left_sums(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(node) = graph.node(index).filter(|n| n.op.kind == OpKind::Add) else { continue };
        let [a, b] = node.inputs[..] else { continue };
        let conv = |v: ValueId| {
            graph.producer_of(v, &OpKind::Conv).is_some_and(|i| {
                graph.only_consumer(v).is_some()
                    && graph.node(i).is_some_and(|n| !n.op.attributes.has("activation"))
            })
        };
        if graph.is_constant(a)
            || graph.is_constant(b)
            || !(conv(a) || conv(b))
            || graph.shape(a) != graph.shape(b)
        {
            continue;
        }
        graph.change(index, OpKind::Elementwise, crate::Attributes::new());
        note(graph, index, "ops", "add");
        while let Some((_, output)) = graph.ends(index) {
            let Some(next) = graph.only_consumer(output) else { break };
            let Some(kind) = graph.node(next).map(|n| n.op.kind.clone()) else { break };
            if !is_elementwise(&kind) || !(is_simple(&kind) || scales_along(graph, next, output, 1))
            {
                break;
            }
            let Some(removed) = graph.remove(next) else { break };
            if let Some(&end) = removed.outputs.first() {
                graph.set_output(index, 0, end);
            }
            for input in removed.inputs.into_iter().filter(|&v| v != output) {
                graph.push_input(index, input);
            }
            note(graph, index, "ops", kind.name());
        }
    }
}
