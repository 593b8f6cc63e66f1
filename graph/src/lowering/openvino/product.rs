//! Matrix products: FullyConnected with constant weights, otherwise MatMul; what is folded into
//! weights and biases, and which transposes are fused.

use super::{
    common::OWN,
    pattern::{absorb, along_axis, is_quantized_value, is_simple, note, scales_along},
};
use crate::{
    Attribute, Attributes, OpKind, TensorSpec,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Fuses transposes into the products after them, and moves scales of products of computed tensors
/// to the right side.
pub(super) fn turn_and_scale(graph: &mut Rewriter) {
    for index in graph.order() {
        take_transposes(graph, index);
    }
    for index in graph.order() {
        fold_scale_of_scores(graph, index);
    }
}

/// Folds scales and biases into products with constant weights.
pub(super) fn fold(graph: &mut Rewriter) {
    for index in graph.order() {
        fold_into_weights(graph, index);
    }
    for index in graph.order() {
        canonical(graph, index);
    }
}

/// A product times a constant that is the same for all of a matrix: the constant goes to the right
/// side.
fn fold_scale_of_scores(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (_, output) = graph.ends(index).filter(|_| graph.is(index, &OpKind::MatMul))?;
    let mul = graph.only_consumer(output).filter(|&i| graph.is(i, &OpKind::Mul))?;
    let number = graph.other_input(mul, output)?;
    let (shape, rank) = (graph.shape(number), graph.shape(output).len());
    if !graph.is_constant(number)
        || shape.len() > rank
        || shape.iter().rev().take(2).any(|&d| d != 1)
    {
        return None;
    }
    let right = *graph.node(index)?.inputs.get(1)?;
    if graph.is_constant(right) {
        return None;
    }
    let removed = graph.remove(mul)?;
    let end = *removed.outputs.first()?;
    let tensor = graph.tensor(right).cloned();
    let scaled = graph.add_with_output(
        &removed.name,
        OpKind::Mul,
        Attributes::new(),
        vec![right, number],
        tensor,
    );
    graph.set_input(index, 1, scaled);
    graph.set_output(index, 0, end);
    Some(())
}

/// Whether a permutation swaps the last two dimensions and nothing else.
fn swaps_last(perm: &[i64]) -> bool {
    let n = perm.len();
    n >= 2
        && perm[..n - 2].iter().enumerate().all(|(i, &p)| p == i as i64)
        && perm[n - 2] == n as i64 - 1
        && perm[n - 1] == n as i64 - 2
}

/// Fuses a transpose of the last two dimensions into the product after it. For constant weights it
/// becomes a transpose of its own.
fn take_transposes(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let kind = graph.node(index)?.op.kind.clone();
    let positions: &[usize] = match kind {
        OpKind::MatMul => &[0, 1],
        OpKind::Linear => &[0],
        _ => return None,
    };
    for &position in positions {
        let Some(&input) = graph.node(index)?.inputs.get(position) else { continue };
        let Some(transpose) = graph.producer_of(input, &OpKind::Transpose) else { continue };
        let attributes = graph.node(transpose)?.op.attributes.clone();
        if !swaps_last(attributes.ints("perm")) {
            continue;
        }
        let (source, _) = graph.ends(transpose)?;
        if kind == OpKind::Linear {
            if graph.only_consumer(input).is_none() {
                let name = format!("{}/transpose_a", graph.node(index)?.name);
                let tensor = graph.tensor(input).cloned();
                let own = graph.add_with_output(
                    &name,
                    OpKind::Transpose,
                    attributes,
                    vec![source],
                    tensor,
                );
                graph.set_input(index, 0, own);
            }
            continue;
        }
        graph.set_input(index, position, source);
        if graph.uses(input) == 0 {
            graph.remove(transpose);
        }
        let name = ["trans_a", "trans_b"][position];
        let attributes = graph.attributes_mut(index)?;
        if attributes.0.remove(name).is_none() {
            attributes.set(name, Attribute::Int(1));
        }
    }
    Some(())
}

fn fold_into_weights(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    if !graph.is(index, &OpKind::Linear) {
        return None;
    }
    loop {
        let (_, output) = graph.ends(index)?;
        let next = graph.only_consumer(output)?;
        let axis = graph.shape(output).len().checked_sub(1)?;
        let other = graph.other_input(next, output)?;
        let same = graph.ends(next).is_some_and(|(_, end)| graph.shape(end) == graph.shape(output));
        let biased = graph.node(index)?.inputs.len() > 2;
        let kind = graph.node(next)?.op.kind.clone();
        let foldable = match kind {
            OpKind::Add => !biased && graph.shape(other).iter().product::<usize>() > 1,
            OpKind::Mul => graph.shape(other).iter().product::<usize>() > 1 || !biased,
            _ => false,
        };
        if !foldable || !same || !along_axis(graph, other, output, axis) {
            return None;
        }
        let removed = graph.remove(next)?;
        graph.set_output(index, 0, *removed.outputs.first()?);
        if kind == OpKind::Add {
            graph.push_input(index, other);
        }
    }
}

/// Weights as the plugin has them, `[out, in]`, and a bias of one dimension.
fn canonical(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Linear)?;
    let turned = node.op.attributes.int("trans_b").unwrap_or(0) != 0;
    let (weight, bias) = (*node.inputs.get(1)?, node.inputs.get(2).copied());
    if !turned {
        let mut tensor = graph.tensor(weight)?.clone();
        let rank = tensor.shape.len();
        if rank >= 2 {
            tensor.shape.swap(rank - 1, rank - 2);
        }
        let weight = graph.constant("weight", tensor, None);
        graph.set_input(index, 1, weight);
    }
    if let Some(bias) = bias {
        let shape = vec![graph.shape(bias).iter().product::<usize>()];
        let bias = graph.constant("bias", TensorSpec::f32(shape), None);
        graph.set_input(index, 2, bias);
    }
    let attributes = graph.attributes_mut(index)?;
    attributes.0.remove("alpha");
    attributes.0.remove("beta");
    attributes.set("trans_b", Attribute::Int(1));
    Some(())
}

