//! One operator: its kind, its attributes, and its input and output tensors.
//!
//! An [`OpSpec`] is the identity of what is measured and forecast: two nodes with equal `OpSpec`s
//! are the same row of a dataset. Inputs that only parametrise an operator (the `starts` of a
//! Slice, the `sizes` of a Resize) are attributes here, not inputs.
//!
//! Attributes are canonical ([`crate::shape::canonical`]): those named below are always written out
//! and resolved (axes counted from the front and sorted, `shape` without -1, explicit `pads`);
//! those marked "if set" are left out at their default.

use crate::{Precision, TensorSpec, exact_floats::Exact};
use compact_str::CompactString;
use litemap::LiteMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::{borrow::Cow, fmt};

macro_rules! op_kinds {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// What an operator computes. Frameworks' fused kernels have the kind of their dominant
        /// part, and attributes for the rest.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(into = "String", from = "String")]
        pub enum OpKind {
            $(#[doc = $doc] $variant,)*
            /// An operator that vitempo does not support, under the name its framework gives it
            /// (`domain:name` outside of ONNX's own domain); attribute `reason` where the operator
            /// is known but its shapes are not.
            Unsupported(String),
        }

        impl OpKind {
            /// Every kind but `Unsupported`.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in files, flags and tables. Of an unsupported operator: the framework's own
            /// name.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    Self::Unsupported(name) => name,
                    known => known.known_name().unwrap_or_default(),
                }
            }

            fn known_name(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => Some($name),)*
                    Self::Unsupported(_) => None,
                }
            }

            fn known(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

op_kinds! {
    Conv "conv" "Convolution, 1-D to 3-D, dense, grouped or depthwise. Attributes: \
        `kernel_shape`, `strides`, `pads` (begins, then ends), `dilations`, `group`; fused: \
        `activation`, `residual`; `integer` = 1: integers in, 32-bit sums out, zero points as \
        last inputs.",
    ConvTranspose "conv_transpose" "Transposed convolution; attributes as `conv` and \
        `output_padding`.",
    Linear "linear" "Matrix product with a constant right side: inputs x, weight `[in, out]` \
        (`trans_b` = 1: `[out, in]`) and, if present, bias. ONNX MatMul with a constant, and \
        Gemm. If set: `trans_a`, `trans_b`, `alpha`, `beta`, `integer` (as `conv`).",
    MatMul "matmul" "Matrix product of two computed tensors, batched. If set (Gemm, fused \
        kernels): `trans_a`, `trans_b`, `trans_batch_a`, `trans_batch_b`, `alpha`, `beta`, \
        `integer` (as `conv`).",
    Einsum "einsum" "Einstein summation; attribute `equation`.",
    Attention "attention" "Scaled dot-product attention as one kernel; inputs q, k, v; attribute \
        `heads`.",
    Add "add" "Elementwise, with broadcasting.",
    Sub "sub" "Elementwise, with broadcasting.",
    Mul "mul" "Elementwise, with broadcasting.",
    Div "div" "Elementwise, with broadcasting.",
    Pow "pow" "Elementwise, with broadcasting; attribute `exponent` instead of the second input \
        when that is a constant scalar.",
    Min "min" "Elementwise, with broadcasting.",
    Max "max" "Elementwise, with broadcasting.",
    Mod "mod" "Elementwise, with broadcasting. If set: `fmod`, integers have the sign of the \
        dividend.",
    Compare "compare" "Elementwise comparison; attribute `op` (Equal, Greater, Less, \
        GreaterOrEqual, LessOrEqual).",
    Logical "logical" "And, Or, Xor, Not; attribute `op`.",
    Where "where" "Elementwise choice, with broadcasting.",
    Elementwise "elementwise" "One kernel for elementwise operators, one or a chain: attribute \
        `ops`, their kinds in order, joined by `+`, as far as the framework reports.",
    Relu "relu" "max(x, 0).",
    LeakyRelu "leaky_relu" "Attribute `alpha`.",
    PRelu "prelu" "Inputs x, slope.",
    Elu "elu" "Attribute `alpha`; Selu and Celu say so in `op`, Selu adds `gamma`.",
    Clip "clip" "If set: `min`, `max`.",
    Sigmoid "sigmoid" "1 / (1 + exp(-x)).",
    HardSigmoid "hard_sigmoid" "Attributes `alpha`, `beta`.",
    HardSwish "hard_swish" "x * hard_sigmoid(x).",
    Silu "silu" "x * sigmoid(x); if set, `alpha`: x * sigmoid(alpha x).",
    Gelu "gelu" "x / 2 * (1 + erf(x / sqrt 2)); fused: input bias (`bias` = 1).",
    GeluTanh "gelu_tanh" "The tanh approximation of GELU.",
    Mish "mish" "x * tanh(softplus(x)).",
    Softplus "softplus" "log(1 + exp(x)).",
    Tanh "tanh" "Elementwise.",
    Erf "erf" "Elementwise.",
    Exp "exp" "Elementwise.",
    Log "log" "Elementwise.",
    Sqrt "sqrt" "Elementwise.",
    Reciprocal "reciprocal" "Elementwise.",
    Neg "neg" "Elementwise.",
    Abs "abs" "Elementwise.",
    Sin "sin" "Elementwise.",
    Cos "cos" "Elementwise.",
    Round "round" "Floor, Ceil, Round, Sign; attribute `op`.",
    Softmax "softmax" "Attribute `axis` (counted from the front); LogSoftmax has `log` = 1; \
        `coerce` = 1 where all dimensions from `axis` on are normalised together (operator sets \
        before 13).",
    LayerNorm "layer_norm" "Inputs x, scale, bias; attributes `axis`, `epsilon`; fused: \
        `residual`.",
    RmsNorm "rms_norm" "Inputs x, scale; attributes `axis`, `epsilon`.",
    BatchNorm "batch_norm" "Inputs x, scale, bias, mean, variance; attribute `epsilon`.",
    InstanceNorm "instance_norm" "Inputs x, scale, bias; attribute `epsilon`.",
    GroupNorm "group_norm" "Inputs x, scale, bias; attributes `groups`, `epsilon`.",
    LpNorm "lp_norm" "x / |x|_p along `axis`; if set: `p` (not 2).",
    MaxPool "max_pool" "Attributes `kernel_shape`, `strides`, `pads`, `ceil_mode`; if set: \
        `dilations`.",
    AveragePool "average_pool" "Attributes `kernel_shape`, `strides`, `pads`, `ceil_mode`, \
        `count_include_pad`; if set: `dilations`.",
    GlobalAveragePool "global_average_pool" "Mean over all spatial dimensions.",
    GlobalMaxPool "global_max_pool" "Maximum over all spatial dimensions.",
    ReduceMean "reduce_mean" "Attributes `axes`, `keepdims`.",
    ReduceSum "reduce_sum" "Attributes `axes`, `keepdims`.",
    ReduceMax "reduce_max" "Attributes `axes`, `keepdims`.",
    ReduceMin "reduce_min" "Attributes `axes`, `keepdims`.",
    ReduceL2 "reduce_l2" "Attributes `axes`, `keepdims`.",
    ReduceProd "reduce_prod" "Attributes `axes`, `keepdims`.",
    ArgMax "arg_max" "ArgMax, ArgMin; attributes `axis`, `keepdims`, `op`.",
    TopK "top_k" "Attributes `k`, `axis`, `largest`, `sorted`.",
    CumSum "cum_sum" "Attributes `axis`, `exclusive`, `reverse`.",
    Transpose "transpose" "Attribute `perm`.",
    Reshape "reshape" "Reshape, Flatten, Squeeze, Unsqueeze; attribute `shape`, the output's, \
        without -1 and 0.",
    Concat "concat" "Attribute `axis`.",
    Split "split" "Attributes `axis`, `split`.",
    Slice "slice" "Attributes `starts`, `ends`, `axes`, `steps`, clamped to the input; a negative \
        step over the first element ends at -(extent + 1).",
    Gather "gather" "Attribute `axis`; `index` instead of the second input when that is a \
        constant scalar.",
    GatherNd "gather_nd" "Attribute `batch_dims`.",
    GatherElements "gather_elements" "Attribute `axis`.",
    ScatterNd "scatter_nd" "Inputs data, indices, updates; attribute `reduction`.",
    Expand "expand" "Broadcast; attribute `shape`, the output's.",
    Tile "tile" "Attribute `repeats`.",
    Pad "pad" "Attributes `pads` (of all dimensions: begins, then ends), `mode`; if set: `value`.",
    Resize "resize" "Attributes `mode`, `coordinate_transformation_mode`, `sizes` (of all \
        dimensions); `nearest_mode` of nearest, `cubic_coeff_a` of cubic; `scales` (floats) only \
        where they are not sizes / input shape; if set: `antialias`, `exclude_outside`.",
    GridSample "grid_sample" "Attributes `mode`, `padding_mode`, `align_corners`.",
    DepthToSpace "depth_to_space" "Attributes `blocksize`, `mode`.",
    SpaceToDepth "space_to_depth" "Attribute `blocksize`.",
    Col2Im "col2im" "Windows `[N, C * block, L]`, added up to an image where they overlap; \
        attributes `image_shape`, `block_shape`, `strides`, `pads`, `dilations`.",
    Quantize "quantize" "Float to 8 bits: round(x / scale) + zero point, clipped. Inputs x, scale \
        and, if present, zero point; attribute `to`: the output's precision; `axis` where slices \
        have scales of their own.",
    Dequantize "dequantize" "(x - zero point) * scale. Inputs x, scale and, if present, zero \
        point; `axis` where slices have scales of their own.",
    DynamicQuantize "dynamic_quantize" "Float to `u8` with scale and zero point from the values \
        met; outputs: the quantised tensor, scale, zero point.",
    Cast "cast" "Attribute `to`: the output's precision by name, e.g. `f32`.",
    Identity "identity" "A copy or nothing; Dropout at inference.",
    Reorder "reorder" "Change of memory format, as a framework inserts it.",
    Shape "shape" "The input's shape as a tensor.",
    ConstantOfShape "constant_of_shape" "A filled tensor; attributes `shape`, `to`.",
    Range "range" "An arithmetic sequence.",
    NonZero "non_zero" "Indices of non-zero elements.",
    Trilu "trilu" "Upper or lower triangle; attributes `upper`, `k`.",
}

impl OpKind {
    /// Convolutions and matrix products: where the arithmetic is.
    #[must_use]
    pub fn is_product(&self) -> bool {
        matches!(
            self,
            Self::Conv
                | Self::ConvTranspose
                | Self::Linear
                | Self::MatMul
                | Self::Einsum
                | Self::Attention
        )
    }

    /// Whether it is a product without a window, whose weights engines pack.
    #[must_use]
    pub fn is_matrix_product(&self) -> bool {
        self.is_product() && !self.is_window()
    }

    /// Operators that slide a window over an image: those whose speed depends on the memory format.
    #[must_use]
    pub fn is_window(&self) -> bool {
        matches!(
            self,
            Self::Conv
                | Self::ConvTranspose
                | Self::MaxPool
                | Self::AveragePool
                | Self::GlobalAveragePool
                | Self::GlobalMaxPool
        )
    }
}

impl From<OpKind> for String {
    fn from(kind: OpKind) -> Self {
        match kind {
            OpKind::Unsupported(name) => format!("unsupported:{name}"),
            known => known.name().to_owned(),
        }
    }
}

impl From<&OpKind> for Cow<'static, str> {
    /// As `String::from`, but known kinds need no memory.
    fn from(kind: &OpKind) -> Self {
        kind.known_name().map_or_else(|| Self::Owned(String::from(kind.clone())), Self::Borrowed)
    }
}

