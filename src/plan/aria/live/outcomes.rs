//! [`LiveOutcomes`]: the measurements of a live run, of the parts alone and of every system. Times
//! are in ns.

use vitempo_aria::scheduler::cycles;
use vitempo_planners::{aria::System, simulator::nearest_rank};

/// The outcome of one system on engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemRun {
    /// The system.
    pub system: System,
    /// Latency of each frame, from its capture to its end.
    pub latency_ns: Vec<u64>,
    /// Camera frames that were not executed, because the one before them was not done.
    pub dropped: u64,
    /// Regions that were updated, over all frames.
    pub cycles: u64,
    /// Frames since the latest full frame, summed over all frames.
    pub full_age: u64,
    /// Completed full frames.
    pub full_frames: u64,
    /// Moving regions that needed an update, over all frames.
    pub regions: u64,
}

impl SystemRun {
    /// A run of no frames.
    #[must_use]
    pub fn new(system: System) -> Self {
        Self {
            system,
            latency_ns: Vec::new(),
            dropped: 0,
            cycles: 0,
            full_age: 0,
            full_frames: 0,
            regions: 0,
        }
    }

    /// Frames that took no longer than the target.
    #[must_use]
    pub fn in_time(&self, target_ns: f64) -> usize {
        self.latency_ns.iter().filter(|ns| **ns as f64 <= target_ns).count()
    }

    /// Share of the frames that took no longer than the target; 0 without frames.
    #[must_use]
    pub fn success_rate(&self, target_ns: f64) -> f64 {
        self.in_time(target_ns) as f64 / self.frames()
    }

    /// Latency that this share of the frames does not exceed; 0 without frames.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let mut sorted = self.latency_ns.clone();
        sorted.sort_unstable();
        nearest_rank(&sorted, share).unwrap_or(0)
    }

    /// The mean per frame of a sum over all frames.
    #[must_use]
    pub fn per_frame(&self, sum: u64) -> f64 {
        sum as f64 / self.frames()
    }

    fn frames(&self) -> f64 {
        self.latency_ns.len().max(1) as f64
    }
}

/// The measurements of the parts alone, and of all systems.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveOutcomes {
    /// Names of the engines with a description: `onnxruntime on cores [0]`.
    pub engines: Vec<(String, String)>,
    /// The outcome of each system.
    pub runs: Vec<SystemRun>,
    /// Median latency of a cycle: alone, and beside full frames.
    pub cycle_ns: [u64; 2],
    /// Median latency of full frames alone, lowest resolution first.
    pub full_ns: Vec<u64>,
    /// Planned cycles per frame.
    pub planned_cycles: u64,
    /// Forecast latency of a cycle.
    pub forecast_cycle_ns: f64,
    /// Longest time of a frame.
    pub target_ns: f64,
    /// Forecast per-frame overhead (the time beside the cycles).
    pub overhead_ns: f64,
}

impl LiveOutcomes {
    /// Cycles per frame that fit, by the measured latency of a cycle beside full frames.
    #[must_use]
    pub fn cycles_that_fit(&self) -> u64 {
        cycles(self.target_ns as u64, self.overhead_ns as u64, self.cycle_ns[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_quantiles_are_of_the_frames_that_ran() {
        let latency_ns = vec![30, 10, 20, 90];
        let run = SystemRun { latency_ns, cycles: 6, ..SystemRun::new(System::Aria) };
        assert_eq!((run.in_time(30.0), run.success_rate(30.0)), (3, 0.75));
        assert_eq!([0.5, 1.0].map(|share| run.quantile(share)), [20, 90]);
        assert_eq!(run.per_frame(run.cycles), 1.5);
        let none = SystemRun::new(System::Base);
        assert_eq!((none.success_rate(1.0), none.quantile(0.5)), (0.0, 0));
    }

    #[test]
    fn cycles_fit_into_what_the_overhead_leaves() {
        let outcomes = LiveOutcomes {
            engines: Vec::new(),
            runs: Vec::new(),
            cycle_ns: [9, 10],
            full_ns: Vec::new(),
            planned_cycles: 2,
            forecast_cycle_ns: 9.0,
            target_ns: 35.0,
            overhead_ns: 5.0,
        };
        assert_eq!(outcomes.cycles_that_fit(), 3);
    }
}
