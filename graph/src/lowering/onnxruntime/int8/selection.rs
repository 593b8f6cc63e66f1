//! Operators between DQs and Qs become kernels on integers.
//!
//! Rules after `qdq_selectors.cc`, `qdq_actions.cc` and the fusions of ReLU and clip with Q of ONNX
//! Runtime. Weights and biases are constants here; their DQs have been removed before.

use super::super::pairs;
use crate::{
    Attributes, OpKind, Precision, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Replaces operators between DQs and Qs by kernels on integers. Whether anything changed.
pub(in super::super) fn select(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        changed |= fuse(graph, index).is_some();
    }
    changed
}

/// What the operators of a kind need around them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// One DQ, and a Q of the same parameters behind each output: elements are only moved.
    Moves,
    /// One DQ, and no Q: the result has another type.
    Indices,
    /// As many DQs as inputs, and a Q.
    Computes,
    /// As many DQs as inputs, and a Q where there is one: other results are floats.
    Multiplies,
}

impl Group {
    fn of(kind: &OpKind) -> Option<Self> {
        use OpKind as K;
        Some(match kind {
            K::Reshape
            | K::Transpose
            | K::Slice
            | K::Split
            | K::Gather
            | K::GatherElements
            | K::Expand
            | K::Tile
            | K::Resize
            | K::MaxPool
            | K::ReduceMax
            | K::ReduceMin => Self::Moves,
            K::ArgMax => Self::Indices,
            K::Conv
            | K::Add
            | K::Mul
            | K::GlobalAveragePool
            | K::AveragePool
            | K::Sigmoid
            | K::LeakyRelu
            | K::Softmax
            | K::Concat => Self::Computes,
            K::Linear | K::MatMul => Self::Multiplies,
            _ => return None,
        })
    }
}

/// What is behind an output.
enum Behind {
    /// A Q, perhaps behind a clip that it makes redundant.
    Q { quantize: NodeIndex, clip: Option<NodeIndex> },
    /// Nothing that stands in the way, and no Q.
    Floats,
    /// Something that keeps the operator from being fused.
    Barrier,
}

fn behind(graph: &Rewriter, output: ValueId) -> Behind {
    let mut readers = graph.consumers(output);
    let first = readers.next();
    let clip = first.filter(|&n| {
        let output = graph.ends(n).map(|(_, y)| y);
        let is_passed_on = output.is_some_and(|y| graph.only_consumer(y).is_some());
        readers.len() == 0 && is_clip(graph, n) && is_passed_on
    });
    if let Some(clip) = clip {
        let quantize = graph.ends(clip).and_then(|(_, y)| pairs::only_q(graph, y));
        return match quantize.filter(|&q| is_redundant(graph, clip, q)) {
            Some(quantize) if !graph.is_output(output) => Behind::Q { quantize, clip: Some(clip) },
            _ => Behind::Barrier,
        };
    }
    match pairs::only_q(graph, output) {
        Some(quantize) => Behind::Q { quantize, clip: None },
        None if graph.consumers(output).any(|n| pairs::is_q(graph, n)) => Behind::Barrier,
        None => Behind::Floats,
    }
}

fn is_clip(graph: &Rewriter, index: NodeIndex) -> bool {
    matches!(graph.node(index).map(|n| &n.op.kind), Some(OpKind::Relu | OpKind::Clip))
}

/// Whether the integers of a Q end where a ReLU or clip before it ends. Those of an unknown scale
/// do: quantisers see what is clipped.
fn is_redundant(graph: &Rewriter, clip: NodeIndex, quantize: NodeIndex) -> bool {
    let Some(node) = graph.node(quantize) else { return false };
    let (scale, zero) = (node.inputs.get(1), node.inputs.get(2));
    let integers = node.outputs.first().and_then(|&v| graph.tensor(v)).map(|t| t.precision);
    let (least, most) = match integers {
        Some(Precision::U8) => (0.0, 255.0),
        Some(Precision::I8) => (-128.0, 127.0),
        _ => return false,
    };
    let (Some(&scale), Some(zero)) = (scale, zero.map_or(Some(0.0), |&v| graph.scalar(v))) else {
        return true;
    };
    let Some(clip) = graph.node(clip) else { return false };
    if clip.op.kind == OpKind::Relu {
        return zero == least;
    }
    let Some(scale) = graph.scalar(scale) else { return true };
    let bound = |name: &str, otherwise: f64| {
        clip.op.attributes.float(name).map_or(otherwise, |b| (b / scale).round_ties_even() + zero)
    };
    bound("min", f64::NEG_INFINITY) <= least && bound("max", f64::INFINITY) >= most
}

