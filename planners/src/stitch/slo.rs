//! [`Slo`]: the objective of a task, and the sets of objectives with which systems are evaluated
//! (section 5.1 and appendix D).
//!
//! Ranges are those of the original variants, not of stitched ones: the targets must not depend on
//! the system under evaluation. All tasks share the index of a configuration: configuration 7 gives
//! each task the seventh point of its own grid.

use super::{Order, StitchError, Zoo};

/// Points along each axis.
const POINTS: u64 = 5;
/// Extension of the range of accuracies on either side, basis points.
const EXTENDED_BP: u32 = 200;

/// A service level objective of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// The least accuracy, basis points.
    pub accuracy_bp: u32,
    /// The largest latency, ns.
    pub latency_ns: u64,
}

impl Slo {
    /// Whether this accuracy and latency meet it.
    #[must_use]
    pub const fn is_met_by(self, accuracy_bp: u32, latency_ns: u64) -> bool {
        accuracy_bp >= self.accuracy_bp && latency_ns <= self.latency_ns
    }
}

/// The ranges of accuracy and latency over a task's original variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// Lowest and highest accuracy, basis points.
    pub accuracy_bp: (u32, u32),
    /// Shortest and longest latency, ns.
    pub latency_ns: (u64, u64),
}

impl Ranges {
    /// The ranges over a task's original variants in an order (the paper's fixed order is
    /// NPU-GPU-CPU).
    ///
    /// # Errors
    /// [`StitchError::Impossible`] when no variant runs in that order.
    pub fn of_originals(zoo: &Zoo, task: usize, order: &Order) -> Result<Self, StitchError> {
        let found = zoo
            .tasks()
            .get(task)
            .ok_or_else(|| StitchError::zoo(format!("there is no task {task}")))?;
        let whole = |variant: usize| vec![variant; zoo.positions()];
        let reached = |variant| {
            Some((
                found.accuracy.of(&whole(variant)),
                zoo.latency_ns(task, order, &whole(variant))?.point(),
            ))
        };
        let reached: Vec<(u32, u64)> = (0..found.variants.len()).filter_map(reached).collect();
        let (accuracies, latencies) = (reached.iter().map(|r| r.0), reached.iter().map(|r| r.1));
        match (accuracies.clone().min(), accuracies.max(), latencies.clone().min(), latencies.max())
        {
            (Some(least), Some(most), Some(shortest), Some(longest)) => {
                Ok(Self { accuracy_bp: (least, most), latency_ns: (shortest, longest) })
            }
            _ => {
                Err(StitchError::Impossible { task: found.name.clone(), orders: zoo.named(order) })
            }
        }
    }

    fn accuracies(self) -> impl Iterator<Item = u32> {
        (0..POINTS).map(move |k| {
            between(u64::from(self.accuracy_bp.0), u64::from(self.accuracy_bp.1), k) as u32
        })
    }

    fn latencies(self) -> impl Iterator<Item = u64> {
        (0..POINTS).map(move |k| between(self.latency_ns.0, self.latency_ns.1, k))
    }

    /// 5 x 5: accuracy from 2 points below the least to 2 above the most, latency from 80 % of the
    /// least to 120 % of the most.
    #[must_use]
    pub fn grid(self) -> Vec<Slo> {
        let share = |ns: u64, percent: u128| {
            u64::try_from((u128::from(ns) * percent + 50) / 100).unwrap_or(u64::MAX)
        };
        let accuracy_bp = (
            self.accuracy_bp.0.saturating_sub(EXTENDED_BP),
            self.accuracy_bp.1.saturating_add(EXTENDED_BP),
        );
        let wider = Self {
            accuracy_bp,
            latency_ns: (share(self.latency_ns.0, 80), share(self.latency_ns.1, 120)),
        };
        wider
            .accuracies()
            .flat_map(|accuracy_bp| {
                wider.latencies().map(move |latency_ns| Slo { accuracy_bp, latency_ns })
            })
            .collect()
    }

    /// The highest accuracy of all, and five latencies from the least to the most.
    #[must_use]
    pub fn accuracy_guaranteed(self) -> Vec<Slo> {
        self.latencies()
            .map(|latency_ns| Slo { accuracy_bp: self.accuracy_bp.1, latency_ns })
            .collect()
    }

    /// The least latency of all, and five accuracies from the least to the most.
    #[must_use]
    pub fn latency_guaranteed(self) -> Vec<Slo> {
        self.accuracies()
            .map(|accuracy_bp| Slo { accuracy_bp, latency_ns: self.latency_ns.0 })
            .collect()
    }
}

/// The k-th of the points from `low` to `high`, to the nearest unit.
fn between(low: u64, high: u64, k: u64) -> u64 {
    let steps = u128::from(POINTS - 1);
    let offset = (u128::from(high.saturating_sub(low)) * u128::from(k) + steps / 2) / steps;
    low.saturating_add(u64::try_from(offset).unwrap_or(u64::MAX))
}

/// Configurations for all tasks at once: the n-th has the n-th objective of each task. As many as
/// the shortest list.
#[must_use]
pub fn shared(per_task: &[Vec<Slo>]) -> Vec<Vec<Slo>> {
    let count = per_task.iter().map(Vec::len).min().unwrap_or(0);
    (0..count)
        .map(|index| per_task.iter().filter_map(|list| list.get(index).copied()).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_those_of_the_papers_examples() {
        let ranges = Ranges { accuracy_bp: (8500, 9200), latency_ns: (50_000_000, 120_000_000) };
        let grid = ranges.grid();
        assert_eq!(grid.len(), 25);
        assert_eq!(
            grid.iter().step_by(5).map(|s| s.accuracy_bp).collect::<Vec<_>>(),
            [8300, 8575, 8850, 9125, 9400]
        );
        assert_eq!(
            grid[..5].iter().map(|s| s.latency_ns / 1_000_000).collect::<Vec<_>>(),
            [40, 66, 92, 118, 144]
        );
        let guaranteed = ranges.accuracy_guaranteed();
        assert!(guaranteed.iter().all(|s| s.accuracy_bp == 9200));
        assert_eq!(
            guaranteed.iter().map(|s| s.latency_ns).collect::<Vec<_>>(),
            [50_000_000, 67_500_000, 85_000_000, 102_500_000, 120_000_000]
        );
        let guaranteed = ranges.latency_guaranteed();
        assert!(guaranteed.iter().all(|s| s.latency_ns == 50_000_000));
        assert_eq!(
            guaranteed.iter().map(|s| s.accuracy_bp).collect::<Vec<_>>(),
            [8500, 8675, 8850, 9025, 9200]
        );
    }
}
