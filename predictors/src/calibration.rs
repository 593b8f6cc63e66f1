//! [`Calibration`]: from the sum over kernels to the end-to-end latency: `scale x sum + per_kernel x kernels + constant`.
//!
//! Timing every kernel costs time that the bare run does not have, and running has a cost of its own: both show up here.
//! Fitted to relative error on held-out forecasts, within physical bounds; the plain sum is kept unless something more lowers the held-out error.

use crate::metrics;
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

/// One model: sum over kernels in ns, number of kernels, end-to-end latency in ns.
pub(crate) type Point = (f64, usize, f64);

/// Bounds of scale, ns per kernel and ns per run.
const BOUNDS: [(f64, f64); 3] = [(0.5, 2.0), (-3e3, 5e3), (0.0, 1e6)];
/// A richer form must lower the held-out error by this share.
const GAIN: f64 = 0.98;
const FOLDS: usize = 5;
/// Fewest models for a fit.
const FEWEST: usize = 20;
/// The end-to-end latency is never less than this share of the sum.
const LEAST_SHARE: f64 = 0.5;

impl Calibration {
    /// The plain sum.
    pub const IDENTITY: Self = Self { scale: 1.0, per_kernel_ns: 0.0, constant_ns: 0.0 };

    /// End-to-end latency in ns.
    #[must_use]
    pub fn end_to_end_ns(&self, sum_ns: f64, kernels: usize) -> f64 {
        (self.scale * sum_ns + self.per_kernel_ns * kernels as f64 + self.constant_ns).max(LEAST_SHARE * sum_ns)
    }

    /// Fits the simplest form that does.
    pub(crate) fn fit(points: &[Point]) -> Self {
        if points.len() < FEWEST {
            return Self::IDENTITY;
        }
        let forms: [&[usize]; 4] = [&[], &[0], &[0, 2], &[0, 1, 2]];
        let mut best = (held_out_error(points, forms[0]), forms[0]);
        for form in &forms[1..] {
            let error = held_out_error(points, form);
            if error < GAIN * best.0 {
                best = (error, form);
            }
        }
        solve(points, best.1)
    }

    /// Whether every number makes sense.
    pub(crate) fn is_valid(&self) -> bool {
        let terms = [self.scale, self.per_kernel_ns, self.constant_ns];
        terms.iter().zip(BOUNDS).all(|(t, (low, high))| (low..=high).contains(t))
    }
}

fn held_out_error(points: &[Point], form: &[usize]) -> f64 {
    let (mut actual, mut predicted) = (Vec::new(), Vec::new());
    for fold in 0..FOLDS {
        let pick = |held: bool| points.iter().enumerate().filter(move |(i, _)| (i % FOLDS == fold) == held).map(|(_, p)| *p);
        let fit = solve(&pick(false).collect::<Vec<_>>(), form);
        for (sum, kernels, e2e) in pick(true) {
            actual.push(e2e);
            predicted.push(fit.end_to_end_ns(sum, kernels));
        }
    }
    metrics::mape(&actual, &predicted)
}

/// Bounded least squares of relative error over the terms in `form`; the others stay as in the plain sum.
fn solve(points: &[Point], form: &[usize]) -> Calibration {
    let mut terms = [1.0, 0.0, 0.0];
    let rows: Vec<[f64; 3]> = points.iter().map(|(sum, kernels, e2e)| [sum / e2e, *kernels as f64 / e2e, 1.0 / e2e]).collect();
    for _ in 0..2000 {
        for &j in form {
            let (mut with, mut square) = (0.0, 0.0);
            for row in &rows {
                let rest = 1.0 - (0..3).filter(|k| *k != j).map(|k| terms[k] * row[k]).sum::<f64>();
                with += rest * row[j];
                square += row[j] * row[j];
            }
            if square > 0.0 {
                terms[j] = (with / square).clamp(BOUNDS[j].0, BOUNDS[j].1);
            }
        }
    }
    Calibration { scale: terms[0], per_kernel_ns: terms[1], constant_ns: terms[2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: impl Fn(f64, usize) -> f64) -> Vec<Point> {
        (0..60usize).map(|i| ((1 + i * 7 % 31) as f64 * 1e6, 50 + i * 13 % 97)).map(|(s, k)| (s, k, law(s, k))).collect()
    }

    #[test]
    fn keeps_the_plain_sum_when_it_is_right() {
        let noisy = points(|s, k| s * (1.0 + 0.01 * ((k % 3) as f64 - 1.0)));
        assert_eq!(Calibration::fit(&noisy), Calibration::IDENTITY);
        assert_eq!(Calibration::fit(&noisy[..3]), Calibration::IDENTITY);
    }

    #[test]
    fn finds_an_overhead_that_is_there() {
        let fit = Calibration::fit(&points(|s, k| 1.02 * s + 900.0 * k as f64 + 15_000.0));
        for (sum, kernels, e2e) in points(|s, k| 1.02 * s + 900.0 * k as f64 + 15_000.0) {
            assert!((fit.end_to_end_ns(sum, kernels) / e2e - 1.0).abs() < 0.003, "{fit:?}");
        }
        assert!(fit.is_valid());
    }
}
