//! Operators on 8-bit integers, and the conversions between these and floats.

use super::super::call::{Call, Mapping, Outcome, operator};
use super::super::quantized;
use crate::{Attribute, OpKind, Precision};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    match call.node.op_type {
        "QuantizeLinear" => {
            let mut attributes = call.attributes(&["axis"]);
            if call.input(2).is_none() && call.node.int("output_dtype").is_some_and(|t| t == 3) {
                attributes.set("to", Attribute::Text(Precision::I8.name().to_owned()));
            }
            operator(call, OpKind::Quantize, attributes, 0..3)
        }
        "DequantizeLinear" => operator(call, OpKind::Dequantize, call.attributes(&["axis"]), 0..3),
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
