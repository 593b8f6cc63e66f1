//! Seeded random weights. The values of a weight depend only on the seed and on its name, not on
//! its place in the file.
//!
//! Normal numbers are the sum of four 16-bit uniform numbers, scaled to unit variance (Irwin-Hall,
//! n = 4: within 3.5 standard deviations, kurtosis 2.7 instead of 3): one 64-bit draw each. Draws
//! are SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), started from the BLAKE3 digest of seed and
//! name.

use crate::Precision;

/// How the values of a weight are distributed; its consumer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::onnx) enum Distribution {
    /// Normal, mean 0, standard deviation 0.02.
    Small,
    /// Normal, mean 1, standard deviation 0.02: scales of normalisations.
    Scale,
    /// Uniform in [0.5, 1.5): variances, divisors, and operands of roots, logarithms and powers.
    Positive,
}

impl Distribution {
    /// The distribution for input `index` of an ONNX operator. Of several consumers the strictest
    /// decides: see `Ord`.
    pub(in crate::onnx) fn of_input(op_type: &str, index: usize) -> Self {
        match (op_type, index) {
            ("BatchNormalization", 4)
            | ("Sqrt" | "Log" | "Reciprocal" | "Pow", 0)
            | ("Div" | "QuantizeLinear" | "DequantizeLinear", 1) => Self::Positive,
            (
                "BatchNormalization"
                | "LayerNormalization"
                | "InstanceNormalization"
                | "GroupNormalization"
                | "RMSNormalization",
                1,
            ) => Self::Scale,
            _ => Self::Small,
        }
    }
}

/// Appends `elements` little-endian values of that type; zeros where it is not floating point (a
/// valid index and mask everywhere).
pub(in crate::onnx) fn append(
    out: &mut Vec<u8>,
    elements: usize,
    precision: Precision,
    distribution: Distribution,
    seed: u64,
    name: &str,
) {
    if !precision.is_float() {
        out.resize(out.len().saturating_add(elements.saturating_mul(precision.size_bytes())), 0);
        return;
    }
    let mut draw = SplitMix64::named(seed, name);
    let start = out.len();
    let width = precision.size_bytes();
    out.resize(start + elements * width, 0);
    let target = &mut out[start..];
    match precision {
        Precision::F64 => write(target, |slot: &mut [u8; 8]| {
            *slot = f64::from(draw.value(distribution)).to_le_bytes();
        }),
        Precision::F16 => write(target, |slot: &mut [u8; 2]| {
            *slot = half_bits(draw.value(distribution)).to_le_bytes();
        }),
        Precision::Bf16 => write(target, |slot: &mut [u8; 2]| {
            *slot = bfloat_bits(draw.value(distribution)).to_le_bytes();
        }),
        _ => write(target, |slot: &mut [u8; 4]| *slot = draw.value(distribution).to_le_bytes()),
    }
}

/// The same values as numbers, of a weight in 32 bits.
pub(in crate::onnx) fn values(
    elements: usize,
    distribution: Distribution,
    seed: u64,
    name: &str,
) -> Vec<f64> {
    let mut draw = SplitMix64::named(seed, name);
    (0..elements).map(|_| f64::from(draw.value(distribution))).collect()
}

fn write<const WIDTH: usize>(target: &mut [u8], mut put: impl FnMut(&mut [u8; WIDTH])) {
    for slot in target.as_chunks_mut::<WIDTH>().0 {
        put(slot);
    }
}

struct SplitMix64(u64);

