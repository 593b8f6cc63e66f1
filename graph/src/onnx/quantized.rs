//! Operators on quantised tensors that carry their scales with them: ONNX's QLinearConv and
//! QLinearMatMul, and those of ONNX Runtime's own domain that its optimiser makes of Q/DQ pairs.
//!
//! They become the operator they compute, with tensors of the types they read and write; scales and
//! zero points are no operands. Convolutions and pooling that work channels last are said to: their
//! tensors are written N, C, H, W with that memory format, as everywhere.

use super::onnxruntime_domain::Mapped;
use super::view::NodeView;
use crate::{
    Attribute, Attributes, MemoryFormat, OpKind, OpSpec, Operand, Precision, TensorSpec, Value,
    ValueSource, shape,
};

/// Marks a mapped operator whose first input and output have their channels last.
pub(crate) const LAST: &str = "channels_last";

/// Maps one node; inputs as for [`super::onnxruntime_domain::map`]. `None`: not one of these.
pub(super) fn map(node: &NodeView<'_>, inputs: &[Option<&Value>]) -> Option<Mapped> {
    let call = Call { node, inputs };
    let none = Attributes::new;
    match node.op_type {
        "QLinearConv" => {
            call.mapped(OpKind::Conv, call.window(), &[0, 3, 8], call.precision(7)?, call.is_last())
        }
        "QLinearMatMul" => {
            call.mapped(call.product(3)?, none(), &[0, 3], call.precision(7)?, false)
        }
        "MatMulIntegerToFloat" => {
            call.mapped(call.product(1)?, none(), &[0, 1, 6], call.precision(2)?, false)
        }
        "DynamicQuantizeMatMul" => {
            call.mapped(call.product(1)?, none(), &[0, 1, 4], call.precision(0)?, false)
        }
        "QGemm" => {
            let precision = call.precision(8).or_else(|| call.precision(1))?;
            call.mapped(call.product(3)?, call.gemm(), &[0, 3, 6], precision, false)
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
        _ => None,
    }
}

/// Writes the tensors of an operator that [`map`] marked channels first.
pub(crate) fn speak_channels_first(op: &mut OpSpec) {
    if op.kind == OpKind::Reorder || op.attributes.0.remove(LAST).is_none() {
        return;
    }
    let first = op.inputs.first_mut().map(|x| &mut x.tensor);
    for tensor in first.into_iter().chain(op.outputs.first_mut()) {
        *tensor = channels_first(tensor).with_format(MemoryFormat::ChannelsLast);
    }
}

fn channels_first(tensor: &TensorSpec) -> TensorSpec {
    let mut tensor = tensor.clone();
    if tensor.rank() > 2
        && let Some(channels) = tensor.shape.pop()
    {
        tensor.shape.insert(1, channels);
    }
    tensor
}

fn channels_last(tensor: &TensorSpec) -> TensorSpec {
    let shape = tensor.clone().with_format(MemoryFormat::ChannelsLast).stored_shape();
    TensorSpec { shape, ..tensor.clone() }
}

struct Call<'a> {
    node: &'a NodeView<'a>,
    inputs: &'a [Option<&'a Value>],
}

impl Call<'_> {
    fn is_last(&self) -> bool {
        self.node.int(LAST) == Some(1)
    }

    fn value(&self, index: usize) -> Option<&Value> {
        self.inputs.get(index).copied().flatten()
    }

    /// The element type of an input.
    fn precision(&self, index: usize) -> Option<Precision> {
        self.value(index)?.tensor.as_ref().map(|t| t.precision)
    }

    fn operand(&self, index: usize) -> Option<Operand> {
        let value = self.value(index)?;
        Some(Operand {
            tensor: value.tensor.clone()?,
            constant: matches!(value.source, ValueSource::Constant(_)),
        })
    }

    /// A product with a constant matrix as its right side, input `right`, is `linear`.
    fn product(&self, right: usize) -> Option<OpKind> {
        let right = self.operand(right)?;
        Some(if right.constant && right.tensor.rank() == 2 {
            OpKind::Linear
        } else {
            OpKind::MatMul
        })
    }

    fn gemm(&self) -> Attributes {
        let alpha = self.node.float("alpha").unwrap_or(1.0);
        let set = |name: &str| i64::from(self.node.int(name) == Some(1));
        Attributes::new()
            .with("alpha", Attribute::Float(alpha))
            .with_int("trans_a", set("transA"))
            .with_int("trans_b", set("transB"))
    }

    fn window(&self) -> Attributes {
        let mut attributes = Attributes::new();
        for name in ["kernel_shape", "strides", "pads", "dilations"] {
            if let Some(list) = self.node.attribute(name).filter(|a| !a.ints.is_empty()) {
                attributes.set(name, Attribute::Ints(list.ints.as_slice().into()));
            }
        }
        for name in ["group", "ceil_mode"] {
            if let Some(value) = self.node.int(name) {
                attributes.set(name, Attribute::Int(value));
            }
        }
        if let Some(auto) = self.node.attribute("auto_pad") {
            attributes
                .set("auto_pad", Attribute::Text(String::from_utf8_lossy(auto.s).into_owned()));
        }
        attributes
    }

    /// The operator with those of `operands` that are there; its output has this element type.
    fn mapped(
        &self,
        kind: OpKind,
        attributes: Attributes,
        operands: &[usize],
        precision: Precision,
        last: bool,
    ) -> Option<Mapped> {
        let operands: Vec<usize> =
            operands.iter().copied().filter(|&i| self.value(i).is_some()).collect();
        let mut specs: Vec<Operand> =
            operands.iter().map(|&i| self.operand(i)).collect::<Option<_>>()?;
        if last {
            let x = specs.first_mut()?;
            x.tensor = channels_first(&x.tensor);
        }
        let mut attributes = shape::canonical(&kind, attributes, &specs).ok()?;
        let outputs = shape::infer_canonical(&kind, &attributes, &specs).ok()?;
        let typed = outputs
            .into_iter()
            .map(|t| TensorSpec { precision, ..if last { channels_last(&t) } else { t } });
        let outputs = Some(typed.collect());
        if last {
            attributes.set(LAST, Attribute::Int(1));
        }
        Some(Mapped { kind, attributes, operands, outputs })
    }
}
