//! Scales, zero points and the integers of quantised values: q = clip(round(x / scale) + zero
//! point).

/// Scale and zero point of unsigned 8-bit integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Affine {
    /// A 32-bit float.
    pub scale: f64,
    /// 0 to 255.
    pub zero_point: i64,
}

/// Ranges narrower than this are widened: scales stay normal 32-bit numbers, and so do their
/// products.
const NARROWEST: f64 = 1e-6;

impl Affine {
    /// Of a range, which is widened to hold 0. No quantised value lies beyond the range's upper
    /// end, so that a clip at that end is redundant.
    pub(crate) fn of_range(low: f64, high: f64) -> Self {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let width = (high - low).max(NARROWEST);
        let mut scale = (width / 255.0) as f32;
        if f64::from(scale) * 255.0 > width {
            scale = scale.next_down();
        }
        let scale = f64::from(scale);
        Self { scale, zero_point: ((-low / scale).round() as i64).clamp(0, 255) }
    }

    /// The zero point of every [`Affine::around_zero`].
    pub(crate) const MIDDLE: i64 = 128;

    /// Of the smallest range around 0 that holds another: its zero point is in the middle.
    pub(crate) fn around_zero(low: f64, high: f64) -> Self {
        let largest = low.abs().max(high.abs());
        Self { zero_point: Self::MIDDLE, ..Self::of_range(-largest, largest) }
    }
}

/// The largest magnitude among signed integers around 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Most {
    /// All of 8 bits.
    Full = 127,
    /// Two products with unsigned 8-bit integers add up in 16 bits, as x86 without VNNI adds them:
    /// 2 x 255 x 64 < 2^15. ONNX Runtime's quantiser calls it a reduced range.
    Reduced = 64,
}

/// Scale of signed 8-bit integers around 0.
pub(crate) fn symmetric(largest: f64, most: Most) -> f64 {
    f64::from((largest.max(NARROWEST) / f64::from(most as i32)) as f32)
}

/// One [`symmetric`] scale for each of `count` slices.
pub(crate) fn symmetric_scales(
    values: &[f64],
    slices: impl Iterator<Item = usize>,
    count: usize,
    most: Most,
) -> Vec<f64> {
    let mut largest = vec![0f64; count];
    values.iter().zip(slices).for_each(|(v, slice)| largest[slice] = largest[slice].max(v.abs()));
    largest.into_iter().map(|largest| symmetric(largest, most)).collect()
}

/// Signed 8-bit integers.
pub(crate) fn to_i8(value: f64, scale: f64) -> i64 {
    round_half_even(value / scale).clamp(-127.0, 127.0) as i64
}

/// Signed 32-bit integers.
pub(crate) fn to_i32(value: f64, scale: f64) -> i64 {
    round_half_even(value / scale).clamp(f64::from(i32::MIN), f64::from(i32::MAX)) as i64
}

fn round_half_even(value: f64) -> f64 {
    value.round_ties_even()
}

/// Slices of a row-major tensor along `axis`: for each element in order, its slice.
pub(crate) fn slices(shape: &[usize], axis: usize) -> impl Iterator<Item = usize> + use<> {
    let extent = shape.get(axis).copied().unwrap_or(1).max(1);
    let inner: usize = shape.iter().skip(axis.saturating_add(1)).product::<usize>().max(1);
    (0..shape.iter().product::<usize>()).map(move |i| i / inner % extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_zero_and_stay_inside() {
        // (low, high, zero point)
        let cases = [
            (0.0, 6.0, 0),
            (-1.0, 1.0, 128),
            (0.5, 2.0, 0),
            (-3.0, -1.0, 255),
            (0.0, 0.0, 0),
            (-0.1, 0.3, 64),
        ];
        for (low, high, zero_point) in cases {
            let affine = Affine::of_range(low, high);
            assert_eq!(affine.zero_point, zero_point, "{low} {high}");
            assert!(
                affine.scale * 255.0 <= (high.max(0.0) - low.min(0.0)).max(NARROWEST),
                "{low} {high}"
            );
        }
    }

    #[test]
    fn ranges_around_zero_have_it_in_the_middle() {
        for (low, high) in
            [(-1.0, 0.9), (-0.3, 7.0), (1.0, 2.0), (0.0, 0.0), (-1e-9, 1e-9), (-3.3e7, 1.0)]
        {
            let affine = Affine::around_zero(low, high);
            assert_eq!(affine.zero_point, 128, "{low} {high}");
            assert!(affine.scale * 127.5 >= 0.999 * low.abs().max(high.abs()));
        }
    }

    #[test]
    fn slices_along_each_axis() {
        let along = |axis| slices(&[2, 3, 2], axis).collect::<Vec<_>>();
        assert_eq!(along(0), [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(along(1), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        assert_eq!(along(2), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn integers_by_hand() {
        let scale = symmetric(2.54, Most::Full);
        assert_eq!((to_i8(2.54, scale), to_i8(-9.0, scale), to_i8(0.051, scale)), (127, -127, 3));
        let scale = symmetric(1.28, Most::Reduced);
        assert_eq!((to_i8(1.28, scale), to_i8(-1.28, scale), to_i8(0.051, scale)), (64, -64, 3));
        assert_eq!(to_i32(1e300, 1.0), i64::from(i32::MAX));
    }
}
