//! [`LiveOutcomes`]: the measurements of a live run, of the parts alone and of every system. Times
//! are in ns.

use super::Replayed;
use std::ops::RangeInclusive;
use vitempo_aria::{FlowSource, scene::Score, scheduler::cycles};
use vitempo_planners::{
    aria::{Setup, System},
    simulator::nearest_rank,
};

/// One executed frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveFrame {
    /// Number of the camera frame.
    pub frame: u64,
    /// From its capture to its end, ns.
    pub latency_ns: u64,
    /// Regions that were updated.
    pub cycles: u64,
    /// Moving regions that needed an update.
    pub regions: u64,
    /// Frames since the latest full frame.
    pub full_age: u64,
    /// Error of what was shown against the truth, and against the network's output for the frame
    /// whole at the highest resolution; of a network whose decoder says depth and labels.
    pub shown: Option<[Score; 2]>,
}

/// The outcome of one system on engines.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemRun {
    /// The system as it was planned.
    pub setup: Setup,
    /// The executed frames.
    pub frames: Vec<LiveFrame>,
    /// Camera frames that were not executed, because the one before them was not done.
    pub dropped: u64,
    /// Completed full frames.
    pub full_frames: u64,
}

impl SystemRun {
    /// A run of no frames.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self { setup, frames: Vec::new(), dropped: 0, full_frames: 0 }
    }

    /// Frames that took no longer than the target.
    #[must_use]
    pub fn in_time(&self, target_ns: f64) -> usize {
        self.frames.iter().filter(|frame| frame.latency_ns as f64 <= target_ns).count()
    }

    /// Share of the frames that took no longer than the target; 0 without frames.
    #[must_use]
    pub fn success_rate(&self, target_ns: f64) -> f64 {
        self.in_time(target_ns) as f64 / self.count()
    }

    /// Latency that this share of the frames does not exceed; 0 without frames.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let mut sorted: Vec<u64> = self.frames.iter().map(|frame| frame.latency_ns).collect();
        sorted.sort_unstable();
        nearest_rank(&sorted, share).unwrap_or(0)
    }

    /// The mean of a number of each frame; 0 without frames.
    #[must_use]
    pub fn mean(&self, of: impl Fn(&LiveFrame) -> u64) -> f64 {
        self.frames.iter().map(of).sum::<u64>() as f64 / self.count()
    }

    /// Errors of all frames together, as in [`LiveFrame::shown`].
    #[must_use]
    pub fn shown(&self) -> Option<[Score; 2]> {
        let mut all: Option<[Score; 2]> = None;
        for shown in self.frames.iter().filter_map(|frame| frame.shown) {
            let sum = all.get_or_insert_default();
            sum.iter_mut().zip(&shown).for_each(|(sum, score)| sum.add(score));
        }
        all
    }

    /// The run of some of its camera frames alone.
    #[must_use]
    pub fn within(&self, frames: &RangeInclusive<u64>) -> Self {
        let frames = self.frames.iter().filter(|frame| frames.contains(&frame.frame)).copied();
        Self { frames: frames.collect(), ..Self::new(self.setup.clone()) }
    }

    fn count(&self) -> f64 {
        self.frames.len().max(1) as f64
    }
}

/// The measurements of the parts alone, and of all systems.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveOutcomes {
    /// Names of the engines with a description: `onnxruntime on cores [0]`.
    pub engines: Vec<(String, String)>,
    /// What ARIA warped full frames by.
    pub flow: FlowSource,
    /// The outcome of each system.
    pub runs: Vec<SystemRun>,
    /// Median latency of a cycle: alone, and beside full frames.
    pub cycle_ns: [u64; 2],
    /// Median latency of full frames alone, lowest resolution first.
    pub full_ns: Vec<u64>,
    /// Median latency of the decoder alone, lowest resolution first; 0 without a decoder.
    pub decoder_ns: Vec<u64>,
    /// What the simulator says of each run from these latencies, on the same frames: without
    /// throttling, then with it.
    pub replayed: Vec<Vec<Replayed>>,
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
    /// The flow by which a system moves its latest full frame; none where it shows every frame whole.
    #[must_use]
    pub fn flow_of(&self, system: System) -> Option<&'static str> {
        match system {
            System::NpuOnly | System::MobiSrLike => None,
            System::Base => Some(FlowSource::Rotation.name()),
            _ => Some(self.flow.name()),
        }
    }

    /// Cycles per frame that fit, by the measured latency of a cycle beside full frames.
    #[must_use]
    pub fn cycles_that_fit(&self) -> u64 {
        cycles(self.target_ns as u64, self.overhead_ns as u64, self.cycle_ns[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_planners::aria::{AriaCosts, Requirements, plan};

    #[test]
    fn rates_and_quantiles_are_of_the_frames_that_ran() {
        let frames = [30, 10, 20, 90].map(|latency_ns| LiveFrame {
            latency_ns,
            cycles: latency_ns / 30,
            ..LiveFrame::default()
        });
        let run = SystemRun { frames: frames.to_vec(), ..SystemRun::new(setup()) };
        assert_eq!((run.in_time(30.0), run.success_rate(30.0)), (3, 0.75));
        assert_eq!([0.5, 1.0].map(|share| run.quantile(share)), [20, 90]);
        assert_eq!((run.mean(|frame| frame.cycles), run.shown()), (1.0, None));
        let none = SystemRun::new(setup());
        assert_eq!((none.success_rate(1.0), none.quantile(0.5)), (0.0, 0));
    }

    fn setup() -> Setup {
        let (costs, _) = AriaCosts::paper_phone().expect("what ships");
        let requirements = Requirements::for_target(33.3e6);
        let plan = plan(&costs, &requirements).expect("a plan");
        Setup::of(System::Aria, &costs, &requirements, &plan)
    }

    #[test]
    fn cycles_fit_into_what_the_overhead_leaves() {
        let outcomes = LiveOutcomes {
            engines: Vec::new(),
            flow: FlowSource::Depth,
            runs: Vec::new(),
            cycle_ns: [9, 10],
            full_ns: Vec::new(),
            decoder_ns: Vec::new(),
            replayed: Vec::new(),
            planned_cycles: 2,
            forecast_cycle_ns: 9.0,
            target_ns: 35.0,
            overhead_ns: 5.0,
        };
        assert_eq!(outcomes.cycles_that_fit(), 3);
        let flows = [System::NpuOnly, System::Base, System::Aria].map(|of| outcomes.flow_of(of));
        assert_eq!(flows, [None, Some("rotation"), Some("decoder's depth")]);
    }
}
