//! [`Forecast`]: a latency, and the interval that holds it with some probability.
//!
//! Errors of forecasts are relative: the logarithm of truth over forecast is taken for normal on
//! either side of the point, with the width that the interval gives that side. So an interval of
//! one confidence follows from that of another.

use super::normal;
use serde::{Deserialize, Serialize};
use vitempo_graph::Prediction;

/// A latency in ns with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forecast {
    /// The most likely, ns.
    pub point_ns: f64,
    /// Ends of the interval, ns.
    pub lower_ns: f64,
    /// As `lower_ns`.
    pub upper_ns: f64,
    /// Probability that the interval holds the truth; 1 for what is known.
    pub level: f64,
}

impl Forecast {
    /// A latency that is known.
    #[must_use]
    pub const fn exact(ns: f64) -> Self {
        Self { point_ns: ns, lower_ns: ns, upper_ns: ns, level: 1.0 }
    }

    /// A latency that is within `share` of `ns` with probability `level`.
    #[must_use]
    pub fn within(ns: f64, share: f64, level: f64) -> Self {
        Self { point_ns: ns, lower_ns: ns * (1.0 - share), upper_ns: ns * (1.0 + share), level }
    }

    /// What is wrong with it, if anything.
    pub(super) fn refusal(&self) -> Option<String> {
        let ordered = 0.0 < self.lower_ns
            && self.lower_ns <= self.point_ns
            && self.point_ns <= self.upper_ns
            && self.upper_ns < 1e15;
        let Self { point_ns, lower_ns, upper_ns, level } = self;
        if !ordered {
            return Some(format!(
                "{lower_ns} <= {point_ns} <= {upper_ns} ns must hold, above 0 and below 10^15"
            ));
        }
        (!(*level > 0.0 && *level <= 1.0))
            .then(|| format!("the interval's level {level} must be above 0 and at most 1"))
    }

    /// Standard deviation of the relative error's logarithm, towards shorter and towards longer
    /// times.
    fn widths(&self) -> [f64; 2] {
        let z = normal::quantile(0.5 + 0.5 * self.level);
        if !z.is_finite() || z <= 0.0 {
            return [0.0; 2];
        }
        [(self.point_ns / self.lower_ns).ln() / z, (self.upper_ns / self.point_ns).ln() / z]
    }

    /// The latency if the error's logarithm is `z` standard deviations, ns.
    #[must_use]
    pub fn at(&self, z: f64) -> f64 {
        if z == 0.0 { self.point_ns } else { self.distribution().at(z) }
    }

    /// For many values of one forecast.
    pub(super) fn distribution(&self) -> Distribution {
        let [shorter, longer] = self.widths();
        Distribution { point_ns: self.point_ns, shorter, longer }
    }

    /// The interval that holds the truth with probability `confidence`.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> [f64; 2] {
        let z = normal::quantile(0.5 + 0.5 * confidence.clamp(0.0, 1.0 - 1e-12));
        [self.at(-z), self.at(z)]
    }
}

/// A forecast as two halves of a lognormal distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Distribution {
    point_ns: f64,
    shorter: f64,
    longer: f64,
}

impl Distribution {
    /// As [`Forecast::at`].
    pub fn at(self, z: f64) -> f64 {
        self.point_ns * (z * if z < 0.0 { self.shorter } else { self.longer }).exp()
    }
}

impl From<&Prediction> for Forecast {
    /// Nothing takes less than 1 ns, and nothing is certain to take no time at all.
    fn from(prediction: &Prediction) -> Self {
        let point_ns = prediction.point.ns().max(1.0);
        let (lower_ns, upper_ns) = (
            prediction.lower.ns().clamp(1e-3 * point_ns, point_ns),
            prediction.upper.ns().max(point_ns),
        );
        Self { point_ns, lower_ns, upper_ns, level: prediction.level }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_grow_with_the_confidence_and_are_the_given_one_at_its_level() {
        let forecast = Forecast::within(10e6, 0.08, 0.9);
        let [low, high] = forecast.interval(0.9);
        assert!((low - 9.2e6).abs() < 1.0 && (high - 10.8e6).abs() < 1.0, "{low} {high}");
        let widths: Vec<f64> = [0.5, 0.8, 0.9, 0.99]
            .iter()
            .map(|c| forecast.interval(*c)[1] - forecast.interval(*c)[0])
            .collect();
        assert!(widths.is_sorted() && widths[0] > 0.0);
        assert_eq!(Forecast::exact(7.0).interval(0.99), [7.0, 7.0]);
        assert!(
            Forecast { lower_ns: 3.0, ..Forecast::exact(2.0) }.refusal().is_some()
                && Forecast::exact(f64::NAN).refusal().is_some()
        );
        assert_eq!(forecast.refusal(), None);
    }
}
