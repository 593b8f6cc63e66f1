//! [`Outcome`]: the outcome of a simulation.

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
    /// Time since the start.
    pub start_ns: u64,
    /// Time since the start.
    pub end_ns: u64,
}

/// State of the device at one tick.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// Time since the start.
    pub time_ns: u64,
    /// Power of the whole device, W.
    pub watts: f64,
    /// Temperature of the chip, degrees Celsius.
    pub junction_c: f64,
    /// Temperature of the surface, degrees Celsius.
    pub skin_c: f64,
    /// Frequency of each processor; 0 where there is no frequency model.
    pub ghz: Vec<f64>,
}

/// The outcome of one stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamOutcome {
    /// The stream's name.
    pub name: String,
    /// Completed frames.
    pub completed: u64,
    /// Camera frames that were dropped.
    pub dropped: u64,
    /// Latency from capture to results, ns, in the order of completion.
    pub latency_ns: Vec<u64>,
    /// Completion times, ns.
    pub completed_ns: Vec<u64>,
    /// Frames that completed after their deadline.
    pub late: u64,
}

/// The outcome of one processor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessorOutcome {
    /// Name of the processor.
    pub name: String,
    /// Time for which it was busy.
    pub busy_ns: u64,
    /// Its energy, J.
    pub energy_j: f64,
}

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Simulated time, ns.
    pub duration_ns: u64,
    /// The outcomes, in the scenario's order.
    pub streams: Vec<StreamOutcome>,
    /// How often each stream's policy changed its alternative, in the scenario's order.
    pub switches: Vec<u64>,
    /// The outcomes, in the scenario's order.
    pub processors: Vec<ProcessorOutcome>,
    /// Energy of the whole device, base included, J.
    pub energy_j: f64,
    /// One per tick, where temperatures are simulated.
    pub readings: Vec<Reading>,
    /// The first task executions, up to the requested number.
    pub spans: Vec<Span>,
    /// Number of processed events.
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

/// The quantile of sorted values at this share (nearest rank); `None` without values.
#[must_use]
pub fn nearest_rank<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
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

    /// Share of results in time; 1 without results or deadline.
    #[must_use]
    pub fn deadline_success_rate(&self) -> f64 {
        if self.completed == 0 { 1.0 } else { 1.0 - self.late as f64 / self.completed as f64 }
    }
}
