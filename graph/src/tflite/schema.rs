//! The part of the TensorFlow Lite schema that vitempo writes: operator codes, element types,
//! options (field numbers from the public `schema.fbs`, Apache-2.0).

use crate::Precision;

macro_rules! codes {
    ($($variant:ident $name:literal $code:literal,)*) => {
        /// A builtin operator.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(
                #[doc = concat!("`", $name, "`.")]
                $variant = $code,
            )*
        }

        impl Code {
            /// The name the interpreter and its profiler give the operator.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Number in the schema's `BuiltinOperator`.
            pub(super) const fn number(self) -> i32 {
                self as i32
            }

            /// The operator with a number; `None` of those that vitempo does not write.
            pub(super) const fn numbered(number: i32) -> Option<Self> {
                match number {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    Add "ADD" 0,
    AveragePool "AVERAGE_POOL_2D" 1,
    Concat "CONCATENATION" 2,
    Conv "CONV_2D" 3,
    DepthwiseConv "DEPTHWISE_CONV_2D" 4,
    DepthToSpace "DEPTH_TO_SPACE" 5,
    Dequantize "DEQUANTIZE" 6,
    Floor "FLOOR" 8,
    FullyConnected "FULLY_CONNECTED" 9,
    Logistic "LOGISTIC" 14,
    MaxPool "MAX_POOL_2D" 17,
    Mul "MUL" 18,
    Relu "RELU" 19,
    ReluN1To1 "RELU_N1_TO_1" 20,
    Relu6 "RELU6" 21,
    Reshape "RESHAPE" 22,
    ResizeBilinear "RESIZE_BILINEAR" 23,
    Softmax "SOFTMAX" 25,
    SpaceToDepth "SPACE_TO_DEPTH" 26,
    Tanh "TANH" 28,
    Pad "PAD" 34,
    Gather "GATHER" 36,
    Transpose "TRANSPOSE" 39,
    Mean "MEAN" 40,
    Sub "SUB" 41,
    Div "DIV" 42,
    StridedSlice "STRIDED_SLICE" 45,
    Exp "EXP" 47,
    TopK "TOPK_V2" 48,
    Split "SPLIT" 49,
    LogSoftmax "LOG_SOFTMAX" 50,
    Cast "CAST" 53,
    PRelu "PRELU" 54,
    Maximum "MAXIMUM" 55,
    ArgMax "ARG_MAX" 56,
    Minimum "MINIMUM" 57,
    Less "LESS" 58,
    Neg "NEG" 59,
    PadV2 "PADV2" 60,
    Greater "GREATER" 61,
    GreaterEqual "GREATER_EQUAL" 62,
    LessEqual "LESS_EQUAL" 63,
    Slice "SLICE" 65,
    Sin "SIN" 66,
    TransposeConv "TRANSPOSE_CONV" 67,
    Tile "TILE" 69,
    Equal "EQUAL" 71,
    Log "LOG" 73,
    Sum "SUM" 74,
    Sqrt "SQRT" 75,
    Rsqrt "RSQRT" 76,
    Pow "POW" 78,
    ArgMin "ARG_MIN" 79,
    ReduceProd "REDUCE_PROD" 81,
    ReduceMax "REDUCE_MAX" 82,
    LogicalOr "LOGICAL_OR" 84,
    LogicalAnd "LOGICAL_AND" 86,
    LogicalNot "LOGICAL_NOT" 87,
    ReduceMin "REDUCE_MIN" 89,
    Square "SQUARE" 92,
    FloorMod "FLOOR_MOD" 95,
    ResizeNearest "RESIZE_NEAREST_NEIGHBOR" 97,
    LeakyRelu "LEAKY_RELU" 98,
    SquaredDifference "SQUARED_DIFFERENCE" 99,
    MirrorPad "MIRROR_PAD" 100,
    Abs "ABS" 101,
    SplitV "SPLIT_V" 102,
    Ceil "CEIL" 104,
    GatherNd "GATHER_ND" 107,
    Cos "COS" 108,
    Elu "ELU" 111,
    Quantize "QUANTIZE" 114,
    Round "ROUND" 116,
    HardSwish "HARD_SWISH" 117,
    ScatterNd "SCATTER_ND" 122,
    Select "SELECT_V2" 123,
    BatchMatMul "BATCH_MATMUL" 126,
    CumSum "CUMSUM" 128,
    BroadcastTo "BROADCAST_TO" 130,
    Gelu "GELU" 150,
    Sign "SIGN" 158,
}

/// An activation that an operator applies to its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fused {
    /// None.
    #[default]
    None = 0,
    /// max(x, 0).
    Relu = 1,
    /// x clipped to -1..1.
    ReluN1To1 = 2,
    /// x clipped to 0..6.
    Relu6 = 3,
}

/// How a window treats the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Output extent = input extent / stride, rounded up; the odd element at the end.
    Same = 0,
    /// None.
    Valid = 1,
}