/// Fuses functions of one number, and scales along the last dimension, that are the only readers of
/// a product.
///
/// A product on quantised numbers has its bias among them, and with more than three dimensions
/// nothing is fused: an operator of its own runs.
pub(super) fn fuse(graph: &mut Rewriter) {
    for index in graph.order() {
        let quantized = graph.is(index, &OpKind::Linear)
            && graph.ends(index).is_some_and(|(x, _)| is_quantized_value(graph, x));
        if quantized && finish_apart(graph, index).is_some() {
            continue;
        }
        if graph.is(index, &OpKind::Linear) || graph.is(index, &OpKind::MatMul) {
            while fuse_next(graph, index).is_some() {}
        }
    }
}

/// Takes the bias out of a product of quantised numbers; of more than three dimensions, what
/// follows becomes one elementwise kernel.
fn finish_apart(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (_, output) = graph.ends(index)?;
    let node = graph.remove(index)?;
    let [x, weight, ref rest @ ..] = node.inputs[..] else { return None };
    let biased = !rest.is_empty();
    if graph.shape(output).len() < 4 {
        graph.add(&node.name, node.op.kind, node.op.attributes, vec![x, weight], vec![output]);
        return None;
    }
    let tensor = graph.tensor(output).cloned();
    let sums = graph.add_with_output(
        &node.name,
        node.op.kind,
        node.op.attributes,
        vec![x, weight],
        tensor,
    );
    let first = if biased { OpKind::Add } else { OpKind::Mul };
    let attributes = Attributes::new().with("ops", Attribute::Text(first.name().to_owned()));
    let inputs = std::iter::once(sums).chain(rest.iter().copied()).collect();
    let own = graph.add(
        &format!("{}/dequantize", node.name),
        OpKind::Elementwise,
        attributes,
        inputs,
        vec![output],
    );
    while let Some(kind) = fuse_next(graph, own) {
        graph.attributes_mut(own)?.0.remove("activation");
        note(graph, own, "ops", kind.name());
    }
    Some(())
}

fn fuse_next(graph: &mut Rewriter, index: NodeIndex) -> Option<OpKind> {
    let (_, output) = graph.ends(index)?;
    let next = graph.only_consumer(output)?;
    let axis = graph.shape(output).len().checked_sub(1)?;
    let kind = graph.node(next)?.op.kind.clone();
    let fits =
        (is_simple(&kind) && kind != OpKind::PRelu && !graph.node(next)?.op.attributes.has(OWN))
            || scales_along(graph, next, output, axis);
    fits.then(|| absorb(graph, index, next)).flatten().map(|()| kind)
}