impl SplitMix64 {
    fn named(seed: u64, name: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(name.as_bytes());
        let mut state = [0; 8];
        state.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self(u64::from_le_bytes(state))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn value(&mut self, distribution: Distribution) -> f32 {
        match distribution {
            Distribution::Small => 0.02 * self.normal(),
            Distribution::Scale => 1.0 + 0.02 * self.normal(),
            Distribution::Positive => 0.5 + (self.next() >> 40) as f32 * (1.0 / 16_777_216.0),
        }
    }

    fn normal(&mut self) -> f32 {
        /// Standard deviation of the sum of four uniform integers in 0..65536: sqrt(4 (2^32 - 1) /
        /// 12).
        const DEVIATION: f32 = 37_837.226;
        let draw = self.next();
        let sum = (draw & 0xffff) + (draw >> 16 & 0xffff) + (draw >> 32 & 0xffff) + (draw >> 48);
        (sum as i32 - 131_070) as f32 * (1.0 / DEVIATION)
    }
}

/// IEEE 754 binary16, rounded to nearest even; subnormals kept, too large becomes infinity.
pub(in crate::onnx) fn half_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    let mantissa = bits & 0x007f_ffff;
    if value.is_nan() {
        return sign | 0x7e00;
    }
    if exponent >= 31 {
        return sign | 0x7c00;
    }
    if exponent < -10 {
        return sign;
    }
    // A subnormal shows its leading one and is shifted further.
    let (significand, shift) = if exponent > 0 {
        (((exponent as u32) << 23) | mantissa, 13)
    } else {
        (mantissa | 0x0080_0000, (14 - exponent) as u32)
    };
    let rest = significand & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    let kept = significand >> shift;
    sign | (kept + u32::from(rest > half || (rest == half && kept & 1 == 1))) as u16
}

/// The upper half of an `f32`, rounded to nearest even.
pub(in crate::onnx) fn bfloat_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(distribution: Distribution, seed: u64, name: &str) -> Vec<f32> {
        let mut bytes = Vec::new();
        append(&mut bytes, 100_000, Precision::F32, distribution, seed, name);
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    #[test]
    fn moments_and_bounds() {
        // (distribution, mean, standard deviation, least, most)
        let cases = [
            (Distribution::Small, 0.0, 0.02, -0.07, 0.07),
            (Distribution::Scale, 1.0, 0.02, 0.93, 1.07),
            (Distribution::Positive, 1.0, 1.0 / 12f64.sqrt(), 0.5, 1.5),
        ];
        for (distribution, mean, deviation, least, most) in cases {
            let values: Vec<f64> =
                floats(distribution, 7, "w").into_iter().map(f64::from).collect();
            let n = values.len() as f64;
            let m = values.iter().sum::<f64>() / n;
            let d = (values.iter().map(|v| (v - m).powi(2)).sum::<f64>() / n).sqrt();
            assert!((m - mean).abs() < 4.0 * deviation / n.sqrt(), "{distribution:?}: mean {m}");
            assert!((d / deviation - 1.0).abs() < 0.01, "{distribution:?}: deviation {d}");
            assert!(values.iter().all(|&v| (least..=most).contains(&v)), "{distribution:?}");
        }
    }

    #[test]
    fn seed_and_name_decide() {
        let one = floats(Distribution::Small, 1, "a");
        assert_eq!(one, floats(Distribution::Small, 1, "a"));
        assert_ne!(one, floats(Distribution::Small, 2, "a"));
        assert_ne!(one, floats(Distribution::Small, 1, "b"));
    }

    #[test]
    fn every_type_has_its_size() {
        for precision in [
            Precision::F64,
            Precision::F32,
            Precision::F16,
            Precision::Bf16,
            Precision::I64,
            Precision::I8,
            Precision::Bool,
        ] {
            let mut bytes = vec![9];
            append(&mut bytes, 5, precision, Distribution::Scale, 1, "w");
            assert_eq!(bytes.len(), 1 + 5 * precision.size_bytes(), "{precision}");
            assert_eq!(bytes[1..].iter().all(|&b| b == 0), !precision.is_float(), "{precision}");
        }
    }

    #[test]
    fn narrow_floats() {
        // (value, binary16, bfloat16)
        let cases = [
            (0.0, 0x0000, 0x0000),
            (1.0, 0x3c00, 0x3f80),
            (-2.5, 0xc100, 0xc020),
            (65504.0, 0x7bff, 0x4780),
            (65520.0, 0x7c00, 0x4780),
            (1e9, 0x7c00, 0x4e6e),
            (5.960_464_5e-8, 0x0001, 0x3380),
            (1e-9, 0x0000, 0x3089),
            (0.1, 0x2e66, 0x3dcd),
            (6.1e-5, 0x03ff, 0x3880),
            (f32::INFINITY, 0x7c00, 0x7f80),
        ];
        for (value, half, bfloat) in cases {
            assert_eq!(half_bits(value), half, "half {value}");
            assert_eq!(bfloat_bits(value), bfloat, "bfloat {value}");
        }
        assert_eq!(half_bits(f32::NAN) & 0x7fff, 0x7e00);
    }
}
