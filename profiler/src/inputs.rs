//! Values of a model's inputs: seeded, so that the same seed gives the same bytes.
//!
//! Floats follow the [`InputDistribution`]; integers and booleans are zero, which is a valid index
//! whatever they index.

use crate::backends::OutputValues;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use vitempo_graph::{Graph, Precision, TensorSpec, ValueId};

/// What float inputs are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum InputDistribution {
    /// Uniform between the two.
    Uniform(f32, f32),
    /// Normal with mean 0 and this standard deviation.
    Normal(f32),
    /// The same everywhere.
    Constant(f32),
}

/// Text that is no distribution.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a distribution of inputs; expected uniform(LOW,HIGH), normal(SCALE) or \
     constant(VALUE)"
)]
pub struct ParseDistributionError(String);

impl Default for InputDistribution {
    fn default() -> Self {
        Self::Uniform(-1.0, 1.0)
    }
}

impl fmt::Display for InputDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform(low, high) => write!(f, "uniform({low},{high})"),
            Self::Normal(scale) => write!(f, "normal({scale})"),
            Self::Constant(value) => write!(f, "constant({value})"),
        }
    }
}

impl From<InputDistribution> for String {
    fn from(distribution: InputDistribution) -> Self {
        distribution.to_string()
    }
}

impl TryFrom<String> for InputDistribution {
    type Error = ParseDistributionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for InputDistribution {
    type Err = ParseDistributionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (name, rest) = text.trim().split_once('(')?;
            let numbers: Option<Vec<f32>> = rest
                .strip_suffix(')')?
                .split(',')
                .map(|n| n.trim().parse().ok().filter(|v: &f32| v.is_finite()))
                .collect();
            match (name, numbers?.as_slice()) {
                ("uniform", &[low, high]) if low <= high => Some(Self::Uniform(low, high)),
                ("normal", &[scale]) if scale >= 0.0 => Some(Self::Normal(scale)),
                ("constant", &[value]) => Some(Self::Constant(value)),
                _ => None,
            }
        };
        parse().ok_or_else(|| ParseDistributionError(text.to_owned()))
    }
}

/// A tensor too big to be filled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} elements do not fit into memory; give its dimensions smaller values")]
pub struct TooBigError(u64);

/// Most elements of an input; a larger one is refused instead of allocated.
const MAX_ELEMENTS: u64 = 1 << 31;

