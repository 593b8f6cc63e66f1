//! Convolutions and pooling.

use super::super::call::{Call, Outcome, operator};
use crate::{Attributes, OpKind};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    let window = ["#kernel_shape", "#strides", "#pads", "#dilations", "$auto_pad"];
    let with = |more: &[&str]| call.attributes(&[&window, more].concat());
    match call.node.op_type {
        "Conv" => operator(call, OpKind::Conv, with(&["group"]), 0..3),
        "ConvInteger" => {
            operator(call, OpKind::Conv, with(&["group"]).with_int("integer", 1), 0..4)
        }
        "ConvTranspose" => operator(
            call,
            OpKind::ConvTranspose,
            with(&["group", "#output_padding", "#output_shape"]),
            0..3,
        ),
        "MaxPool" => operator(call, OpKind::MaxPool, with(&["ceil_mode"]), [0]),
        "AveragePool" => {
            operator(call, OpKind::AveragePool, with(&["ceil_mode", "count_include_pad"]), [0])
        }
        "GlobalAveragePool" => operator(call, OpKind::GlobalAveragePool, Attributes::new(), [0]),
        "GlobalMaxPool" => operator(call, OpKind::GlobalMaxPool, Attributes::new(), [0]),
        _ => Ok(None),
    }
}
