//! Operators that pick elements.

use super::super::call::{Call, Outcome, Refusal, operator};
use crate::{Attribute, Attributes, ConstantData, OpKind, ValueSource};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    match call.node.op_type {
        "Slice" => {
            let missing = |what: &str| Refusal::Invalid(format!("its input {what} is missing"));
            let mut attributes = Attributes::new();
            for (index, name) in ["starts", "ends", "axes", "steps"].into_iter().enumerate() {
                match call.ints_or_input(name, index + 1)? {
                    Some(values) => attributes = attributes.with_ints(name, values),
                    None if index < 2 => return Err(missing(name)),
                    None => {}
                }
            }
            operator(call, OpKind::Slice, attributes, [0])
        }
        "Gather" => gather(call),
        "GatherND" => operator(call, OpKind::GatherNd, call.attributes(&["batch_dims"]), [0, 1]),
        "GatherElements" => {
            operator(call, OpKind::GatherElements, call.attributes(&["axis"]), [0, 1])
        }
        "ScatterND" => operator(call, OpKind::ScatterNd, call.attributes(&["$reduction"]), 0..3),
        "Trilu" => {
            let upper = call.node.int("upper").unwrap_or(1);
            let mut attributes = Attributes::new().with_int("upper", upper);
            if let Some(k) = call.steer_int(1, "k")? {
                attributes.set("k", Attribute::Int(k));
            }
            operator(call, OpKind::Trilu, attributes, [0])
        }
        _ => Ok(None),
    }
}

/// One constant scalar index is an attribute.
fn gather(call: &Call<'_>) -> Outcome {
    let attributes = call.attributes(&["axis"]);
    let index = match call.input(1).map(|v| &v.source) {
        Some(ValueSource::Constant(Some(ConstantData::Ints(v)))) if call.tensor(1)?.rank() == 0 => {
            v.first().copied()
        }
        _ => None,
    };
    match index {
        Some(index) => operator(call, OpKind::Gather, attributes.with_int("index", index), [0]),
        None => operator(call, OpKind::Gather, attributes, [0, 1]),
    }
}