/// The options of an operator: what its table in the schema holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Options {
    /// None.
    None,
    /// Of convolution, depthwise (with its multiplier) and transposed convolution.
    Conv {
        /// At the border.
        padding: Padding,
        /// Of height, then width.
        strides: [i32; 2],
        /// Of height, then width.
        dilations: [i32; 2],
        /// Outputs per input channel of a depthwise convolution.
        multiplier: Option<i32>,
    },
    /// Of a pooling.
    Pool {
        /// At the border.
        padding: Padding,
        /// Of height, then width.
        strides: [i32; 2],
        /// Height and width of the window.
        filter: [i32; 2],
    },
    /// Of a fully connected layer: weights in rows, all dimensions of the input kept.
    FullyConnected,
    /// Of a softmax with a factor of 1.
    Softmax,
    /// Of a concatenation.
    Concat {
        /// The dimension.
        axis: i32,
    },
    /// Of a reshape.
    Reshape {
        /// Elements; -1: what is left.
        shape: Vec<i32>,
    },
    /// Of a bilinear or nearest resize.
    Resize {
        /// Whether corners of input and output are the same points.
        align_corners: bool,
        /// Whether an element is at the middle of its pixel.
        half_pixel: bool,
    },
    /// Of a reduction.
    Reduce {
        /// Whether a reduced dimension stays, with one element.
        keep_dims: bool,
    },
    /// Of a strided slice.
    StridedSlice {
        /// Bit by dimension: whether it begins at its first element.
        begin_mask: i32,
        /// Bit by dimension: whether it ends at its last element.
        end_mask: i32,
    },
    /// Of a split or an unpacking.
    Split {
        /// Number of outputs.
        parts: i32,
    },
    /// Of a gather.
    Gather {
        /// The dimension.
        axis: i32,
        /// Leading dimensions that input and indices share.
        batch_dims: i32,
    },
    /// Of a cast.
    Cast {
        /// Element type of the input.
        from: Precision,
        /// Element type of the output.
        to: Precision,
    },
    /// Of a leaky rectifier.
    LeakyRelu {
        /// Slope below 0.
        alpha: f32,
    },
    /// Of a mirrored padding.
    MirrorPad {
        /// 0: the border is mirrored without its own element, 1: with it.
        mode: i8,
    },
    /// Of a product of matrices.
    BatchMatMul {
        /// Whether the right operand is transposed.
        transpose_right: bool,
    },
    /// Of a running sum.
    CumSum {
        /// Whether an element's own value is left out.
        exclusive: bool,
        /// Whether it runs from the end.
        reverse: bool,
    },
    /// Of a GELU.
    Gelu {
        /// Whether it is the approximation by tanh.
        approximate: bool,
    },
    /// Of space to depth and back.
    Block {
        /// Height and width of a block, elements.
        size: i32,
    },
    /// Of an index of the largest element.
    ArgMax {
        /// Element type of the index.
        to: Precision,
    },
}

/// Number of an element type in the schema's `TensorType`; `None` where there is none that
/// operators compute with.
pub(super) const fn element_type(precision: Precision) -> i8 {
    match precision {
        Precision::F32 => 0,
        Precision::F16 => 1,
        Precision::I32 => 2,
        Precision::U8 => 3,
        Precision::I64 => 4,
        Precision::Bool => 6,
        Precision::I16 => 7,
        Precision::I8 => 9,
        Precision::F64 => 10,
        Precision::Bf16 => 18,
    }
}
