//! The ONNX operator (opset 20) of each kind, and the place of each attribute in it.

use crate::{OpKind, OpSpec};

/// The place of an attribute in ONNX.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// As an attribute of the same name: integers and text.
    Same,
    /// As an attribute of the same name: a float.
    Real,
    /// As a vector of integers at this input.
    Vector(usize),
    /// As a scalar integer at this input.
    Scalar(usize),
    /// As a scalar of the first input's type at this input.
    Number(usize),
    /// As a vector of floats at this input.
    Scales(usize),
    /// Nowhere: the operator's name or its outputs say it.
    Said,
}

/// Our attributes of an operator, and the place of each.
pub(super) type Recipe = &'static [(&'static str, Place)];

use Place::{Number, Real, Said, Same, Scalar, Scales, Vector};

const NONE: Recipe = &[];
/// What Gemm takes besides its operands.
pub(super) const GEMM: [&str; 4] = ["trans_a", "trans_b", "alpha", "beta"];
const AXIS: Recipe = &[("axis", Same)];
const CONVOLUTION: Recipe = &[
    ("kernel_shape", Same),
    ("strides", Same),
    ("pads", Same),
    ("dilations", Same),
    ("group", Same),
    ("output_padding", Same),
    ("integer", Said),
];
const POOL: Recipe = &[
    ("kernel_shape", Same),
    ("strides", Same),
    ("pads", Same),
    ("dilations", Same),
    ("ceil_mode", Same),
    ("count_include_pad", Same),
];
const REDUCTION: Recipe = &[("axes", Vector(1)), ("keepdims", Same)];
const RESIZE: Recipe = &[
    ("mode", Same),
    ("coordinate_transformation_mode", Same),
    ("nearest_mode", Same),
    ("cubic_coeff_a", Real),
    ("antialias", Same),
    ("exclude_outside", Same),
    ("scales", Scales(2)),
    ("sizes", Vector(3)),
];