/// Removes ReLUs and clips before Qs that make them redundant. Whether anything changed.
pub(in super::super) fn drop_clips(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some((input, output)) = graph.ends(index).filter(|_| is_clip(graph, index)) else {
            continue;
        };
        let quantize = pairs::only_q(graph, output).filter(|&q| is_redundant(graph, index, q));
        if quantize.is_some() {
            graph.remove(index);
            graph.replace_value(output, input);
            changed = true;
        }
    }
    changed
}

/// Whether an input is a weight or bias, which is quantised. On the left of a product, the engine
/// has no kernel for signed integers beside unsigned ones.
fn is_weight(graph: &Rewriter, kind: &OpKind, position: usize, value: ValueId) -> bool {
    match kind {
        OpKind::Conv | OpKind::Linear => position > 0,
        OpKind::MatMul => position > 0 && graph.is_constant(value),
        _ => false,
    }
}

/// Whether an operator is one of the engine's own, which take no pairs.
fn is_fused_already(attributes: &Attributes) -> bool {
    ["activation", "residual", "trans_batch_a", "trans_batch_b"].iter().any(|a| attributes.has(a))
}

fn fuse(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index)?;
    let (kind, inputs, outputs) = (node.op.kind.clone(), node.inputs.clone(), node.outputs.clone());
    let group = Group::of(&kind).filter(|_| !is_fused_already(&node.op.attributes))?;
    let dq = |v: ValueId| pairs::dq_of(graph, v).filter(|_| graph.only_consumer(v) == Some(index));
    // Pixels between others are not integers.
    let interpolates = kind == OpKind::Resize && node.op.attributes.text("mode") != Some("nearest");
    let ready = match group {
        _ if interpolates => false,
        Group::Moves | Group::Indices => dq(*inputs.first()?).is_some(),
        Group::Computes | Group::Multiplies => {
            inputs.iter().enumerate().all(|(i, &v)| match is_weight(graph, &kind, i, v) {
                true => graph.is_constant(v),
                false => dq(v).is_some(),
            })
        }
    };
    if !ready {
        return None;
    }
    let qs = match group {
        Group::Indices => Vec::new(),
        _ => qs_behind(graph, index, group, &outputs)?,
    };
    for (position, &value) in inputs.iter().enumerate() {
        read_integers(graph, index, position, value)?;
    }
    for (position, (quantize, clip)) in qs.into_iter().enumerate() {
        if let Some(clip) = clip {
            graph.remove(clip);
        }
        let integers = *graph.remove(quantize)?.outputs.first()?;
        graph.set_output(index, position, integers);
    }
    Some(())
}

/// The Q behind each output, and a redundant clip before it; empty for products that leave floats.
fn qs_behind(
    graph: &Rewriter,
    index: NodeIndex,
    group: Group,
    outputs: &[ValueId],
) -> Option<Vec<(NodeIndex, Option<NodeIndex>)>> {
    let dequantize = graph.ends(index).and_then(|(x, _)| pairs::dq_of(graph, x));
    let mut qs = Vec::with_capacity(outputs.len());
    for &output in outputs {
        match behind(graph, output) {
            Behind::Q { quantize, clip } => {
                let same = dequantize.is_some_and(|dq| pairs::agree(graph, dq, quantize));
                if group == Group::Moves && !(same && clip.is_none()) {
                    return None;
                }
                qs.push((quantize, clip));
            }
            Behind::Floats if group == Group::Multiplies => {}
            Behind::Floats | Behind::Barrier => return None,
        }
    }
    Some(qs)
}

/// Lets an operator read the integers of a value: those of its DQ, or of a constant.
fn read_integers(
    graph: &mut Rewriter,
    index: NodeIndex,
    position: usize,
    value: ValueId,
) -> Option<()> {
    if let Some(dequantize) = pairs::dq_of(graph, value) {
        let (integers, _) = graph.ends(dequantize)?;
        graph.set_input(index, position, integers);
        if graph.uses(value) == 0 {
            graph.remove(dequantize);
        }
        return Some(());
    }
    if is_weight(graph, &graph.node(index)?.op.kind, position, value) {
        let precision = if position == 2 { Precision::I32 } else { Precision::I8 };
        let tensor = crate::TensorSpec { precision, ..graph.tensor(value)?.clone() };
        let integers = graph.constant("quantized", tensor, None);
        graph.set_input(index, position, integers);
    }
    Some(())
}