impl From<String> for OpKind {
    fn from(name: String) -> Self {
        Self::known(&name).unwrap_or_else(|| {
            Self::Unsupported(name.strip_prefix("unsupported:").map_or(name.clone(), str::to_owned))
        })
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A list of integers. Up to four of them are stored inline.
pub type Ints = SmallVec<[i64; 4]>;

/// Value of one attribute. Floats compare by their bits, so that an `OpSpec` can be a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "AttributeJson", try_from = "AttributeJson")]
pub enum Attribute {
    /// An integer or a truth value.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A word.
    Text(String),
    /// A list of integers.
    Ints(Ints),
    /// A list of floating-point numbers.
    Floats(Vec<f64>),
}

/// An attribute in JSON: plain, except floats without a JSON number.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum AttributeJson {
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Ints),
    Floats(Vec<f64>),
    NonFinite { float: Exact },
    NonFiniteList { floats: Vec<Exact> },
}

impl From<Attribute> for AttributeJson {
    fn from(attribute: Attribute) -> Self {
        match attribute {
            Attribute::Int(v) => Self::Int(v),
            Attribute::Float(v) if v.is_finite() => Self::Float(v),
            Attribute::Float(v) => Self::NonFinite { float: v.into() },
            Attribute::Text(v) => Self::Text(v),
            Attribute::Ints(v) => Self::Ints(v),
            Attribute::Floats(v) if !v.is_empty() && v.iter().all(|f| f.is_finite()) => {
                Self::Floats(v)
            }
            Attribute::Floats(v) => {
                Self::NonFiniteList { floats: v.into_iter().map(Exact::from).collect() }
            }
        }
    }
}

