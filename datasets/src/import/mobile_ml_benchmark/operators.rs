//! [`operator`]: an [`OpSpec`] from an operation's name and features. All features must agree: a
//! convolution whose output does not follow from its input is kept as an unsupported operator, as
//! is any that vitempo does not support, with its features as attributes.
//!
//! Missing features are assumed: a bias on convolutions and linear layers; a second operand of the
//! same shape; a batch of one. Padding follows from input and output. Images of TensorFlow Lite
//! have their channels last.

use super::{
    conventions::Framework,
    features::Features,
    fused,
    kinds::{Meaning, meaning},
    shapes,
};
use vitempo_graph::{
    Attribute, Attributes, MemoryFormat, OpKind, OpSpec, Operand, Precision, TensorSpec, shape,
};

/// Why an operation is kept as an unsupported one.
const UNKNOWN: &str = "vitempo does not support this operation";

/// One operation as a file has it.
#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) framework: Framework,
    pub(super) name: &'a str,
    pub(super) features: &'a Features,
    /// Name of the GPU's kernel; empty where there is none.
    pub(super) kernel: &'a str,
    pub(super) precision: Precision,
}

/// Kind, attributes and inputs.
pub(super) type Parts = (OpKind, Attributes, Vec<Operand>);

/// The operator, and why it is an unsupported one, if it is.
pub(super) fn operator(operation: Operation<'_>) -> (OpSpec, Option<String>) {
    let known = meaning(operation.name)
        .ok_or_else(|| UNKNOWN.to_owned())
        .and_then(|meaning| operation.spec(&meaning));
    match known {
        Ok(op) => (op, None),
        Err(reason) => (operation.unsupported(), Some(reason)),
    }
}

