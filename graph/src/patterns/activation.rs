//! Recognises activations that exporters decompose: GELU by erf and by tanh, SiLU, hard sigmoid and
//! hard swish.
//!
//! Each function takes the central node of a pattern and returns the input of the pattern and its
//! output value.

use super::rewriter::{NodeIndex, Rewriter};
use crate::{Attributes, OpKind, ValueId};

/// The input and the output of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) input: ValueId,
    pub(crate) output: ValueId,
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-4 * b.abs().max(1e-3)
}

/// The only reader of `value`, if it is of that kind, and its output.
fn next(graph: &Rewriter, value: ValueId, kind: &OpKind) -> Option<(NodeIndex, ValueId)> {
    let index = graph.only_consumer(value).filter(|&i| graph.is(i, kind))?;
    Some((index, graph.ends(index)?.1))
}

/// The node that provides `value` when it combines something with the number `expected`; returns
/// that something.
fn with_number(graph: &Rewriter, value: ValueId, kind: &OpKind, expected: f64) -> Option<ValueId> {
    let index = graph.producer_of(value, kind)?;
    let (number, other) = graph.scalar_operand(index)?;
    close(number, expected).then_some(other)
}

/// The only reader of `value`, when it combines it with the number `expected`; returns the result.
fn next_with_number(
    graph: &Rewriter,
    value: ValueId,
    kind: &OpKind,
    expected: f64,
) -> Option<ValueId> {
    let (index, output) = next(graph, value, kind)?;
    let (number, other) = graph.scalar_operand(index)?;
    (other == value && close(number, expected)).then_some(output)
}

/// `factor * half_x`, where one of the two Muls brings x and the other 0.5, in any order; returns
/// the final value.
fn times_half_x(graph: &Rewriter, factor: ValueId, x: ValueId) -> Option<ValueId> {
    let (index, product) = next(graph, factor, &OpKind::Mul)?;
    if let Some(half) = next_with_number(graph, factor, &OpKind::Mul, 0.5) {
        let (outer, output) = next(graph, half, &OpKind::Mul)?;
        return (graph.other_input(outer, half) == Some(x)).then_some(output);
    }
    let other = graph.other_input(index, factor)?;
    if other == x {
        return next_with_number(graph, product, &OpKind::Mul, 0.5);
    }
    (with_number(graph, other, &OpKind::Mul, 0.5) == Some(x)).then_some(product)
}

