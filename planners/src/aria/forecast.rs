//! [`Forecast`]: a latency, and the interval that contains it with a stated probability.
//!
//! Errors of forecasts are relative: the logarithm of the true latency over the forecast is assumed
//! to be normal on either side of the point, with the width of the interval on that side. The
//! interval at one confidence therefore follows from the interval at another.

use super::normal;
use serde::{Deserialize, Serialize};
use vitempo_graph::{Interval, IntervalError, Latency, Prediction};

/// A [`Prediction`] in the form that the planners of ARIA read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Spelled", into = "Spelled")]
pub struct Forecast(Prediction);

impl Forecast {
    /// A latency without uncertainty, ns.
    #[must_use]
    pub const fn exact(ns: f64) -> Self {
        Self(Prediction::new(Interval::exact(Latency::from_ns(ns)), 1.0))
    }

    /// A latency that is within `share` of `ns` with probability `level`.
    #[must_use]
    pub fn within(ns: f64, share: f64, level: f64) -> Self {
        let ends = Interval::clamped(ns, ns * (1.0 - share), ns * (1.0 + share));
        Self(Prediction::new(ends.map(Latency::from_ns), level))
    }

    /// The same on a processor that is faster by this factor.
    #[must_use]
    pub fn faster(self, times: f64) -> Self {
        let ends = self.0.interval.map(|end| Latency::from_ns(end.ns() / times));
        Self(Prediction::new(ends, self.0.level))
    }

    /// The point forecast, ns.
    #[must_use]
    pub const fn point_ns(&self) -> f64 {
        self.0.point().ns()
    }

    /// Point, lower and upper end, ns.
    const fn ends_ns(&self) -> [f64; 3] {
        [self.0.point().ns(), self.0.lower().ns(), self.0.upper().ns()]
    }

    /// The reason why the forecast is invalid, if it is.
    pub(super) fn refusal(&self) -> Option<String> {
        let [point_ns, lower_ns, upper_ns] = self.ends_ns();
        let ordered =
            0.0 < lower_ns && lower_ns <= point_ns && point_ns <= upper_ns && upper_ns < 1e15;
        if !ordered {
            return Some(format!(
                "{lower_ns} <= {point_ns} <= {upper_ns} ns must hold, above 0 and below 10^15"
            ));
        }
        let level = self.0.level;
        if !(level > 0.0 && level <= 1.0) {
            return Some(format!("the interval's level {level} must be above 0 and at most 1"));
        }
        let is_exact = lower_ns == upper_ns;
        (!is_exact && self.deviations().is_none()).then(|| {
            format!(
                "the interval's level {level} must be below 1, or {lower_ns} and {upper_ns} ns its \
                point: an interval that is certain has no spread to plan with"
            )
        })
    }

    /// Standard deviations from the point to the ends, by the level; `None` where no finite number
    /// has that probability.
    fn deviations(&self) -> Option<f64> {
        let z = normal::quantile(0.5 + 0.5 * self.0.level);
        (z.is_finite() && z > 0.0).then_some(z)
    }

    /// Standard deviation of the logarithm of the relative error, towards shorter and towards
    /// longer times.
    fn widths(&self) -> [f64; 2] {
        let Some(z) = self.deviations() else {
            return [0.0; 2];
        };
        let [point_ns, lower_ns, upper_ns] = self.ends_ns();
        [(point_ns / lower_ns).ln() / z, (upper_ns / point_ns).ln() / z]
    }

    /// The latency for an error of `z` standard deviations (of the logarithm), ns.
    #[must_use]
    pub fn at(&self, z: f64) -> f64 {
        if z == 0.0 { self.point_ns() } else { self.distribution().at(z) }
    }

    /// The distribution of the forecast, for evaluation at many points.
    pub(super) fn distribution(&self) -> Distribution {
        let [shorter, longer] = self.widths();
        Distribution { point_ns: self.point_ns(), shorter, longer }
    }

    /// The interval that contains the true latency with probability `confidence`.
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
    /// The point is at least 1 ns, and the lower end at least a thousandth of the point.
    fn from(prediction: &Prediction) -> Self {
        let point = prediction.point().ns().max(1.0);
        let lower = prediction.lower().ns().clamp(1e-3 * point, point);
        let ends = Interval::clamped(point, lower, prediction.upper().ns());
        Self(Prediction::new(ends.map(Latency::from_ns), prediction.level))
    }
}

/// The form of a forecast in costs files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelled {
    point_ns: f64,
    lower_ns: f64,
    upper_ns: f64,
    level: f64,
}

impl From<Forecast> for Spelled {
    fn from(forecast: Forecast) -> Self {
        let [point_ns, lower_ns, upper_ns] = forecast.ends_ns();
        Self { point_ns, lower_ns, upper_ns, level: forecast.0.level }
    }
}

impl TryFrom<Spelled> for Forecast {
    type Error = IntervalError;
    fn try_from(spelled: Spelled) -> Result<Self, IntervalError> {
        let Spelled { point_ns, lower_ns, upper_ns, level } = spelled;
        let ends = Interval::checked(point_ns, lower_ns, upper_ns)?;
        Ok(Self(Prediction::new(ends.map(Latency::from_ns), level)))
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
        assert!(Forecast::exact(-1.0).refusal().is_some());
        assert!(Forecast::exact(f64::NAN).refusal().is_some());
        assert_eq!(forecast.refusal(), None);
    }

    #[test]
    fn an_interval_that_is_certain_is_refused_unless_it_is_its_point() {
        assert_eq!(Forecast::exact(7.0).refusal(), None);
        for level in [1.0, 1.0 - f64::EPSILON / 2.0] {
            let refusal = Forecast::within(10e6, 0.08, level).refusal().expect("no spread");
            assert!(refusal.contains("must be below 1"), "{refusal}");
        }
        assert_eq!(Forecast::within(10e6, 0.08, 0.999_999).refusal(), None);
    }

    #[test]
    fn files_spell_a_forecast_flat_and_its_ends_are_in_order() {
        let json = r#"{"point_ns":2.5,"lower_ns":2.0,"upper_ns":4.0,"level":0.9}"#;
        let read = |json: &str| serde_json::from_str::<Forecast>(json).map_err(|e| e.to_string());
        let again = read(json).and_then(|f| serde_json::to_string(&f).map_err(|e| e.to_string()));
        assert_eq!(again.as_deref(), Ok(json));
        let error = read(&json.replace("2.5", "4.5"));
        assert!(error.is_err_and(|e| e.contains("2 .. 4 does not hold its point 4.5")));
        let error = read(&json.replace("level", "levels"));
        assert!(error.is_err_and(|e| e.contains("unknown field `levels`")));
    }
}