impl TryFrom<AttributeJson> for Attribute {
    type Error = String;

    fn try_from(json: AttributeJson) -> Result<Self, String> {
        Ok(match json {
            AttributeJson::Int(v) => Self::Int(v),
            AttributeJson::Float(v) => Self::Float(v),
            AttributeJson::Text(v) => Self::Text(v),
            AttributeJson::Ints(v) => Self::Ints(v),
            AttributeJson::Floats(v) => Self::Floats(v),
            AttributeJson::NonFinite { float } => Self::Float(float.try_into()?),
            AttributeJson::NonFiniteList { floats } => {
                Self::Floats(floats.into_iter().map(f64::try_from).collect::<Result<_, _>>()?)
            }
        })
    }
}

/// A comparable image of an attribute: variant, integers or float bits, text.
type AttributeKey<'a> = (u8, Vec<u64>, &'a str);

impl Attribute {
    fn key(&self) -> AttributeKey<'_> {
        match self {
            Self::Int(v) => (0, vec![*v as u64], ""),
            Self::Float(v) => (1, vec![v.to_bits()], ""),
            Self::Text(v) => (2, Vec::new(), v),
            Self::Ints(v) => (3, v.iter().map(|&i| i as u64).collect(), ""),
            Self::Floats(v) => (4, v.iter().map(|f| f.to_bits()).collect(), ""),
        }
    }
}

impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Ints(a), Self::Ints(b)) => a == b,
            (Self::Floats(a), Self::Floats(b)) => {
                a.iter().map(|f| f.to_bits()).eq(b.iter().map(|f| f.to_bits()))
            }
            _ => false,
        }
    }
}
impl Eq for Attribute {}
impl PartialOrd for Attribute {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Attribute {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
impl std::hash::Hash for Attribute {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Int(v) => v.hash(state),
            Self::Float(v) => v.to_bits().hash(state),
            Self::Text(v) => v.hash(state),
            Self::Ints(v) => v.hash(state),
            Self::Floats(v) => v.iter().for_each(|f| f.to_bits().hash(state)),
        }
    }
}

/// Attributes by name, sorted, so that equal operators have equal bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attributes(pub LiteMap<CompactString, Attribute>);

impl Attributes {
    /// No attributes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces one attribute.
    pub fn set(&mut self, name: &str, value: Attribute) -> &mut Self {
        self.0.insert(name.into(), value);
        self
    }

    /// [`Attributes::set`] for chains.
    #[must_use]
    pub fn with(mut self, name: &str, value: Attribute) -> Self {
        self.set(name, value);
        self
    }

    /// [`Attributes::with`] for an integer.
    #[must_use]
    pub fn with_int(self, name: &str, value: i64) -> Self {
        self.with(name, Attribute::Int(value))
    }

