//! Quantised kernels, which ONNX Runtime makes of Q/DQ pairs, and their memory format.
//!
//! Rules after `qdq_transformer` and `nhwc_transformer.cc` of ONNX Runtime: pairs move over
//! operators that only move elements; an operator between DQs and a Q becomes one kernel on
//! integers; convolutions and pooling on integers work channels last, and transpositions around
//! them move and cancel. Weights are constants of the type that the kernel reads; their DQs have
//! been removed before.

use super::transpose;
use crate::{
    Attribute, Attributes, Graph, MemoryFormat, Node, OpKind, Precision, TensorSpec, ValueId,
    onnx::quantized::{LAST, speak_channels_first},
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::HashMap;
use std::collections::VecDeque;

/// Moves Qs back and DQs forward over what only moves elements.
pub(super) fn spread(graph: &mut Rewriter) {
    for _ in 0..super::ROUNDS {
        let mut changed = false;
        for index in graph.order() {
            changed |= drop_clip(graph, index).is_some() || cancel(graph, index).is_some();
            changed |= forward(graph, index).is_some() || backward(graph, index).is_some();
        }
        if !changed {
            break;
        }
    }
}

/// Replaces operators between DQs and Qs by integer kernels.
pub(super) fn fuse(graph: &mut Rewriter) {
    spread(graph);
    for index in graph.order() {
        let _ = kernel(graph, index);
    }
    for index in graph.order() {
        let _ = one_per_reader(graph, index);
    }
}

/// Every reader of dequantised numbers has a DQ of its own.
fn one_per_reader(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Dequantize)?;
    let (inputs, y) = (node.inputs.clone(), *node.outputs.first()?);
    let tensor = graph.tensor(y)?.clone();
    let readers: Vec<NodeIndex> = graph.consumers(y).collect();
    let mut positions: HashMap<NodeIndex, VecDeque<usize>> = HashMap::default();
    for reading in graph.readings(y) {
        positions.entry(reading.node()).or_default().push_back(reading.position());
    }
    for reader in readers.into_iter().skip(usize::from(!graph.is_output(y))) {
        let position = positions.get_mut(&reader)?.pop_front()?;
        let own = graph.add_with_output(
            "dequantize",
            OpKind::Dequantize,
            Attributes::new(),
            inputs.clone(),
            Some(tensor.clone()),
        );
        graph.set_input(reader, position, own);
    }
    Some(())
}

fn is_q(graph: &Rewriter, index: NodeIndex) -> bool {
    graph.is(index, &OpKind::Quantize)
}

/// The integers of a value that a DQ computes.
fn integers(graph: &Rewriter, value: ValueId) -> Option<ValueId> {
    let dequantize = graph.producer_of(value, &OpKind::Dequantize)?;
    graph.node(dequantize)?.inputs.first().copied()
}

/// The Q that alone reads a value.
fn only_q(graph: &Rewriter, value: ValueId) -> Option<NodeIndex> {
    graph.only_consumer(value).filter(|&reader| is_q(graph, reader) && !graph.is_output(value))
}

fn typed(tensor: &TensorSpec, precision: Precision) -> TensorSpec {
    TensorSpec { precision, ..tensor.clone() }
}

/// Integers begin at 0 where a ReLU or clip ends: it does nothing more.
fn drop_clip(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index)?;
    let clips = node.op.kind == OpKind::Relu
        || (node.op.kind == OpKind::Clip && node.op.attributes.float("min") == Some(0.0));
    let (input, output) = graph.ends(index).filter(|_| clips)?;
    only_q(graph, output)?;
    graph.remove(index);
    graph.replace_value(output, input);
    Some(())
}

/// A Q of a DQ's output: the integers themselves.
fn cancel(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Quantize)?;
    let (x, output) = (*node.inputs.first()?, *node.outputs.first()?);
    let source = integers(graph, x)?;
    graph.remove(index);
    graph.replace_value(output, source);
    if let Some(orphan) = graph.producer(x).filter(|_| graph.uses(x) == 0) {
        graph.remove(orphan);
    }
    Some(())
}

/// Whether an operator moves elements and computes none.
fn moves(graph: &Rewriter, index: NodeIndex) -> bool {
    let kinds = [OpKind::Reshape, OpKind::Transpose, OpKind::MaxPool, OpKind::Slice];
    graph
        .node(index)
        .is_some_and(|n| n.inputs.len() == 1 && n.outputs.len() == 1 && kinds.contains(&n.op.kind))
}

/// A DQ moves behind operators that only move elements.
fn forward(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (x, y) = graph.ends(index).filter(|_| moves(graph, index))?;
    let dequantize = graph.producer_of(x, &OpKind::Dequantize)?;
    let (source, mut operands) = (integers(graph, x)?, graph.node(dequantize)?.inputs.clone());
    let tensor = typed(graph.tensor(y)?, graph.tensor(source)?.precision);
    graph.set_input(index, 0, source);
    let moved = graph.value("moved", Some(tensor));
    graph.set_output(index, 0, moved);
    operands[0] = moved;
    graph.add("dequantize", OpKind::Dequantize, Attributes::new(), operands, vec![y]);
    if graph.uses(x) == 0 && !graph.is_output(x) {
        graph.remove(dequantize);
    }
    Some(())
}