/// Float values of input number `index`, in row-major order.
///
/// # Errors
/// [`TooBigError`].
pub fn float_values(
    tensor: &TensorSpec,
    distribution: InputDistribution,
    seed: u64,
    index: usize,
) -> Result<Vec<f32>, TooBigError> {
    let mut random = Random(seed ^ (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    Ok((0..element_count(tensor)?).map(|_| random.sample(distribution)).collect())
}

/// Bytes of input number `index`, little-endian: floats follow the distribution, everything else is
/// zero.
///
/// # Errors
/// [`TooBigError`].
pub fn bytes(
    tensor: &TensorSpec,
    distribution: InputDistribution,
    seed: u64,
    index: usize,
) -> Result<Vec<u8>, TooBigError> {
    if !tensor.precision.is_float() {
        return Ok(vec![0; element_count(tensor)? * tensor.precision.size_bytes()]);
    }
    Ok(encoded(&float_values(tensor, distribution, seed, index)?, tensor.precision))
}

/// Values as little-endian bytes of that precision; integers are truncated.
pub(crate) fn encoded(values: &[f32], precision: Precision) -> Vec<u8> {
    macro_rules! bytes {
        ($convert:expr) => {
            values.iter().copied().map($convert).flat_map(|v| v.to_le_bytes()).collect()
        };
    }
    match precision {
        Precision::F64 => bytes!(f64::from),
        Precision::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Precision::F16 => bytes!(half_bits),
        Precision::Bf16 => bytes!(|v: f32| (v.to_bits() >> 16) as u16),
        Precision::I64 => bytes!(|v: f32| v as i64),
        Precision::I32 => bytes!(|v: f32| v as i32),
        Precision::I16 => bytes!(|v: f32| v as i16),
        Precision::I8 => bytes!(|v: f32| v as i8),
        Precision::U8 => bytes!(|v: f32| v as u8),
        Precision::Bool => bytes!(|v: f32| u8::from(v != 0.0)),
    }
}

/// The inputs of a whole model, by name; all types except floats are zero.
///
/// # Errors
/// A sentence naming the input.
pub fn of_graph(
    graph: &Graph,
    distribution: InputDistribution,
    seed: u64,
) -> Result<Vec<OutputValues>, String> {
    let of = |(index, &id): (usize, &ValueId)| {
        let value = graph.value(id);
        let tensor = value
            .tensor
            .as_ref()
            .ok_or_else(|| format!("input `{}` has no static shape", value.name))?;
        let distribution = if tensor.precision.is_float() {
            distribution
        } else {
            InputDistribution::Constant(0.0)
        };
        let values = float_values(tensor, distribution, seed, index)
            .map_err(|e| format!("input `{}`: {e}", value.name))?;
        Ok(OutputValues { name: value.name.clone(), shape: tensor.shape.to_vec(), values })
    };
    graph.inputs().iter().enumerate().map(of).collect()
}

/// The bytes of an N, C, H, W tensor as N, H, W, C; those of any other rank as they are.
pub(crate) fn channels_last(tensor: &TensorSpec, bytes: &[u8]) -> Vec<u8> {
    let [images, channels, height, width] = tensor.shape[..] else { return bytes.to_vec() };
    let (size, pixels) = (tensor.precision.size_bytes(), height * width);
    let mut permuted = Vec::with_capacity(bytes.len());
    for image in 0..images {
        for pixel in 0..pixels {
            for channel in 0..channels {
                let from = size * ((image * channels + channel) * pixels + pixel);
                permuted.extend_from_slice(&bytes[from..from + size]);
            }
        }
    }
    permuted
}

/// [`bytes`] of an input that enters channels last: an image (N, H, W, C) has the same values as in
/// N, C, H, W.
///
/// # Errors
/// [`TooBigError`].
#[cfg(any(test, feature = "onnxruntime", feature = "tract"))]
pub(crate) fn bytes_channels_last(
    tensor: &TensorSpec,
    distribution: InputDistribution,
    seed: u64,
    index: usize,
) -> Result<Vec<u8>, TooBigError> {
    let &[n, h, w, c] = tensor.shape.as_slice() else {
        return bytes(tensor, distribution, seed, index);
    };
    let first = TensorSpec { shape: [n, c, h, w].into(), ..tensor.clone() };
    bytes(&first, distribution, seed, index).map(|bytes| channels_last(&first, &bytes))
}

fn element_count(tensor: &TensorSpec) -> Result<usize, TooBigError> {
    let elements = tensor.elements();
    usize::try_from(elements).ok().filter(|_| elements <= MAX_ELEMENTS).ok_or(TooBigError(elements))
}

/// IEEE half precision, rounded towards zero; too small becomes 0, too big the largest finite
/// value.
fn half_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    match exponent {
        ..=0 => sign,
        31.. => sign | 0x7bff,
        _ => sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16,
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1).
    fn unit(&mut self) -> f32 {
        ((self.next() >> 41) as f32 + 0.5) / (1u32 << 23) as f32
    }

    fn sample(&mut self, distribution: InputDistribution) -> f32 {
        match distribution {
            InputDistribution::Uniform(low, high) => low + (high - low) * self.unit(),
            InputDistribution::Normal(scale) => {
                let (radius, angle) =
                    ((-2.0 * self.unit().ln()).sqrt(), std::f32::consts::TAU * self.unit());
                scale * radius * angle.cos()
            }
            InputDistribution::Constant(value) => value,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_nonsense_is_refused() {
        for text in ["uniform(-1,1)", "normal(0.5)", "constant(0)"] {
            assert_eq!(
                text.parse::<InputDistribution>().map(|d| d.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in [
            "",
            "uniform",
            "uniform(1,-1)",
            "uniform(1)",
            "normal(-1)",
            "normal(nan)",
            "gamma(1)",
            "constant(1",
        ] {
            assert!(text.parse::<InputDistribution>().is_err(), "{text}");
        }
    }

    #[test]
    fn values_follow_seed_and_distribution() {
        let tensor = TensorSpec::f32([64, 64]);
        let values = float_values(&tensor, InputDistribution::Uniform(-1.0, 1.0), 7, 0).unwrap();
        assert_eq!(
            values,
            float_values(&tensor, InputDistribution::Uniform(-1.0, 1.0), 7, 0).unwrap()
        );
        assert_ne!(
            values,
            float_values(&tensor, InputDistribution::Uniform(-1.0, 1.0), 7, 1).unwrap()
        );
        assert!(values.iter().all(|v| (-1.0..1.0).contains(v)));
        assert!((values.iter().sum::<f32>() / 4096.0).abs() < 0.05);
        let normal = float_values(&tensor, InputDistribution::Normal(2.0), 7, 0).unwrap();
        let variance = normal.iter().map(|v| v * v).sum::<f32>() / 4096.0;
        assert!((variance - 4.0).abs() < 0.5, "{variance}");
        assert_eq!(
            float_values(&TensorSpec::f32([3]), InputDistribution::Constant(0.5), 0, 0).unwrap(),
            [0.5; 3]
        );
        assert!(
            float_values(&TensorSpec::f32([usize::MAX, 9]), InputDistribution::Constant(0.5), 0, 0)
                .is_err()
        );
    }

    #[test]
    fn bytes_have_the_size_of_the_tensor() {
        for precision in [
            Precision::F64,
            Precision::F32,
            Precision::F16,
            Precision::Bf16,
            Precision::I64,
            Precision::Bool,
        ] {
            let tensor = TensorSpec::new([2, 3], precision);
            let bytes = bytes(&tensor, InputDistribution::Constant(1.5), 0, 0).unwrap();
            assert_eq!(bytes.len() as u64, tensor.size_bytes(), "{precision}");
        }
        for (value, bits) in
            [(1.0, 0x3c00), (-1.5, 0xbe00), (0.0, 0), (65504.0, 0x7bff), (1e9, 0x7bff), (1e-9, 0)]
        {
            assert_eq!(half_bits(value), bits, "{value}");
        }
    }
}
