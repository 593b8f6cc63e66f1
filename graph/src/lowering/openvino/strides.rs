//! Moves strides to earlier operators: a 1x1 convolution with strides discards most of its input,
//! so the operators before it need not compute that part.
//!
//! From the end of the graph to its front, convolutions and elementwise operators ask for strides
//! of what they read. A convolution all of whose readers ask for the same strides takes them; where
//! the readers disagree, convolutions keep their own, and a MaxPool of one pixel serves the others.

use super::pattern::is_elementwise;
use crate::{
    Attribute, Attributes, OpKind, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use std::collections::HashMap;

type RequestedStrides = HashMap<(NodeIndex, ValueId), Vec<i64>>;

/// Moves strides up as far as they go.
pub(super) fn lift(graph: &mut Rewriter) {
    let mut requested: RequestedStrides = HashMap::new();
    for index in graph.order().into_iter().rev() {
        let Some(node) = graph.node(index) else { continue };
        let kind = node.op.kind.clone();
        let outputs = node.outputs.clone();
        let dense = kind == OpKind::Conv
            && node.op.attributes.int("group").unwrap_or(1) == 1
            && graph.shape(outputs[0]).len() == 4;
        if kind == OpKind::Quantize {
            quantized(graph, index, &requested);
        } else if dense {
            convolution(graph, index, &mut requested);
        } else if is_elementwise(&kind) && outputs.len() == 1 && graph.shape(outputs[0]).len() == 4
        {
            elementwise(graph, index, &mut requested);
        } else {
            for output in outputs {
                refuse(graph, output, &requested);
            }
        }
    }
    for input in graph.input_values() {
        refuse(graph, input, &requested);
    }
}

fn are_ones(strides: &[i64]) -> bool {
    strides.iter().all(|&s| s == 1)
}

/// The strides that all readers of `value` request, if they agree.
fn common(graph: &Rewriter, value: ValueId, requested: &RequestedStrides) -> Option<Vec<i64>> {
    let mut readers = graph.consumers(value);
    let first = requested.get(&(readers.next()?, value))?;
    (!graph.is_output(value) && readers.all(|r| requested.get(&(r, value)) == Some(first)))
        .then(|| first.clone())
}

fn strided(shape: &[usize], strides: &[i64]) -> Vec<usize> {
    let step = |i: usize| usize::try_from(*strides.get(i).unwrap_or(&1)).unwrap_or(1).max(1);
    shape
        .iter()
        .enumerate()
        .map(|(i, &d)| if i < 2 { d } else { d.div_ceil(step(i - 2)) })
        .collect()
}

fn shrink(graph: &mut Rewriter, value: ValueId, strides: &[i64]) {
    if let Some(tensor) = graph.tensor_mut(value) {
        tensor.shape = strided(&tensor.shape, strides).into();
    }
}

/// Inserts the strides for readers that requested them.
fn refuse(graph: &mut Rewriter, value: ValueId, requested: &RequestedStrides) {
    for reading in graph.readings(value).collect::<Vec<_>>() {
        let reader = reading.node();
        let Some(strides) = requested.get(&(reader, value)).filter(|s| !are_ones(s)).cloned()
        else {
            continue;
        };
        if graph.is(reader, &OpKind::Conv) {
            if let Some(attributes) = graph.attributes_mut(reader) {
                attributes.set("strides", Attribute::Ints(strides.into()));
            }
            continue;
        }
        let pooled = pool(graph, value, strides);
        graph.set_input(reader, reading.position(), pooled);
    }
}

/// One pixel of each stride, by a MaxPool of one pixel.
fn pool(graph: &mut Rewriter, value: ValueId, strides: Vec<i64>) -> ValueId {
    let shape = strided(graph.shape(value), &strides);
    let tensor = graph.tensor(value).cloned().map(|t| TensorSpec { shape: shape.into(), ..t });
    let attributes = Attributes::new()
        .with_ints("kernel_shape", vec![1; strides.len()])
        .with_ints("pads", vec![0; 2 * strides.len()])
        .with_int("ceil_mode", 0);
    graph.add_with_output(
        "strides",
        OpKind::MaxPool,
        attributes.with_ints("strides", strides),
        vec![value],
        tensor,
    )
}

/// Strides stop between the conversion of quantised numbers to floats and their scale: all three
/// become kernels, and what reads them computes on floats.
fn quantized(graph: &mut Rewriter, index: NodeIndex, requested: &RequestedStrides) {
    let Some((_, output)) = graph.ends(index) else { return };
    let Some(asked) = common(graph, output, requested).filter(|s| !are_ones(s)) else {
        return refuse(graph, output, requested);
    };
    let readers: Vec<_> = graph.readings(output).collect();
    let tensor = graph.tensor(output).cloned();
    let floats = graph.add_with_output(
        "convert",
        OpKind::Elementwise,
        Attributes::new(),
        vec![output],
        tensor,
    );
    let pooled = pool(graph, floats, asked);
    let tensor = graph.tensor(pooled).cloned();
    let attributes =
        Attributes::new().with("ops", Attribute::Text(OpKind::Dequantize.name().to_owned()));
    let scaled =
        graph.add_with_output("dequantize", OpKind::Elementwise, attributes, vec![pooled], tensor);
    for reader in readers {
        graph.set_input(reader.node(), reader.position(), scaled);
    }
}

fn convolution(graph: &mut Rewriter, index: NodeIndex, requested: &mut RequestedStrides) {
    let Some((x, output)) = graph.ends(index) else { return };
    let mut strides =
        graph.node(index).map(|n| n.op.attributes.ints("strides").to_vec()).unwrap_or_default();
    match common(graph, output, requested) {
        Some(asked) if asked.len() == strides.len() => {
            shrink(graph, output, &asked);
            strides.iter_mut().zip(&asked).for_each(|(s, a)| *s *= a);
        }
        _ => refuse(graph, output, requested),
    }
    let attributes = graph.node(index).map(|n| n.op.attributes.clone()).unwrap_or_default();
    let pointwise = are_ones(attributes.ints("kernel_shape"))
        && attributes.ints("pads").iter().all(|&p| p == 0)
        && !attributes.ints("kernel_shape").is_empty();
    let ones = vec![1; strides.len()];
    let (own, asked) = if pointwise { (ones, strides) } else { (strides, ones) };
    if let Some(attributes) = graph.attributes_mut(index) {
        attributes.set("strides", Attribute::Ints(own.into()));
    }
    requested.insert((index, x), asked);
}

fn elementwise(graph: &mut Rewriter, index: NodeIndex, requested: &mut RequestedStrides) {
    let Some((_, output)) = graph.ends(index) else { return };
    let inputs = graph.node(index).map(|n| n.inputs.clone()).unwrap_or_default();
    let computed: Vec<ValueId> =
        inputs.iter().copied().filter(|&v| !graph.is_constant(v)).collect();
    let same_shape = computed.iter().all(|&v| graph.shape(v) == graph.shape(output));
    let small = inputs
        .iter()
        .filter(|&&v| graph.is_constant(v))
        .all(|&v| graph.shape(v).iter().rev().take(2).all(|&d| d == 1));
    match common(graph, output, requested) {
        Some(asked) if same_shape && small => {
            shrink(graph, output, &asked);
            for input in computed {
                requested.insert((index, input), asked.clone());
            }
        }
        _ => refuse(graph, output, requested),
    }
}
