//! Tensors: shape in elements, element type, and memory format.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 64-bit floating point.
    F64,
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point (IEEE 754 binary16).
    F16,
    /// 16-bit floating point with the exponent of `F32` (bfloat16).
    Bf16,
    /// 64-bit integer.
    I64,
    /// 32-bit integer.
    I32,
    /// 16-bit integer.
    I16,
    /// 8-bit integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// Truth value, one byte.
    Bool,
}

impl Precision {
    /// Every element type.
    pub const ALL: [Self; 10] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::I64,
        Self::I32,
        Self::I16,
        Self::I8,
        Self::U8,
        Self::Bool,
    ];

    /// Size of one element in bytes.
    #[must_use]
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// The name in files, flags and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }

    /// Whether values are floating point.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::Bf16)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Order of a tensor's elements in memory. Shapes are always written channels first (N, C, H, W).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MemoryFormat {
    /// N, C, H, W; also any tensor that is not an image, row by row.
    #[default]
    ChannelsFirst,
    /// N, H, W, C.
    ChannelsLast,
    /// N, C / block, H, W, block: what ONNX Runtime calls NCHWc.
    Blocked,
}

impl MemoryFormat {
    /// The name in files, flags and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChannelsFirst => "channels_first",
            Self::ChannelsLast => "channels_last",
            Self::Blocked => "blocked",
        }
    }
}

impl fmt::Display for MemoryFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Extent of each dimension, in elements. Up to four of them are stored inline.
pub type Shape = SmallVec<[usize; 4]>;

/// Shape, element type and memory format of one tensor.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorSpec {
    /// Extent of each dimension, in elements; empty for a scalar.
    pub shape: Shape,
    /// Element type.
    pub precision: Precision,
    /// Order of the elements in memory.
    #[serde(default, skip_serializing_if = "is_channels_first")]
    pub format: MemoryFormat,
}

impl Clone for TensorSpec {
    /// As derived, but all dimensions at once.
    fn clone(&self) -> Self {
        Self { shape: SmallVec::from_slice(&self.shape), ..*self }
    }
}

fn is_channels_first(format: &MemoryFormat) -> bool {
    *format == MemoryFormat::ChannelsFirst
}

impl TensorSpec {
    /// A tensor in the default memory format.
    #[must_use]
    pub fn new(shape: impl AsRef<[usize]>, precision: Precision) -> Self {
        Self {
            shape: SmallVec::from_slice(shape.as_ref()),
            precision,
            format: MemoryFormat::ChannelsFirst,
        }
    }

    /// A 32-bit float tensor in the default memory format.
    #[must_use]
    pub fn f32(shape: impl AsRef<[usize]>) -> Self {
        Self::new(shape, Precision::F32)
    }

    /// The same tensor in another memory format.
    #[must_use]
    pub fn with_format(mut self, format: MemoryFormat) -> Self {
        self.format = format;
        self
    }

    /// Extent of each dimension in the order of memory: channels last has them last.
    #[must_use]
    pub fn stored_shape(&self) -> Shape {
        let mut shape = self.shape.clone();
        if self.format == MemoryFormat::ChannelsLast && shape.len() > 2 {
            shape[1..].rotate_left(1);
        }
        shape
    }

    /// Number of elements; saturates instead of overflowing.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64))
    }

    /// Size in bytes; saturates instead of overflowing.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.elements().saturating_mul(self.precision.size_bytes() as u64)
    }

    /// Number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

impl fmt::Display for TensorSpec {
    /// `1x3x224x224 f32`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        write!(
            f,
            "{} {}",
            if shape.is_empty() { "scalar".to_owned() } else { shape.join("x") },
            self.precision
        )?;
        if self.format != MemoryFormat::ChannelsFirst {
            write!(f, " {}", self.format)?;
        }
        Ok(())
    }
}
