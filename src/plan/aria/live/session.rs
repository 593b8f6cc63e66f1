//! [`Session`]: engines, the video and the parts of a plan, and the parts measured alone.

use super::{
    super::Scenario,
    AriaLiveError, LiveRequest,
    video::{Video, input},
};
use crate::plan::live::WARMUPS;
use std::sync::{Arc, atomic::Ordering};
use vitempo_aria::{Grid, Window};
use vitempo_profiler::{
    live::{LiveError, Rig, Ticket},
    statistics,
};

/// Index of the processor of full frames in the rig.
pub const FULL: usize = 0;
pub const REGIONS: usize = 1;

/// Measured runs of full frames alone.
const FULL_RUNS: usize = 3;
const CYCLE_RUNS: usize = 15;

/// The state that is needed to run a frame.
pub struct Session<'a> {
    pub rig: Rig,
    pub video: &'a Video,
    pub scenario: &'a Scenario,
    /// Number of levels. They are the first parts of the rig; the region encoder is the part after
    /// them.
    pub levels: usize,
    pub top: Grid,
    pub request: &'a LiveRequest,
}

impl Session<'_> {
    fn ask(
        &self,
        part: usize,
        processor: usize,
        frame: usize,
        window: Window,
        scale: Option<[usize; 2]>,
    ) -> Result<Ticket, AriaLiveError> {
        let graph = &self.rig.parts()[part];
        let picture = input(graph, self.video, frame, window, scale)?;
        Ok(self.rig.ask(part, processor, &[Arc::new(picture)])?)
    }

    /// Requests a full frame at a level.
    pub fn level_ticket(
        &self,
        level: usize,
        processor: usize,
        frame: usize,
    ) -> Result<Ticket, AriaLiveError> {
        let costs = &self.scenario.costs.levels[level];
        self.ask(level, processor, frame, self.top.window(), Some([costs.rows, costs.cols]))
    }

    /// Requests a region.
    pub fn region_ticket(
        &self,
        processor: usize,
        frame: usize,
        window: Window,
    ) -> Result<Ticket, AriaLiveError> {
        self.ask(self.levels, processor, frame, window, None)
    }

    /// A window of the region encoder's size in the frame.
    pub fn some_window(&self) -> Window {
        let region = &self.scenario.plan.region;
        Window { row: 0, col: 0, rows: region.rows, cols: region.cols }
    }

    pub fn go_on(&self) -> Result<(), AriaLiveError> {
        let is_interrupted = self.request.interrupted.load(Ordering::Relaxed);
        if is_interrupted { Err(LiveError::Interrupted.into()) } else { Ok(()) }
    }

    /// Measures medians: a cycle alone and beside full frames; full frames of each level. All parts
    /// are loaded afterwards.
    pub fn alone(&self) -> Result<([u64; 2], Vec<u64>), AriaLiveError> {
        let mut full_ns = Vec::new();
        for level in 0..self.levels {
            let mut took = Vec::new();
            for run in 0..WARMUPS + FULL_RUNS {
                let answer = self.level_ticket(level, FULL, 0)?.wait()?;
                took.extend((run >= WARMUPS).then_some(answer.busy_ns));
                self.go_on()?;
            }
            self.level_ticket(level, REGIONS, 0)?.wait()?;
            full_ns.push(median(&took));
        }
        self.region_ticket(FULL, 0, self.some_window())?.wait()?;
        Ok(([self.cycle(false)?, self.cycle(true)?], full_ns))
    }

    /// Median latency of a cycle, alone or beside full frames of the highest level.
    fn cycle(&self, beside_full_frames: bool) -> Result<u64, AriaLiveError> {
        let mut took = Vec::new();
        let mut beside: Option<Ticket> = None;
        for run in 0..WARMUPS + CYCLE_RUNS {
            let is_done = beside.as_ref().is_none_or(|ticket| !matches!(ticket.poll(), Ok(None)));
            if beside_full_frames && is_done {
                beside = Some(self.level_ticket(self.levels - 1, FULL, 0)?);
            }
            let answer = self.region_ticket(REGIONS, 0, self.some_window())?.wait()?;
            took.extend((run >= WARMUPS).then_some(answer.busy_ns));
            self.go_on()?;
        }
        if let Some(ticket) = beside {
            let _ = ticket.wait();
        }
        Ok(median(&took))
    }

    /// The injected slowdown of the processor of full frames at a frame.
    pub fn slowdown(&self, frame: usize) -> f64 {
        let is_throttled = frame > self.request.frames / 2;
        self.request.throttle.filter(|_| is_throttled).unwrap_or(1.0).max(1.0)
    }
}

fn median(values: &[u64]) -> u64 {
    statistics::median(values).unwrap_or(0.0) as u64
}
