//! Folds into convolutions what ONNX Runtime folds outside of blocked memory formats: batch norms,
//! scales, biases, padding and activations.

use crate::{
    Attribute, Attributes, OpKind, TensorSpec, ValueId, Written,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Folds what follows convolutions with constant weights. Whether anything changed.
pub(super) fn fold_neighbours(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        if !graph.is(index, &OpKind::Conv) || !weights_are_constant(graph, index) {
            continue;
        }
        while fold_next(graph, index) {
            changed = true;
        }
    }
    changed
}

fn weights_are_constant(graph: &Rewriter, index: NodeIndex) -> bool {
    graph
        .node(index)
        .is_some_and(|n| n.inputs.len() > 1 && n.inputs[1..].iter().all(|&v| graph.is_constant(v)))
}

fn fold_next(graph: &mut Rewriter, index: NodeIndex) -> bool {
    let Some((_, output)) = graph.ends(index) else { return false };
    let Some(next) = graph.only_consumer(output) else { return false };
    let Some(node) = graph.node(next) else { return false };
    let (kind, end) = (node.op.kind.clone(), node.outputs.first().copied());
    let foldable = match kind {
        OpKind::BatchNorm => {
            node.inputs.first() == Some(&output)
                && node.inputs[1..].iter().all(|&v| graph.is_constant(v))
        }
        OpKind::Add => {
            graph.other_input(next, output).is_some_and(|v| per_channel(graph, v, output))
        }
        OpKind::Mul => {
            let factor = graph.other_input(next, output);
            factor.is_some_and(|v| {
                per_channel(graph, v, output)
                    || (graph.scalar(v).is_some() && graph.shape(v).is_empty())
            })
        }
        _ => false,
    };
    let Some(end) = end.filter(|_| foldable) else { return false };
    let needs_bias = kind != OpKind::Mul && graph.node(index).is_some_and(|n| n.inputs.len() == 2);
    let channels = graph.shape(output).get(1).copied().unwrap_or(1);
    graph.remove(next);
    graph.set_output(index, 0, end);
    if needs_bias {
        let bias = graph.constant("bias", TensorSpec::f32([channels]), None);
        graph.push_input(index, bias);
    }
    true
}

/// Whether a constant has one number per channel of an image (or one for all), so that it can be
/// folded into weights or bias.
pub(super) fn per_channel(graph: &Rewriter, value: ValueId, image: ValueId) -> bool {
    let (shape, image) = (graph.shape(value), graph.shape(image));
    if !graph.is_constant(value) || image.len() < 3 {
        return false;
    }
    let tail = &image[2..];
    let per_channel = match shape.len() + 1 {
        n if n == image.len() => shape[0] == image[1] && shape[1..].iter().all(|&d| d == 1),
        n if n == image.len() + 1 => {
            shape[0] == 1 && shape[1] == image[1] && shape[2..].iter().all(|&d| d == 1)
        }
        _ => false,
    };
    per_channel && !tail.is_empty()
}

/// Folds paddings with zeros in the spatial dimensions into the convolution or pooling that alone
/// reads them. Whether anything changed. The engine requires the value: an empty optional input
/// prevents the fusion.
pub(super) fn fold_paddings(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let folds = graph.node(index).is_some_and(|n| {
            matches!(n.op.kind, OpKind::Conv | OpKind::MaxPool | OpKind::AveragePool)
                && n.outputs.len() == 1
                && n.op.attributes.has("pads")
        });
        changed |= folds && fold_padding(graph, index).is_some();
    }
    changed
}

fn fold_padding(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (input, _) = graph.ends(index)?;
    let pad =
        graph.producer_of(input, &OpKind::Pad).filter(|_| graph.only_consumer(input).is_some())?;
    let (pad_node, own) =
        (graph.node(pad)?, graph.node(index)?.op.attributes.ints("pads").to_vec());
    let rank = graph.shape(input).len();
    let attributes = &pad_node.op.attributes;
    let pads = attributes.ints("pads");
    let zero = attributes.text("mode").unwrap_or("constant") == "constant"
        && attributes.float("value").unwrap_or(0.0) == 0.0;
    let only_spatial = pads.len() == 2 * rank
        && rank > 2
        && pads[..2].iter().chain(&pads[rank..rank + 2]).all(|&p| p == 0);
    let hidden = pad_node.written == Some(Written::PadWithEmptyValue);
    if hidden || !zero || !only_spatial || pads.iter().any(|&p| p < 0) {
        return None;
    }
    let added = [&pads[2..rank], &pads[rank + 2..]].concat();
    if added.len() != own.len() {
        return None;
    }
    let (source, _) = graph.ends(pad)?;
    graph.set_input(index, 0, source);
    graph.remove(pad);
    graph.attributes_mut(index)?.set(
        "pads",
        Attribute::Ints(own.iter().zip(&added).map(|(a, b)| a.saturating_add(*b)).collect()),
    );
    Some(())
}

