//! [`Frames`]: the frames of ARIA and of ARIA-base, and the full frames beside them.

use super::{
    AriaLiveError, SystemRun,
    session::{FULL, REGIONS, Session},
    video::features,
};
use vitempo_aria::{
    CameraFlow, CameraMotion, Grid, Runtime, Settings, Structure, Window, group,
    scene::Blocks,
    scheduler::{CycleBudget, Reaction, ResolutionLadder, ResolutionSettings},
};
use vitempo_planners::aria::{Setup, System};
use vitempo_profiler::live::{Answer, FrameClock, Ticket};

/// The state of a system between frames, and the running full frame.
pub struct Frames<'a> {
    session: &'a Session<'a>,
    runtime: Runtime<CameraFlow>,
    budget: CycleBudget,
    ladder: ResolutionLadder,
    system: System,
    running: Option<Running>,
    /// Number of the latest full frame.
    latest: u64,
}

/// A running full frame.
struct Running {
    ticket: Ticket,
    frame: u64,
    level: usize,
    since_ns: u64,
    /// The answer, and the time from which it counts as done.
    answer: Option<(Answer, u64)>,
}

impl<'a> Frames<'a> {
    /// Initialises the runtime with a first full frame.
    pub fn new(session: &'a Session<'a>, setup: &Setup) -> Result<Self, AriaLiveError> {
        let (scenario, top) = (session.scenario, session.top);
        let (requirements, region) = (&scenario.requirements, &scenario.plan.region);
        let first = session.level_ticket(session.levels - 1, FULL, 0)?.wait()?;
        let (mut values, width) = features(&first, top, top)?;
        let settings = Settings {
            priority: setup.system.priority().unwrap_or_default(),
            ..Settings::new(top, width, [region.rows, region.cols])
        };
        let flow = CameraFlow::new(session.video.intrinsics(), Structure::Distant);
        let mut runtime = Runtime::new(settings, flow)?;
        runtime.full_frame(0, &session.video.pose(0), &mut values)?;
        let upper = region.cycle.interval(requirements.confidence)[1];
        let top_level = scenario.plan.usable().next_back();
        let overhead_ns = top_level.map_or(1.0, |level| level.rest_ns).max(1.0);
        let full: Vec<u64> = scenario
            .costs
            .levels
            .iter()
            .take(session.levels)
            .map(|level| level.full_frame.point_ns().max(1.0) as u64)
            .collect();
        let settings = ResolutionSettings {
            interval_ns: (requirements.frame_ns * requirements.interval_frames as f64) as u64,
            ..ResolutionSettings::for_frames_of(requirements.frame_ns as u64)
        };
        Ok(Self {
            budget: CycleBudget::new(
                requirements.target_ns as u64,
                &[overhead_ns as u64],
                upper as u64,
                setup.margin,
                Reaction::default(),
            )?,
            ladder: ResolutionLadder::new(&full, Reaction::default(), settings)?,
            system: setup.system,
            session,
            runtime,
            running: None,
            latest: 0,
        })
    }

    /// Takes the completed full frame, if there is one, and starts the next.
    pub fn full_frames(
        &mut self,
        clock: &FrameClock,
        frame: u64,
        outcome: &mut SystemRun,
    ) -> Result<(), AriaLiveError> {
        if !self.system.is_parallel() {
            return Ok(());
        }
        if let Some((running, answer, there_ns)) = self.done(clock.now_ns(), frame)? {
            self.take(&running, &answer, there_ns)?;
            outcome.full_frames += 1;
        }
        if self.running.is_none() {
            let level = if self.system.is_scheduled() {
                self.ladder.level()
            } else {
                self.session.levels - 1
            };
            let ticket = self.session.level_ticket(level, FULL, frame as usize)?;
            let since_ns = clock.now_ns();
            self.running = Some(Running { ticket, frame, level, since_ns, answer: None });
        }
        outcome.full_age += frame - self.latest;
        Ok(())
    }

    /// The full frame that counts as done now, its answer, and its completion time.
    fn done(
        &mut self,
        now_ns: u64,
        frame: u64,
    ) -> Result<Option<(Running, Answer, u64)>, AriaLiveError> {
        let Some(mut running) = self.running.take() else { return Ok(None) };
        if running.answer.is_none() {
            let slowdown = self.session.slowdown(frame as usize);
            running.answer = running.ticket.poll()?.map(|answer| {
                let there_ns = running.since_ns + (answer.busy_ns as f64 * slowdown) as u64;
                (answer, there_ns)
            });
        }
        match running.answer.take() {
            Some((answer, there_ns)) if there_ns <= now_ns => Ok(Some((running, answer, there_ns))),
            later => {
                running.answer = later;
                self.running = Some(running);
                Ok(None)
            }
        }
    }

    /// Passes a full frame to the runtime and to the resolution ladder.
    fn take(
        &mut self,
        running: &Running,
        answer: &Answer,
        there_ns: u64,
    ) -> Result<(), AriaLiveError> {
        let session = self.session;
        if self.system.is_scheduled() {
            let level = session.scenario.costs.levels.get(running.level);
            let grid = level.map_or(Ok(session.top), |level| Grid::new(level.rows, level.cols))?;
            let (mut values, _) = features(answer, grid, session.top)?;
            let pose = session.video.pose(running.frame as usize);
            self.runtime.full_frame(running.frame, &pose, &mut values)?;
        }
        self.ladder.observe(running.level, there_ns - running.since_ns);
        self.latest = running.frame;
        Ok(())
    }

    /// Runs a frame of ARIA: tracks the regions that moved, and updates those that fit.
    pub fn aria(
        &mut self,
        frame: u64,
        clock: &FrameClock,
        outcome: &mut SystemRun,
    ) -> Result<(), AriaLiveError> {
        let video = self.session.video;
        let (before, pose) = (video.pose(frame as usize - 1), video.pose(frame as usize));
        let start = clock.time_of(frame);
        self.ladder.moved(&CameraMotion::between(&before, &pose));
        let plan = self.runtime.frame(frame, &pose, self.budget.cycles(0) as usize)?;
        let mut cycles_ns = 0;
        for cycle in &plan.cycles {
            let asked = clock.now_ns();
            let ticket = self.session.region_ticket(REGIONS, frame as usize, cycle.window)?;
            let answer = ticket.wait()?;
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
        outcome.cycles += count;
        outcome.regions += plan.asked as u64;
        Ok(())
    }

    /// Runs a frame of ARIA-base: updates the blocks that moved, the largest first, up to the
    /// planned number.
    pub fn matched_blocks(
        &mut self,
        setup: &Setup,
        frame: usize,
        outcome: &mut SystemRun,
    ) -> Result<(), AriaLiveError> {
        let (video, top) = (self.session.video, self.session.top);
        let moved = Blocks::default().identify(
            video.camera(),
            video.picture(frame - 1),
            video.picture(frame),
        );
        let groups = group(&moved, 1);
        let region = &self.session.scenario.plan.region;
        let (rows, cols) = (region.rows, region.cols);
        outcome.regions += groups.len() as u64;
        for group in groups.iter().take(setup.cycles as usize) {
            let Some(at) = group.filled.window() else { continue };
            let (row, col) = (at.row.min(top.rows() - rows), at.col.min(top.cols() - cols));
            let window = Window { row, col, rows, cols };
            self.session.region_ticket(REGIONS, frame, window)?.wait()?;
            outcome.cycles += 1;
        }
        Ok(())
    }

    /// Waits for the running full frame.
    pub fn finish(self) {
        if let Some(running) = self.running {
            let _ = running.ticket.wait();
        }
    }
}
