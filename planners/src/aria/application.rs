//! A system as a program of the simulator: one stream of camera frames, one of full frames.

use super::{
    AriaCosts, Forecast, Requirements, Sight, System, Trace, TraceFrame, Truth,
    outcome::{FrameRecord, FullFrame, Parts, Record, Served},
    system::Setup,
};
use crate::simulator::{Application, Task};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use vitempo_aria::{
    AriaError, CameraMotion, Grid, Padding, PatchSet, Pose, Window,
    scheduler::{
        CycleBudget, CyclePlanner, Priority, Reaction, Request, ResolutionLadder,
        ResolutionSettings,
    },
};

/// The stream of camera frames, by its index in the scenario.
pub const FRAMES: usize = 0;
/// The stream of full frames, by its index in the scenario.
pub const FULL_FRAMES: usize = 1;

/// Processors of the scenario.
const CPU: usize = 0;
const FULL: usize = 1;
const REGIONS: usize = 2;

/// Parts of a frame, by the number in the simulator's tasks.
pub const STEP: u32 = 0;
const FLOW: u32 = 1;
const CYCLE: u32 = 2;
const DECODER: u32 = 3;
const WHOLE: u32 = 4;

/// The weight of the waiting time in the priority of systems that have no order of regions: it is
/// small, so that it decides only between regions of equal speed. These systems assign random
/// speeds.
const NO_ORDER: f32 = 1e-3;

#[derive(Clone, Copy)]
struct Full {
    frame: usize,
    level: usize,
}

/// A running system.
pub struct Program<'a> {
    trace: &'a Trace,
    costs: &'a AriaCosts,
    requirements: &'a Requirements,
    truth: Truth,
    pub setup: Setup,
    grid: Grid,
    /// Cycles of each frame, where a scheduler computes them per frame.
    budget: CycleBudget,
    ladder: ResolutionLadder,
    planner: CyclePlanner,
    random: StdRng,
    taken: Option<usize>,
    full_taken: Option<usize>,
    latest: Option<Full>,
    /// The latest full frame at the start of the current frame: one that arrives later is shown by
    /// the next.
    frame_full: Option<Full>,
    running: Option<Full>,
    full_took_ns: u64,
    parts: Parts,
    /// What is seen, in place of the trace's regions.
    sight: Option<&'a mut dyn Sight>,
    pub record: Record,
}

impl<'a> Program<'a> {
    pub fn new(
        trace: &'a Trace,
        costs: &'a AriaCosts,
        requirements: &'a Requirements,
        setup: Setup,
        truth: Truth,
        seed: u64,
    ) -> Result<Self, AriaError> {
        let top = setup.levels.iter().filter_map(|level| costs.levels.get(*level)).next_back();
        let grid = top.map_or(Ok(trace.grid), |level| Grid::new(level.rows, level.cols))?;
        let size = [setup.region.rows.min(grid.rows()), setup.region.cols.min(grid.cols())];
        let planned = |forecast: &Forecast| forecast.at(requirements.z()).max(1.0);
        let levels = || setup.levels.iter().filter_map(|level| costs.levels.get(*level));
        let rest = |level: &super::Level| {
            planned(&costs.frame_step) + planned(&costs.patch_flow) + planned(&level.decoder)
        };
        let cycle = planned(&setup.region.cycle) as u64;
        let rests: Vec<u64> = levels().map(|level| rest(level) as u64).collect();
        let full_ns: Vec<u64> =
            levels().map(|level| level.full_frame.point_ns().max(1.0) as u64).collect();
        let settings = ResolutionSettings {
            interval_ns: (requirements.frame_ns * requirements.interval_frames as f64) as u64,
            ..ResolutionSettings::for_frames_of(requirements.frame_ns as u64)
        };
        let priority = setup.system.priority().unwrap_or(Priority::Weighted(NO_ORDER));
        Ok(Self {
            ladder: ResolutionLadder::new(&full_ns, Reaction::default(), settings)?,
            planner: CyclePlanner::new(grid, size, priority)?,
            random: StdRng::seed_from_u64(seed),
            record: Record::default(),
            sight: None,
            taken: None,
            full_taken: None,
            latest: None,
            frame_full: None,
            running: None,
            full_took_ns: 0,
            parts: Parts::default(),
            trace,
            costs,
            requirements,
            truth,
            budget: CycleBudget::new(
                requirements.target_ns as u64,
                &rests,
                cycle.max(1),
                setup.margin,
                Reaction::default(),
            )?,
            grid,
            setup,
        })
    }

    /// The same with regions that are seen instead of the trace's.
    pub fn seeing(mut self, sight: &'a mut dyn Sight) -> Self {
        self.sight = Some(sight);
        self
    }

    /// The first camera frame at or after a time.
    fn frame_at(&self, now_ns: u64) -> usize {
        (now_ns as f64 / self.requirements.frame_ns - 1e-6).ceil().max(0.0) as usize
    }

