//! Static int8: a Quantize and the Dequantizes behind it are one elementwise operator, which
//! kernels take in; integer kernels read what it writes.
//!
//! Shapes and fusions follow the rules for floats, except that scales of sums move behind them. A
//! Quantize, or a kernel that ends with one, writes `u8`, or floats before attention. A convolution
//! that reads or adds floats writes floats, and a Cast follows.
//!
//! Values that are quantised around 0 (their zero point is known, and in the middle of the range)
//! enter attention as `i8`, and the transpose behind it remains a kernel.

use super::pattern::{
    AROUND_ZERO, QUANTIZED_FIRST, ends_quantized, is_quantize, is_quantized_value, scales_along,
};
use crate::{
    Attribute, Attributes, ConstantData, OpKind, Precision, TensorSpec, ValueId,
    patterns::{
        readers::Reading,
        rewriter::{NodeIndex, Rewriter},
    },
};
use std::collections::HashMap;

/// Marks a Quantize whose range begins at 0.
const FROM_ZERO: &str = "from_zero";

fn is_marked(graph: &Rewriter, index: NodeIndex, mark: &str) -> bool {
    graph.node(index).is_some_and(|n| n.op.attributes.has(mark))
}

/// Joins pairs around activations; those around weights are constants already.
pub(super) fn join_pairs(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some((x, quantized)) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Quantize))
        else {
            continue;
        };
        let readers: Vec<NodeIndex> = graph.consumers(quantized).collect();
        if graph.is_constant(x)
            || graph.is_output(quantized)
            || !readers.iter().all(|&r| graph.is(r, &OpKind::Dequantize))
        {
            continue;
        }
        let tensor = graph.tensor(x).cloned();
        let around_zero = has_middle_zero(graph, index);
        let Some(mut node) = graph.remove(index) else { continue };
        if around_zero {
            node.op.attributes.set(AROUND_ZERO, Attribute::Int(1));
        }
        let joined = graph.add_with_output(
            &node.name,
            OpKind::Quantize,
            node.op.attributes,
            vec![x],
            tensor,
        );
        for reader in readers {
            let Some(output) = graph.remove(reader).and_then(|n| n.outputs.first().copied()) else {
                continue;
            };
            graph.replace_value(output, joined);
        }
    }
}

/// Whether the zero point of a Quantize is known and in the middle of its range.
fn has_middle_zero(graph: &Rewriter, quantize: NodeIndex) -> bool {
    let Some(&zero) = graph.node(quantize).and_then(|n| n.inputs.get(2)) else { return false };
    let middle =
        if graph.tensor(zero).is_some_and(|t| t.precision == Precision::I8) { 0 } else { 128 };
    matches!(graph.data(zero), Some(ConstantData::Ints(points)) if !points.is_empty() && points.iter().all(|&z| z == middle))
}

/// A Relu or clip that only a Quantize reads is the end of its range.
pub(super) fn drop_clips(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some((x, _)) = graph.ends(index).filter(|_| is_quantize(graph, index)) else {
            continue;
        };
        let ends_range = |&i: &NodeIndex| graph.is(i, &OpKind::Relu) || graph.is(i, &OpKind::Clip);
        let Some(clip) =
            graph.producer(x).filter(ends_range).filter(|_| graph.only_consumer(x).is_some())
        else {
            continue;
        };
        let Some((source, _)) = graph.ends(clip) else { continue };
        let attributes = graph.node(clip).map(|n| &n.op.attributes);
        let from_zero = graph.is(clip, &OpKind::Relu)
            || attributes.and_then(|a| a.float("min")).is_some_and(|least| least >= 0.0);
        if let Some(attributes) = graph.attributes_mut(index).filter(|_| from_zero) {
            attributes.set(FROM_ZERO, Attribute::Int(1));
        }
        graph.set_input(index, 0, source);
        graph.remove(clip);
    }
}

/// A Quantize that is the only reader of a concatenation of channels moves to each of its parts.
/// Parts that are already bytes are converted to floats first, unless their zero point is 0.
pub(super) fn quantize_before_joins(graph: &mut Rewriter) {
    let mut floats: HashMap<ValueId, ValueId> = HashMap::new();
    for index in graph.order() {
        if is_quantize(graph, index) {
            quantize_before_join(graph, index, &mut floats);
        }
    }
}

