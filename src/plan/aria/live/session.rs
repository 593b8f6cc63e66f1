//! [`Session`]: engines, the video and the parts of a plan, and the parts measured alone.

use super::{
    super::{AriaModels, Scenario},
    AriaLiveError, LiveRequest,
    decoded::{decoded, decoder_inputs, tells_depth_and_labels},
    video::{Video, channels, features, input},
};
use crate::plan::live::WARMUPS;
use std::sync::{Arc, atomic::Ordering};
use vitempo_aria::{
    FeatureMap, FlowSource, Grid, Window,
    scene::{Dense, cut},
};
use vitempo_graph::Graph;
use vitempo_planners::aria::{Setup, System};
use vitempo_profiler::{
    live::{Answer, LiveError, Rig, Ticket},
    statistics,
};

/// Index of the processor of full frames in the rig.
pub const FULL: usize = 0;
pub const REGIONS: usize = 1;

/// Measured runs of full frames alone.
const FULL_RUNS: usize = 3;
const CYCLE_RUNS: usize = 15;

/// The parts of the rig: encoders of levels, of regions and of blocks, and decoders of levels.
pub struct Parts {
    pub levels: Vec<Grid>,
    pub region: Grid,
    pub block: Grid,
    pub decodes: bool,
    pub channels: usize,
    /// Whether decoders say depth and labels.
    pub sees: bool,
}

impl Parts {
    /// The parts of a plan whose highest level is `top`, and their graphs.
    pub fn of(
        scenario: &Scenario,
        models: &AriaModels,
        top: Grid,
    ) -> Result<(Self, Vec<Graph>), AriaLiveError> {
        let Scenario { costs, requirements, plan, .. } = scenario;
        let size = |grid: &Grid| [grid.rows(), grid.cols()];
        let mut levels = Vec::new();
        for level in &costs.levels {
            if level.rows <= top.rows() && level.cols <= top.cols() {
                levels.push(Grid::new(level.rows, level.cols)?);
            }
        }
        let within =
            |rows: usize, cols: usize| Grid::new(rows.min(top.rows()), cols.min(top.cols()));
        let region = within(plan.region.rows, plan.region.cols)?;
        let divided = Setup::of(System::MobiSrLike, costs, requirements, plan).region;
        let block = within(divided.rows, divided.cols)?;
        let sizes: Vec<[usize; 2]> = levels.iter().chain([&region, &block]).map(size).collect();
        let mut graphs = models.encoders(&sizes)?;
        for level in &levels {
            let decoder = models.decoder_at(size(level))?;
            let name = |graph: Graph| {
                let name = format!("{} of {level}", graph.name());
                graph.with_name(name)
            };
            graphs.extend(decoder.map(name));
        }
        let channels = channels(&graphs[0])?;
        let decodes = models.decoder().is_some();
        let sees = channels == vitempo_aria::CHANNELS
            && graphs
                .last()
                .is_some_and(|last| decodes && tells_depth_and_labels(last, top.patches()));
        Ok((Self { levels, region, block, decodes, channels, sees }, graphs))
    }

    fn region_part(&self) -> usize {
        self.levels.len()
    }

    fn block_part(&self) -> usize {
        self.levels.len() + 1
    }

    /// The decoder for features of a level.
    fn decoder_part(&self, grid: Grid) -> Option<usize> {
        let level = self.levels.iter().position(|level| *level == grid)?;
        self.decodes.then_some(self.levels.len() + 2 + level)
    }
}

/// The state that is needed to run a frame.
pub struct Session<'a> {
    pub rig: Rig,
    pub video: &'a Video,
    pub scenario: &'a Scenario,
    pub parts: Parts,
    /// What ARIA warps full frames by.
    pub flow: FlowSource,
    pub request: &'a LiveRequest,
}

/// Medians of the parts alone, ns.
pub struct Alone {
    /// A cycle: alone, and beside full frames.
    pub cycle_ns: [u64; 2],
    /// Spread of cycles beside full frames: coefficient of variation.
    pub spread: f64,
    /// A full frame at each level, on the processor of full frames and on that of regions.
    pub full_ns: Vec<[u64; 2]>,
    /// A block of MobiSR-like, on the processor of regions and on that of full frames.
    pub block_ns: [u64; 2],
    /// A decoder at each level; 0 where there is none.
    pub decoder_ns: Vec<u64>,
}