/// The ONNX operator of a kind that becomes exactly one, and the places of its attributes.
pub(super) fn recipe(op: &OpSpec) -> Result<(&str, Recipe), String> {
    let named = |default: &'static str| op.attributes.text("op").unwrap_or(default);
    Ok(match &op.kind {
        OpKind::Conv if integer(op) => ("ConvInteger", CONVOLUTION),
        OpKind::Conv => ("Conv", CONVOLUTION),
        OpKind::ConvTranspose => ("ConvTranspose", CONVOLUTION),
        OpKind::MatMul | OpKind::Linear if integer(op) => ("MatMulInteger", &[("integer", Said)]),
        OpKind::MatMul => ("MatMul", NONE),
        OpKind::Einsum => ("Einsum", &[("equation", Same)]),
        OpKind::Add => ("Add", NONE),
        OpKind::Sub => ("Sub", NONE),
        OpKind::Mul => ("Mul", NONE),
        OpKind::Div => ("Div", NONE),
        OpKind::Pow => ("Pow", &[("exponent", Number(1))]),
        OpKind::Min => ("Min", NONE),
        OpKind::Max => ("Max", NONE),
        OpKind::Mod => ("Mod", &[("fmod", Said)]),
        OpKind::Compare => (named("Equal"), &[("op", Said)]),
        OpKind::Logical => (named("And"), &[("op", Said)]),
        OpKind::Where => ("Where", NONE),
        OpKind::Relu => ("Relu", NONE),
        OpKind::LeakyRelu => ("LeakyRelu", &[("alpha", Real)]),
        OpKind::PRelu => ("PRelu", NONE),
        OpKind::Elu => (named("Elu"), &[("op", Said), ("alpha", Real), ("gamma", Real)]),
        OpKind::Clip => ("Clip", &[("min", Number(1)), ("max", Number(2))]),
        OpKind::Sigmoid => ("Sigmoid", NONE),
        OpKind::HardSigmoid => ("HardSigmoid", &[("alpha", Real), ("beta", Real)]),
        OpKind::HardSwish => ("HardSwish", NONE),
        OpKind::Gelu => ("Gelu", NONE),
        OpKind::Mish => ("Mish", NONE),
        OpKind::Softplus => ("Softplus", NONE),
        OpKind::Tanh => ("Tanh", NONE),
        OpKind::Erf => ("Erf", NONE),
        OpKind::Exp => ("Exp", NONE),
        OpKind::Log => ("Log", NONE),
        OpKind::Sqrt => ("Sqrt", NONE),
        OpKind::Reciprocal => ("Reciprocal", NONE),
        OpKind::Neg => ("Neg", NONE),
        OpKind::Abs => ("Abs", NONE),
        OpKind::Sin => ("Sin", NONE),
        OpKind::Cos => ("Cos", NONE),
        OpKind::Round => (named("Round"), &[("op", Said)]),
        OpKind::Softmax if op.attributes.int("log") == Some(1) => {
            ("LogSoftmax", &[("axis", Same), ("log", Said)])
        }
        OpKind::Softmax => ("Softmax", &[("axis", Same), ("log", Said)]),
        OpKind::LayerNorm => ("LayerNormalization", &[("axis", Same), ("epsilon", Real)]),
        OpKind::BatchNorm => ("BatchNormalization", &[("epsilon", Real)]),
        OpKind::InstanceNorm => ("InstanceNormalization", &[("epsilon", Real)]),
        OpKind::LpNorm => ("LpNormalization", &[("axis", Same), ("p", Same)]),
        OpKind::MaxPool => ("MaxPool", POOL),
        OpKind::AveragePool => ("AveragePool", POOL),
        OpKind::GlobalAveragePool => ("GlobalAveragePool", NONE),
        OpKind::GlobalMaxPool => ("GlobalMaxPool", NONE),
        OpKind::ReduceMean => ("ReduceMean", REDUCTION),
        OpKind::ReduceSum => ("ReduceSum", REDUCTION),
        OpKind::ReduceMax => ("ReduceMax", REDUCTION),
        OpKind::ReduceMin => ("ReduceMin", REDUCTION),
        OpKind::ReduceL2 => ("ReduceL2", REDUCTION),
        OpKind::ReduceProd => ("ReduceProd", REDUCTION),
        OpKind::ArgMax => (
            named("ArgMax"),
            &[("op", Said), ("axis", Same), ("keepdims", Same), ("select_last_index", Same)],
        ),
        OpKind::TopK => {
            ("TopK", &[("k", Vector(1)), ("axis", Same), ("largest", Same), ("sorted", Same)])
        }
        OpKind::CumSum => {
            ("CumSum", &[("axis", Scalar(1)), ("exclusive", Same), ("reverse", Same)])
        }
        OpKind::Transpose => ("Transpose", &[("perm", Same)]),
        OpKind::Reshape => ("Reshape", &[("shape", Vector(1))]),
        OpKind::Concat => ("Concat", AXIS),
        OpKind::Split => ("Split", &[("axis", Same), ("split", Vector(1))]),
        OpKind::Slice => (
            "Slice",
            &[
                ("starts", Vector(1)),
                ("ends", Vector(2)),
                ("axes", Vector(3)),
                ("steps", Vector(4)),
            ],
        ),
        OpKind::Gather => ("Gather", &[("axis", Same), ("index", Scalar(1))]),
        OpKind::GatherNd => ("GatherND", &[("batch_dims", Same)]),
        OpKind::GatherElements => ("GatherElements", AXIS),
        OpKind::ScatterNd => ("ScatterND", &[("reduction", Same)]),
        OpKind::Expand => ("Expand", &[("shape", Vector(1))]),
        OpKind::Tile => ("Tile", &[("repeats", Vector(1))]),
        OpKind::Pad => ("Pad", &[("mode", Same), ("pads", Vector(1)), ("value", Number(2))]),
        OpKind::Resize => ("Resize", RESIZE),
        OpKind::GridSample => {
            ("GridSample", &[("mode", Same), ("padding_mode", Same), ("align_corners", Same)])
        }
        OpKind::DepthToSpace => ("DepthToSpace", &[("blocksize", Same), ("mode", Same)]),
        OpKind::SpaceToDepth => ("SpaceToDepth", &[("blocksize", Same)]),
        OpKind::Col2Im => (
            "Col2Im",
            &[
                ("image_shape", Vector(1)),
                ("block_shape", Vector(2)),
                ("strides", Same),
                ("pads", Same),
                ("dilations", Same),
            ],
        ),
        OpKind::Identity => ("Identity", NONE),
        OpKind::Shape => ("Shape", NONE),
        OpKind::Range => ("Range", NONE),
        OpKind::NonZero => ("NonZero", NONE),
        OpKind::Trilu => ("Trilu", &[("upper", Same), ("k", Scalar(1))]),
        OpKind::Quantize => ("QuantizeLinear", &[("axis", Same), ("to", Said)]),
        OpKind::Dequantize => ("DequantizeLinear", AXIS),
        OpKind::DynamicQuantize => ("DynamicQuantizeLinear", NONE),
        OpKind::Cast => ("Cast", &[("to", Said)]),
        OpKind::ConstantOfShape => {
            ("ConstantOfShape", &[("shape", Vector(0)), ("value", Said), ("to", Said)])
        }
        OpKind::GeluTanh => ("Gelu", NONE),
        OpKind::GroupNorm => ("GroupNormalization", &[("groups", Said), ("epsilon", Real)]),
        OpKind::Linear | OpKind::Silu => return Err("it becomes several operators".to_owned()),
        OpKind::Elementwise => {
            return Err("ONNX has no operator for a chain of elementwise operators".to_owned());
        }
        OpKind::Reorder => {
            return Err("ONNX has no operator that changes the memory format".to_owned());
        }
        OpKind::Attention | OpKind::RmsNorm => {
            return Err(
                "ONNX opset 20 has no such operator; write the graph it was fused from".to_owned()
            );
        }
        OpKind::Unsupported(name) => {
            return Err(format!("vitempo does not support the operator `{name}`"));
        }
    })
}

/// A product of integers, with zero points as operands.
pub(super) fn integer(op: &OpSpec) -> bool {
    op.attributes.int("integer") == Some(1)
}
