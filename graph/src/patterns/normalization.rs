//! Recognises normalisations that exporters decompose: LayerNorm by its mean and variance,
//! GroupNorm by InstanceNorm between reshapes.

use super::rewriter::{NodeIndex, Rewriter};
use crate::{Attribute, Attributes, OpKind, ValueId};

/// A decomposed normalisation: its input, optional scale and bias, and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Norm {
    input: ValueId,
    affine: Vec<ValueId>,
    output: ValueId,
    attributes: Attributes,
}

/// Replaces spelled-out normalisations by single operators.
pub(super) fn canonicalize(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let found = match node.op.kind {
            OpKind::ReduceMean => layer_norm(graph, index).map(|n| (OpKind::LayerNorm, n)),
            OpKind::InstanceNorm => group_norm(graph, index).map(|n| (OpKind::GroupNorm, n)),
            _ => None,
        };
        if let Some((kind, norm)) = found {
            let name = format!("{}/{kind}", node.name);
            let inputs = std::iter::once(norm.input).chain(norm.affine).collect();
            graph.fuse(&name, kind, norm.attributes, inputs, norm.output);
        }
    }
}

fn reader(graph: &Rewriter, value: ValueId, kind: &OpKind) -> Option<NodeIndex> {
    graph.consumers(value).find(|&i| graph.is(i, kind))
}

fn only_reader(graph: &Rewriter, value: ValueId, kind: &OpKind) -> Option<(NodeIndex, ValueId)> {
    let index = graph.only_consumer(value).filter(|&i| graph.is(i, kind))?;
    Some((index, graph.ends(index)?.1))
}

/// The axis that a reduction over the last dimensions begins with.
fn trailing_axis(graph: &Rewriter, mean: NodeIndex) -> Option<usize> {
    let node = graph.node(mean)?;
    let rank = graph.shape(*node.inputs.first()?).len();
    let axes = node.op.attributes.ints("axes");
    let first = rank.checked_sub(axes.len())?;
    let trailing = axes.iter().enumerate().all(|(i, &a)| a == (first + i) as i64);
    (trailing && !axes.is_empty() && node.op.attributes.int("keepdims") != Some(0)).then_some(first)
}

/// A constant whose shape is that of the normalised dimensions.
fn parameter(
    graph: &Rewriter,
    index: NodeIndex,
    value: ValueId,
    normalised: &[usize],
) -> Option<ValueId> {
    let other = graph.other_input(index, value)?;
    (graph.is_constant(other) && graph.shape(other) == normalised).then_some(other)
}

/// `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)`, then scale and bias, around the first
/// mean.
fn layer_norm(graph: &Rewriter, mean: NodeIndex) -> Option<Norm> {
    let (x, averaged) = graph.ends(mean)?;
    let axis = trailing_axis(graph, mean)?;
    let sub = reader(graph, averaged, &OpKind::Sub)?;
    let centred =
        graph.ends(sub).filter(|_| graph.node(sub).is_some_and(|n| n.inputs == [x, averaged]))?.1;
    let div = reader(graph, centred, &OpKind::Div)?;
    let [above, deviation] = graph.node(div)?.inputs[..] else { return None };
    let (sum, _) =
        graph.ends(graph.producer_of(deviation, &OpKind::Sqrt)?).filter(|_| above == centred)?;
    let (epsilon, variance) = graph.scalar_operand(graph.producer_of(sum, &OpKind::Add)?)?;
    let second = graph
        .producer_of(variance, &OpKind::ReduceMean)
        .filter(|&m| trailing_axis(graph, m) == Some(axis))?;
    let squared = graph.producer(graph.ends(second)?.0)?;
    let square = graph.node(squared)?;
    let is_square = match square.op.kind {
        OpKind::Pow => {
            square.op.attributes.float("exponent") == Some(2.0)
                || square.inputs.get(1).and_then(|&v| graph.scalar(v)) == Some(2.0)
        }
        OpKind::Mul => square.inputs.get(1) == square.inputs.first(),
        _ => false,
    };
    let same_base = square.inputs.first().is_some_and(|&v| v == centred || is_centred(graph, v, x));
    if !is_square || !same_base {
        return None;
    }
    let normalised = graph.shape(x).get(axis..)?.to_vec();
    let mut output = graph.ends(div)?.1;
    let mut affine = Vec::new();
    for kind in [OpKind::Mul, OpKind::Add] {
        let Some((next, value)) = only_reader(graph, output, &kind) else { break };
        let Some(parameter) = parameter(graph, next, output, &normalised) else { break };
        affine.push(parameter);
        output = value;
    }
    let attributes = Attributes::new()
        .with_int("axis", axis as i64)
        .with("epsilon", Attribute::Float(f64::from(epsilon as f32)));
    Some(Norm { input: x, affine, output, attributes })
}

/// Whether `value` is another `x - mean(x)`: some exporters compute it twice.
fn is_centred(graph: &Rewriter, value: ValueId, x: ValueId) -> bool {
    let inputs = graph
        .producer_of(value, &OpKind::Sub)
        .and_then(|i| graph.node(i))
        .map(|n| n.inputs.as_slice());
    matches!(inputs, Some([a, b]) if *a == x && graph.producer_of(*b, &OpKind::ReduceMean).and_then(|m| graph.ends(m)).is_some_and(|(from, _)| from == x))
}

/// `Reshape to [N, groups, -1], InstanceNorm, Reshape back, Mul, Add` around the InstanceNorm.
fn group_norm(graph: &Rewriter, instance: NodeIndex) -> Option<Norm> {
    let (grouped, normed) = graph.ends(instance)?;
    let before = graph
        .producer_of(grouped, &OpKind::Reshape)
        .filter(|_| graph.only_consumer(grouped).is_some())?;
    let (_, restored) = only_reader(graph, normed, &OpKind::Reshape)?;
    let (x, _) = graph.ends(before)?;
    let (shape, groups) = (graph.shape(x).to_vec(), graph.shape(grouped).get(1).copied()?);
    if shape.len() < 3 || graph.shape(restored) != shape || graph.shape(grouped).len() != 3 {
        return None;
    }
    let per_channel = |v: ValueId| {
        let s = graph.shape(v);
        graph.is_constant(v)
            && s.iter().product::<usize>() == shape[1]
            && s.len() + 1 >= shape.len()
            && s[s.len() + 1 - shape.len()..].first() == Some(&shape[1])
    };
    let (mul, scaled) = only_reader(graph, restored, &OpKind::Mul)?;
    let scale = graph.other_input(mul, restored).filter(|&v| per_channel(v))?;
    let (add, output) = only_reader(graph, scaled, &OpKind::Add)?;
    let bias = graph.other_input(add, scaled).filter(|&v| per_channel(v))?;
    let epsilon =
        graph.node(instance)?.op.attributes.float("epsilon").unwrap_or(f64::from(1e-5f32));
    let attributes = Attributes::new()
        .with_int("groups", groups as i64)
        .with("epsilon", Attribute::Float(epsilon));
    Some(Norm { input: x, affine: vec![scale, bias], output, attributes })
}