fn quantize_before_join(
    graph: &mut Rewriter,
    quantize: NodeIndex,
    floats: &mut HashMap<ValueId, ValueId>,
) -> Option<()> {
    let (joined, output) = graph.ends(quantize)?;
    let join = graph
        .producer_of(joined, &OpKind::Concat)
        .filter(|_| graph.only_consumer(joined).is_some())?;
    let node = graph.node(join).filter(|n| {
        n.op.attributes.int("axis") == Some(1) && !n.inputs.iter().any(|&v| graph.is_constant(v))
    })?;
    let parts = node.inputs.clone();
    let removed = graph.remove(quantize)?;
    graph.set_output(join, 0, output);
    for (position, part) in parts.into_iter().enumerate() {
        let tensor = graph.tensor(part).cloned();
        let source = match graph
            .producer_of(part, &OpKind::Quantize)
            .filter(|&index| !is_marked(graph, index, FROM_ZERO))
        {
            Some(_) => *floats.entry(part).or_insert_with(|| {
                graph.add_with_output(
                    "dequantize",
                    OpKind::Dequantize,
                    Attributes::new(),
                    vec![part],
                    tensor.clone(),
                )
            }),
            None => part,
        };
        let name = format!("{}_{}", removed.name, position + 1);
        let own = graph.add_with_output(
            &name,
            OpKind::Quantize,
            removed.op.attributes.clone(),
            vec![source],
            tensor,
        );
        graph.set_input(join, position, own);
    }
    Some(())
}

/// Scales of one side of a sum move behind it: a quantised convolution's result is added in its own
/// scale, and the readers of the sum multiply by a constant per channel. The other side is divided
/// beforehand. A Quantize fuses such scales.
pub(super) fn scale_sums(graph: &mut Rewriter) {
    for index in graph.order() {
        if graph.is(index, &OpKind::Add) {
            scale_sum(graph, index);
        }
    }
}

fn scale_sum(graph: &mut Rewriter, add: NodeIndex) -> Option<()> {
    let [a, b] = graph.node(add)?.inputs[..] else { return None };
    let (_, output) = graph.ends(add)?;
    let (position, mul, bytes) = [a, b]
        .into_iter()
        .enumerate()
        .find_map(|(i, v)| scaled_bytes(graph, v).map(|(mul, q)| (i, mul, q)))?;
    let other = if position == 0 { b } else { a };
    if graph.shape(a) != graph.shape(b) || graph.is_constant(other) {
        return None;
    }
    let scale = graph.other_input(mul, bytes)?;
    let name = graph.node(mul)?.name.clone();
    graph.remove(mul);
    graph.set_input(add, position, bytes);
    let tensor = graph.tensor(output).cloned();
    if graph.producer_of(other, &OpKind::Quantize).is_none() {
        let divided = graph.add_with_output(
            &format!("{name}/inverse"),
            OpKind::Mul,
            Attributes::new(),
            vec![other, scale],
            tensor.clone(),
        );
        graph.set_input(add, 1 - position, divided);
    }
    let readers: Vec<Reading> = graph.readings(output).collect();
    if graph.only_consumer(output).is_some_and(|reader| is_quantize(graph, reader)) {
        return Some(());
    }
    let sum = graph.value(&name, tensor.clone());
    graph.set_output(add, 0, sum);
    for reader in readers {
        let scaled = graph.add_with_output(
            &name,
            OpKind::Mul,
            Attributes::new(),
            vec![sum, scale],
            tensor.clone(),
        );
        graph.set_input(reader.node(), reader.position(), scaled);
    }
    if graph.is_output(output) {
        graph.add(&name, OpKind::Mul, Attributes::new(), vec![sum, scale], vec![output]);
    }
    Some(())
}

/// A sum with quantised tokens keeps their scale: a normalisation needs no multiplication, all
/// other readers of the sum do.
pub(super) fn scale_normalised_sums(graph: &mut Rewriter) {
    for index in graph.order() {
        if graph.is(index, &OpKind::Add) {
            scale_normalised_sum(graph, index);
        }
    }
}

