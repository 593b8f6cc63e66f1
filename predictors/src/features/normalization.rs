//! Operators that work along one or several axes and keep the shape: softmax, the normalizations,
//! cumulative sums. An axis that is not the last one is a class of its own: engines transpose
//! around it or stride over it.

use super::{LANES, axis, flag, order, product};
use std::borrow::Cow;
use vitempo_graph::{OpKind, OpSpec};

pub(super) const COLUMNS: &[&str] = &[
    "rows",
    "row_elements",
    "inner_elements",
    "row_remainder",
    "residual",
    "bias",
    "groups",
    "strided_elements",
];

pub(super) const BASELINE: &[&str] = &[
    "elements_out",
    "rows",
    "bytes_in",
    "bytes_out",
    "strided_elements",
    "bytes_beyond_l2",
    "bytes_reordered",
];

/// Extents before, along and behind what is normalized.
fn extents(op: &OpSpec) -> (f64, f64, f64) {
    let x = super::first_shape(op);
    let split = |from: usize, to: usize| {
        (
            product(&x[..from.min(x.len())]),
            product(x.get(from..to).unwrap_or(&[])),
            product(x.get(to..).unwrap_or(&[])),
        )
    };
    match op.kind {
        OpKind::LayerNorm | OpKind::RmsNorm => split(axis(op, "axis", -1, x.len()), x.len()),
        OpKind::BatchNorm => split(1, 2),
        OpKind::InstanceNorm => split(2, x.len()),
        OpKind::GroupNorm => {
            let groups = op.attributes.int("groups").unwrap_or(1).max(1) as f64;
            let rows = x.first().map_or(1.0, |&n| n as f64) * groups;
            (rows, product(x) / rows.max(1.0), 1.0)
        }
        _ => {
            let at = axis(op, "axis", -1, x.len());
            split(at, at + 1)
        }
    }
}

pub(super) fn class(op: &OpSpec) -> Cow<'static, str> {
    let last = extents(op).2 <= 1.0;
    let class = match (&op.kind, last) {
        (OpKind::Softmax, true) if op.attributes.int("log").unwrap_or(0) != 0 => "log-last",
        (OpKind::Softmax | OpKind::LayerNorm, false) => "strided",
        (OpKind::Softmax, true) => "last",
        (OpKind::LayerNorm, true) if op.attributes.int("residual").unwrap_or(0) != 0 => "residual",
        (OpKind::ArgMax | OpKind::TopK | OpKind::CumSum | OpKind::LpNorm, false) => "strided",
        _ => "",
    };
    if order::permuted(op) { Cow::Owned(format!("{class}-permuted")) } else { Cow::Borrowed(class) }
}

pub(super) fn push(op: &OpSpec, out: &mut Vec<f64>) {
    let (outer, along, inner) = extents(op);
    let strided = inner > 1.0 && op.kind != OpKind::BatchNorm;
    out.extend_from_slice(&[
        outer * inner,
        along,
        inner,
        along % LANES,
        flag(op.attributes.int("residual").unwrap_or(0) != 0),
        flag(op.inputs.len() > 2),
        op.attributes.int("groups").unwrap_or(0) as f64,
        flag(strided) * outer * along * inner,
    ]);
}

#[cfg(test)]
mod tests {
    use super::super::{FeatureSchema, PredictorKey};
    use vitempo_graph::{Attributes, OpKind, OpSpec, Operand, TensorSpec};

    #[test]
    fn softmax_axis_is_a_class() {
        for (axis, class, rows) in [(3, "last", 1182.0), (1, "strided", 12608.0)] {
            let x = TensorSpec::f32(vec![1, 6, 197, 64]);
            let op = OpSpec {
                kind: OpKind::Softmax,
                attributes: Attributes::new().with_int("axis", axis),
                inputs: vec![Operand { tensor: x.clone(), constant: false }],
                outputs: vec![x],
            };
            assert_eq!(PredictorKey::of(&op).class, class);
            assert_eq!(FeatureSchema::extract(&op).get("rows"), Some(rows));
        }
    }
}
