//! Errors of forecasts. Every function takes `(actual, predicted)` in that order; errors are
//! relative to the actual value.
//!
//! [`mape`], [`p90_ape`] and [`weighted_ape`] are in percent; [`within`] is a share from 0 to 1.
//! Pairs with an actual value that is not positive are left out. A number that is not finite is an
//! error, and so is an empty set of pairs: neither counts as 0 %.

use std::fmt;

/// Why there is no metric.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// No actual value is positive.
    #[error("no pair has a positive actual value")]
    NoPairs,
    /// The two lists differ in length.
    #[error("{actual} actual values do not pair with {predicted} predictions")]
    Unpaired {
        /// Number of actual values.
        actual: usize,
        /// Number of predictions.
        predicted: usize,
    },
    /// A number is infinite or not a number.
    #[error("the {side} of pair {index} is {value}, which is not a finite number")]
    NotFinite {
        /// Which of the two.
        side: Side,
        /// Index of the pair.
        index: usize,
        /// The number.
        value: f64,
    },
}

/// A number of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The measured values.
    Actual,
    /// The forecast values.
    Predicted,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Actual => "actual value",
            Self::Predicted => "prediction",
        })
    }
}

/// `None` where a metric has no pairs.
///
/// # Errors
/// Every other [`MetricError`].
pub fn where_paired<T>(metric: Result<T, MetricError>) -> Result<Option<T>, MetricError> {
    match metric {
        Ok(value) => Ok(Some(value)),
        Err(MetricError::NoPairs) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Pairs of finite numbers whose actual value is positive; at least one.
fn pairs(actual: &[f64], predicted: &[f64]) -> Result<Vec<(f64, f64)>, MetricError> {
    if actual.len() != predicted.len() {
        return Err(MetricError::Unpaired { actual: actual.len(), predicted: predicted.len() });
    }
    let odd = |side, values: &[f64]| {
        let index = values.iter().position(|value| !value.is_finite())?;
        Some(MetricError::NotFinite { side, index, value: values[index] })
    };
    let refused = odd(Side::Predicted, predicted).or_else(|| odd(Side::Actual, actual));
    if let Some(error) = refused {
        return Err(error);
    }
    let pairs: Vec<(f64, f64)> =
        actual.iter().copied().zip(predicted.iter().copied()).filter(|(a, _)| *a > 0.0).collect();
    if pairs.is_empty() { Err(MetricError::NoPairs) } else { Ok(pairs) }
}

/// Absolute percentage errors, in percent; at least one.
fn apes(actual: &[f64], predicted: &[f64]) -> Result<Vec<f64>, MetricError> {
    let pairs = pairs(actual, predicted)?;
    Ok(pairs.into_iter().map(|(a, p)| 100.0 * (p - a).abs() / a).collect())
}

/// Mean absolute percentage error, in percent.
///
/// # Errors
/// [`MetricError`] without pairs and for numbers that are not finite.
pub fn mape(actual: &[f64], predicted: &[f64]) -> Result<f64, MetricError> {
    let errors = apes(actual, predicted)?;
    Ok(errors.iter().sum::<f64>() / errors.len() as f64)
}

/// 90th percentile of the absolute percentage error (nearest rank), in percent.
///
/// # Errors
/// As [`mape`].
pub fn p90_ape(actual: &[f64], predicted: &[f64]) -> Result<f64, MetricError> {
    let mut errors = apes(actual, predicted)?;
    errors.sort_unstable_by(f64::total_cmp);
    let rank = (errors.len() * 9).div_ceil(10);
    rank.checked_sub(1).and_then(|i| errors.get(i)).copied().ok_or(MetricError::NoPairs)
}

/// Share of forecasts that are at most `percent` percent off.
///
/// # Errors
/// As [`mape`].
pub fn within(actual: &[f64], predicted: &[f64], percent: f64) -> Result<f64, MetricError> {
    let errors = apes(actual, predicted)?;
    Ok(errors.iter().filter(|e| **e <= percent).count() as f64 / errors.len() as f64)
}

/// Sum of absolute errors over the sum of actual values, in percent: every row counts by its time.
///
/// # Errors
/// As [`mape`].
pub fn weighted_ape(actual: &[f64], predicted: &[f64]) -> Result<f64, MetricError> {
    let pairs = pairs(actual, predicted)?;
    let total: f64 = pairs.iter().map(|(a, _)| a).sum();
    let error: f64 = pairs.iter().map(|(a, p)| (a - p).abs()).sum();
    Ok(100.0 * error / total)
}

/// Mean; `None` without values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Mean of the middle half of the values: robust against outliers, finer than a median of coarse
/// timer ticks. `None` without values.
#[must_use]
pub fn interquartile_mean(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    mean(sorted.get(cut..sorted.len() - cut)?)
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

    fn close(metric: Result<f64, MetricError>, expected: f64) -> bool {
        metric.is_ok_and(|value| (value - expected).abs() < 1e-9)
    }

    #[test]
    fn errors_by_hand() {
        let (actual, predicted) = ([100.0, 200.0, 50.0, 10.0], [110.0, 190.0, 50.0, 20.0]);
        assert!(close(mape(&actual, &predicted), (10.0 + 5.0 + 0.0 + 100.0) / 4.0));
        assert!(close(p90_ape(&actual, &predicted), 100.0));
        assert!(close(within(&actual, &predicted, 5.0), 0.5));
        assert!(close(within(&actual, &predicted, 10.0), 0.75));
        assert!(close(weighted_ape(&actual, &predicted), 100.0 * 30.0 / 360.0));
    }

    #[test]
    fn the_order_of_arguments_matters_and_zeros_are_left_out() {
        assert!(close(mape(&[10.0], &[20.0]), 100.0));
        assert!(close(mape(&[20.0], &[10.0]), 50.0));
        assert!(close(mape(&[0.0, 10.0], &[5.0, 11.0]), 10.0));
        assert!(close(weighted_ape(&[0.0, 10.0], &[5.0, 11.0]), 10.0));
    }

    #[test]
    fn nothing_to_judge_and_odd_numbers_are_errors() {
        let all = |actual: &[f64], predicted: &[f64]| {
            [
                mape(actual, predicted),
                p90_ape(actual, predicted),
                within(actual, predicted, 5.0),
                weighted_ape(actual, predicted),
            ]
        };
        assert_eq!(all(&[], &[]), [Err(MetricError::NoPairs); 4]);
        assert_eq!(all(&[0.0], &[1.0]), [Err(MetricError::NoPairs); 4]);
        let unpaired = MetricError::Unpaired { actual: 2, predicted: 1 };
        assert_eq!(all(&[1.0, 2.0], &[1.0]), [Err(unpaired); 4]);
        let infinite =
            MetricError::NotFinite { side: Side::Predicted, index: 1, value: f64::INFINITY };
        assert_eq!(all(&[1.0, 2.0], &[1.0, f64::INFINITY]), [Err(infinite); 4]);
        for error in all(&[1.0, f64::NAN], &[1.0, 2.0]) {
            let text = error.map_err(|e| e.to_string());
            assert_eq!(
                text,
                Err("the actual value of pair 1 is NaN, which is not a finite number".to_owned())
            );
        }
        assert_eq!(where_paired(mape(&[], &[])), Ok(None));
        assert_eq!(where_paired(mape(&[10.0], &[11.0])), Ok(Some(10.0)));
        assert_eq!(where_paired(mape(&[1.0, 2.0], &[1.0])), Err(unpaired));
    }

    #[test]
    fn p90_of_ten_is_the_ninth() {
        let predicted: Vec<f64> = (1..=10).map(|i| 100.0 + f64::from(i)).collect();
        assert!(close(p90_ape(&[100.0; 10], &predicted), 9.0));
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
