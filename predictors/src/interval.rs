//! [`Interval`]: how far the truth may lie from a forecast, by split-conformal quantiles of `ln(actual / predicted)`.
//!
//! Scores come from models that were held out when their forecast was made. The lower and the upper quantile are taken separately, with the rank
//! corrected for the number of scores n: ceil((n + 1) q). Where n is too small for a rank, the most extreme score stands in, and coverage is not guaranteed.

use serde::{Deserialize, Serialize};

/// Bounds on `ln(actual / predicted)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Share of truths the bounds are meant to hold.
    #[serde(with = "crate::bits")]
    pub level: f64,
    /// Lower bound, at most 0.
    #[serde(with = "crate::bits")]
    pub lower_log: f64,
    /// Upper bound, at least 0.
    #[serde(with = "crate::bits")]
    pub upper_log: f64,
    /// Number of scores behind it.
    pub scores: usize,
}

/// Half-width, as a logarithm, when there are no scores at all: a factor of two.
const UNKNOWN: f64 = std::f64::consts::LN_2;

impl Interval {
    /// From held-out actual and predicted latencies.
    #[must_use]
    pub fn fit(actual: &[f64], predicted: &[f64], level: f64) -> Self {
        let ratio = |(a, p): (&f64, &f64)| (a / p).ln();
        let mut scores: Vec<f64> = actual.iter().zip(predicted).map(ratio).filter(|s| s.is_finite()).collect();
        scores.sort_unstable_by(f64::total_cmp);
        let n = scores.len();
        let tail = (1.0 - level) / 2.0;
        let rank = (((n + 1) as f64) * (1.0 - tail)).ceil() as usize;
        let upper = scores.get(rank.clamp(1, n.max(1)) - 1).copied().unwrap_or(UNKNOWN);
        let lower = scores.get(n.saturating_sub(rank)).copied().unwrap_or(-UNKNOWN);
        Self { level, lower_log: lower.min(0.0), upper_log: upper.max(0.0), scores: n }
    }

    /// Lower and upper bound around a forecast.
    #[must_use]
    pub fn around(&self, point: f64) -> (f64, f64) {
        (point * self.lower_log.exp(), point * self.upper_log.exp())
    }

    /// Whether every number makes sense.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let sane = |v: f64| v.is_finite() && v.abs() < 50.0;
        self.level > 0.0 && self.level < 1.0 && sane(self.lower_log) && sane(self.upper_log) && self.lower_log <= 0.0 && self.upper_log >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_hand() {
        let actual: Vec<f64> = (1..=19).map(|i| (f64::from(i - 10) / 100.0).exp()).collect();
        let fit = Interval::fit(&actual, &[1.0; 19], 0.9);
        assert!((fit.upper_log - 0.09).abs() < 1e-12 && (fit.lower_log + 0.09).abs() < 1e-12, "rank ceil(20 x 0.95) = 19: the extremes");
        let half = Interval::fit(&actual, &[1.0; 19], 0.5);
        assert!((half.upper_log - 0.05).abs() < 1e-12 && (half.lower_log + 0.05).abs() < 1e-12, "rank ceil(20 x 0.75) = 15");
    }

    #[test]
    fn covers_what_it_promises_on_exchangeable_scores() {
        let draw = |i: u64| ((i.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 33) % 1000) as f64 / 5000.0;
        let actual: Vec<f64> = (0..400).map(|i| draw(i).exp()).collect();
        let fit = Interval::fit(&actual[..200], &[1.1; 200], 0.9);
        let held = actual[200..].iter().filter(|a| fit.around(1.1).0 <= **a && **a <= fit.around(1.1).1).count();
        assert!((165..=198).contains(&held), "{held} of 200");
    }

    #[test]
    fn without_scores_it_is_wide_and_valid() {
        let fit = Interval::fit(&[], &[], 0.9);
        assert!(fit.is_valid() && fit.around(10.0) == (5.0, 20.0));
    }
}