    /// [`Attributes::with`] for a list of integers.
    #[must_use]
    pub fn with_ints(self, name: &str, value: impl AsRef<[i64]>) -> Self {
        self.with(name, Attribute::Ints(Ints::from_slice(value.as_ref())))
    }

    /// The attribute of that name. There are only a few, so the search is linear.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
    }

    /// Whether there is an attribute of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The integer of that name.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Attribute::Int(v) => Some(*v),
            _ => None,
        }
    }

    /// The number of that name, integers included.
    #[must_use]
    pub fn float(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Attribute::Float(v) => Some(*v),
            Attribute::Int(v) => Some(*v as f64),
            _ => None,
        }
    }

    /// The text of that name.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Attribute::Text(v) => Some(v),
            _ => None,
        }
    }

    /// The integers of that name; empty when there are none.
    #[must_use]
    pub fn ints(&self, name: &str) -> &[i64] {
        match self.get(name) {
            Some(Attribute::Ints(v)) => v,
            _ => &[],
        }
    }
}

/// One input of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Operand {
    /// Its tensor.
    #[serde(flatten)]
    pub tensor: TensorSpec,
    /// Whether it is known before the model runs (a weight) rather than computed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub constant: bool,
}

/// One operator: the identity of what is measured and forecast.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpSpec {
    /// What it computes.
    pub kind: OpKind,
    /// How it computes it.
    #[serde(default, skip_serializing_if = "attributes_empty")]
    pub attributes: Attributes,
    /// Tensors that go in, weights included, in the operator's order.
    pub inputs: Vec<Operand>,
    /// Output tensors; empty if unknown (an unsupported operator).
    pub outputs: Vec<TensorSpec>,
}

fn attributes_empty(attributes: &Attributes) -> bool {
    attributes.0.is_empty()
}

impl OpSpec {
    /// The tensors computed by other operators that this one reads.
    pub fn activations(&self) -> impl Iterator<Item = &TensorSpec> {
        self.inputs.iter().filter(|i| !i.constant).map(|i| &i.tensor)
    }

    /// The constant tensors this operator reads.
    pub fn weights(&self) -> impl Iterator<Item = &TensorSpec> {
        self.inputs.iter().filter(|i| i.constant).map(|i| &i.tensor)
    }

    /// The memory format this operator works in: that of its first computed input.
    #[must_use]
    pub fn format(&self) -> crate::MemoryFormat {
        self.activations().next().map(|t| t.format).unwrap_or_default()
    }

    /// Element type this operator computes in: that of its first computed input, or of its first
    /// output where it has none.
    #[must_use]
    pub fn precision_computed(&self) -> Precision {
        self.activations().next().map_or_else(|| self.precision(), |t| t.precision)
    }

    /// Element type of the first output, or of the first input where there is no output.
    #[must_use]
    pub fn precision(&self) -> Precision {
        let first = self.outputs.first().or_else(|| self.inputs.first().map(|i| &i.tensor));
        first.map_or(Precision::F32, |t| t.precision)
    }

    /// Canonical JSON: equal operators give equal bytes.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A stable identifier: the first 16 hexadecimal digits of the BLAKE3 digest of
    /// [`OpSpec::to_json`].
    #[must_use]
    pub fn id(&self) -> String {
        blake3::hash(self.to_json().as_bytes()).to_hex()[..16].to_owned()
    }
}
