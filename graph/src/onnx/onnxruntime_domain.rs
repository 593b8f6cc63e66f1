//! Operators of the domains `com.microsoft` and `com.microsoft.nchwc`: what ONNX Runtime's
//! optimizer leaves in a saved model.
//!
//! They become the operators that [`crate::lowering::onnxruntime`] forecasts for the same kernels,
//! attribute by attribute. Shapes of blocked tensors have their channels padded to the block of
//! this machine; such a model is to be read on the kind of machine that saved it.

use super::quantized;
use super::view::NodeView;
use crate::{
    Attribute, Attributes, MemoryFormat, OpKind, Operand, TensorSpec, Value, ValueSource,
    lowering::onnxruntime, shape,
};

/// What a node of a foreign domain is in vitempo's terms.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    /// What it computes.
    pub kind: OpKind,
    /// Its attributes; the reader fills in defaults by [`crate::shape::canonical`] when `outputs`
    /// is `None`.
    pub attributes: Attributes,
    /// Positions in `node.input` of the real operands, in the order [`OpKind`] wants; inputs that
    /// only steer are left out.
    pub operands: Vec<usize>,
    /// The outputs, where [`crate::shape::infer`] cannot find them (blocked formats, packed
    /// weights); `None`: infer them.
    pub outputs: Option<Vec<TensorSpec>>,
}

/// Maps one node. `inputs` are parallel to `node.input`, `None` for an omitted optional input; the
/// payload of a small constant is in its [`crate::ValueSource`]. All inputs that are there have a
/// known tensor. `None`: not known here; the node is then unsupported, by name.
pub(super) fn map(node: &NodeView<'_>, inputs: &[Option<&Value>]) -> Option<Mapped> {
    let call = Call { node, inputs };
    match (node.domain, node.op_type) {
        ("com.microsoft.nchwc", op) => call.blocked(op),
        ("com.microsoft", op) => call.fused(op).or_else(|| quantized::map(node, inputs)),
        _ => None,
    }
}

struct Call<'a> {
    node: &'a NodeView<'a>,
    inputs: &'a [Option<&'a Value>],
}