impl Session<'_> {
    pub fn top(&self) -> Grid {
        self.video.camera().grid
    }

    pub fn top_level(&self) -> usize {
        self.parts.levels.len() - 1
    }

    fn ask(
        &self,
        part: usize,
        processor: usize,
        pixels: Vec<f32>,
        grid: Grid,
    ) -> Result<Ticket, AriaLiveError> {
        let (graph, patch) = (&self.rig.parts()[part], self.video.camera().patch);
        let picture = input(graph, pixels, [grid.rows(), grid.cols()], patch)?;
        Ok(self.rig.ask(part, processor, &[Arc::new(picture)])?)
    }

    fn pixels(&self, frame: usize, window: Window, to: Grid) -> Result<Vec<f32>, AriaLiveError> {
        Ok(self.video.pixels(self.parts.channels, frame, window, [to.rows(), to.cols()])?)
    }

    /// Requests a full frame at a level.
    pub fn level_ticket(
        &self,
        level: usize,
        processor: usize,
        frame: usize,
    ) -> Result<Ticket, AriaLiveError> {
        let grid = self.parts.levels[level];
        self.ask(level, processor, self.pixels(frame, self.top().window(), grid)?, grid)
    }

    /// The features of a full frame from its answer.
    pub fn level_features(
        &self,
        level: usize,
        answer: &Answer,
    ) -> Result<FeatureMap, AriaLiveError> {
        features(answer, self.parts.levels[level])
    }

    /// Requests a region.
    pub fn region_ticket(&self, frame: usize, window: Window) -> Result<Ticket, AriaLiveError> {
        let region = self.parts.region;
        self.ask(self.parts.region_part(), REGIONS, self.pixels(frame, window, region)?, region)
    }

    /// The features of a region, row by row, resampled to its window.
    pub fn region_features(
        &self,
        answer: &Answer,
        window: Window,
    ) -> Result<Vec<f32>, AriaLiveError> {
        let grid = Grid::new(window.rows, window.cols)?;
        Ok(features(answer, self.parts.region)?.resampled(grid)?.values().to_vec())
    }

    /// Pixels of a frame at a level, to cut blocks from.
    pub fn level_pixels(&self, level: usize, frame: usize) -> Result<Vec<f32>, AriaLiveError> {
        self.pixels(frame, self.top().window(), self.parts.levels[level])
    }

    /// Requests a block of such pixels.
    pub fn block_ticket(
        &self,
        processor: usize,
        pixels: &[f32],
        level: usize,
        window: Window,
    ) -> Result<Ticket, AriaLiveError> {
        let part = cut(pixels, self.parts.levels[level], self.video.camera().patch, window);
        self.ask(self.parts.block_part(), processor, part, self.parts.block)
    }

    /// Requests a block of a frame at the highest resolution.
    pub fn hard_ticket(
        &self,
        processor: usize,
        frame: usize,
        window: Window,
    ) -> Result<Ticket, AriaLiveError> {
        let block = self.parts.block;
        self.ask(self.parts.block_part(), processor, self.pixels(frame, window, block)?, block)
    }

    /// The features of a block, row by row.
    pub fn block_features(&self, answer: &Answer) -> Result<FeatureMap, AriaLiveError> {
        features(answer, self.parts.block)
    }

    /// Runs the decoder on features of a level, where there is one; what it says where it says depth
    /// and labels.
    pub fn decode(&self, features: &FeatureMap) -> Result<Option<Dense>, AriaLiveError> {
        let Some(part) = self.parts.decoder_part(features.grid()) else { return Ok(None) };
        let decoder = &self.rig.parts()[part];
        let answer = self.rig.ask(part, REGIONS, &decoder_inputs(decoder, features))?.wait()?;
        Ok(self.parts.sees.then(|| decoded(decoder, answer, features)).transpose()?)
    }

    /// What the network says of every picture, whole at the highest level.
    pub fn references(&self) -> Result<Vec<Dense>, AriaLiveError> {
        let mut all = Vec::new();
        if self.parts.sees {
            for frame in 0..self.video.pictures().len() {
                let answer = self.level_ticket(self.top_level(), FULL, frame)?.wait()?;
                let features = self.level_features(self.top_level(), &answer)?;
                all.extend(self.decode(&features)?);
                self.go_on()?;
            }
        }
        Ok(all)
    }

    /// A window of this size in the frame.
    fn some_window(&self, of: Grid) -> Window {
        Window { row: 0, col: 0, rows: of.rows(), cols: of.cols() }
    }

    pub fn go_on(&self) -> Result<(), AriaLiveError> {
        let is_interrupted = self.request.interrupted.load(Ordering::Relaxed);
        if is_interrupted { Err(LiveError::Interrupted.into()) } else { Ok(()) }
    }

    /// Measures medians. All parts are loaded afterwards.
    pub fn alone(&self) -> Result<Alone, AriaLiveError> {
        let (mut full_ns, mut decoder_ns) = (Vec::new(), Vec::new());
        for level in 0..self.parts.levels.len() {
            let on = |processor: usize| {
                self.median(FULL_RUNS, || Ok(self.level_ticket(level, processor, 0)?.wait()?))
            };
            full_ns.push([on(FULL)?, on(REGIONS)?]);
            decoder_ns.push(self.decoder_alone(level)?);
        }
        let pixels = self.level_pixels(self.top_level(), 0)?;
        let window = self.some_window(self.parts.block);
        let block = |processor: usize| {
            self.median(CYCLE_RUNS, || {
                Ok(self.block_ticket(processor, &pixels, self.top_level(), window)?.wait()?)
            })
        };
        let block_ns = [block(REGIONS)?, block(FULL)?];
        let (alone, beside) = (self.cycles(false)?, self.cycles(true)?);
        Ok(Alone {
            cycle_ns: [&alone, &beside].map(|took| median(took)),
            spread: coefficient_of_variation(&beside),
            full_ns,
            block_ns,
            decoder_ns,
        })
    }

    fn median(
        &self,
        runs: usize,
        mut run: impl FnMut() -> Result<Answer, AriaLiveError>,
    ) -> Result<u64, AriaLiveError> {
        let mut took = Vec::new();
        for number in 0..WARMUPS + runs {
            let answer = run()?;
            took.extend((number >= WARMUPS).then_some(answer.busy_ns));
            self.go_on()?;
        }
        Ok(median(&took))
    }

    fn decoder_alone(&self, level: usize) -> Result<u64, AriaLiveError> {
        let Some(part) = self.parts.decoder_part(self.parts.levels[level]) else { return Ok(0) };
        let answer = self.level_ticket(level, FULL, 0)?.wait()?;
        let features = self.level_features(level, &answer)?;
        let inputs = decoder_inputs(&self.rig.parts()[part], &features);
        self.median(CYCLE_RUNS, || Ok(self.rig.ask(part, REGIONS, &inputs)?.wait()?))
    }

    /// Latencies of cycles, alone or beside full frames of the highest level.
    fn cycles(&self, beside_full_frames: bool) -> Result<Vec<u64>, AriaLiveError> {
        let mut took = Vec::new();
        let mut beside: Option<Ticket> = None;
        for run in 0..WARMUPS + CYCLE_RUNS {
            let is_done = beside.as_ref().is_none_or(|ticket| !matches!(ticket.poll(), Ok(None)));
            if beside_full_frames && is_done {
                beside = Some(self.level_ticket(self.top_level(), FULL, 0)?);
            }
            let answer = self.region_ticket(0, self.some_window(self.parts.region))?.wait()?;
            took.extend((run >= WARMUPS).then_some(answer.busy_ns));
            self.go_on()?;
        }
        if let Some(ticket) = beside {
            let _ = ticket.wait();
        }
        Ok(took)
    }

    /// The injected slowdown of the processor of full frames at a frame.
    pub fn slowdown(&self, frame: usize) -> f64 {
        let is_throttled = frame > self.request.unthrottled();
        self.request.throttle.filter(|_| is_throttled).unwrap_or(1.0)
    }
}

fn median(values: &[u64]) -> u64 {
    statistics::median(values).unwrap_or(0.0) as u64
}

fn coefficient_of_variation(values: &[u64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|ns| *ns as f64).sum::<f64>() / count;
    let squares = values.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum::<f64>();
    (squares / count).sqrt() / mean.max(1.0)
}
