//! Elementwise operators and activations. The class is how operands broadcast, and for Pow the
//! exponent: both determine the inner loop.

use super::{LANES, flag, order, product};
use std::borrow::Cow;
use vitempo_graph::{OpKind, OpSpec};

pub(super) const COLUMNS: &[&str] = &[
    "run_elements",
    "runs",
    "run_remainder",
    "broadcast_bytes",
    "full_operands",
    "broadcast_operands",
    "constant_operand",
    "exponent",
    "variant",
    "fused_bias",
    "broadcast_code",
    "bytes_element_in",
];

pub(super) const BASELINE: &[&str] =
    &["elements_out", "bytes_in", "bytes_out", "bytes_beyond_l2", "runs", "bytes_reordered"];

/// How the smaller operands of an elementwise operator repeat over its result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Broadcast {
    Same,
    Scalar,
    Row,
    Column,
    Channel,
    Mixed,
}

impl Broadcast {
    fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Scalar => "scalar",
            Self::Row => "row",
            Self::Column => "column",
            Self::Channel => "channel",
            Self::Mixed => "mixed",
        }
    }
}

/// The dimensions of the result that an operand has, from the front; dimensions of extent 1 in the
/// result are left out.
fn present<'a>(
    operand: &'a [usize],
    result: &'a [usize],
) -> impl DoubleEndedIterator<Item = (usize, bool)> + 'a {
    let missing = result.len().saturating_sub(operand.len());
    let has = move |i: usize| {
        i.checked_sub(missing).and_then(|j| operand.get(j)).copied().unwrap_or(1) != 1
    };
    result.iter().enumerate().filter(|(_, d)| **d != 1).map(move |(i, &d)| (d, has(i)))
}

fn relation(operand: &[usize], result: &[usize]) -> Broadcast {
    let mut changes = 0;
    let (mut first, mut last) = (None, true);
    for (_, has) in present(operand, result) {
        if first.is_none() {
            first = Some(has);
        } else if has != last {
            changes += 1;
        }
        last = has;
    }
    match (first, changes) {
        (None | Some(true), 0) => Broadcast::Same,
        (Some(false), 0) => Broadcast::Scalar,
        (Some(false), 1) => Broadcast::Row,
        (Some(true), 1) => Broadcast::Column,
        (Some(false), 2) => Broadcast::Channel,
        _ => Broadcast::Mixed,
    }
}

/// Elements in the longest run at the end of the result over which every operand either advances or
/// stands still.
fn run(op: &OpSpec, result: &[usize]) -> f64 {
    let one = |operand: &[usize]| {
        let mut from_last = present(operand, result).rev().peekable();
        let advances = from_last.peek().is_none_or(|dim| dim.1);
        from_last.take_while(|dim| dim.1 == advances).map(|dim| dim.0 as f64).product::<f64>()
    };
    op.inputs.iter().map(|i| one(&i.tensor.shape)).fold(f64::INFINITY, f64::min)
}

fn worst(op: &OpSpec, result: &[usize]) -> Broadcast {
    op.inputs.iter().map(|i| relation(&i.tensor.shape, result)).max().unwrap_or(Broadcast::Same)
}

pub(super) fn class(op: &OpSpec) -> Cow<'static, str> {
    let broadcast = worst(op, super::output_shape(op));
    match op.kind {
        OpKind::Pow => Cow::Owned(match op.attributes.float("exponent") {
            Some(e) if [2.0, 3.0, 0.5].contains(&e) => format!("exponent-{e}"),
            Some(_) => "exponent-other".to_owned(),
            None => format!("exponents-{}", broadcast.name()),
        }),
        OpKind::Compare | OpKind::Logical | OpKind::Round => Cow::Owned(format!(
            "{}-{}",
            op.attributes.text("op").unwrap_or_default(),
            broadcast.name()
        )),
        OpKind::Gelu if op.attributes.int("bias").unwrap_or(0) != 0 => Cow::Borrowed("bias"),
        _ if op.inputs.len() > 1 && order::mixed(op) => {
            Cow::Owned(format!("{}-reordered", broadcast.name()))
        }
        _ if op.inputs.len() > 1 => Cow::Borrowed(broadcast.name()),
        _ => Cow::Borrowed(""),
    }
}

pub(super) fn push(op: &OpSpec, out: &mut Vec<f64>) {
    let result = super::output_shape(op);
    let elements = product(result);
    let run = run(op, result).min(elements);
    let full =
        op.inputs.iter().filter(|i| relation(&i.tensor.shape, result) == Broadcast::Same).count();
    let variant = op.attributes.text("op").and_then(|t| t.bytes().next()).map_or(0.0, f64::from);
    out.extend_from_slice(&[
        run,
        if run > 0.0 { elements / run } else { 0.0 },
        run % LANES,
        op.inputs
            .iter()
            .filter(|i| relation(&i.tensor.shape, result) != Broadcast::Same)
            .map(|i| i.tensor.size_bytes() as f64)
            .sum(),
        full as f64,
        (op.inputs.len() - full) as f64,
        flag(op.inputs.iter().any(|i| i.constant)),
        op.attributes.float("exponent").filter(|e| e.is_finite()).unwrap_or(0.0),
        variant,
        flag(op.attributes.int("bias").unwrap_or(0) != 0),
        f64::from(worst(op, result) as u8),
        op.inputs.first().map_or(0.0, |i| i.tensor.precision.size_bytes() as f64),
    ]);
}

#[cfg(test)]
mod tests {
    use super::super::{FeatureSchema, PredictorKey};
    use vitempo_graph::{Attributes, OpKind, OpSpec, Operand, TensorSpec};

    fn add(left: &[usize], right: &[usize], result: &[usize]) -> OpSpec {
        let operand = |s: &[usize]| Operand { tensor: TensorSpec::f32(s), constant: false };
        OpSpec {
            kind: OpKind::Add,
            attributes: Attributes::new(),
            inputs: vec![operand(left), operand(right)],
            outputs: vec![TensorSpec::f32(result)],
        }
    }

    #[test]
    fn broadcast_patterns_and_their_runs() {
        let x: &[usize] = &[1, 8, 14, 16];
        for (right, class, run) in [
            (x, "same", 1792.0),
            (&[] as &[usize], "scalar", 1792.0),
            (&[16], "row", 16.0),
            (&[1, 8, 1, 1], "column", 224.0),
            (&[1, 1, 14, 16], "row", 224.0),
            (&[1, 1, 14, 1], "channel", 16.0),
            (&[1, 8, 1, 16], "mixed", 16.0),
        ] {
            let op = add(x, right, x);
            assert_eq!(PredictorKey::of(&op).class, class, "{right:?}");
            assert_eq!(FeatureSchema::extract(&op).get("run_elements"), Some(run), "{right:?}");
        }
    }

    #[test]
    fn exponents_are_classes() {
        for (exponent, class) in
            [(2.0, "exponent-2"), (0.5, "exponent-0.5"), (2.4, "exponent-other")]
        {
            let mut op = add(&[4], &[4], &[4]);
            op.kind = OpKind::Pow;
            op.attributes.set("exponent", vitempo_graph::Attribute::Float(exponent));
            assert_eq!(PredictorKey::of(&op).class, class);
        }
    }
}