impl Call<'_> {
    fn tensor(&self, index: usize) -> Option<&TensorSpec> {
        self.inputs.get(index).copied().flatten()?.tensor.as_ref()
    }

    fn is_constant(&self, index: usize) -> bool {
        self.inputs
            .get(index)
            .copied()
            .flatten()
            .is_some_and(|v| matches!(v.source, ValueSource::Constant(_)))
    }

    /// Those of the given inputs that are there.
    fn present(&self, indices: impl IntoIterator<Item = usize>) -> Vec<usize> {
        indices.into_iter().filter(|&i| self.tensor(i).is_some()).collect()
    }

    fn operator(&self, kind: OpKind, attributes: Attributes, operands: Vec<usize>) -> Mapped {
        Mapped { kind, attributes, operands, outputs: None }
    }

    /// An operator whose output is blocked, whatever its input is.
    fn with_blocked_output(&self, mapped: Mapped) -> Option<Mapped> {
        let operand = |&i: &usize| {
            Some(Operand { tensor: self.tensor(i)?.clone(), constant: self.is_constant(i) })
        };
        let operands: Vec<Operand> = mapped.operands.iter().filter_map(operand).collect();
        let attributes = shape::canonical(&mapped.kind, mapped.attributes, &operands).ok()?;
        let outputs = shape::infer(&mapped.kind, &attributes, &operands).ok()?;
        let outputs = outputs.into_iter().map(|t| t.with_format(MemoryFormat::Blocked)).collect();
        Some(Mapped { attributes, outputs: Some(outputs), ..mapped })
    }

    fn blocked(&self, op: &str) -> Option<Mapped> {
        match op {
            "Conv" => self.with_blocked_output(self.convolution()),
            "MaxPool" | "AveragePool" => {
                let mut attributes = self.window();
                for name in ["ceil_mode", "count_include_pad"] {
                    if let Some(value) =
                        self.node.int(name).filter(|_| name == "ceil_mode" || op == "AveragePool")
                    {
                        attributes.set(name, Attribute::Int(value));
                    }
                }
                let kind = if op == "MaxPool" { OpKind::MaxPool } else { OpKind::AveragePool };
                self.with_blocked_output(self.operator(kind, attributes, vec![0]))
            }
            "GlobalMaxPool" => self.with_blocked_output(self.operator(
                OpKind::GlobalMaxPool,
                Attributes::new(),
                vec![0],
            )),
            "GlobalAveragePool" => self.with_blocked_output(self.operator(
                OpKind::GlobalAveragePool,
                Attributes::new(),
                vec![0],
            )),
            "Upsample" => {
                let scales = self.node.ints("scales").iter().map(|&s| s as f64).collect();
                let mode = self.node.text("mode").unwrap_or("nearest");
                let coordinates =
                    self.node.text("coordinate_transformation_mode").unwrap_or("asymmetric");
                let attributes = onnxruntime::upsample_attributes(mode, coordinates, scales);
                self.with_blocked_output(self.operator(OpKind::Resize, attributes, vec![0]))
            }
            "ReorderInput" | "ReorderOutput" => self.reorder(op == "ReorderInput"),
            _ => None,
        }
    }

    /// A reorder to the blocked format or back; channels last are the last dimension on the other
    /// side.
    fn reorder(&self, to_blocked: bool) -> Option<Mapped> {
        let x = self.tensor(0)?;
        let last = self.node.int("channels_last") == Some(1);
        let attributes =
            if last { Attributes::new().with_int("channels_last", 1) } else { Attributes::new() };
        let mut dims = x.shape.clone();
        let output = if to_blocked {
            if last {
                let channels = dims.pop()?;
                dims.insert(1.min(dims.len()), channels);
            }
            let channels = dims.get_mut(1)?;
            *channels = onnxruntime::padded(*channels, onnxruntime::host_block());
            TensorSpec::new(dims, x.precision).with_format(MemoryFormat::Blocked)
        } else {
            *dims.get_mut(1)? = usize::try_from(self.node.int("channels")?).ok()?;
            if last {
                let channels = dims.remove(1);
                dims.push(channels);
            }
            TensorSpec::new(dims, x.precision)
        };
        shape::check(&output.shape).ok()?;
        Some(Mapped {
            kind: OpKind::Reorder,
            attributes,
            operands: vec![0],
            outputs: Some(vec![output]),
        })
    }

    fn window(&self) -> Attributes {
        let mut attributes = Attributes::new();
        for name in ["kernel_shape", "strides", "pads", "dilations"] {
            if !self.node.ints(name).is_empty() {
                attributes.set(name, Attribute::Ints(self.node.ints(name).into()));
            }
        }
        if let Some(auto) = self.node.text("auto_pad") {
            attributes.set("auto_pad", Attribute::Text(auto.to_owned()));
        }
        attributes
    }

    fn activation(&self) -> Option<Attribute> {
        let name = self.node.text("activation").filter(|n| !n.is_empty())?;
        let mut words = String::with_capacity(name.len() + 2);
        for (i, letter) in name.chars().enumerate() {
            if letter.is_ascii_uppercase() && i > 0 {
                words.push('_');
            }
            words.push(letter.to_ascii_lowercase());
        }
        Some(Attribute::Text(words))
    }

    fn convolution(&self) -> Mapped {
        let mut attributes = self.window();
        attributes.set("group", Attribute::Int(self.node.int("group").unwrap_or(1)));
        if let Some(activation) = self.activation() {
            attributes.set("activation", activation);
        }
        if self.tensor(3).is_some() {
            attributes.set("residual", Attribute::Int(1));
        }
        self.operator(OpKind::Conv, attributes, self.present(0..4))
    }

    fn product(&self, operands: std::ops::Range<usize>) -> Option<Mapped> {
        let linear = self.is_constant(1) && self.tensor(1)?.rank() == 2 && !self.is_constant(0);
        let mut attributes = Attributes::new()
            .with("alpha", Attribute::Float(self.node.float("alpha").unwrap_or(1.0)));
        attributes.set("beta", Attribute::Float(self.node.float("beta").unwrap_or(1.0)));
        for (theirs, ours) in [
            ("transA", "trans_a"),
            ("transB", "trans_b"),
            ("transBatchA", "trans_batch_a"),
            ("transBatchB", "trans_batch_b"),
        ] {
            if self.node.int(theirs) == Some(1) {
                attributes.set(ours, Attribute::Int(1));
            }
        }
        if let Some(activation) = self.activation() {
            attributes.set("activation", activation);
        }
        let kind = if linear { OpKind::Linear } else { OpKind::MatMul };
        Some(self.operator(kind, attributes, self.present(operands)))
    }

    fn fused(&self, op: &str) -> Option<Mapped> {
        let biased = |kind: OpKind| {
            let attributes = if self.tensor(1).is_some() {
                Attributes::new().with_int("bias", 1)
            } else {
                Attributes::new()
            };
            Some(self.operator(kind, attributes, self.present(0..2)))
        };
        match op {
            "FusedConv" => Some(self.convolution()),
            "FusedGemm" => self.product(0..3),
            "FusedMatMul" => self.product(0..2),
            "Gelu" | "BiasGelu" => biased(OpKind::Gelu),
            "FastGelu" => biased(OpKind::GeluTanh),
            "QuickGelu" => {
                let alpha = self.node.float("alpha").unwrap_or(1.702);
                let attributes = Attributes::new().with("alpha", Attribute::Float(alpha));
                Some(self.operator(
                    OpKind::Silu,
                    if alpha == 1.0 { Attributes::new() } else { attributes },
                    vec![0],
                ))
            }
            "SkipLayerNormalization" => {
                let attributes = Attributes::new()
                    .with("epsilon", Attribute::Float(self.node.float("epsilon")?))
                    .with_int("residual", 1);
                Some(self.operator(OpKind::LayerNorm, attributes, self.present(0..5)))
            }
            "MultiHeadAttention" => Some(self.operator(
                OpKind::Attention,
                Attributes::new().with_int("heads", self.node.int("num_heads")?),
                self.present(0..3),
            )),
            _ => None,
        }
    }
}
