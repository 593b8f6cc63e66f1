//! [`Features`]: the precision in which tensors are sent to the server, and their bytes.
//!
//! | precision | bytes per element | |
//! |---|---|---|
//! | f32 | 4 | as computed |
//! | f16 | 2 | rounded to the nearest; too large values become the largest finite one |
//! | int8 | 1 | 255 steps between the tensor's least and largest value, both sent before it (8 bytes) |
//!
//! Integers and booleans, and floats that are no larger than asked for, go in their own precision.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use vitempo_graph::{Precision, TensorSpec};

/// The precision of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Features {
    /// 32-bit floating point.
    #[default]
    F32,
    /// 16-bit floating point.
    F16,
    /// 8-bit integers between the least and the largest value of each tensor.
    Int8,
}

impl Features {
    /// Every precision.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Int8];

    /// How a tensor of this precision is sent.
    #[must_use]
    pub fn encoding(self, own: Precision) -> Encoding {
        let asked = match self {
            Self::F32 => Encoding::Plain(Precision::F32),
            Self::F16 => Encoding::Plain(Precision::F16),
            Self::Int8 => Encoding::Steps,
        };
        let own_bytes = own.size_bytes() as u64;
        if own.is_float() && own_bytes > asked.element_bytes() {
            asked
        } else {
            Encoding::Plain(own)
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        })
    }
}

/// Text that names no precision of features.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a precision of features; expected f32, f16 or int8")]
pub struct ParseFeaturesError(String);

impl FromStr for Features {
    type Err = ParseFeaturesError;

    fn from_str(text: &str) -> Result<Self, ParseFeaturesError> {
        let found = Self::ALL.into_iter().find(|features| features.to_string() == text);
        found.ok_or_else(|| ParseFeaturesError(text.to_owned()))
    }
}

/// How one tensor is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// Element by element.
    Plain(Precision),
    /// Least and largest value, then one of 256 values between them per element.
    Steps,
}

/// Bytes before the elements of [`Encoding::Steps`]: least and largest value.
const RANGE_BYTES: u64 = 8;
/// Steps from the least to the largest value.
const STEPS: f32 = 255.0;

impl Encoding {
    const fn element_bytes(self) -> u64 {
        match self {
            Self::Plain(precision) => precision.size_bytes() as u64,
            Self::Steps => 1,
        }
    }

    /// Bytes of so many elements.
    #[must_use]
    pub fn size_bytes(self, elements: u64) -> u64 {
        let range = if self == Self::Steps { RANGE_BYTES } else { 0 };
        elements.saturating_mul(self.element_bytes()).saturating_add(range)
    }

    /// Appends the values.
    pub(crate) fn write(self, values: &[f32], bytes: &mut Vec<u8>) {
        macro_rules! each {
            ($convert:expr) => {
                values.iter().for_each(|&v| bytes.extend($convert(v).to_le_bytes()))
            };
        }
        match self {
            Self::Plain(Precision::F64) => each!(f64::from),
            Self::Plain(Precision::F32) => each!(|v: f32| v),
            Self::Plain(Precision::F16) => each!(finite_half),
            Self::Plain(Precision::Bf16) => each!(bf16::from_f32),
            Self::Plain(Precision::I64) => each!(|v: f32| v as i64),
            Self::Plain(Precision::I32) => each!(|v: f32| v as i32),
            Self::Plain(Precision::I16) => each!(|v: f32| v as i16),
            Self::Plain(Precision::I8) => each!(|v: f32| v as i8),
            Self::Plain(Precision::U8) => each!(|v: f32| v as u8),
            Self::Plain(Precision::Bool) => each!(|v: f32| u8::from(v != 0.0)),
            Self::Steps => {
                let (least, largest) = range(values);
                bytes.extend(least.to_le_bytes());
                bytes.extend(largest.to_le_bytes());
                let scale = scale(least, largest);
                // NaN becomes the least value.
                each!(|v: f32| ((v - least) / scale).round() as u8);
            }
        }
    }

    /// The values in exactly these bytes; `None` for another number of bytes.
    pub(crate) fn read(self, bytes: &[u8]) -> Option<Vec<f32>> {
        macro_rules! each {
            ($type:ty, $convert:expr) => {{
                let (elements, rest) = bytes.as_chunks::<{ size_of::<$type>() }>();
                if !rest.is_empty() {
                    return None;
                }
                elements.iter().map(|&element| $convert(<$type>::from_le_bytes(element))).collect()
            }};
        }
        Some(match self {
            Self::Plain(Precision::F64) => each!(f64, |v: f64| v as f32),
            Self::Plain(Precision::F32) => each!(f32, |v: f32| v),
            Self::Plain(Precision::F16) => each!(f16, f16::to_f32),
            Self::Plain(Precision::Bf16) => each!(bf16, bf16::to_f32),
            Self::Plain(Precision::I64) => each!(i64, |v: i64| v as f32),
            Self::Plain(Precision::I32) => each!(i32, |v: i32| v as f32),
            Self::Plain(Precision::I16) => each!(i16, f32::from),
            Self::Plain(Precision::I8) => each!(i8, f32::from),
            Self::Plain(Precision::U8 | Precision::Bool) => each!(u8, f32::from),
            Self::Steps => {
                let (least, rest) = bytes.split_first_chunk()?;
                let (largest, steps) = rest.split_first_chunk()?;
                let (least, largest) = (f32::from_le_bytes(*least), f32::from_le_bytes(*largest));
                let scale = scale(least, largest);
                steps.iter().map(|&step| f32::from(step).mul_add(scale, least)).collect()
            }
        })
    }
}

