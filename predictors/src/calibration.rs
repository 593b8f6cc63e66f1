//! [`Calibration`]: from the sum over kernels to the end-to-end latency: `scale x sum + per_kernel
//! x kernels + constant`.
//!
//! Timing every kernel adds time that a plain run does not take, and a run has an overhead of its
//! own. Both are properties of the engine, so they are estimated from kernels and whole runs that
//! were *measured* in the same model runs: the maximum a posteriori terms under Laplace noise of
//! the relative error and a Gaussian prior around the plain sum. The prior matters where models are
//! few, noisy, or all much longer than an engine's overhead: without it, a term that explains a
//! percent of long models is off by the whole latency of a short one. The scale is the error that
//! held-out forecasts have in common.

use crate::{metrics, regressors::dot};
use serde::{Deserialize, Serialize};

/// What turns a sum over kernels into an end-to-end latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Factor on the sum.
    #[serde(with = "crate::bits")]
    pub scale: f64,
    /// ns per kernel; negative where timing a kernel costs more than launching it.
    #[serde(with = "crate::bits")]
    pub per_kernel_ns: f64,
    /// ns per run.
    #[serde(with = "crate::bits")]
    pub constant_ns: f64,
}

/// One model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Sum over its kernels as measured, ns.
    pub measured_ns: f64,
    /// Sum over its kernels as forecast by regressors that were fitted without it, ns.
    pub forecast_ns: f64,
    /// How many kernels.
    pub kernels: usize,
    /// End-to-end latency as measured, ns.
    pub e2e_ns: f64,
}

/// Bounds of scale, ns per kernel and ns per run.
const BOUNDS: [(f64, f64); 3] = [(0.5, 2.0), (-2e4, 2e4), (0.0, 1e6)];
/// The plain sum, and how far from it each term is thought to lie before anything is measured:
/// kernels' caches change by a few percent, engines' profilers and dispatch take microseconds a
/// kernel, starting a run tens of microseconds.
const PRIOR: [(f64, f64); 3] = [(1.0, 0.02), (0.0, 5e3), (0.0, 2e4)];
/// Noise of the relative error is not thought smaller than this.
const LEAST_NOISE: f64 = 1e-3;
const ROUNDS: usize = 200;
/// Fewest models for a fit.
const FEWEST: usize = 20;
/// The end-to-end latency is never less than this share of the sum.
const LEAST_SHARE: f64 = 0.3;

impl Calibration {
    /// The plain sum.
    pub const IDENTITY: Self = Self { scale: 1.0, per_kernel_ns: 0.0, constant_ns: 0.0 };

    /// End-to-end latency in ns.
    #[must_use]
    pub fn end_to_end_ns(&self, sum_ns: f64, kernels: usize) -> f64 {
        (self.scale * sum_ns + self.per_kernel_ns * kernels as f64 + self.constant_ns)
            .max(LEAST_SHARE * sum_ns)
    }

    /// The same where everything takes `factor` times as long: overheads are scaled.
    #[must_use]
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        let within = |value: f64, (low, high): (f64, f64)| (value * factor).clamp(low, high);
        Self {
            scale: self.scale,
            per_kernel_ns: within(self.per_kernel_ns, BOUNDS[1]),
            constant_ns: within(self.constant_ns, BOUNDS[2]),
        }
    }

    /// The overhead from measured kernels, the scale from forecast ones.
    pub(crate) fn fit(points: &[Point]) -> Self {
        if points.len() < FEWEST {
            return Self::IDENTITY;
        }
        let [_, per_kernel_ns, constant_ns] = most_probable(points);
        let scales: Vec<f64> = points
            .iter()
            .map(|p| (p.e2e_ns - per_kernel_ns * p.kernels as f64 - constant_ns) / p.forecast_ns)
            .collect();
        let scale = metrics::median(&scales).unwrap_or(1.0).clamp(BOUNDS[0].0, BOUNDS[0].1);
        Self { scale, per_kernel_ns, constant_ns }
    }

    /// Whether every number is finite and in its range.
    pub(crate) fn is_valid(&self) -> bool {
        let terms = [self.scale, self.per_kernel_ns, self.constant_ns];
        terms.iter().zip(BOUNDS).all(|(t, (low, high))| (low..=high).contains(t))
    }
}

