//! [`Success`]: the expected share of frames in time. A frame consists of static work and `K`
//! cycles, one after the other.
//!
//! There are two uncertainties. The bias of the forecasts is the same for all frames, because one
//! bundle makes all of them: all parts are assumed to be biased in the same direction, by the same
//! number of standard deviations. The spread of runs of the same work is independent and normal,
//! with a given coefficient of variation.

use super::{Forecast, forecast::Distribution, normal};
use serde::Serialize;
use std::sync::OnceLock;

/// Deadline success rates, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Success {
    /// Without a bias of the forecasts.
    pub at_point: f64,
    /// With forecasts that are too short by the interval at the stated confidence.
    pub at_upper: f64,
    /// Averaged over the distribution of the bias.
    pub expected: f64,
}

/// The parts of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FrameWork {
    parts: Vec<Distribution>,
    cycle: Distribution,
    cycles: u64,
    /// Coefficient of variation of every part.
    spread: f64,
}

/// Number of slices of the standard normal distribution for the mean over the bias.
const SLICES: usize = 400;

/// The middle of each slice; all slices have the same probability.
fn slices() -> &'static [f64] {
    static MIDDLES: OnceLock<Vec<f64>> = OnceLock::new();
    MIDDLES.get_or_init(|| {
        (0..SLICES).map(|slice| normal::quantile((slice as f64 + 0.5) / SLICES as f64)).collect()
    })
}

impl FrameWork {
    pub fn new(parts: &[Forecast], cycle: &Forecast, cycles: u64, spread: f64) -> Self {
        Self {
            parts: parts.iter().map(Forecast::distribution).collect(),
            cycle: cycle.distribution(),
            cycles,
            spread,
        }
    }

    /// Mean and standard deviation over runs if forecasts are biased by `z` standard deviations,
    /// ns.
    fn moments(&self, z: f64) -> (f64, f64) {
        let (count, cycle) = (self.cycles as f64, self.cycle.at(z));
        let parts = || self.parts.iter().map(|part| part.at(z));
        let mean = parts().sum::<f64>() + count * cycle;
        let variance = parts().map(|ns| (self.spread * ns).powi(2)).sum::<f64>()
            + count * (self.spread * cycle).powi(2);
        (mean, variance.sqrt())
    }

    /// Share of frames in time if forecasts are biased by `z` standard deviations.
    pub fn success_at(&self, target_ns: f64, z: f64) -> f64 {
        match self.moments(z) {
            (mean, 0.0) => f64::from(mean <= target_ns),
            (mean, deviation) => normal::share_below((target_ns - mean) / deviation),
        }
    }

    /// The shortest target that a share of frames meets, ns.
    pub fn least_target_ns(&self, share: f64, z: f64) -> f64 {
        let (mean, deviation) = self.moments(z);
        mean + deviation * normal::quantile(share)
    }

    pub fn success(&self, target_ns: f64, confidence: f64) -> Success {
        let upper = normal::quantile(0.5 + 0.5 * confidence);
        let expected =
            slices().iter().map(|z| self.success_at(target_ns, *z)).sum::<f64>() / SLICES as f64;
        Success {
            at_point: self.success_at(target_ns, 0.0),
            at_upper: self.success_at(target_ns, upper),
            expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_falls_from_one_to_nothing_around_the_target() {
        let work = FrameWork::new(
            &[Forecast::within(10e6, 0.1, 0.9)],
            &Forecast::within(5e6, 0.1, 0.9),
            2,
            0.05,
        );
        let success = |target: f64| work.success(target, 0.9);
        assert!(success(30e6).expected > 0.9999 && success(10e6).expected < 1e-4);
        let at = success(20e6);
        assert!(
            (at.at_point - 0.5).abs() < 1e-9
                && (at.expected - 0.5).abs() < 0.01
                && at.at_upper < 0.01,
            "{at:?}"
        );
        let target = work.least_target_ns(0.999, 0.0);
        assert!((work.success_at(target, 0.0) - 0.999).abs() < 1e-9);
        let exact = FrameWork::new(&[Forecast::exact(10e6)], &Forecast::exact(5e6), 2, 0.0);
        assert_eq!((exact.success_at(20e6, 1.0), exact.success_at(19e6, 1.0)), (1.0, 0.0));
    }
}
