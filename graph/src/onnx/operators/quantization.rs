//! Operators on 8-bit integers, and the conversions between these and floats.

use super::super::call::{Call, Mapping, Outcome, Refusal, operator};
use super::super::{payload, quantized};
use crate::{Attribute, OpKind, Precision, TensorSpec};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    match call.node.op_type {
        "QuantizeLinear" => {
            let to = quantized_type(call)?;
            refuse_blocks(call, to)?;
            let mut attributes = call.attributes(&["axis"]);
            if call.input(2).is_none() && to != Precision::U8 {
                attributes.set("to", Attribute::Text(to.name().to_owned()));
            }
            operator(call, OpKind::Quantize, attributes, 0..3)
        }
        "DequantizeLinear" => {
            refuse_blocks(call, call.tensor(1)?.precision)?;
            operator(call, OpKind::Dequantize, call.attributes(&["axis"]), 0..3)
        }
        "DynamicQuantizeLinear" => {
            operator(call, OpKind::DynamicQuantize, call.attributes(&[]), [0])
        }
        "MatMulInteger" => operator(
            call,
            super::product::kind(call)?,
            call.attributes(&[]).with_int("integer", 1),
            0..4,
        ),
        "QLinearConv" | "QLinearMatMul" => {
            Ok(quantized::map(call.node, call.inputs).map(Mapping::Operator))
        }
        _ => Ok(None),
    }
}

/// The type that a QuantizeLinear makes: that of its zero point, else the one it names.
fn quantized_type(call: &Call<'_>) -> Result<Precision, Refusal> {
    if call.input(2).is_some() {
        return call.tensor(2).map(|zero| zero.precision);
    }
    let to = call.node.int("output_dtype").filter(|&to| to != 0);
    let known =
        to.map_or(Some(Precision::U8), |to| i32::try_from(to).ok().and_then(payload::precision));
    let unknown = || format!("element type {} is not supported", to.unwrap_or_default());
    known.ok_or_else(|| Refusal::RunTime(unknown()))
}

/// A scale for each block of elements along an axis (operator sets 21 and later) is not followed.
fn refuse_blocks(call: &Call<'_>, to: Precision) -> Result<(), Refusal> {
    match call.node.int("block_size") {
        None | Some(0) => Ok(()),
        Some(size) => Err(Refusal::Form(
            format!("scales of blocks of {size} elements are not supported"),
            TensorSpec::new(call.tensor(0)?.shape.clone(), to),
        )),
    }
}
