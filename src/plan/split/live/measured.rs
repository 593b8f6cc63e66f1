//! [`MeasuredSplit`]: what was measured of a split, and its figures. Times are ns.

use super::{IN_FLIGHT, Similarity};
use crate::plan::live::interval;
use vitempo_planners::cost::Interval;
use vitempo_profiler::split::{FrameTimes, Lost, Throughput};

/// Measurements of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredSplit {
    /// Frames one at a time.
    pub alone: Vec<FrameTimes>,
    /// Frames that follow each other.
    pub streamed: Vec<FrameTimes>,
    /// Times between results of frames that follow each other.
    pub periods_ns: Vec<u64>,
    /// Frames that were lost with the server.
    pub lost: Vec<Lost>,
    /// Frames that did not begin because the server was lost too often.
    pub not_run: usize,
    /// The real rates of the link; `None` where the server is not used.
    pub link: Option<Throughput>,
    /// `None` where engines compute nothing, or no frame was completed any more.
    pub similarity: Option<Similarity>,
}

impl MeasuredSplit {
    /// Median of something about frames alone, and the middle four fifths.
    pub fn alone(&self, of: impl Fn(&FrameTimes) -> u64) -> Option<Interval> {
        interval(&self.alone.iter().map(of).collect::<Vec<_>>())
    }

    /// Mean time between the results of frames that follow each other, and the middle four fifths:
    /// results come in bursts, so that the median is not the rate.
    #[must_use]
    pub fn period_ns(&self) -> Option<Interval> {
        let range = interval(&self.periods_ns)?;
        let sum: u64 = self.periods_ns.iter().sum();
        let mean = sum / self.periods_ns.len() as u64;
        Some(Interval::clamped(mean, range.lower(), range.upper()))
    }
}

/// What neither engine accounts for: the link both ways, and handing over.
#[must_use]
pub fn between_ns(times: &FrameTimes) -> u64 {
    times.latency_ns.saturating_sub(times.device_ns).saturating_sub(times.server_ns)
}

/// Times between the results of frames that follow each other, once all parts are busy.
pub(super) fn periods(frames: &[FrameTimes]) -> Vec<u64> {
    let follows = |pair: &&[FrameTimes]| {
        pair[0].frame + 1 == pair[1].frame && pair[0].completed_ns <= pair[1].completed_ns
    };
    let busy = frames.get(IN_FLIGHT.saturating_sub(1)..).unwrap_or_default();
    let period = |pair: &[FrameTimes]| pair[1].completed_ns - pair[0].completed_ns;
    busy.windows(2).filter(follows).map(period).collect()
}