/// Bytes of a tensor as it is sent.
#[must_use]
pub fn sent_bytes(tensor: &TensorSpec, features: Features) -> u64 {
    features.encoding(tensor.precision).size_bytes(tensor.elements())
}

fn finite_half(value: f32) -> f16 {
    let half = f16::from_f32(value);
    if half.is_infinite() { f16::MAX.copysign(half) } else { half }
}

/// The least and the largest finite value; zeros where there is none.
fn range(values: &[f32]) -> (f32, f32) {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (least, largest) = (finite().reduce(f32::min), finite().reduce(f32::max));
    (least.unwrap_or(0.0), largest.unwrap_or(0.0))
}

/// A step; 1 where all values are equal. The difference of quotients is finite.
fn scale(least: f32, largest: f32) -> f32 {
    let scale = largest / STEPS - least / STEPS;
    if scale > 0.0 { scale } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(encoding: Encoding, values: &[f32]) -> Vec<f32> {
        let mut bytes = Vec::new();
        encoding.write(values, &mut bytes);
        assert_eq!(bytes.len() as u64, encoding.size_bytes(values.len() as u64), "{encoding:?}");
        encoding.read(&bytes).unwrap_or_default()
    }

    #[test]
    fn floats_arrive_as_near_as_their_precision_allows() {
        let values: Vec<f32> = (0..1000).map(|i| (i as f32 - 300.0) * 0.013).collect();
        let worst = |features: Features| {
            let found = there(features.encoding(Precision::F32), &values);
            let apart = values.iter().zip(&found).map(|(a, b)| (a - b).abs());
            apart.fold(0.0, f32::max)
        };
        assert_eq!(worst(Features::F32), 0.0);
        assert!((1e-6..9.1 / 2048.0).contains(&worst(Features::F16)));
        let step = 999.0 * 0.013 / 255.0;
        assert!((step / 4.0..=step * 0.501).contains(&worst(Features::Int8)));
    }

    #[test]
    fn halves_are_rounded_to_the_nearest() {
        // 1 + 2^-11 lies between two halves, the even one below; a little more is nearer above.
        let values = [1.0 + 1.0 / 2048.0, 1.0 + 1.1 / 2048.0, 1e9, -1e9, f32::NEG_INFINITY];
        let found = there(Encoding::Plain(Precision::F16), &values);
        assert_eq!(found, [1.0, 1.0 + 1.0 / 1024.0, 65504.0, -65504.0, -65504.0]);
    }

    #[test]
    fn strange_values_stay_within_the_range() {
        let found = there(Encoding::Steps, &[f32::NAN, f32::INFINITY, -2.0, 3.0]);
        assert_eq!((found[0], found[2]), (-2.0, -2.0));
        assert!((found[1] - 3.0).abs() < 1e-6 && (found[3] - 3.0).abs() < 1e-6, "{found:?}");
        assert_eq!(there(Encoding::Steps, &[7.5; 3]), [7.5; 3]);
        assert_eq!(there(Encoding::Steps, &[f32::NAN; 2]), [0.0; 2]);
        let wide = there(Encoding::Steps, &[f32::MIN, f32::MAX]);
        assert!(wide[0] == f32::MIN && wide[1] > f32::MAX * 0.99, "{wide:?}");
    }

    #[test]
    fn what_is_no_float_or_smaller_goes_as_it_is() {
        for own in Precision::ALL {
            for features in Features::ALL {
                let encoding = features.encoding(own);
                let is_converted = encoding != Encoding::Plain(own);
                assert!(!is_converted || own.is_float(), "{own} {features}");
                assert!(encoding.element_bytes() <= own.size_bytes() as u64, "{own} {features}");
            }
            let values = if own == Precision::Bool { [0.0, 1.0] } else { [3.0, 12.0] };
            assert_eq!(there(Encoding::Plain(own), &values), values, "{own}");
        }
        assert_eq!(Features::Int8.encoding(Precision::F16), Encoding::Steps);
        assert_eq!(Features::F16.encoding(Precision::Bf16), Encoding::Plain(Precision::Bf16));
    }

    #[test]
    fn other_numbers_of_bytes_are_refused() {
        for (encoding, bytes) in [
            (Encoding::Plain(Precision::F32), 7),
            (Encoding::Plain(Precision::F16), 1),
            (Encoding::Steps, 7),
        ] {
            assert_eq!(encoding.read(&vec![0; bytes]), None, "{encoding:?}");
        }
    }
}
