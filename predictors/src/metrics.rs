//! How wrong forecasts are. Every function takes `(actual, predicted)` in that order; errors are
//! relative to the actual value.
//!
//! [`mape`], [`p90_ape`] and [`weighted_ape`] are in percent; [`within`] is a share between 0
//! and 1. Pairs with an actual value that is not positive are left out. All are 0 without pairs, so
//! that tables never show NaN: the number of pairs stands next to them.

/// Absolute percentage errors, in percent.
fn apes(actual: &[f64], predicted: &[f64]) -> Vec<f64> {
    actual
        .iter()
        .zip(predicted)
        .filter(|(a, p)| **a > 0.0 && p.is_finite())
        .map(|(a, p)| 100.0 * (p - a).abs() / a)
        .collect()
}

/// Mean absolute percentage error, in percent.
#[must_use]
pub fn mape(actual: &[f64], predicted: &[f64]) -> f64 {
    let errors = apes(actual, predicted);
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}

/// 90th percentile of the absolute percentage error (nearest rank), in percent.
#[must_use]
pub fn p90_ape(actual: &[f64], predicted: &[f64]) -> f64 {
    let mut errors = apes(actual, predicted);
    errors.sort_unstable_by(f64::total_cmp);
    let rank = (errors.len() * 9).div_ceil(10);
    rank.checked_sub(1).and_then(|i| errors.get(i)).copied().unwrap_or(0.0)
}

/// Share of forecasts that are at most `percent` percent off.
#[must_use]
pub fn within(actual: &[f64], predicted: &[f64], percent: f64) -> f64 {
    let errors = apes(actual, predicted);
    errors.iter().filter(|e| **e <= percent).count() as f64 / errors.len().max(1) as f64
}

/// Sum of absolute errors over the sum of actual values, in percent: every row counts by its time.
#[must_use]
pub fn weighted_ape(actual: &[f64], predicted: &[f64]) -> f64 {
    let total: f64 = actual.iter().sum();
    let error: f64 = actual.iter().zip(predicted).map(|(a, p)| (a - p).abs()).sum();
    if total > 0.0 { 100.0 * error / total } else { 0.0 }
}

/// Mean of the middle half of the values: robust against outliers, finer than a median of coarse
/// timer ticks. `None` without values.
#[must_use]
pub fn interquartile_mean(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    let middle = sorted.get(cut..sorted.len() - cut)?;
    if middle.is_empty() { None } else { Some(middle.iter().sum::<f64>() / middle.len() as f64) }
}

/// Median; `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value that a share `at` of the values lie below, by linear interpolation between the two
/// next to it; `None` without values.
#[must_use]
pub fn quantile(values: &[f64], at: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = at.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_by_hand() {
        let (actual, predicted) = ([100.0, 200.0, 50.0, 10.0], [110.0, 190.0, 50.0, 20.0]);
        assert!((mape(&actual, &predicted) - (10.0 + 5.0 + 0.0 + 100.0) / 4.0).abs() < 1e-12);
        assert!((p90_ape(&actual, &predicted) - 100.0).abs() < 1e-12);
        assert!((within(&actual, &predicted, 5.0) - 0.5).abs() < 1e-12);
        assert!((within(&actual, &predicted, 10.0) - 0.75).abs() < 1e-12);
        assert!((weighted_ape(&actual, &predicted) - 100.0 * 30.0 / 360.0).abs() < 1e-12);
    }

    #[test]
    fn the_order_of_arguments_matters_and_zeros_are_left_out() {
        assert!((mape(&[10.0], &[20.0]) - 100.0).abs() < 1e-12);
        assert!((mape(&[20.0], &[10.0]) - 50.0).abs() < 1e-12);
        assert!((mape(&[0.0, 10.0], &[5.0, 11.0]) - 10.0).abs() < 1e-12);
        assert_eq!(
            [mape(&[], &[]), p90_ape(&[], &[]), within(&[], &[], 5.0), weighted_ape(&[], &[])],
            [0.0; 4]
        );
    }

    #[test]
    fn p90_of_ten_is_the_ninth() {
        let predicted: Vec<f64> = (1..=10).map(|i| 100.0 + f64::from(i)).collect();
        assert!((p90_ape(&[100.0; 10], &predicted) - 9.0).abs() < 1e-9);
    }

    #[test]
    fn robust_locations() {
        assert_eq!(interquartile_mean(&[1.0, 2.0, 3.0, 1000.0]), Some(2.5));
        assert_eq!(interquartile_mean(&[7.0]), Some(7.0));
        assert_eq!(interquartile_mean(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(
            [quantile(&[], 0.1), quantile(&[7.0], 0.1), quantile(&[10.0, 20.0], 0.1)],
            [None, Some(7.0), Some(11.0)]
        );
        let tens: Vec<f64> =
            [3, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11].iter().map(|i| f64::from(i * 10)).collect();
        assert_eq!(quantile(&tens, 0.1), Some(20.0));
    }
}
