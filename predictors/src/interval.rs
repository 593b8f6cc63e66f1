//! [`ConformalInterval`]: bounds around a forecast by normalised conformal prediction, the split-conformal
//! quantiles of `ln(actual / predicted) / (difficulty + sensitivity)`.
//!
//! Scores come from models that were held out when their forecast was made. The divisor is the
//! model's difficulty estimate, the expected error of its operators
//! ([`error_scale`](crate::error_scale)). So the interval is wider for operators outside the
//! training data, and the guarantee of coverage still holds (Papadopoulos et al., arXiv:1401.3880;
//! Lei et al., arXiv:1604.04173, section 5.2). The sensitivity is the part of the error that all
//! models have, whatever their operators, such as noise of whole measurements; it is the least that
//! is about as likely as any if errors are Laplace-distributed. The plain interval, equally wide for
//! every model, is kept for comparison. The lower and the upper quantile are taken separately, with
//! the rank corrected for the number of scores n: ceil((n + 1) q). Where n is too small for a rank,
//! the most extreme score stands in, and coverage is not guaranteed.

use crate::{
    elementary::{exp, ln},
    metrics,
};
use serde::{Deserialize, Serialize};

/// Bounds on `ln(actual / predicted)`, per unit of difficulty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// At most 0.
    #[serde(with = "crate::bits")]
    pub lower: f64,
    /// At least 0.
    #[serde(with = "crate::bits")]
    pub upper: f64,
}

/// Where the truth lies with a stated probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConformalInterval {
    /// Nominal coverage: share of measured latencies inside of the bounds.
    #[serde(with = "crate::bits")]
    pub level: f64,
    /// Per unit of a model's difficulty estimate plus the sensitivity.
    pub scaled: Bounds,
    /// Added to every difficulty estimate; 0 in bundles of before.
    #[serde(default, with = "crate::bits", skip_serializing_if = "is_zero")]
    pub sensitivity: f64,
    /// The plain interval: the difficulty counts as 1.
    pub plain: Bounds,
    /// Number of scores behind them.
    pub scores: usize,
}

/// Sensitivities that are tried, as multiples of the median difficulty.
const SENSITIVITIES: [f64; 6] = [0.0, 0.125, 0.25, 0.5, 1.0, 2.0];
/// By how much a log-likelihood may be below the best.
const ABOUT: f64 = 1.0;
/// Fewest models for a sensitivity.
const FEWEST: usize = 20;

/// Half-width, in units of difficulty, when there are no scores at all.
const UNKNOWN: f64 = 3.0;
/// Half-width, as a logarithm, of the plain interval without scores: a factor of two.
const UNKNOWN_LOG: f64 = std::f64::consts::LN_2;
/// Lower bound of a difficulty estimate.
const LEAST_DIFFICULTY: f64 = 1e-3;

/// A forecast of a held-out model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// As measured, ns.
    #[serde(with = "crate::bits")]
    pub actual_ns: f64,
    /// As forecast, ns.
    #[serde(with = "crate::bits")]
    pub forecast_ns: f64,
    /// Expected `|ln(actual / forecast)|` if the errors of all operators had one sign.
    #[serde(with = "crate::bits")]
    pub difficulty: f64,
}

impl HeldOut {
    /// Whether its numbers are in their ranges.
    pub(crate) fn is_valid(&self) -> bool {
        self.log().abs() < 50.0 && (0.0..50.0).contains(&self.difficulty)
    }

    fn log(&self) -> f64 {
        ln(self.actual_ns / self.forecast_ns)
    }

    fn scale(&self, sensitivity: f64) -> f64 {
        scale(self.difficulty, sensitivity)
    }

    /// `ln(actual / forecast)` per unit of difficulty plus sensitivity.
    pub(crate) fn score(&self, sensitivity: f64) -> f64 {
        self.log() / self.scale(sensitivity)
    }
}