impl Operation<'_> {
    fn spec(self, meaning: &Meaning) -> Result<OpSpec, String> {
        let (kind, mut attributes, inputs) = self.parts(meaning)?;
        attributes = shape::canonical(&kind, attributes, &inputs)?;
        let outputs = shape::infer(&kind, &attributes, &inputs)?;
        if let (Some(given), Some(found)) =
            (shapes::output(self.features, self.framework), outputs.first())
            && found.shape[..] != given[..]
        {
            return Err(format!("its output is given as {given:?} but would be {:?}", found.shape));
        }
        if kind.is_product() {
            attributes.0.extend(fused::attributes(self.kernel).0);
        }
        Ok(OpSpec { kind, attributes, inputs, outputs })
    }

    fn parts(self, meaning: &Meaning) -> Result<Parts, String> {
        match meaning {
            Meaning::Convolution { depthwise } => self.convolution(*depthwise),
            Meaning::Linear => self.linear(),
            Meaning::MatMul => self.matmul(),
            Meaning::Binary(kind) => {
                self.input().map(|x| (kind.clone(), Attributes::new(), vec![x.clone(), x]))
            }
            Meaning::Unary(kind) => self.unary(kind.clone(), Attributes::new()),
            Meaning::ClippedRelu { upper } => self.unary(
                OpKind::Clip,
                Attributes::new()
                    .with("min", Attribute::Float(0.0))
                    .with("max", Attribute::Float(*upper)),
            ),
            Meaning::Pool(kind) => self.pool(kind.clone()),
            Meaning::GlobalPool => {
                self.image().map(|x| (OpKind::GlobalAveragePool, Attributes::new(), vec![x]))
            }
            Meaning::Reduce(kind) => self.reduce(kind.clone()),
            Meaning::Concat => self.concat(),
            Meaning::Pad => self.pad(),
            Meaning::Resize { mode } => self.resize(mode),
            Meaning::LayerNorm => self.normalization(OpKind::LayerNorm, 2),
            Meaning::BatchNorm => self.normalization(OpKind::BatchNorm, 4),
            Meaning::Reshape => self.reshape(),
            Meaning::Transpose => self.transpose(),
            Meaning::Quantize => self.quantize(),
            Meaning::Dequantize => self.dequantize(),
        }
    }

    fn tensor(self, shape: Vec<usize>) -> TensorSpec {
        let last = self.framework == Framework::TfLite && shape.len() == 4;
        let format = if last { MemoryFormat::ChannelsLast } else { MemoryFormat::ChannelsFirst };
        TensorSpec::new(shape, self.precision).with_format(format)
    }

    fn computed(self, shape: Vec<usize>) -> Operand {
        Operand { tensor: self.tensor(shape), constant: false }
    }

    pub(super) fn weight(self, shape: Vec<usize>) -> Operand {
        Operand { tensor: TensorSpec::new(shape, self.precision), constant: true }
    }

    /// The type of sums of products: sums of bytes have 32 bits.
    pub(super) fn bias(self, channels: usize) -> Operand {
        let precision =
            if self.precision == Precision::I8 { Precision::I32 } else { self.precision };
        Operand { tensor: TensorSpec::new([channels], precision), constant: true }
    }

    fn input(self) -> Result<Operand, String> {
        shapes::input(self.features, self.framework)
            .map(|shape| self.computed(shape))
            .ok_or_else(|| "its features do not give the shape of its input".to_owned())
    }

    /// The input, which must be an image.
    pub(super) fn image(self) -> Result<Operand, String> {
        self.input().and_then(|x| {
            if x.tensor.rank() == 4 {
                Ok(x)
            } else {
                Err(format!("its input of shape {:?} is not an image", x.tensor.shape))
            }
        })
    }

    fn unary(self, kind: OpKind, attributes: Attributes) -> Result<Parts, String> {
        self.input().map(|x| (kind, attributes, vec![x]))
    }

    fn linear(self) -> Result<Parts, String> {
        let f = self.features;
        let (told_in, out) = (
            shapes::channels_in(f),
            f.size(&["filter", "output_channel", "out_channels"])
                .or_else(|| f.size(&["output_shape"])),
        );
        let out = out.ok_or("its features do not give its outputs")?;
        let shape = match (f.sizes(&["input_shape"]), told_in) {
            // Tokens and their width, or the width alone.
            (Some(sizes), Some(width)) if sizes.len() == 1 => vec![1, sizes[0], width],
            (Some(sizes), None) if sizes.len() == 1 => vec![1, sizes[0]],
            (Some(sizes), None) => sizes,
            (Some(sizes), Some(width)) if sizes.last() == Some(&width) => sizes,
            (Some(sizes), Some(width)) => [sizes, vec![width]].concat(),
            (None, Some(width)) => vec![1, width],
            (None, None) => return Err("its features do not give its inputs".to_owned()),
        };
        let width = shape.last().copied().unwrap_or(1);
        // Rows of features have no channels that could be last.
        let x = Operand { tensor: TensorSpec::new(shape, self.precision), constant: false };
        Ok((
            OpKind::Linear,
            Attributes::new(),
            vec![x, self.weight(vec![width, out]), self.bias(out)],
        ))
    }

    fn matmul(self) -> Result<Parts, String> {
        let given: Vec<Operand> = shapes::operands(self.features, self.framework)
            .into_iter()
            .map(|shape| self.computed(shape))
            .collect();
        let [a, b] = given.as_slice() else {
            return Err("its features do not give the shapes of both its inputs".to_owned());
        };
        let inner = |operand: &Operand, from_end: usize| {
            operand.tensor.shape.iter().rev().nth(from_end).copied()
        };
        let turned = inner(a, 0) != inner(b, 1) && inner(a, 0) == inner(b, 0);
        let attributes =
            if turned { Attributes::new().with_int("trans_b", 1) } else { Attributes::new() };
        Ok((OpKind::MatMul, attributes, given))
    }

    /// Over height and width of an image, over the tokens otherwise. TensorFlow Lite's `Kernel`
    /// says whether the dimensions are kept.
    fn reduce(self, kind: OpKind) -> Result<Parts, String> {
        let x = self.input()?;
        let axes = if x.tensor.rank() == 4 { vec![2, 3] } else { vec![1] };
        let keep = self.features.size(&["kernel", "keepdims", "keepdim"]).unwrap_or(0).min(1);
        Ok((
            kind,
            Attributes::new().with_ints("axes", axes).with_int("keepdims", signed(&[keep])?[0]),
            vec![x],
        ))
    }

    /// `Kernel` tensors, the first of which has `Input_channel` channels, give `Filter` channels:
    /// the others share the remaining ones.
    fn concat(self) -> Result<Parts, String> {
        let f = self.features;
        let x = self.image()?;
        let first = x.tensor.shape[1];
        let total = f
            .size(&["filter", "output_channel", "out_channels"])
            .ok_or("its features do not give its output")?;
        let others = f.size(&["kernel", "inputs", "num_inputs"]).unwrap_or(2).saturating_sub(1);
        let left = total
            .checked_sub(first)
            .filter(|left| *left >= others && (others > 0 || *left == 0) && others < 1024);
        let left = left.ok_or_else(|| {
            format!(
                "{} inputs, the first of {first} channels, do not make {total} channels",
                others + 1
            )
        })?;
        let part = |i: usize| {
            let mut shape = x.tensor.shape.to_vec();
            shape[1] = left / others + usize::from(i < left % others);
            self.computed(shape)
        };
        let inputs = std::iter::once(x.clone()).chain((0..others).map(part)).collect();
        Ok((OpKind::Concat, Attributes::new().with_int("axis", 1), inputs))
    }

    fn pad(self) -> Result<Parts, String> {
        let x = self.image()?;
        let to = shapes::sides(self.features, self.framework)
            .1
            .ok_or("its features do not give its output")?;
        let total = |i: usize| {
            to[i].checked_sub(x.tensor.shape[i + 2]).ok_or("its output is smaller than its input")
        };
        let (height, width) = (total(0)?, total(1)?);
        let pads = [0, 0, height / 2, width / 2, 0, 0, height - height / 2, width - width / 2];
        Ok((OpKind::Pad, Attributes::new().with_ints("pads", signed(&pads)?), vec![x]))
    }

    fn resize(self, mode: &str) -> Result<Parts, String> {
        let x = self.image()?;
        let [height, width] = shapes::sides(self.features, self.framework)
            .1
            .ok_or("its features do not give its output")?;
        let sizes = signed(&[x.tensor.shape[0], x.tensor.shape[1], height, width])?;
        Ok((
            OpKind::Resize,
            Attributes::new()
                .with("mode", Attribute::Text(mode.to_owned()))
                .with_ints("sizes", sizes),
            vec![x],
        ))
    }

    /// Over the last dimension, or over the channels of an image; `parameters` vectors of weights.
    fn normalization(self, kind: OpKind, parameters: usize) -> Result<Parts, String> {
        let x = self.input()?;
        let axis = if kind == OpKind::BatchNorm { 1 } else { x.tensor.rank().saturating_sub(1) };
        let width = x.tensor.shape.get(axis).copied().unwrap_or(1);
        Ok((
            kind,
            Attributes::new(),
            std::iter::once(x).chain((0..parameters).map(|_| self.weight(vec![width]))).collect(),
        ))
    }

    /// To the given shape, or flat.
    fn reshape(self) -> Result<Parts, String> {
        let x = self.input()?;
        let given = shapes::output(self.features, self.framework)
            .or_else(|| self.features.sizes(&["output_shape"]).filter(|s| s.len() > 1));
        let shape = given
            .unwrap_or_else(|| vec![1, usize::try_from(x.tensor.elements()).unwrap_or(usize::MAX)]);
        Ok((OpKind::Reshape, Attributes::new().with_ints("shape", signed(&shape)?), vec![x]))
    }

    fn transpose(self) -> Result<Parts, String> {
        let perm = self
            .features
            .sizes(&["perm", "dims", "permutation"])
            .ok_or("its features do not give its permutation")?;
        let x = shapes::input(self.features, Framework::TorchMobile)
            .map(|shape| TensorSpec::new(shape, self.precision));
        let x = x
            .filter(|x| x.rank() == perm.len())
            .ok_or("its features do not give all extents of its input")?;
        Ok((
            OpKind::Transpose,
            Attributes::new().with_ints("perm", signed(&perm)?),
            vec![Operand { tensor: x, constant: false }],
        ))
    }

    fn quantize(self) -> Result<Parts, String> {
        let mut x = self.input()?;
        x.tensor.precision = Precision::F32;
        let scale = Operand { tensor: TensorSpec::f32([]), constant: true };
        Ok((
            OpKind::Quantize,
            Attributes::new().with("to", Attribute::Text(Precision::I8.name().to_owned())),
            vec![x, scale],
        ))
    }

    fn dequantize(self) -> Result<Parts, String> {
        let mut x = self.input()?;
        x.tensor.precision = Precision::I8;
        let scale = Operand { tensor: TensorSpec::f32([]), constant: true };
        Ok((OpKind::Dequantize, Attributes::new(), vec![x, scale]))
    }

    fn unsupported(self) -> OpSpec {
        let attribute = |(name, value): (&str, &str)| {
            (
                name.into(),
                value.parse().map_or_else(|_| Attribute::Text(value.to_owned()), Attribute::Int),
            )
        };
        let attributes = Attributes(self.features.iter().map(attribute).collect());
        let fits = |shape: &Vec<usize>| {
            shape
                .iter()
                .try_fold(1u64, |n, &d| n.checked_mul(d as u64))
                .is_some_and(|n| n <= shape::MAX_ELEMENTS)
        };
        let inputs = shapes::input(self.features, self.framework)
            .filter(fits)
            .map(|shape| self.computed(shape))
            .into_iter()
            .collect();
        OpSpec {
            kind: OpKind::Unsupported(self.name.to_owned()),
            attributes,
            inputs,
            outputs: Vec::new(),
        }
    }
}

/// As attributes have numbers.
pub(super) fn signed(sizes: &[usize]) -> Result<Vec<i64>, String> {
    sizes
        .iter()
        .map(|&size| {
            i64::try_from(size)
                .ok()
                .filter(|s| *s <= i64::from(u32::MAX))
                .ok_or_else(|| format!("a size of {size} is absurd"))
        })
        .collect()
}
