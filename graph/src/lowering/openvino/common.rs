//! The transformations that run first on every graph: operators that do nothing, constants,
//! repeated work, chains of reshapes and transposes.

use super::pattern::{constant_only, is_elementwise};
use crate::{
    Attribute, Attributes, ConstantData, OpKind, ValueId,
    lowering::elimination,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// How often the passes are repeated at most.
const ROUNDS: usize = 6;

/// Removes what computes nothing, until nothing changes.
pub(super) fn simplify(graph: &mut Rewriter) {
    for _ in 0..ROUNDS {
        let steps =
            [fold_constants, no_ops, transposes_to_reshapes, merge_reshapes, merge_transposes];
        if !steps.into_iter().fold(false, |changed, step| step(graph) | changed) {
            break;
        }
    }
}

fn fold_constants(graph: &mut Rewriter) -> bool {
    elimination::fold(graph, constant_only, |kind| *kind == OpKind::Reshape)
}

fn no_ops(graph: &mut Rewriter) -> bool {
    elimination::bypass(graph, passed_on)
}

/// The input that is passed on unchanged, if there is one.
fn passed_on(graph: &Rewriter, index: NodeIndex) -> Option<ValueId> {
    let node = graph.node(index)?;
    let (input, _) = graph.ends(index)?;
    let identity = |perm: &[i64]| perm.iter().enumerate().all(|(i, &p)| p == i as i64);
    match node.op.kind {
        OpKind::Identity
        | OpKind::Cast
        | OpKind::Expand
        | OpKind::Reshape
        | OpKind::Slice
        | OpKind::Pad
        | OpKind::Tile => Some(input),
        OpKind::Concat if node.inputs.len() == 1 => Some(input),
        OpKind::Split if node.outputs.len() == 1 => Some(input),
        OpKind::Transpose if identity(node.op.attributes.ints("perm")) => Some(input),
        OpKind::Add | OpKind::Sub | OpKind::Mul | OpKind::Div => {
            let neutral = if matches!(node.op.kind, OpKind::Add | OpKind::Sub) { 0.0 } else { 1.0 };
            let commutes = matches!(node.op.kind, OpKind::Add | OpKind::Mul);
            let all = |v: ValueId| matches!(graph.data(v), Some(ConstantData::Floats(n)) if !n.is_empty() && n.iter().all(|&x| x == neutral));
            let [a, b] = node.inputs[..] else { return None };
            if all(b) { Some(a) } else { (commutes && all(a)).then_some(b) }
        }
        _ => None,
    }
}

/// Lets equal operators on equal inputs be computed once.
pub(super) fn share(graph: &mut Rewriter) {
    elimination::share(graph, |_| false, |v| v);
}

/// A Reshape of a Reshape needs only the second.
fn merge_reshapes(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some((input, _)) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Reshape))
        else {
            continue;
        };
        let Some((source, _)) =
            graph.producer_of(input, &OpKind::Reshape).and_then(|before| graph.ends(before))
        else {
            continue;
        };
        graph.set_input(index, 0, source);
        changed = true;
    }
    changed
}

/// Two Transposes in a row are one.
fn merge_transposes(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some((input, _)) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Transpose))
        else {
            continue;
        };
        let Some(before) = graph.producer_of(input, &OpKind::Transpose) else { continue };
        let perm = |i: NodeIndex| {
            graph.node(i).map(|n| n.op.attributes.ints("perm").to_vec()).unwrap_or_default()
        };
        let (first, second) = (perm(before), perm(index));
        let Some(both) = second
            .iter()
            .map(|&p| first.get(usize::try_from(p).ok()?).copied())
            .collect::<Option<Vec<i64>>>()
        else {
            continue;
        };
        let Some((source, _)) = graph.ends(before) else { continue };
        graph.set_input(index, 0, source);
        graph.change(index, OpKind::Transpose, Attributes::new().with_ints("perm", both));
        changed = true;
    }
    changed
}

/// A Transpose that keeps the order of all dimensions but those of extent 1 is a Reshape.
fn transposes_to_reshapes(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some((input, output)) =
            graph.ends(index).filter(|_| graph.is(index, &OpKind::Transpose))
        else {
            continue;
        };
        let perm =
            graph.node(index).map(|n| n.op.attributes.ints("perm").to_vec()).unwrap_or_default();
        let extent = |p: &i64| {
            usize::try_from(*p).ok().and_then(|p| graph.shape(input).get(p)).copied().unwrap_or(0)
        };
        let moving: Vec<i64> = perm.iter().copied().filter(|p| extent(p) != 1).collect();
        if perm.is_empty() || !moving.is_sorted() {
            continue;
        }
        let shape: Vec<i64> = graph.shape(output).iter().map(|&d| d as i64).collect();
        graph.change(index, OpKind::Reshape, Attributes::new().with_ints("shape", shape));
        changed = true;
    }
    changed
}

/// Marks an operator that is never fused.
pub(super) const OWN: &str = "own";

/// A HardSigmoid that is one operator of the model is not fused; only a decomposed one is fused
/// into convolutions.
pub(super) fn mark_hard_sigmoids(graph: &mut Rewriter) {
    for index in graph.order() {
        if graph.is(index, &OpKind::HardSigmoid)
            && let Some(attributes) = graph.attributes_mut(index)
        {
            attributes.set(OWN, Attribute::Int(1));
        }
    }
}

/// Divisions become multiplications: by a constant at once, by something computed through its
/// reciprocal power.
pub(super) fn divisions(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(node) = graph.node(index).filter(|n| n.op.kind == OpKind::Div) else { continue };
        let [a, b] = node.inputs[..] else { continue };
        if graph.tensor(a).is_some_and(|t| !t.precision.is_float()) {
            continue;
        }
        let name = node.name.clone();
        if !graph.is_constant(b) {
            let tensor = graph.tensor(b).cloned();
            let attributes = Attributes::new().with("exponent", Attribute::Float(-1.0));
            let power = graph.add_with_output(
                &format!("{name}/power"),
                OpKind::Pow,
                attributes,
                vec![b],
                tensor,
            );
            graph.set_input(index, 1, power);
        }
        graph.change(index, OpKind::Mul, Attributes::new());
    }
}

/// Elementwise operators broadcast themselves, so an Expand before them is removed if their output
/// keeps its shape.
pub(super) fn expansions(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some((input, output)) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Expand))
        else {
            continue;
        };
        for reading in graph.readings(output).collect::<Vec<_>>() {
            let reader = reading.node();
            let Some(node) = graph.node(reader).filter(|n| is_elementwise(&n.op.kind)) else {
                continue;
            };
            let wide = node.inputs.iter().any(|&v| {
                v != output
                    && node.outputs.first().is_some_and(|&o| graph.shape(o) == graph.shape(v))
            });
            if wide {
                graph.set_input(reader, reading.position(), input);
            }
        }
        if graph.uses(output) == 0 {
            graph.remove(index);
        }
    }
}