/// Fuses the activation that is the only reader of a convolution. Whether anything changed.
pub(super) fn fuse_activations(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        if graph.is(index, &OpKind::Conv) && activation(graph, index).is_none() {
            changed |= fuse_activation(graph, index);
        }
    }
    changed
}

fn fuse_activation(graph: &mut Rewriter, index: NodeIndex) -> bool {
    fuse_next(graph, index, fusable)
}

/// Fuses a HardSwish that is the only reader of a convolution.
pub(super) fn fuse_hard_swish(graph: &mut Rewriter) {
    let hard_swish = |graph: &Rewriter, next: NodeIndex| {
        graph.is(next, &OpKind::HardSwish).then(|| OpKind::HardSwish.name().to_owned())
    };
    for index in graph.order() {
        if graph.is(index, &OpKind::Conv) {
            fuse_next(graph, index, hard_swish);
        }
    }
}

fn fuse_next(
    graph: &mut Rewriter,
    index: NodeIndex,
    name: impl Fn(&Rewriter, NodeIndex) -> Option<String>,
) -> bool {
    let Some((_, output)) = graph.ends(index) else { return false };
    let Some(next) = graph.only_consumer(output) else { return false };
    let Some(name) = name(graph, next) else { return false };
    let Some((_, end)) = graph.ends(next) else { return false };
    graph.remove(next);
    graph.set_output(index, 0, end);
    if let Some(attributes) = graph.attributes_mut(index) {
        attributes.set("activation", Attribute::Text(name));
    }
    true
}

fn fusable(graph: &Rewriter, index: NodeIndex) -> Option<String> {
    use OpKind as K;
    let node = graph.node(index)?;
    matches!(node.op.kind, K::Relu | K::Sigmoid | K::Tanh | K::LeakyRelu | K::HardSigmoid | K::Clip)
        .then(|| node.op.kind.name().to_owned())
}

/// The activation fused into a node.
pub(super) fn activation(graph: &Rewriter, index: NodeIndex) -> Option<&str> {
    graph.node(index)?.op.attributes.text("activation")
}

/// Fuses `Conv, Add[, activation]` where blocked formats did not take the convolution. Whether
/// anything changed.
pub(super) fn fuse_residuals(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        if graph.is(index, &OpKind::Add) && fuse_residual(graph, index) {
            changed = true;
        }
    }
    changed
}

fn fuse_residual(graph: &mut Rewriter, add: NodeIndex) -> bool {
    let Some(node) = graph.node(add) else { return false };
    let (inputs, output) = (node.inputs.clone(), node.outputs.first().copied());
    let ([a, b], Some(output)) = (&inputs[..], output) else { return false };
    let unblocked = |graph: &Rewriter, v: ValueId| {
        graph.tensor(v).is_some_and(|t| {
            t.format == crate::MemoryFormat::ChannelsFirst && t.precision.is_float()
        })
    };
    for (conv_value, other) in [(*a, *b), (*b, *a)] {
        let Some(conv) = graph.producer_of(conv_value, &OpKind::Conv) else { continue };
        let free = activation(graph, conv).is_none()
            && !graph.node(conv).is_some_and(|n| n.op.attributes.has("residual"));
        let fits = graph.shape(conv_value) == graph.shape(other)
            && unblocked(graph, conv_value)
            && unblocked(graph, other);
        if !free || !fits || graph.only_consumer(conv_value) != Some(add) {
            continue;
        }
        let Some(node) = graph.node(conv) else { continue };
        let (name, mut attributes, mut inputs) =
            (node.name.clone(), node.op.attributes.clone(), node.inputs.clone());
        attributes.set("residual", Attribute::Int(1));
        inputs.push(other);
        graph.remove(add);
        graph.remove(conv);
        let fused = graph.add(&name, OpKind::Conv, attributes, inputs, vec![output]);
        fuse_activation(graph, fused);
        return true;
    }
    false
}

/// Attributes of a convolution that scales and shifts every channel on its own: what a batch norm
/// becomes in a blocked format.
pub(super) fn channelwise(channels: usize) -> Attributes {
    Attributes::new()
        .with_ints("kernel_shape", [1, 1])
        .with_ints("strides", [1, 1])
        .with_ints("dilations", [1, 1])
        .with_ints("pads", [0, 0, 0, 0])
        .with_int("group", channels as i64)
}
