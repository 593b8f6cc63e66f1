//! How wide intervals are. Each measured model, forecast from the others, shows whether the variance
//! of forecasts is too large or too small for this device.
//!
//! The variance is multiplied by `(4 + sum z^2) / (4 + n)`, `z` the error of each of `n` latencies
//! over its standard deviation: the mode of a scale whose prior is as certain as four errors.

/// Errors that the variance before any latency counts for.
const BEFORE: f64 = 4.0;
/// Squares of errors over their variance count for no more than this: one outlier does not widen
/// every interval.
const LARGEST: f64 = 9.0;

/// What a hypothesis forecasts of the measured models.
pub(crate) struct LeftOut {
    /// Probability of the hypothesis; all add up to one.
    pub weight: f64,
    /// By latency: its error from the others, and the variance of that.
    pub errors: Vec<(f64, f64)>,
}

/// Factor on the width of intervals.
pub(crate) fn calibration(hypotheses: &[LeftOut]) -> f64 {
    let latencies = hypotheses.first().map_or(0, |h| h.errors.len());
    let square = |latency: usize| {
        let mean_of = |value: &dyn Fn((f64, f64)) -> f64| -> f64 {
            hypotheses.iter().map(|h| h.weight * value(h.errors[latency])).sum()
        };
        let mean = mean_of(&|(error, _)| error);
        let variance = mean_of(&|(error, variance)| variance + (error - mean).powi(2));
        (mean * mean / variance).min(LARGEST)
    };
    let squares: f64 = (0..latencies).map(square).filter(|z| z.is_finite()).sum();
    ((BEFORE + squares) / (BEFORE + latencies as f64)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_by_hand() {
        let one = |errors: Vec<(f64, f64)>| calibration(&[LeftOut { weight: 1.0, errors }]);
        assert_eq!((calibration(&[]), one(Vec::new())), (1.0, 1.0), "nothing is measured");
        assert!((one(vec![(0.1, 0.01); 10]) - 1.0).abs() < 1e-9, "errors as large as expected");
        assert!((one(vec![(0.0, 0.01); 12]) - 0.5).abs() < 1e-9, "no error: half as wide");
        assert!((one(vec![(5.0, 0.01); 4]) - 5.0_f64.sqrt()).abs() < 1e-9, "outliers are bounded");
        let apart = [1.0, -1.0].map(|error| LeftOut { weight: 0.5, errors: vec![(error, 0.5)] });
        assert!((calibration(&apart) - 0.8_f64.sqrt()).abs() < 1e-9, "hypotheses that disagree");
    }
}
