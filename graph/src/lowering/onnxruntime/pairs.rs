//! Q/DQ pairs between operators: how they are found, inserted and removed.

use crate::{
    Attribute, Attributes, OpKind, Precision, TensorSpec, ValueId,
    patterns::{
        readers::Reading,
        rewriter::{NodeIndex, Rewriter},
    },
};

/// Scale, zero point and type of the integers of a Q or DQ.
struct Parameters {
    operands: Vec<ValueId>,
    precision: Precision,
}

fn parameters(graph: &Rewriter, index: NodeIndex) -> Option<Parameters> {
    let node = graph.node(index)?;
    let integers = match node.op.kind {
        OpKind::Quantize => node.outputs.first(),
        OpKind::Dequantize => node.inputs.first(),
        _ => None,
    };
    let precision = graph.tensor(*integers?)?.precision;
    Some(Parameters { operands: node.inputs.get(1..)?.to_vec(), precision })
}

pub(super) fn is_q(graph: &Rewriter, index: NodeIndex) -> bool {
    graph.is(index, &OpKind::Quantize)
}

/// The DQ that computes a value.
pub(super) fn dq_of(graph: &Rewriter, value: ValueId) -> Option<NodeIndex> {
    graph.producer_of(value, &OpKind::Dequantize)
}

/// The integers of a value that a DQ computes.
pub(super) fn integers(graph: &Rewriter, value: ValueId) -> Option<ValueId> {
    graph.ends(dq_of(graph, value)?).map(|(integers, _)| integers)
}

/// The Q that alone reads a value.
pub(super) fn only_q(graph: &Rewriter, value: ValueId) -> Option<NodeIndex> {
    graph.only_consumer(value).filter(|&reader| is_q(graph, reader))
}

/// Whether a Q or DQ has one scale and one zero point for all elements.
pub(super) fn is_per_tensor(graph: &Rewriter, index: NodeIndex) -> bool {
    let single = |&v: &ValueId| {
        graph.is_constant(v) && graph.tensor(v).is_some_and(|t| t.elements() == 1 && t.rank() < 2)
    };
    graph.node(index).is_some_and(|n| n.inputs.len() > 1 && n.inputs[1..].iter().all(single))
}

/// Whether two of Q and DQ have the same type, scale and zero point. Scales without values are equal
/// if they are the same constant.
pub(super) fn agree(graph: &Rewriter, a: NodeIndex, b: NodeIndex) -> bool {
    let equal = |(&a, &b): (&ValueId, &ValueId)| {
        a == b || graph.data(a).is_some_and(|data| graph.data(b) == Some(data))
    };
    match (parameters(graph, a), parameters(graph, b)) {
        (Some(a), Some(b)) => {
            a.precision == b.precision
                && a.operands.len() == b.operands.len()
                && a.operands.iter().zip(&b.operands).all(equal)
        }
        _ => false,
    }
}

fn quantized(graph: &mut Rewriter, by: &Parameters, value: ValueId) -> Option<ValueId> {
    let tensor = TensorSpec { precision: by.precision, ..graph.tensor(value)?.clone() };
    let to = Attributes::new().with("to", Attribute::Text(by.precision.name().to_owned()));
    let operands = std::iter::once(value).chain(by.operands.iter().copied()).collect();
    Some(graph.add_with_output("quantize", OpKind::Quantize, to, operands, Some(tensor)))
}

/// Puts a Q behind `value`, and a DQ before each of these readers, with the parameters of the Q or
/// DQ `like`.
pub(super) fn insert(
    graph: &mut Rewriter,
    like: NodeIndex,
    value: ValueId,
    readers: &[Reading],
) -> Option<()> {
    let by = parameters(graph, like)?;
    let tensor = graph.tensor(value)?.clone();
    let integers = quantized(graph, &by, value)?;
    for reading in readers {
        let operands = std::iter::once(integers).chain(by.operands.iter().copied()).collect();
        let floats = graph.add_with_output(
            "dequantize",
            OpKind::Dequantize,
            Attributes::new(),
            operands,
            Some(tensor.clone()),
        );
        graph.set_input(reading.node(), reading.position(), floats);
    }
    Some(())
}

/// Puts a Q and a DQ behind the node that provides `value`: who gets the value gets the
/// dequantised one.
pub(super) fn insert_behind(graph: &mut Rewriter, like: NodeIndex, value: ValueId) -> Option<()> {
    let by = parameters(graph, like)?;
    let (tensor, producer) = (graph.tensor(value)?.clone(), graph.producer(value)?);
    let position = graph.node(producer)?.outputs.iter().position(|&output| output == value)?;
    let before = graph.value("before_pair", Some(tensor));
    graph.set_output(producer, position, before);
    let integers = quantized(graph, &by, before)?;
    let operands = std::iter::once(integers).chain(by.operands).collect();
    graph.add("dequantize", OpKind::Dequantize, Attributes::new(), operands, vec![value]);
    Some(())
}

/// Removes a Q that alone reads what a DQ computes, both of the same parameters, and this DQ.
pub(super) fn cancel(graph: &mut Rewriter, quantize: NodeIndex) -> Option<()> {
    let (floats, output) = graph.ends(quantize).filter(|_| is_q(graph, quantize))?;
    let dequantize = dq_of(graph, floats).filter(|&dq| agree(graph, dq, quantize))?;
    let (source, _) = graph.ends(dequantize)?;
    if graph.only_consumer(floats) != Some(quantize) {
        return None;
    }
    graph.remove(quantize);
    graph.remove(dequantize);
    graph.replace_value(output, source);
    Some(())
}