    fn time_of(&self, frame: usize) -> Option<u64> {
        (frame < self.trace.frames.len())
            .then(|| (frame as f64 * self.requirements.frame_ns).round() as u64)
    }

    fn task(&self, processor: usize, forecast: &Forecast, model: u32) -> Task {
        Task {
            processor,
            compute_ns: self.truth.of(forecast).round() as u64,
            memory_ns: 0,
            cv: self.requirements.spread,
            model,
        }
    }

    /// The index in the costs of a level that the system uses.
    fn index(&self, used: usize) -> usize {
        self.setup.levels.get(used).copied().unwrap_or(0).min(self.costs.levels.len() - 1)
    }

    fn level_costs(&self, used: usize) -> &'a super::Level {
        &self.costs.levels[self.index(used)]
    }

    /// Level of the current frame: that of the full frame that it shows, and the lowest before the
    /// first one.
    fn frame_level(&self) -> usize {
        self.frame_full.map_or(0, |full| full.level)
    }

    /// The cycles of this frame.
    fn cycles(&self) -> u64 {
        if self.setup.system.is_scheduled() {
            self.budget.cycles(self.frame_level())
        } else {
            self.setup.cycles
        }
    }

    fn steps(&mut self, number: usize) -> Vec<Vec<Task>> {
        let level = self.level_costs(self.frame_level());
        let decoder = self.task(REGIONS, &level.decoder, DECODER);
        match self.setup.system {
            System::NpuOnly => {
                self.show_whole(number);
                vec![vec![self.task(REGIONS, &level.alone, WHOLE)], vec![decoder]]
            }
            System::MobiSrLike => {
                self.show_whole(number);
                let [here, elsewhere] = self.setup.blocks;
                let top = self.costs.levels.last().filter(|_| self.setup.refined > 0);
                let decoder = self.task(REGIONS, &top.unwrap_or(level).decoder, DECODER);
                let (near, far) = (
                    self.task(REGIONS, &self.setup.region.cycle, CYCLE),
                    self.task(FULL, &self.setup.region.elsewhere, WHOLE),
                );
                let blocks = (0..here).map(|_| near).chain((0..elsewhere).map(|_| far)).collect();
                vec![vec![self.task(CPU, &self.costs.frame_step, STEP)], blocks, vec![decoder]]
            }
            system => {
                let step = if system == System::Base {
                    &self.costs.baselines.block_matching
                } else {
                    &self.costs.frame_step
                };
                let mut steps = vec![vec![self.task(CPU, step, STEP)]];
                if system == System::S2 || system.is_scheduled() {
                    steps.push(vec![self.task(REGIONS, &self.costs.patch_flow, FLOW)]);
                }
                let cycle = self.task(REGIONS, &self.setup.region.cycle, CYCLE);
                let cycles = self.serve(number);
                steps.extend((0..cycles).map(|_| vec![cycle]));
                steps.push(vec![decoder]);
                steps
            }
        }
    }

    fn show_whole(&mut self, number: usize) {
        if let Some(sight) = &mut self.sight {
            sight.frame(number, 0);
        }
    }

    /// Chooses the windows of this frame; returns how many cycles they take.
    fn serve(&mut self, number: usize) -> u64 {
        let (trace, most) = (self.trace, self.cycles());
        if let Some(sight) = &mut self.sight {
            let cycles = if self.latest.is_some() { most } else { 0 };
            let cycles = sight.frame(number, cycles).min(cycles);
            self.record.cycles += cycles;
            return cycles;
        }
        let Some(frame) = trace.frames.get(number).filter(|_| self.latest.is_some()) else {
            return 0;
        };
        let requests = self.requests(frame);
        let asked = self.planner.plan(&requests, most as usize).len() as u64;
        let cycles = if self.setup.system.spends_all() { most } else { asked };
        let since_full = self.latest.map_or(0, |full| number.saturating_sub(full.frame)) as u32;
        for moving in &frame.moving {
            let age = self.planner.waited(moving.region).min(since_full);
            self.record.served.push(Served {
                region: moving.region,
                speed: moving.speed(),
                age_frames: age,
            });
        }
        self.record.longest_wait = self
            .record
            .longest_wait
            .max(requests.iter().map(|r| self.planner.waited(r.region)).max().unwrap_or(0));
        self.record.cycles += cycles;
        cycles
    }

    fn requests(&mut self, frame: &TraceFrame) -> Vec<Request> {
        let mut requests = Vec::with_capacity(frame.moving.len());
        for moving in &frame.moving {
            let window = rescaled(moving.window, self.trace.grid, self.grid);
            let scale = self.grid.rows() as f64 / self.trace.grid.rows() as f64;
            let velocity = moving.velocity.map(|v| (v * scale) as f32);
            let window = match self.setup.system {
                System::Base => blocks(window, self.grid, self.costs.baselines.block_patches),
                System::S1 => window.grown(self.grid, [1; 4]),
                System::WholeWindows => window,
                _ => {
                    let set = PatchSet::of(self.grid, |patch| {
                        window.contains(self.grid.place(patch).0, self.grid.place(patch).1)
                    });
                    let since = self.planner.waited(moving.region) as f32 + 1.0;
                    Padding::default().window(&set, velocity, since).unwrap_or(window)
                }
            };
            let speed = if self.setup.system.is_scheduled() {
                moving.speed() as f32
            } else {
                self.random.random::<f32>()
            };
            requests.push(Request { region: moving.region, window, speed });
        }
        requests
    }

    fn moved(&mut self, from: usize, to: usize) {
        for frame in self.trace.frames.get(from..=to).unwrap_or(&[]) {
            let there =
                Pose::looking([frame.translation_m, 0.0, 0.0], frame.rotation_rad, 0.0, 0.0);
            self.ladder.moved(&CameraMotion::between(&Pose::default(), &there));
        }
    }
}

