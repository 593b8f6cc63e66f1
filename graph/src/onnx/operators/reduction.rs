//! Reductions, softmax and normalisations.

use super::super::call::{Call, Outcome, Refusal, operator};
use crate::{Attribute, Attributes, OpKind};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    let reduced = |kind| reduce(call, kind);
    let op = call.node.op_type;
    match op {
        "ReduceMean" => reduced(OpKind::ReduceMean),
        "ReduceSum" => reduced(OpKind::ReduceSum),
        "ReduceMax" => reduced(OpKind::ReduceMax),
        "ReduceMin" => reduced(OpKind::ReduceMin),
        "ReduceL2" => reduced(OpKind::ReduceL2),
        "ReduceProd" => reduced(OpKind::ReduceProd),
        "ArgMax" | "ArgMin" => {
            let attributes = call
                .attributes(&["axis", "keepdims", "select_last_index"])
                .with("op", Attribute::Text(op.to_owned()));
            operator(call, OpKind::ArgMax, attributes, [0])
        }
        "TopK" => {
            let k = match call.node.int("k") {
                Some(k) => k,
                None => call
                    .steer_int(1, "k")?
                    .ok_or_else(|| Refusal::Invalid("its input k is missing".to_owned()))?,
            };
            let attributes = call.attributes(&["axis", "largest", "sorted"]).with_int("k", k);
            operator(call, OpKind::TopK, attributes, [0])
        }
        "CumSum" => {
            let axis = call
                .steer_int(1, "axis")?
                .ok_or_else(|| Refusal::Invalid("its input axis is missing".to_owned()))?;
            let attributes = call.attributes(&["exclusive", "reverse"]).with_int("axis", axis);
            operator(call, OpKind::CumSum, attributes, [0])
        }
        "Softmax" | "LogSoftmax" => softmax(call),
        "LayerNormalization" => {
            operator(call, OpKind::LayerNorm, call.attributes(&["axis", "*epsilon"]), 0..3)
        }
        "RMSNormalization" => {
            operator(call, OpKind::RmsNorm, call.attributes(&["axis", "*epsilon"]), 0..2)
        }
        "BatchNormalization" => {
            operator(call, OpKind::BatchNorm, call.attributes(&["*epsilon"]), 0..5)
        }
        "InstanceNormalization" => {
            operator(call, OpKind::InstanceNorm, call.attributes(&["*epsilon"]), 0..3)
        }
        "GroupNormalization" => {
            let attributes = call
                .attributes(&["*epsilon"])
                .with_int("groups", call.node.int("num_groups").unwrap_or(1));
            operator(call, OpKind::GroupNorm, attributes, 0..3)
        }
        "LpNormalization" => operator(call, OpKind::LpNorm, call.attributes(&["axis", "p"]), [0]),
        _ => Ok(None),
    }
}

/// Without axes all dimensions are reduced, or none with `noop_with_empty_axes`.
fn reduce(call: &Call<'_>, kind: OpKind) -> Outcome {
    let axes = call.ints_or_input("axes", 1)?.unwrap_or_default();
    if axes.is_empty() && call.node.int("noop_with_empty_axes").unwrap_or(0) != 0 {
        return operator(call, OpKind::Identity, Attributes::new(), [0]);
    }
    operator(call, kind, call.attributes(&["keepdims"]).with_ints("axes", axes), [0])
}

/// Before operator set 13 everything from `axis` on was normalised together: `coerce` = 1 where
/// that differs.
fn softmax(call: &Call<'_>) -> Outcome {
    let shape = &call.tensor(0)?.shape;
    let old = call.opset < 13;
    let axis = call.node.int("axis").unwrap_or(if old { 1 } else { -1 });
    let mut attributes = Attributes::new().with_int("axis", axis);
    if call.node.op_type == "LogSoftmax" {
        attributes.set("log", Attribute::Int(1));
    }
    let from_front = usize::try_from(if axis < 0 {
        i128::from(axis) + shape.len() as i128
    } else {
        i128::from(axis)
    })
    .unwrap_or(usize::MAX);
    let rest = from_front.checked_add(1).and_then(|next| shape.get(next..));
    if old && rest.is_some_and(|rest| rest.iter().any(|&d| d != 1)) {
        attributes.set("coerce", Attribute::Int(1));
    }
    operator(call, OpKind::Softmax, attributes, [0])
}
