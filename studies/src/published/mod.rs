//! Errors of adapted forecasts on published latencies: one device is left out at a time, and a few
//! of its latencies are given back. [`evaluate`] runs every test that a folder
//! has files for.
//!
//! Each test draws the measured models anew for every seed; a source never shares the device of the
//! target. See `docs/adapting.md` for the figures.

mod cells;
mod choice;
mod npu;
mod phones;
mod study;
mod subsets;

pub use cells::CellTest;
pub use choice::ChoiceTest;
pub use npu::NpuTest;
pub use phones::PhoneTest;
pub use study::{StudyError, evaluate};

use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use vitempo::{
    adaptation::parallel,
    graph::{Interval, Latency},
    predictors::{
        adapt::{Adapted, Workload},
        metrics,
    },
};

/// How every test is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Protocol {
    /// Models measured on the target.
    pub samples: usize,
    /// Random draws of these models.
    pub seeds: u64,
    /// Devices that are targets; all where empty. Sources are those that are not in the list,
    /// whatever their number.
    pub unseen: Vec<String>,
    /// Threads.
    pub threads: usize,
}

impl Protocol {
    /// Whether a device is a target where every device may be one.
    #[must_use]
    pub fn has_target(&self, device: &str) -> bool {
        self.unseen.is_empty() || self.unseen.iter().any(|unseen| unseen == device)
    }
}

/// What a score means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Spearman's rank correlation; the mean over targets counts.
    Spearman,
    /// Mean absolute percentage error, in percent; the median over targets counts.
    Mape,
    /// Share of truths within the 90 % interval, in percent; the mean over targets counts.
    Coverage,
    /// Width of the 90 % interval over the point, in percent; the mean over targets counts.
    Width,
}

/// Scores of one target, one per seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// Device and setting.
    pub target: String,
    /// One per seed.
    pub by_seed: Vec<f64>,
}

impl Scores {
    /// Mean over seeds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        mean(&self.by_seed)
    }
}

/// One row of the table of targets.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What was tested.
    pub test: String,
    /// What the scores are.
    pub measure: Measure,
    /// All targets.
    pub scores: Vec<Scores>,
}

impl Outcome {
    /// The score over all targets, for each seed.
    #[must_use]
    pub fn by_seed(&self) -> Vec<f64> {
        let seeds = self.scores.iter().map(|s| s.by_seed.len()).min().unwrap_or(0);
        (0..seeds)
            .map(|seed| {
                self.over_targets(
                    &self.scores.iter().map(|s| s.by_seed[seed]).collect::<Vec<f64>>(),
                )
            })
            .collect()
    }

    /// The score over all targets of each target's mean over seeds.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.over_targets(&self.scores.iter().map(Scores::mean).collect::<Vec<f64>>())
    }

    /// Standard deviation over seeds.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let seeds = self.by_seed();
        let middle = mean(&seeds);
        (seeds.iter().map(|s| (s - middle).powi(2)).sum::<f64>() / (seeds.len().max(2) - 1) as f64)
            .sqrt()
    }

    fn over_targets(&self, scores: &[f64]) -> f64 {
        match self.measure {
            Measure::Spearman | Measure::Coverage | Measure::Width => mean(scores),
            Measure::Mape => metrics::median(scores).unwrap_or(0.0),
        }
    }
}

/// Forecasts of some models beside the truth.
#[derive(Clone, Copy, Debug)]
struct Evaluated {
    /// Mean absolute percentage error, in percent.
    error: f64,
    /// Share of truths within the 90 % interval, in percent.
    coverage: f64,
    /// Mean width of the 90 % intervals over the points, in percent.
    width: f64,
}

impl Evaluated {
    /// Measures of forecasts with intervals.
    const MEASURES: [Measure; 3] = [Measure::Mape, Measure::Coverage, Measure::Width];

    /// Without intervals.
    const fn of_points(error: f64) -> Self {
        Self { error, coverage: 0.0, width: 0.0 }
    }

    const fn score(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Coverage => self.coverage,
            Measure::Width => self.width,
            Measure::Mape | Measure::Spearman => self.error,
        }
    }

    /// Of these models, whose latencies in ns are `truth`.
    fn of(adapted: &Adapted, workloads: &[Workload], models: &[usize], truth: &[f64]) -> Self {
        let forecasts: Vec<Interval<Latency>> =
            models.iter().map(|&m| adapted.forecast(&workloads[m], Some(m)).latency()).collect();
        let points: Vec<f64> = forecasts.iter().map(|f| f.point().ns()).collect();
        let within = |(ns, f): &(&f64, &Interval<Latency>)| f.contains(Latency::from_ns(**ns));
        let inside = truth.iter().zip(&forecasts).filter(within).count();
        let widths = forecasts.iter().map(|f| f.relative_width());
        Self {
            // A forecast that is not a number spoils the score visibly.
            error: metrics::mape(truth, &points).unwrap_or(f64::INFINITY),
            coverage: 100.0 * inside as f64 / truth.len().max(1) as f64,
            width: 100.0 * mean(&widths.collect::<Vec<f64>>()),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The numbers in an order that the seed decides.
fn shuffled(mut items: Vec<usize>, seed: u64) -> Vec<usize> {
    items.shuffle(&mut StdRng::seed_from_u64(seed));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_seed_decide_everything() {
        assert_eq!(shuffled((0..20).collect(), 3), shuffled((0..20).collect(), 3));
        assert_ne!(shuffled((0..20).collect(), 3), shuffled((0..20).collect(), 4));
    }

    #[test]
    fn the_median_target_counts_for_errors_and_the_mean_for_ranks() {
        let scores = [1.0, 2.0, 9.0]
            .map(|s| Scores { target: String::new(), by_seed: vec![s, s + 1.0] })
            .to_vec();
        let of = |measure| Outcome { test: String::new(), measure, scores: scores.clone() };
        assert_eq!((of(Measure::Mape).score(), of(Measure::Spearman).score()), (2.5, 4.5));
        assert_eq!(of(Measure::Mape).by_seed(), [2.0, 3.0]);
    }
}