fn scale_normalised_sum(graph: &mut Rewriter, add: NodeIndex) -> Option<()> {
    let [a, b] = graph.node(add)?.inputs[..] else { return None };
    let (_, sum) = graph.ends(add).filter(|_| {
        graph.shape(a) == graph.shape(b)
            && (is_quantized_value(graph, a) || is_quantized_value(graph, b))
    })?;
    let tokens = graph.shape(sum).len() == 3
        && !graph.is_output(sum)
        && !graph.is_constant(a)
        && !graph.is_constant(b);
    let (norms, others): (Vec<_>, Vec<_>) =
        graph.readings(sum).partition(|r| graph.is(r.node(), &OpKind::LayerNorm));
    if !tokens || norms.is_empty() || others.is_empty() {
        return None;
    }
    let (name, tensor) = (format!("{}/scale", graph.node(add)?.name), graph.tensor(sum).cloned());
    let scale = graph.constant("scale", TensorSpec::f32([1]), None);
    let scaled =
        graph.add_with_output(&name, OpKind::Mul, Attributes::new(), vec![sum, scale], tensor);
    for reader in others {
        graph.set_input(reader.node(), reader.position(), scaled);
    }
    Some(())
}

/// The multiplication by a constant per channel that provides `value`, and the quantised result of
/// a convolution that alone it reads.
fn scaled_bytes(graph: &Rewriter, value: ValueId) -> Option<(NodeIndex, ValueId)> {
    let mul =
        graph.producer_of(value, &OpKind::Mul).filter(|_| graph.only_consumer(value).is_some())?;
    let bytes = graph.node(mul)?.inputs.iter().copied().find(|&v| !graph.is_constant(v))?;
    let quantize = graph
        .producer_of(bytes, &OpKind::Quantize)
        .filter(|_| graph.only_consumer(bytes).is_some())?;
    let (product, _) = graph.ends(quantize)?;
    graph
        .producer_of(product, &OpKind::Conv)
        .filter(|_| graph.only_consumer(product).is_some() && scales_along(graph, mul, bytes, 1))?;
    Some((mul, bytes))
}

/// Kernels that end with a Quantize write bytes; convolutions and products that read bytes have
/// weights in bytes.
pub(super) fn set_precisions(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let quantizes = is_quantize(graph, index) || ends_quantized(node);
        let moves = matches!(
            node.op.kind,
            OpKind::Reshape | OpKind::Transpose | OpKind::Reorder | OpKind::MaxPool
        ) && node.inputs.first().is_some_and(|&v| is_bytes(graph, v))
            || node.op.kind == OpKind::Concat && node.inputs.iter().all(|&v| is_bytes(graph, v));
        let on_bytes = matches!(node.op.kind, OpKind::Conv | OpKind::Linear)
            && node.inputs.first().is_some_and(|&v| is_bytes(graph, v));
        if let Some(&weight) = node.inputs.get(1).filter(|&&v| on_bytes && graph.is_constant(v))
            && let Some(tensor) = graph.tensor_mut(weight)
        {
            tensor.precision = Precision::I8;
        }
        if !quantizes && !moves {
            floats_for_sum(graph, index);
            continue;
        }
        if on_floats(graph, index) && becomes_bytes(graph, index).is_some() {
            continue;
        }
        let Some(node) = graph.node(index) else { continue };
        for output in node.outputs.clone() {
            let precision = match quantizes.then(|| for_attention(graph, output)).flatten() {
                _ if graph.is_output(output) => continue,
                Some(precision) => precision,
                None if moves => moved_precision(graph, index),
                None => Precision::U8,
            };
            if let Some(tensor) = graph.tensor_mut(output) {
                tensor.precision = precision;
            }
        }
    }
}

/// Takes marks away that are no attributes of kernels.
pub(super) fn clean(graph: &mut Rewriter) {
    for index in graph.order() {
        if let Some(attributes) = graph.attributes_mut(index) {
            attributes.0.remove(QUANTIZED_FIRST);
            attributes.0.remove(AROUND_ZERO);
            attributes.0.remove(FROM_ZERO);
        }
    }
}

