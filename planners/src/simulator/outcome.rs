//! [`Outcome`]: what a simulation measured.

use crate::Evidence;
use serde::Serialize;

/// One execution of a task, for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Index of the processor.
    pub processor: usize,
    /// Index of the stream.
    pub stream: usize,
    /// Index of the stage.
    pub stage: usize,
    /// Number of the frame.
    pub frame: u64,
    /// Since the start.
    pub start_ns: u64,
    /// Since the start.
    pub end_ns: u64,
}

/// State of the device at one tick.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// Since the start.
    pub time_ns: u64,
    /// Power of everything, W.
    pub watts: f64,
    /// Temperature of the chip, degrees Celsius.
    pub junction_c: f64,
    /// Temperature of the surface, degrees Celsius.
    pub skin_c: f64,
    /// For each processor; 0 where there is no frequency model.
    pub ghz: Vec<f64>,
}

/// What one stream got.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamOutcome {
    /// The stream's name.
    pub name: String,
    /// Frames whose results came.
    pub completed: u64,
    /// Frames of the camera's grid that nobody took.
    pub dropped: u64,
    /// From capture to results, ns, in the order of completion.
    pub latency_ns: Vec<u64>,
    /// When results came, ns.
    pub completed_ns: Vec<u64>,
    /// Frames whose results came after their deadline.
    pub late: u64,
}

/// What one processor did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessorOutcome {
    /// Name of the processor.
    pub name: String,
    /// How long it had a task.
    pub busy_ns: u64,
    /// Its energy, J.
    pub energy_j: f64,
}

/// What came out of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Simulated time, ns.
    pub duration_ns: u64,
    /// In the scenario's order.
    pub streams: Vec<StreamOutcome>,
    /// In the scenario's order.
    pub processors: Vec<ProcessorOutcome>,
    /// Everything drawn, base included, J.
    pub energy_j: f64,
    /// One per tick, where temperatures are simulated.
    pub readings: Vec<Reading>,
    /// The first task executions, as many as were asked for.
    pub spans: Vec<Span>,
    /// Events that were processed.
    pub events: u64,
    /// Always [`Evidence::Simulation`].
    pub evidence: Evidence,
}

impl Outcome {
    /// Results per second of one stream.
    #[must_use]
    pub fn frames_per_s(&self, stream: usize) -> f64 {
        self.streams
            .get(stream)
            .map_or(0.0, |s| s.completed as f64 / (self.duration_ns as f64 / 1e9))
    }

    /// Energy per result of one stream, all of the device's energy counted, J.
    #[must_use]
    pub fn energy_per_frame_j(&self, stream: usize) -> f64 {
        self.streams.get(stream).map_or(f64::NAN, |s| self.energy_j / s.completed as f64)
    }
}

/// Of sorted values, the one up to which this share of them lies (nearest rank); `None` without
/// any.
#[must_use]
pub fn nearest_rank(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

impl StreamOutcome {
    /// Latency below which this share of frames lies, ns (nearest rank); `None` before the first
    /// result.
    #[must_use]
    pub fn latency_quantile(&self, share: f64) -> Option<u64> {
        let mut sorted = self.latency_ns.clone();
        sorted.sort_unstable();
        nearest_rank(&sorted, share)
    }

    /// Mean time between results, ns; `None` before the second.
    #[must_use]
    pub fn period_ns(&self) -> Option<f64> {
        let (first, last) = (self.completed_ns.first()?, self.completed_ns.last()?);
        (self.completed_ns.len() > 1)
            .then(|| (last - first) as f64 / (self.completed_ns.len() - 1) as f64)
    }

    /// Share of results that came in time; 1 without results or deadline.
    #[must_use]
    pub fn deadline_success_rate(&self) -> f64 {
        if self.completed == 0 { 1.0 } else { 1.0 - self.late as f64 / self.completed as f64 }
    }
}
