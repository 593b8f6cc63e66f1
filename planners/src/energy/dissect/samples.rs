//! Samples of a sensor as means over times, with the time that each stands for.

use crate::energy::trace::{Averaging, PowerTrace};

/// Samples closer than this are averaged for the search of the clocks, s.
pub(super) const BIN_S: f64 = 0.005;
/// A sample stands for no more than this many usual steps, unless one in a hundred steps is longer.
const MOST_STEPS: f64 = 4.0;

/// The share of the steps that are short enough where samples are averaged.
const MOSTLY: f64 = 0.9;

/// Samples of a sensor, ascending in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    /// Start of the time that a sample covers; its own time for a power at a moment.
    pub from_s: Vec<f64>,
    pub time_s: Vec<f64>,
    pub power_w: Vec<f64>,
    /// The time that a sample stands for in means, s.
    pub weight_s: Vec<f64>,
}

impl Samples {
    /// The samples of a trace. Each weighs as much as the time around it, so that means are over
    /// time, however irregular the samples are; a gap adds little to the samples beside it.
    pub fn of(trace: &PowerTrace, averaging: Averaging) -> Self {
        let (time_s, power_w) = trace.samples();
        let first = usize::from(averaging == Averaging::SinceLast);
        let time = time_s[first..].to_vec();
        let weight_s = match averaging {
            Averaging::SinceLast => time_s.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            Averaging::Moment | Averaging::Over(_) => around_s(time_s),
        };
        let from_s = match averaging {
            Averaging::Moment => time.clone(),
            Averaging::Over(seconds) => time.iter().map(|t| t - seconds).collect(),
            Averaging::SinceLast => time_s[..time_s.len() - 1].to_vec(),
        };
        Self { from_s, time_s: time, power_w: power_w[first..].to_vec(), weight_s }
    }

    /// From, to, power and weight of each sample.
    pub fn iter(&self) -> impl Iterator<Item = (f64, f64, f64, f64)> {
        let windows = self.from_s.iter().zip(&self.time_s);
        let values = self.power_w.iter().zip(&self.weight_s);
        windows.zip(values).map(|((from, to), (watts, weight))| (*from, *to, *watts, *weight))
    }

    /// Means over short times of a sensor that samples powers at moments more often.
    pub fn binned(&self) -> Self {
        if step_s(&self.time_s, MOSTLY) > 0.5 * BIN_S || self.from_s != self.time_s {
            return self.clone();
        }
        let mut bins = Self::default();
        let mut start = 0;
        while start < self.time_s.len() {
            let from_s = self.time_s[start];
            let length = self.time_s[start..].partition_point(|&t| t < from_s + BIN_S);
            let within = start..start + length.max(1);
            let covered_s: f64 = self.weight_s[within.clone()].iter().sum();
            // Times with few samples would not be means over the whole.
            if covered_s >= 0.5 * BIN_S {
                let joules = within.clone().map(|i| self.power_w[i] * self.weight_s[i]);
                bins.from_s.push(from_s);
                bins.time_s.push(from_s + BIN_S);
                bins.power_w.push(joules.sum::<f64>() / covered_s);
                bins.weight_s.push(BIN_S);
            }
            start = within.end;
        }
        bins
    }
}

/// Half the time to the samples before and after each one; a longer step than usual is a gap.
fn around_s(time_s: &[f64]) -> Vec<f64> {
    let steps: Vec<f64> = time_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let usual_s = step_s(time_s, 0.5);
    let most_s = step_s(time_s, 0.99).max(MOST_STEPS * usual_s);
    let beside_s = |index: Option<usize>| {
        index.and_then(|i| steps.get(i)).map_or(usual_s, |step| step.min(most_s))
    };
    (0..time_s.len()).map(|i| 0.5 * (beside_s(i.checked_sub(1)) + beside_s(Some(i)))).collect()
}

/// The time between samples that this share of them does not exceed, s.
pub(super) fn step_s(time_s: &[f64], share: f64) -> f64 {
    let mut steps: Vec<f64> = time_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_by(f64::total_cmp);
    let index = (steps.len() as f64 * share) as usize;
    steps.get(index).or(steps.last()).copied().unwrap_or(0.0)
}
