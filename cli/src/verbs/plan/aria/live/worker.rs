//! The frames of ARIA and of ARIA-base, and the full frames beside them.

use super::{
    super::{super::super::error::CliResult, video::features},
    FULL, REGIONS, Show,
    results::Came,
};
use vitempo::aria::{
    CameraFlow, CameraMotion, Grid, Runtime, Settings, Structure, Window,
    scene::Blocks,
    scheduler::{CycleBudget, Reaction, ResolutionLadder, ResolutionSettings},
};
use vitempo::planners::aria::{Setup, System};
use vitempo::profiler::live::{Answer, FrameClock, Ticket};

/// What runs beside the frames, and what a frame needs to know.
pub struct Worker<'a> {
    show: &'a Show<'a>,
    runtime: Runtime<CameraFlow>,
    budget: CycleBudget,
    ladder: ResolutionLadder,
    system: System,
    running: Option<Running>,
    /// Frame of the latest full frame.
    latest: u64,
}

struct Running {
    ticket: Ticket,
    frame: u64,
    level: usize,
    since_ns: u64,
    /// The answer and when it counts as there.
    answer: Option<(Answer, u64)>,
}

impl<'a> Worker<'a> {
    pub fn new(show: &'a Show<'a>, setup: &Setup) -> CliResult<Self> {
        let (stage, region) = (show.stage, &show.stage.plan.region);
        let first = show.level_ticket(show.levels - 1, FULL, 0)?.wait()?;
        let (_, width) = features(&first, show.top, show.top)?;
        let settings = Settings::new(show.top, width, [region.rows, region.cols]);
        let flow = CameraFlow::new(show.video.intrinsics(), Structure::Distant);
        let mut runtime = Runtime::new(settings, flow)?;
        runtime.full_frame(0, &show.video.pose(0), &mut features(&first, show.top, show.top)?.0)?;
        let upper = region.cycle.interval(stage.requirements.confidence)[1];
        let rest = stage.plan.usable().next_back().map_or(1.0, |level| level.rest_ns).max(1.0);
        let full: Vec<u64> = stage
            .costs
            .levels
            .iter()
            .take(show.levels)
            .map(|level| level.full_frame.point_ns().max(1.0) as u64)
            .collect();
        let settings = ResolutionSettings {
            interval_ns: (stage.requirements.frame_ns * stage.requirements.interval_frames as f64)
                as u64,
            ..ResolutionSettings::for_frames_of(stage.requirements.frame_ns as u64)
        };
        Ok(Self {
            budget: CycleBudget::new(
                stage.requirements.target_ns as u64,
                &[rest as u64],
                upper as u64,
                setup.margin,
                Reaction::default(),
            )?,
            ladder: ResolutionLadder::new(&full, Reaction::default(), settings)?,
            system: setup.system,
            show,
            runtime,
            running: None,
            latest: 0,
        })
    }

    /// Takes the full frame that is done, if one is, and begins the next.
    pub fn full_frames(&mut self, clock: &FrameClock, frame: u64, came: &mut Came) -> CliResult {
        if !self.system.is_parallel() {
            return Ok(());
        }
        let now = clock.now_ns();
        if let Some(running) = &mut self.running {
            if running.answer.is_none() {
                let slower = self.show.slower(frame as usize);
                running.answer = running.ticket.poll()?.map(|answer| {
                    let there = running.since_ns + (answer.busy_ns as f64 * slower) as u64;
                    (answer, there)
                });
            }
            match running.answer.take() {
                Some((answer, there)) if there <= now => {
                    let grid = self
                        .show
                        .stage
                        .costs
                        .levels
                        .get(running.level)
                        .map_or(Ok(self.show.top), |level| Grid::new(level.rows, level.cols))?;
                    if self.system == System::Aria {
                        self.runtime.full_frame(
                            running.frame,
                            &self.show.video.pose(running.frame as usize),
                            &mut features(&answer, grid, self.show.top)?.0,
                        )?;
                    }
                    self.ladder.observe(running.level, there - running.since_ns);
                    self.latest = running.frame;
                    came.full_frames += 1;
                    self.running = None;
                }
                later => running.answer = later,
            }
        }
        if self.running.is_none() {
            let level = if self.system == System::Aria {
                self.ladder.level()
            } else {
                self.show.levels - 1
            };
            let ticket = self.show.level_ticket(level, FULL, frame as usize)?;
            self.running =
                Some(Running { ticket, frame, level, since_ns: clock.now_ns(), answer: None });
        }
        came.full_age += frame - self.latest;
        Ok(())
    }

    /// A frame of ARIA: what moved is where now, and what fits is updated.
    pub fn aria(&mut self, frame: u64, clock: &FrameClock, came: &mut Came) -> CliResult {
        let (before, pose) =
            (self.show.video.pose(frame as usize - 1), self.show.video.pose(frame as usize));
        let start = clock.time_of(frame);
        self.ladder.moved(&CameraMotion::between(&before, &pose));
        let plan = self.runtime.frame(frame, &pose, self.budget.cycles(0) as usize)?;
        let mut cycles_ns = 0;
        for cycle in &plan.cycles {
            let asked = clock.now_ns();
            let answer = self.show.region_ticket(REGIONS, frame as usize, cycle.window)?.wait()?;
            let part = Grid::new(cycle.window.rows, cycle.window.cols)?;
            cycles_ns += clock.now_ns() - asked;
            self.runtime.update(cycle, &features(&answer, part, part)?.0)?;
        }
        let (took, count) = (clock.now_ns().saturating_sub(start), plan.cycles.len() as u64);
        self.budget.observe(
            0,
            took.saturating_sub(cycles_ns),
            (count > 0).then(|| cycles_ns / count.max(1)),
        );
        came.cycles += count;
        came.regions += plan.asked as u64;
        Ok(())
    }

    /// A frame of ARIA-base: blocks that moved, as many as were planned, the largest first.
    pub fn matched_blocks(&mut self, setup: &Setup, frame: usize, came: &mut Came) -> CliResult {
        let video = self.show.video;
        let moved = Blocks::default().identify(
            video.camera(),
            video.picture(frame - 1),
            video.picture(frame),
        );
        let groups = vitempo::aria::group(&moved, 1);
        let (rows, cols) = (self.show.stage.plan.region.rows, self.show.stage.plan.region.cols);
        came.regions += groups.len() as u64;
        for group in groups.iter().take(setup.cycles as usize) {
            let Some(at) = group.filled.window() else { continue };
            let (row, col) =
                (at.row.min(self.show.top.rows() - rows), at.col.min(self.show.top.cols() - cols));
            let _ =
                self.show.region_ticket(REGIONS, frame, Window { row, col, rows, cols })?.wait()?;
            came.cycles += 1;
        }
        Ok(())
    }

    /// Waits for what still runs.
    pub fn finish(self) {
        if let Some(running) = self.running {
            let _ = running.ticket.wait();
        }
    }
}
