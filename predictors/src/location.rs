//! Location estimates of the samples of one model run. Other processes on a shared machine add time
//! to a sample and never remove any, so low quantiles estimate the latency on an idle machine.
//!
//! End to end: the lower decile of the samples. Operators: the mean over the quieter third of the
//! runs in which they were timed, the same runs for every operator of a model: choosing for each
//! operator by itself would prefer the lower tick of a coarse timer. Latencies in ns; samples stay
//! as they are.

use crate::metrics;
use vitempo_graph::{Measurement, ModelProfile};

/// Quantile of end-to-end samples that is taken for the undisturbed latency.
const QUIET: f64 = 0.1;
/// Share of profiled runs that operators are located by; at least [`FEWEST_RUNS`].
const QUIET_RUNS: f64 = 1.0 / 3.0;
const FEWEST_RUNS: usize = 2;

/// End-to-end latency of a model run, ns, as bundles are trained and evaluated by it: the lower
/// decile of its samples. `None` without samples or where it is not positive.
pub fn end_to_end_ns(profile: &ModelProfile) -> Option<f64> {
    let samples: Vec<f64> = profile.e2e.wall_ns.iter().map(|&ns| ns as f64).collect();
    metrics::quantile(&samples, QUIET).filter(|ns| *ns > 0.0)
}

/// The least disturbed of a model run's profiled runs, as places in its samples, in ascending
/// order.
pub(crate) struct QuietRuns {
    runs: usize,
    chosen: Vec<usize>,
}

impl QuietRuns {
    pub(crate) fn of(profile: &ModelProfile) -> Self {
        let wall = &profile.e2e_profiled.wall_ns;
        let mut order: Vec<usize> = (0..wall.len()).collect();
        order.sort_by_key(|&run| wall[run]);
        order.truncate(((wall.len() as f64 * QUIET_RUNS).round() as usize).max(FEWEST_RUNS));
        order.sort_unstable();
        Self { runs: wall.len(), chosen: order }
    }

    /// Latency of one operator in those runs; of the middle half of its samples where they are not
    /// one for each run. `None` without samples.
    pub(crate) fn operator_ns(&self, measurement: &Measurement) -> Option<f64> {
        let samples = &measurement.samples.wall_ns;
        if samples.len() == self.runs && !self.chosen.is_empty() {
            return Some(
                self.chosen.iter().map(|&run| samples[run] as f64).sum::<f64>()
                    / self.chosen.len() as f64,
            );
        }
        metrics::interquartile_mean(&samples.iter().map(|&ns| ns as f64).collect::<Vec<_>>())
    }
}