/// What errors of a difficulty are divided by.
fn scale(difficulty: f64, sensitivity: f64) -> f64 {
    difficulty.max(LEAST_DIFFICULTY) + sensitivity
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// The least sensitivity at which the errors of the models are about as likely as at the best: a
/// larger one makes intervals of difficult models narrower.
fn sensitivity(models: &[HeldOut]) -> f64 {
    let sound: Vec<&HeldOut> = models.iter().filter(|m| m.log().is_finite()).collect();
    let difficulties: Vec<f64> = sound.iter().map(|m| m.scale(0.0)).collect();
    let Some(median) = metrics::median(&difficulties).filter(|_| sound.len() >= FEWEST) else {
        return 0.0;
    };
    let tried = SENSITIVITIES.map(|multiple| multiple * median);
    let unlikely = tried.map(|sensitivity| sound.len() as f64 * unlikelihood(&sound, sensitivity));
    let least = unlikely.iter().copied().fold(f64::INFINITY, f64::min);
    let chosen = tried.iter().zip(unlikely).find(|(_, unlikely)| *unlikely <= least + ABOUT);
    chosen.map_or(0.0, |(sensitivity, _)| *sensitivity)
}

/// Negative mean log-likelihood of errors whose Laplace distributions have scales in proportion to
/// difficulty plus sensitivity, but for a constant; the factor is the most likely one.
fn unlikelihood(models: &[&HeldOut], sensitivity: f64) -> f64 {
    let mean = |of: &dyn Fn(&HeldOut) -> f64| {
        models.iter().map(|m| of(m)).sum::<f64>() / models.len().max(1) as f64
    };
    let factor = mean(&|m| m.log().abs() / m.scale(sensitivity));
    ln(factor.max(f64::MIN_POSITIVE)) + mean(&|m| ln(m.scale(sensitivity)))
}

impl Bounds {
    fn fit(mut scores: Vec<f64>, level: f64, unknown: f64) -> Self {
        scores.retain(|s| s.is_finite());
        scores.sort_unstable_by(f64::total_cmp);
        let n = scores.len();
        let tail = (1.0 - level) / 2.0;
        let rank = (((n + 1) as f64) * (1.0 - tail)).ceil() as usize;
        let upper = scores.get(rank.clamp(1, n.max(1)) - 1).copied().unwrap_or(unknown);
        let lower = scores.get(n.saturating_sub(rank)).copied().unwrap_or(-unknown);
        Self { lower: lower.min(0.0), upper: upper.max(0.0) }
    }

    /// Lower and upper bound around a forecast.
    #[must_use]
    pub fn around(&self, point: f64, difficulty: f64) -> (f64, f64) {
        (point * exp(self.lower * difficulty), point * exp(self.upper * difficulty))
    }

    fn is_valid(&self) -> bool {
        let valid = |v: f64| v.is_finite() && v.abs() < 1e4;
        valid(self.lower) && valid(self.upper) && self.lower <= 0.0 && self.upper >= 0.0
    }
}

impl ConformalInterval {
    /// The highest level that so many scores support: both ends have a rank among them. A higher one
    /// holds as much as this at best.
    #[must_use]
    pub fn supported_level(&self) -> f64 {
        (1.0 - 2.0 / (self.scores as f64 + 1.0)).max(0.0)
    }

    /// Whether there are enough scores for its level.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.level <= self.supported_level() + 1e-9
    }

    /// From held-out forecasts.
    #[must_use]
    pub fn fit(models: &[HeldOut], level: f64) -> Self {
        let logs: Vec<f64> = models.iter().map(HeldOut::log).collect();
        let sensitivity = sensitivity(models);
        let scaled: Vec<f64> = models.iter().map(|m| m.log() / m.scale(sensitivity)).collect();
        let scores = logs.iter().filter(|log| log.is_finite()).count();
        Self {
            level,
            scaled: Bounds::fit(scaled, level, UNKNOWN),
            sensitivity,
            plain: Bounds::fit(logs, level, UNKNOWN_LOG),
            scores,
        }
    }

    /// Lower and upper bound around a forecast with that difficulty estimate.
    #[must_use]
    pub fn around(&self, point: f64, difficulty: f64) -> (f64, f64) {
        self.scaled.around(point, scale(difficulty, self.sensitivity))
    }

    /// Whether level and bounds are in their valid ranges.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let has_bounds = self.scaled.is_valid() && self.plain.is_valid();
        self.level > 0.0
            && self.level < 1.0
            && has_bounds
            && (0.0..50.0).contains(&self.sensitivity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_out(actual: &[f64], forecast: f64, difficulty: f64) -> Vec<HeldOut> {
        actual
            .iter()
            .map(|&actual_ns| HeldOut { actual_ns, forecast_ns: forecast, difficulty })
            .collect()
    }

    #[test]
    fn quantiles_by_hand() {
        let actual: Vec<f64> = (1..=19).map(|i| (f64::from(i - 10) / 100.0).exp()).collect();
        let models = held_out(&actual, 1.0, 0.01);
        let fit = ConformalInterval::fit(&models, 0.9);
        assert!(
            (fit.plain.upper - 0.09).abs() < 1e-12 && (fit.plain.lower + 0.09).abs() < 1e-12,
            "rank ceil(20 x 0.95) = 19: the extremes"
        );
        assert!(
            (fit.scaled.upper - 9.0).abs() < 1e-9 && (fit.scaled.lower + 9.0).abs() < 1e-9,
            "the same in units of difficulty"
        );
        let half = ConformalInterval::fit(&models, 0.5);
        assert!(
            (half.plain.upper - 0.05).abs() < 1e-12 && (half.plain.lower + 0.05).abs() < 1e-12,
            "rank ceil(20 x 0.75) = 15"
        );
        assert!(fit.is_supported() && (fit.supported_level() - 0.9).abs() < 1e-12);
        assert!(!ConformalInterval::fit(&models, 0.95).is_supported());
        assert!(!ConformalInterval::fit(&models[..18], 0.9).is_supported());
    }

    #[test]
    fn twice_the_difficulty_is_twice_as_wide() {
        let fit = ConformalInterval::fit(&held_out(&[1.1, 0.9, 1.05, 1.0], 1.0, 0.05), 0.9);
        let width = |difficulty: f64| fit.around(1.0, difficulty).1.ln();
        assert!((width(0.1) - 2.0 * width(0.05)).abs() < 1e-12 && width(0.05) > 0.09);
    }

    /// Errors of both signs, evenly spread up to 1.
    fn errors(count: usize) -> impl Iterator<Item = f64> {
        (0..count).map(move |i| 2.0 * ((i * 37 % count) as f64 + 0.5) / count as f64 - 1.0)
    }

    #[test]
    fn the_sensitivity_is_what_errors_have_in_common() {
        let difficulties = [0.02, 0.1, 0.3];
        let models = |of: &dyn Fn(f64) -> f64| -> Vec<HeldOut> {
            errors(90)
                .enumerate()
                .map(|(i, error)| {
                    let difficulty = difficulties[i % 3];
                    let actual_ns = (error * of(difficulty)).exp();
                    HeldOut { actual_ns, forecast_ns: 1.0, difficulty }
                })
                .collect()
        };
        let fit = |of: &dyn Fn(f64) -> f64| ConformalInterval::fit(&models(of), 0.9).sensitivity;
        assert_eq!(fit(&|difficulty| difficulty), 0.0, "in proportion");
        assert!(fit(&|_| 0.1) >= 0.1, "the same for all");
        let between = fit(&|difficulty| difficulty + 0.05);
        assert!((between - 0.05).abs() < 0.03, "{between}");
        assert_eq!(ConformalInterval::fit(&models(&|_| 0.1)[..FEWEST - 1], 0.9).sensitivity, 0.0);
        let known = ConformalInterval::fit(&models(&|_| 0.1), 0.9);
        assert!(known.is_valid() && !ConformalInterval { sensitivity: -0.1, ..known }.is_valid());
        assert!(known.around(1.0, 0.3).1 < 2.0 * known.around(1.0, 0.02).1);
    }

    #[test]
    fn covers_what_it_promises_on_exchangeable_scores() {
        let draw = |i: u64| {
            ((i.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 33) % 1000) as f64
                / 5000.0
        };
        let difficulty = |i: usize| if i.is_multiple_of(3) { 2.0 } else { 1.0 };
        let forecasts: Vec<HeldOut> = (0..400)
            .map(|i| HeldOut {
                actual_ns: (draw(i as u64) * difficulty(i)).exp(),
                forecast_ns: 1.1,
                difficulty: difficulty(i),
            })
            .collect();
        let fit = ConformalInterval::fit(&forecasts[..200], 0.9);
        let inside = |f: &&HeldOut| {
            fit.around(1.1, f.difficulty).0 <= f.actual_ns
                && f.actual_ns <= fit.around(1.1, f.difficulty).1
        };
        let held = forecasts[200..].iter().filter(inside).count();
        assert!((165..=198).contains(&held), "{held} of 200");
    }

    #[test]
    fn without_scores_it_is_wide_and_valid() {
        let fit = ConformalInterval::fit(&[], 0.9);
        assert!(
            fit.is_valid()
                && fit.plain.around(10.0, 1.0) == (5.0, 20.0)
                && fit.around(10.0, 0.1).1 > 13.0
        );
    }
}