impl Application for Program<'_> {
    fn next(&mut self, stream: usize, now_ns: u64) -> Option<u64> {
        let at = self.frame_at(now_ns);
        match stream {
            FRAMES => {
                let next = self.taken.map_or(0, |last| last + 1);
                self.time_of(at.max(next))
            }
            _ if self.setup.system.is_parallel() => {
                self.time_of(at.max(self.full_taken.map_or(0, |last| last + 1)))
            }
            _ => None,
        }
    }

    fn begin(&mut self, stream: usize, now_ns: u64) -> Vec<Vec<Task>> {
        let frame = self.frame_at(now_ns);
        if stream == FRAMES {
            self.moved(self.taken.map_or(0, |last| last + 1), frame);
            self.taken = Some(frame);
            self.frame_full = self.latest;
            self.parts = Parts::default();
            return self.steps(frame);
        }
        let level = if self.setup.system.is_scheduled() {
            self.budget.level(self.ladder.level())
        } else {
            self.setup.levels.len().saturating_sub(1)
        };
        self.full_taken = Some(frame);
        self.running = Some(Full { frame, level });
        vec![vec![self.task(FULL, &self.level_costs(level).full_frame, WHOLE)]]
    }

    fn task_done(&mut self, stream: usize, task: &Task, took_ns: u64) {
        if stream == FULL_FRAMES {
            self.full_took_ns = took_ns;
            return;
        }
        match task.model {
            STEP => self.parts.step_ns += took_ns,
            FLOW => self.parts.flow_ns += took_ns,
            CYCLE => {
                self.parts.cycles_ns += took_ns;
                self.parts.cycles += 1;
            }
            DECODER => self.parts.decoder_ns += took_ns,
            _ => self.parts.whole_ns += took_ns,
        }
    }

    fn frame_done(&mut self, stream: usize, captured_ns: u64, now_ns: u64) {
        if stream == FULL_FRAMES {
            let Some(full) = self.running.take() else { return };
            self.ladder.observe(full.level, self.full_took_ns);
            self.latest = Some(full);
            let level = self.level_costs(full.level);
            if let Some(sight) = &mut self.sight {
                sight.full_frame(full.frame, [level.rows, level.cols]);
            }
            self.record.full_frames.push(FullFrame {
                done_ns: now_ns,
                level: self.index(full.level),
                took_ns: self.full_took_ns,
            });
            return;
        }
        let level = self.frame_level();
        let parts = std::mem::take(&mut self.parts);
        let rest = parts.step_ns + parts.flow_ns + parts.decoder_ns;
        self.budget.observe(
            level,
            rest,
            (parts.cycles > 0).then(|| parts.cycles_ns / parts.cycles),
        );
        let number = self.taken.unwrap_or(0);
        let full_age = if self.setup.system.is_parallel() {
            self.frame_full.map(|full| number.saturating_sub(full.frame))
        } else {
            Some(0)
        };
        self.record.frames.push(FrameRecord {
            frame: number,
            latency_ns: now_ns - captured_ns,
            level: full_age.map(|_| self.index(level)),
            full_age,
            parts,
        });
    }
}

/// A window in another grid of the same picture: all patches that it touches.
fn rescaled(window: Window, from: Grid, to: Grid) -> Window {
    if from == to {
        return window;
    }
    let span = |start: usize, end: usize, from: usize, to: usize| {
        let first = (start * to / from).min(to - 1);
        (first, (end * to).div_ceil(from).clamp(first + 1, to) - first)
    };
    let (row, rows) = span(window.row, window.end_row(), from.rows(), to.rows());
    let (col, cols) = span(window.col, window.end_col(), from.cols(), to.cols());
    Window { row, col, rows, cols }
}

/// The whole blocks that a window touches.
fn blocks(window: Window, grid: Grid, side: usize) -> Window {
    let side = side.max(1);
    let span = |start: usize, end: usize, all: usize| {
        let first = start / side * side;
        (first, (end.div_ceil(side) * side).min(all) - first)
    };
    let (row, rows) = span(window.row, window.end_row(), grid.rows());
    let (col, cols) = span(window.col, window.end_col(), grid.cols());
    Window { row, col, rows, cols }
}