/// `x / 2 * (1 + erf(x / sqrt 2))` around the Erf at `erf`. `only_division`: a Mul by 1 / sqrt 2
/// does not count.
pub(crate) fn erf_gelu(graph: &Rewriter, erf: NodeIndex, only_division: bool) -> Option<Span> {
    let (scaled, erfed) = graph.ends(erf).filter(|_| graph.is(erf, &OpKind::Erf))?;
    let divided = || with_number(graph, scaled, &OpKind::Div, std::f64::consts::SQRT_2);
    let multiplied = || {
        with_number(graph, scaled, &OpKind::Mul, std::f64::consts::FRAC_1_SQRT_2)
            .filter(|_| !only_division)
    };
    let x = divided().or_else(multiplied)?;
    let factor = next_with_number(graph, erfed, &OpKind::Add, 1.0)?;
    Some(Span { input: x, output: times_half_x(graph, factor, x)? })
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))` around the Tanh at `tanh`.
pub(crate) fn tanh_gelu(graph: &Rewriter, tanh: NodeIndex) -> Option<Span> {
    let (inner, tanhed) = graph.ends(tanh).filter(|_| graph.is(tanh, &OpKind::Tanh))?;
    let sum = with_number(graph, inner, &OpKind::Mul, (2.0 / std::f64::consts::PI).sqrt())?;
    let add = graph.producer_of(sum, &OpKind::Add)?;
    let [a, b] = graph.node(add)?.inputs[..] else { return None };
    let cubic = |v: ValueId| {
        let cube = with_number(graph, v, &OpKind::Mul, 0.044_715)?;
        graph.producer(cube).and_then(|i| graph.node(i)).and_then(|n| n.inputs.first().copied())
    };
    let x = match (cubic(a), cubic(b)) {
        (_, Some(_)) => a,
        (Some(_), None) => b,
        _ => return None,
    };
    let factor = next_with_number(graph, tanhed, &OpKind::Add, 1.0)?;
    Some(Span { input: x, output: times_half_x(graph, factor, x)? })
}

/// `x * sigmoid(x)` around the Sigmoid or HardSigmoid at `gate`.
pub(crate) fn gated(graph: &Rewriter, gate: NodeIndex) -> Option<Span> {
    let (x, gated) = graph.ends(gate)?;
    let (mul, output) = next(graph, gated, &OpKind::Mul)?;
    (graph.other_input(mul, gated) == Some(x)).then_some(Span { input: x, output })
}

/// `clip(x + 3, 0, 6)` at `clip`: x and the clipped value.
fn clipped(graph: &Rewriter, clip: NodeIndex) -> Option<(ValueId, ValueId)> {
    let node = graph.node(clip).filter(|n| n.op.kind == OpKind::Clip)?;
    let bounds = (node.op.attributes.float("min")?, node.op.attributes.float("max")?);
    let (shifted, output) = graph.ends(clip)?;
    let x = with_number(graph, shifted, &OpKind::Add, 3.0)?;
    (bounds == (0.0, 6.0)).then_some((x, output))
}

/// `x * clip(x + 3, 0, 6) / 6`, the division in any place, around the Clip at `clip`.
pub(crate) fn clip_hard_swish(graph: &Rewriter, clip: NodeIndex) -> Option<Span> {
    let (x, mut value) = clipped(graph, clip)?;
    let sixth = |graph: &Rewriter, v: ValueId| {
        next_with_number(graph, v, &OpKind::Div, 6.0)
            .or_else(|| next_with_number(graph, v, &OpKind::Mul, 1.0 / 6.0))
    };
    let divided_first = sixth(graph, value);
    value = divided_first.unwrap_or(value);
    let (mul, product) = next(graph, value, &OpKind::Mul)?;
    if graph.other_input(mul, value) != Some(x) {
        return None;
    }
    let output = if divided_first.is_some() { product } else { sixth(graph, product)? };
    Some(Span { input: x, output })
}

/// `clip(x + 3, 0, 6) / 6` around the Clip at `clip`.
pub(crate) fn clip_hard_sigmoid(graph: &Rewriter, clip: NodeIndex) -> Option<Span> {
    let (x, value) = clipped(graph, clip)?;
    let output = next_with_number(graph, value, &OpKind::Div, 6.0)
        .or_else(|| next_with_number(graph, value, &OpKind::Mul, 1.0 / 6.0))?;
    Some(Span { input: x, output })
}

/// Replaces spelled-out activations by single operators.
pub(super) fn canonicalize(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let found = match node.op.kind {
            OpKind::Erf => erf_gelu(graph, index, false).map(|s| (OpKind::Gelu, s)),
            OpKind::Tanh => tanh_gelu(graph, index).map(|s| (OpKind::GeluTanh, s)),
            OpKind::Sigmoid => gated(graph, index).map(|s| (OpKind::Silu, s)),
            OpKind::HardSigmoid => gated(graph, index).map(|s| (OpKind::HardSwish, s)),
            OpKind::Clip => clip_hard_swish(graph, index)
                .map(|s| (OpKind::HardSwish, s))
                .or_else(|| clip_hard_sigmoid(graph, index).map(|s| (OpKind::HardSigmoid, s))),
            _ => None,
        };
        if let Some((kind, span)) = found {
            let name = format!("{}/{kind}", node.name);
            let attributes = match kind {
                OpKind::HardSigmoid => Attributes::new()
                    .with("alpha", crate::Attribute::Float(f64::from(1.0f32 / 6.0)))
                    .with("beta", crate::Attribute::Float(0.5)),
                _ => Attributes::new(),
            };
            graph.fuse(&name, kind, attributes, vec![span.input], span.output);
        }
    }
}
