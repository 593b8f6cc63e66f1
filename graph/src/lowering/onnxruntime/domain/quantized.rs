//! Operators on quantised tensors that ONNX Runtime's optimiser makes of Q/DQ pairs.

use crate::{
    Attribute, Attributes, OpKind, Value,
    onnx::{
        domain::Mapped,
        quantized::{self, Call},
        view::NodeView,
    },
};

/// Maps one node of the domain `com.microsoft`; `None`: not one of these.
pub(super) fn map(node: &NodeView<'_>, inputs: &[Option<&Value>]) -> Option<Mapped> {
    let call = Call { node, inputs };
    let none = Attributes::new;
    match node.op_type {
        "MatMulIntegerToFloat" => {
            call.mapped(call.product(1)?, none(), &[0, 1, 6], call.precision(2)?, false)
        }
        "DynamicQuantizeMatMul" => {
            call.mapped(call.product(1)?, none(), &[0, 1, 4], call.precision(0)?, false)
        }
        "QGemm" => {
            let precision = call.precision(8).or_else(|| call.precision(1))?;
            call.mapped(call.product(3)?, gemm(node), &[0, 3, 6], precision, false)
        }
        "QLinearAdd" => call.mapped(OpKind::Add, none(), &[0, 3], call.precision(0)?, false),
        "QLinearMul" => call.mapped(OpKind::Mul, none(), &[0, 3], call.precision(0)?, false),
        "QLinearSigmoid" => call.mapped(OpKind::Sigmoid, none(), &[0], call.precision(0)?, false),
        "QLinearLeakyRelu" => {
            let alpha = call.node.float("alpha").unwrap_or(0.01);
            call.mapped(
                OpKind::LeakyRelu,
                none().with("alpha", Attribute::Float(alpha)),
                &[0],
                call.precision(0)?,
                false,
            )
        }
        "QLinearSoftmax" => call.mapped(
            OpKind::Softmax,
            none().with_int("axis", call.node.int("axis").unwrap_or(-1)),
            &[0],
            call.precision(0)?,
            false,
        ),
        "QLinearGlobalAveragePool" => {
            call.mapped(OpKind::GlobalAveragePool, none(), &[0], call.precision(0)?, call.is_last())
        }
        "QLinearAveragePool" => {
            let counted = call
                .window()
                .with_int("count_include_pad", call.node.int("count_include_pad").unwrap_or(0));
            call.mapped(OpKind::AveragePool, counted, &[0], call.precision(0)?, call.is_last())
        }
        "NhwcMaxPool" => {
            call.mapped(OpKind::MaxPool, call.window(), &[0], call.precision(0)?, true)
        }
        "QLinearConcat" => {
            let parts: Vec<usize> = (2..inputs.len()).step_by(3).collect();
            call.mapped(
                OpKind::Concat,
                none().with_int("axis", call.node.int("axis")?),
                &parts,
                call.precision(2)?,
                false,
            )
        }
        // Its variants of ONNX's operators, which may work channels last.
        _ => quantized::map(node, inputs),
    }
}

fn gemm(node: &NodeView<'_>) -> Attributes {
    let alpha = node.float("alpha").unwrap_or(1.0);
    let set = |name: &str| i64::from(node.int(name) == Some(1));
    Attributes::new()
        .with("alpha", Attribute::Float(alpha))
        .with_int("trans_a", set("transA"))
        .with_int("trans_b", set("transB"))
}
