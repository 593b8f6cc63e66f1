//! Errors of adapted forecasts on published latencies: one device is left out at a time, and a few
//! of its latencies are used for adaptation. [`evaluate`] runs every test that a folder has files
//! for.
//!
//! Each test draws the measured models anew for every seed; a source never shares the device of the
//! target. `docs/adapting.md` has the figures.

mod cells;
mod npu;
mod phones;
mod study;

pub use cells::CellTest;
pub use npu::NpuTest;
pub use phones::PhoneTest;
pub use study::{StudyError, evaluate};

use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use vitempo::{adaptation::parallel, predictors::metrics};

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
            Measure::Spearman | Measure::Coverage => mean(scores),
            Measure::Mape => metrics::median(scores).unwrap_or(0.0),
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
