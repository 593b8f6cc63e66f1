//! Numbers as tensors hold them: 16-bit floats, and the number of an element type nearest to a
//! given one.

use crate::Precision;

/// The number of that element type nearest to `value`; the type's least or greatest integer where
/// it is beyond, infinity for floats.
pub(crate) fn nearest(value: f64, precision: Precision) -> f64 {
    let integer =
        |least: i64, most: i64| (value.round_ties_even() as i64).clamp(least, most) as f64;
    match precision {
        Precision::F64 => value,
        Precision::F32 => f64::from(value as f32),
        Precision::F16 => half(half_bits(value as f32)),
        Precision::Bf16 => bfloat(bfloat_bits(value as f32)),
        Precision::I64 => integer(i64::MIN, i64::MAX),
        Precision::I32 => integer(i32::MIN.into(), i32::MAX.into()),
        Precision::I16 => integer(i16::MIN.into(), i16::MAX.into()),
        Precision::I8 => integer(i8::MIN.into(), i8::MAX.into()),
        Precision::U8 => integer(0, u8::MAX.into()),
        Precision::Bool => f64::from(value != 0.0),
    }
}

/// IEEE 754 binary16, rounded to nearest even; subnormals kept, too large becomes infinity.
pub(crate) fn half_bits(value: f32) -> u16 {
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
pub(crate) fn bfloat_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// A 16-bit IEEE float.
pub(crate) fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// A bfloat16: the upper half of a 32-bit float.
pub(crate) fn bfloat(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bit_floats() {
        let cases = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333251953125),
            (0x0001, 5.960464477539063e-8),
            (0x7c00, f64::INFINITY),
        ];
        for (bits, expected) in cases {
            assert_eq!(half(bits), expected);
        }
        assert_eq!(bfloat(0x3f80), 1.0);
    }

    #[test]
    fn nearest_numbers_stay_what_they_are() {
        let cases = [
            (Precision::F64, 1e-300, 1e-300),
            (Precision::F32, 0.1, f64::from(0.1f32)),
            (Precision::F16, 1e-9, 0.0),
            (Precision::F16, 1e6, f64::INFINITY),
            (Precision::F16, -2.0, -2.0),
            (Precision::Bf16, 257.0, 256.0),
            (Precision::I64, 1e300, i64::MAX as f64),
            (Precision::I32, -3e9, f64::from(i32::MIN)),
            (Precision::I16, 40_000.0, 32_767.0),
            (Precision::I8, 0.6, 1.0),
            (Precision::U8, -1.0, 0.0),
            (Precision::Bool, 2.0, 1.0),
        ];
        for (precision, value, expected) in cases {
            assert_eq!(nearest(value, precision), expected, "{value} in {precision}");
            assert_eq!(nearest(expected, precision), expected, "{expected} in {precision}");
        }
        assert!(nearest(f64::NAN, Precision::F16).is_nan());
    }
}
