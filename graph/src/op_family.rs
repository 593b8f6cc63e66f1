//! [`OpFamily`]: groups of operator kinds for breakdowns of latency, close to those of the mobile
//! ViT study's figure 4.

use crate::OpKind;
use std::fmt;

/// A group of operator kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpFamily {
    /// Convolutions, transposed ones too.
    Convolution,
    /// Linear layers, products of two computed tensors, fused attention.
    MatrixProduct,
    /// Functions of one element.
    Activation,
    /// Softmax and normalisations.
    Normalization,
    /// Arithmetic on several tensors, element by element.
    Elementwise,
    /// Pooling and reductions.
    Pooling,
    /// Transposes, reshapes, slices, resizes: elements move within the model's own semantics.
    Movement,
    /// Kernels that the engine adds for its own kernels: changes of memory format and of element
    /// type.
    Conversion,
    /// Everything else.
    Other,
}

impl OpFamily {
    /// Every family, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::Convolution,
        Self::MatrixProduct,
        Self::Activation,
        Self::Normalization,
        Self::Elementwise,
        Self::Pooling,
        Self::Movement,
        Self::Conversion,
        Self::Other,
    ];

    /// The name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Convolution => "convolution",
            Self::MatrixProduct => "matrix_product",
            Self::Activation => "activation",
            Self::Normalization => "normalization",
            Self::Elementwise => "elementwise",
            Self::Pooling => "pooling",
            Self::Movement => "movement",
            Self::Conversion => "conversion",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for OpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl OpKind {
    /// The family of this kind.
    #[must_use]
    pub fn family(&self) -> OpFamily {
        use OpKind as K;
        match self {
            K::Conv | K::ConvTranspose => OpFamily::Convolution,
            K::Linear | K::MatMul | K::Einsum | K::Attention => OpFamily::MatrixProduct,
            K::Relu
            | K::LeakyRelu
            | K::PRelu
            | K::Elu
            | K::Clip
            | K::Sigmoid
            | K::HardSigmoid
            | K::HardSwish
            | K::Silu => OpFamily::Activation,
            K::Gelu | K::GeluTanh | K::Mish | K::Softplus | K::Tanh | K::Erf => {
                OpFamily::Activation
            }
            K::Softmax
            | K::LayerNorm
            | K::RmsNorm
            | K::BatchNorm
            | K::InstanceNorm
            | K::GroupNorm
            | K::LpNorm => OpFamily::Normalization,
            K::Add
            | K::Sub
            | K::Mul
            | K::Div
            | K::Pow
            | K::Min
            | K::Max
            | K::Mod
            | K::Compare
            | K::Logical
            | K::Where
            | K::Elementwise => OpFamily::Elementwise,
            K::Exp
            | K::Log
            | K::Sqrt
            | K::Reciprocal
            | K::Neg
            | K::Abs
            | K::Sin
            | K::Cos
            | K::Round => OpFamily::Elementwise,
            K::MaxPool | K::AveragePool | K::GlobalAveragePool | K::GlobalMaxPool => {
                OpFamily::Pooling
            }
            K::ReduceMean
            | K::ReduceSum
            | K::ReduceMax
            | K::ReduceMin
            | K::ReduceL2
            | K::ReduceProd => OpFamily::Pooling,
            K::Transpose
            | K::Reshape
            | K::Concat
            | K::Split
            | K::Slice
            | K::Gather
            | K::GatherNd
            | K::GatherElements => OpFamily::Movement,
            K::ScatterNd
            | K::Expand
            | K::Tile
            | K::Pad
            | K::Resize
            | K::GridSample
            | K::DepthToSpace
            | K::SpaceToDepth
            | K::Col2Im => OpFamily::Movement,
            K::Cast | K::Reorder | K::Quantize | K::Dequantize | K::DynamicQuantize => {
                OpFamily::Conversion
            }
            _ => OpFamily::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_kinds_belong_nowhere() {
        let other: Vec<&str> = OpKind::ALL
            .iter()
            .filter(|k| k.family() == OpFamily::Other)
            .map(OpKind::name)
            .collect();
        assert_eq!(
            other,
            [
                "arg_max",
                "top_k",
                "cum_sum",
                "identity",
                "shape",
                "constant_of_shape",
                "range",
                "non_zero",
                "trilu"
            ]
        );
        let families: std::collections::BTreeSet<OpFamily> =
            OpKind::ALL.iter().map(OpKind::family).collect();
        assert_eq!(families.len(), OpFamily::ALL.len());
    }
}