/// The position of a convolution's added operand: after image, weights and bias.
fn summand(graph: &Rewriter, index: NodeIndex) -> Option<(usize, ValueId)> {
    let node = graph.node(index).filter(|n| n.op.attributes.has("residual"))?;
    let shape = graph.shape(*node.outputs.first()?);
    node.inputs
        .iter()
        .copied()
        .enumerate()
        .skip(2)
        .find(|&(_, v)| !graph.is_constant(v) && graph.shape(v) == shape)
}

fn cast(graph: &mut Rewriter, value: ValueId, to: Precision) -> Option<ValueId> {
    let tensor = TensorSpec { precision: to, ..graph.tensor(value)?.clone() };
    let attributes = Attributes::new().with("to", Attribute::Text(to.name().to_owned()));
    Some(graph.add_with_output("cast", OpKind::Cast, attributes, vec![value], Some(tensor)))
}

/// A sum is computed in place, so the added operand must have the precision of the result.
fn floats_for_sum(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (position, value) = summand(graph, index).filter(|&(_, v)| is_bytes(graph, v))?;
    let floats = cast(graph, value, Precision::F32)?;
    graph.set_input(index, position, floats);
    Some(())
}

/// Whether a convolution reads floats, or adds some to its result.
fn on_floats(graph: &Rewriter, index: NodeIndex) -> bool {
    let image =
        graph.node(index).filter(|n| n.op.kind == OpKind::Conv).and_then(|n| n.inputs.first());
    image.is_some_and(|&v| !is_bytes(graph, v))
        || summand(graph, index).is_some_and(|(_, v)| !is_bytes(graph, v))
}

/// The float output of a convolution is converted to bytes after it.
fn becomes_bytes(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (_, output) = graph.ends(index).filter(|&(_, v)| !graph.is_output(v))?;
    let readers: Vec<Reading> = graph.readings(output).collect();
    let bytes = cast(graph, output, Precision::U8)?;
    for reader in readers {
        graph.set_input(reader.node(), reader.position(), bytes);
    }
    Some(())
}

/// A kernel that moves bytes writes the type that it reads.
fn moved_precision(graph: &Rewriter, index: NodeIndex) -> Precision {
    graph.ends(index).and_then(|(x, _)| graph.tensor(x)).map_or(Precision::U8, |t| t.precision)
}

/// The output of a Quantize that only attention reads: signed bytes if its values are around 0,
/// otherwise floats.
fn for_attention(graph: &Rewriter, value: ValueId) -> Option<Precision> {
    only_attention(graph, value)
        .then(|| if are_values(graph, value) { Precision::I8 } else { Precision::F32 })
}

/// Whether attention has a value, perhaps moved, as its values around 0.
fn are_values(graph: &Rewriter, value: ValueId) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        for reader in graph.consumers(value) {
            let Some(node) = graph.node(reader) else { continue };
            if node.op.kind != OpKind::Attention {
                open.extend(graph.ends(reader).map(|(_, moved)| moved));
            } else if node.op.attributes.has(AROUND_ZERO) && node.inputs.last() == Some(&value) {
                return true;
            }
        }
        if !graph.spend(graph.consumers(value).len()) {
            return false;
        }
    }
    false
}

/// Whether only attention reads a value, perhaps moved.
fn only_attention(graph: &Rewriter, value: ValueId) -> bool {
    let moved = |i: NodeIndex| graph.is(i, &OpKind::Reshape) || graph.is(i, &OpKind::Transpose);
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        let readers = graph.consumers(value);
        if readers.len() == 0 || !graph.spend(readers.len()) {
            return false;
        }
        for reader in readers {
            match graph.ends(reader) {
                _ if graph.is(reader, &OpKind::Attention) => {}
                Some((_, after)) if moved(reader) => open.push(after),
                _ => return false,
            }
        }
    }
    true
}

fn is_bytes(graph: &Rewriter, value: ValueId) -> bool {
    graph.tensor(value).is_some_and(|t| matches!(t.precision, Precision::U8 | Precision::I8))
}
