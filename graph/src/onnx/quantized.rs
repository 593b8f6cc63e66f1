//! Operators on quantised tensors that carry their scales with them: ONNX's QLinearConv and
//! QLinearMatMul, and [`Call`] for those that frameworks add.
//!
//! They become the operator that they compute, with tensors of the types that they read and write;
//! scales and zero points are not operands. Tensors of channels-last convolutions and pooling are
//! written N, C, H, W with that memory format, as in every graph.

use super::domain::Mapped;
use super::view::NodeView;
use crate::{
    Attribute, Attributes, MemoryFormat, OpKind, OpSpec, Operand, Precision, TensorSpec, Value,
    ValueSource, shape,
};

/// Marks a mapped operator whose first input and output have their channels last.
pub(crate) const LAST: &str = "channels_last";

/// Maps one node; inputs as for [`super::domain::DomainNode`]. `None`: not one of these.
pub(crate) fn map(node: &NodeView<'_>, inputs: &[Option<&Value>]) -> Option<Mapped> {
    let call = Call { node, inputs };
    let none = Attributes::new;
    match node.op_type {
        "QLinearConv" => {
            call.mapped(OpKind::Conv, call.window(), &[0, 3, 8], call.precision(7)?, call.is_last())
        }
        "QLinearMatMul" => {
            call.mapped(call.product(3)?, none(), &[0, 3], call.precision(7)?, false)
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

/// A node and its inputs.
pub(crate) struct Call<'a> {
    pub node: &'a NodeView<'a>,
    pub inputs: &'a [Option<&'a Value>],
}

impl Call<'_> {
    /// Whether it works channels last.
    pub fn is_last(&self) -> bool {
        self.node.int(LAST) == Some(1)
    }

    fn value(&self, index: usize) -> Option<&Value> {
        self.inputs.get(index).copied().flatten()
    }

    /// The element type of an input.
    pub fn precision(&self, index: usize) -> Option<Precision> {
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
    pub fn product(&self, right: usize) -> Option<OpKind> {
        let right = self.operand(right)?;
        Some(if right.constant && right.tensor.rank() == 2 {
            OpKind::Linear
        } else {
            OpKind::MatMul
        })
    }

    /// The attributes of a convolution or pooling.
    pub fn window(&self) -> Attributes {
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

    /// The operator with the present `operands`; its output has this element type.
    pub fn mapped(
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