/// A Q moves before operators that only move elements.
fn backward(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (x, y) = graph.ends(index).filter(|_| moves(graph, index))?;
    let quantize = only_q(graph, y)?;
    let node = graph.node(quantize)?;
    let (mut operands, attributes, output) =
        (node.inputs.clone(), node.op.attributes.clone(), *node.outputs.first()?);
    let tensor = typed(graph.tensor(x)?, graph.tensor(output)?.precision);
    graph.remove(quantize);
    operands[0] = x;
    let source =
        graph.add_with_output("quantize", OpKind::Quantize, attributes, operands, Some(tensor));
    graph.set_input(index, 0, source);
    graph.set_output(index, 0, output);
    Some(())
}

/// One kernel from the operators between DQs and a Q.
fn kernel(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    use OpKind as K;
    let node = graph.node(index)?;
    let (kind, inputs, y) = (node.op.kind.clone(), node.inputs.clone(), *node.outputs.first()?);
    let products = matches!(kind, K::Linear | K::MatMul);
    let fusible = products
        || matches!(
            kind,
            K::Conv
                | K::Add
                | K::Mul
                | K::GlobalAveragePool
                | K::AveragePool
                | K::Sigmoid
                | K::LeakyRelu
                | K::Concat
        );
    let weighted = matches!(kind, K::Conv | K::Linear);
    let operand = |position: usize, value: ValueId| match weighted && position > 0 {
        true => graph.is_constant(value),
        false => integers(graph, value).is_some(),
    };
    let quantize = only_q(graph, y);
    let ready = fusible
        && (products || quantize.is_some())
        && inputs.iter().enumerate().all(|(i, &v)| operand(i, v));
    if !ready {
        return None;
    }
    for (position, &value) in inputs.iter().enumerate() {
        let source = match integers(graph, value) {
            Some(source) => source,
            None => {
                let precision = if position == 1 { Precision::I8 } else { Precision::I32 };
                let tensor = typed(graph.tensor(value)?, precision);
                graph.constant("quantized", tensor, None)
            }
        };
        let dequantize = graph.producer_of(value, &K::Dequantize);
        graph.set_input(index, position, source);
        if let Some(orphan) =
            dequantize.filter(|_| graph.uses(value) == 0 && !graph.is_output(value))
        {
            graph.remove(orphan);
        }
    }
    if let Some(quantize) = quantize {
        let output = *graph.remove(quantize)?.outputs.first()?;
        graph.set_output(index, 0, output);
    }
    Some(())
}

/// Convolutions and pooling on integers work channels last: transpositions stand around them, then
/// travel.
pub(super) fn work_channels_last(graph: &mut Rewriter) {
    for index in graph.order() {
        let _ = wrap(graph, index);
    }
    for _ in 0..super::ROUNDS {
        if !transpose::optimize(graph, true) {
            break;
        }
    }
}

/// The kernels of a model that the engine has optimised before which work channels last: their
/// operators are written channels first, their values are not.
pub(super) fn channels_last_before(graph: &Graph) -> Vec<NodeIndex> {
    let is_last = |node: &Node| {
        let operand = node.op.inputs.first().map(|x| x.tensor.format);
        let value = node.inputs.first().and_then(|&x| graph.value(x).tensor.as_ref());
        operand == Some(MemoryFormat::ChannelsLast)
            && value.is_some_and(|x| x.format == MemoryFormat::ChannelsFirst)
    };
    let nodes = graph.nodes().iter().enumerate();
    nodes.filter(|(_, node)| is_last(node)).map(|(index, _)| index).collect()
}

/// Marks kernels as working channels last.
pub(super) fn mark_channels_last(graph: &mut Rewriter, kernels: &[NodeIndex]) {
    for &index in kernels {
        if let Some(attributes) = graph.attributes_mut(index) {
            attributes.set(LAST, Attribute::Int(1));
        }
    }
}

fn wrap(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    use OpKind as K;
    let kinds = [K::Conv, K::MaxPool, K::AveragePool, K::GlobalAveragePool];
    let wrapped = |n: &Node| kinds.contains(&n.op.kind) && n.op.attributes.int(LAST) != Some(1);
    let (x, y) = graph.ends(index).filter(|_| graph.node(index).is_some_and(wrapped))?;
    let (before, after) = (graph.tensor(x)?.clone(), graph.tensor(y)?.clone());
    let integers = matches!(before.precision, Precision::U8 | Precision::I8);
    if !integers || before.rank() != 4 {
        return None;
    }
    let turned = graph.add_with_output(
        "transpose",
        K::Transpose,
        perm(&[0, 2, 3, 1]),
        vec![x],
        Some(last(&before)),
    );
    graph.set_input(index, 0, turned);
    let inner = graph.value("channels_last", Some(last(&after)));
    graph.set_output(index, 0, inner);
    graph.add("transpose", K::Transpose, perm(&[0, 3, 1, 2]), vec![inner], vec![y]);
    graph.attributes_mut(index)?.set(LAST, Attribute::Int(1));
    Some(())
}

fn perm(order: &[i64]) -> Attributes {
    Attributes::new().with_ints("perm", order)
}

fn last(tensor: &TensorSpec) -> TensorSpec {
    let &[n, c, h, w] = tensor.shape.as_slice() else { return tensor.clone() };
    TensorSpec { shape: [n, h, w, c].into(), ..tensor.clone() }
}

/// The graph with the tensors of kernels that work channels last written channels first, as
/// everywhere.
pub(super) fn spoken_channels_first(graph: Graph) -> Graph {
    graph.with_each_operator(speak_channels_first)
}