/// Scale, ns per kernel and ns per run between measured kernels and measured runs: coordinate
/// descent on reweighted squares within [`BOUNDS`].
fn most_probable(points: &[Point]) -> [f64; 3] {
    let rows: Vec<[f64; 3]> = points
        .iter()
        .map(|p| [p.measured_ns / p.e2e_ns, p.kernels as f64 / p.e2e_ns, 1.0 / p.e2e_ns])
        .collect();
    let mut terms = PRIOR.map(|(mean, _)| mean);
    for _ in 0..ROUNDS {
        let errors: Vec<f64> =
            rows.iter().map(|row| (1.0 - dot(&terms, row)).abs().max(LEAST_NOISE)).collect();
        let noise = errors.iter().sum::<f64>() / errors.len() as f64;
        for j in 0..terms.len() {
            let (mean, spread) = PRIOR[j];
            let (mut with, mut square) = (mean / spread.powi(2), 1.0 / spread.powi(2));
            for (row, error) in rows.iter().zip(&errors) {
                let weight = 1.0 / (noise * error);
                with += weight * row[j] * (1.0 - dot(&terms, row) + terms[j] * row[j]);
                square += weight * row[j] * row[j];
            }
            terms[j] = (with / square).clamp(BOUNDS[j].0, BOUNDS[j].1);
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Models of 5 to 50 ms whose runs differ from `latency` of their kernels by `noise` at
    /// most, in turn more and less.
    fn points(noise: f64, latency: impl Fn(f64, usize) -> f64) -> Vec<Point> {
        let point = |i: usize| {
            let (sum, kernels) = ((5 + i * 7 % 46) as f64 * 1e6, 50 + i * 13 % 97);
            let e2e_ns = latency(sum, kernels) * (1.0 + noise * ((i * 5 % 11) as f64 / 5.0 - 1.0));
            Point { measured_ns: sum, forecast_ns: sum, kernels, e2e_ns }
        };
        (0..60).map(point).collect()
    }

    #[test]
    fn stays_at_the_plain_sum_when_it_is_right() {
        let fit = Calibration::fit(&points(0.02, |s, _| s));
        assert!((fit.end_to_end_ns(1e7, 100) / 1e7 - 1.0).abs() < 0.01, "{fit:?}");
        assert_eq!(Calibration::fit(&points(0.0, |s, _| 1.1 * s)[..3]), Calibration::IDENTITY);
    }

    #[test]
    fn finds_an_overhead_that_is_there_and_holds_far_below_the_models_it_was_fitted_to() {
        let latency = |s: f64, k: usize| 0.98 * s - 4500.0 * k as f64;
        let fit = Calibration::fit(&points(0.03, latency));
        // The plain sum is 41 % off for the first, which takes a fifth of the shortest that was
        // fitted to.
        for (sum, kernels, off) in [(1e6, 60, 0.2), (2e7, 100, 0.02), (3e8, 400, 0.02)] {
            assert!(
                (fit.end_to_end_ns(sum, kernels) / latency(sum, kernels) - 1.0).abs() < off,
                "{fit:?}"
            );
        }
        assert!(fit.is_valid());
    }

    #[test]
    fn noise_does_not_make_up_an_overhead_that_short_models_would_pay() {
        for turn in 0..20 {
            let noisy: Vec<Point> =
                points(0.3, |s, _| s).into_iter().cycle().skip(turn).take(40).collect();
            let fit = Calibration::fit(&noisy);
            assert!((fit.end_to_end_ns(1e6, 30) / 1e6 - 1.0).abs() < 0.35, "{fit:?}");
        }
    }

    #[test]
    fn what_forecasts_miss_in_common_is_the_scale() {
        let forecast: Vec<Point> = points(0.0, |s, _| s)
            .into_iter()
            .map(|p| Point { forecast_ns: 0.9 * p.forecast_ns, ..p })
            .collect();
        let fit = Calibration::fit(&forecast);
        assert!((fit.end_to_end_ns(0.9e7, 100) / 1e7 - 1.0).abs() < 0.005, "{fit:?}");
    }
}
