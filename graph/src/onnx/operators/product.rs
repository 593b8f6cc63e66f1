//! Matrix products.

use super::super::call::{Call, Outcome, Refusal, operator};
use crate::{Attribute, OpKind};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    match call.node.op_type {
        "MatMul" => operator(call, kind(call)?, call.attributes(&[]), [0, 1]),
        "Gemm" => {
            let mut attributes = call.attributes(&["*alpha", "*beta"]);
            for (onnx, name) in [("transA", "trans_a"), ("transB", "trans_b")] {
                attributes
                    .set(name, Attribute::Int(i64::from(call.node.int(onnx).unwrap_or(0) != 0)));
            }
            operator(call, kind(call)?, attributes, [0, 1, 2])
        }
        "Einsum" => {
            let equation = call
                .node
                .text("equation")
                .unwrap_or_default()
                .chars()
                .filter(|c| !c.is_whitespace())
                .collect();
            operator(
                call,
                OpKind::Einsum,
                call.attributes(&[]).with("equation", Attribute::Text(equation)),
                0..call.inputs.len(),
            )
        }
        _ => Ok(None),
    }
}

/// A product with a constant matrix on the right is `linear`.
pub(super) fn kind(call: &Call<'_>) -> Result<OpKind, Refusal> {
    let linear = call.is_constant(1) && call.tensor(1)?.rank() == 2 && !call.is_constant(0);
    Ok(if linear { OpKind::Linear } else { OpKind::MatMul })
}
