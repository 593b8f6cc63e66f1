//! [`Frames`]: the frames of ARIA and of the baselines, and the full frames beside them.

use super::{
    AriaLiveError, LiveFrame, SystemRun,
    session::{Alone, FULL, REGIONS, Session},
};
use std::collections::VecDeque;
use vitempo_aria::{
    CameraMotion, Criterion, FAR_APART, FeatureMap, Flow, Padding, Runtime, Settings, WholeWindows,
    scene::{BlockFrames, Dense, ShownDepths, by_variation, tiles},
    scheduler::{CycleBudget, Reaction, ResolutionLadder, ResolutionSettings},
};
use vitempo_planners::aria::{Setup, System};
use vitempo_profiler::live::{Answer, FrameClock, Ticket};

/// The state of a system between frames, and the running full frame.
pub struct Frames<'a> {
    session: &'a Session<'a>,
    setup: Setup,
    shown: Shown,
    budget: CycleBudget,
    ladder: ResolutionLadder,
    running: Option<Running>,
    /// Number of the latest full frame.
    latest: u64,
    depths: ShownDepths,
    /// Time that the cycles of this frame took, ns.
    cycles_ns: u64,
    /// When the latest cycle began.
    last_cycle_ns: Option<u64>,
    tails: Tails,
}

/// What a system shows.
enum Shown {
    Runtime(Box<Runtime<Flow>>),
    Blocks(Box<BlockFrames>),
    /// Features of a level.
    Whole(FeatureMap),
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

/// Times from the beginning of a frame's last cycle to its end: what a cycle needs before the
/// deadline to begin.
struct Tails {
    /// With a cycle and the decoder alone, ns.
    alone_ns: u64,
    /// Longer than what is held back: against that, only frames without cycles would help.
    most_ns: u64,
    /// Of the latest frames.
    latest: VecDeque<u64>,
}

impl Tails {
    /// Frames that are remembered: about one of them may be late.
    const FRAMES: usize = 1024;

    fn saw(&mut self, tail_ns: u64) {
        if tail_ns <= self.most_ns {
            self.latest.push_back(tail_ns);
            self.latest.drain(..self.latest.len().saturating_sub(Self::FRAMES));
        }
    }

    /// The longest of late.
    fn longest_ns(&self) -> u64 {
        self.latest.iter().copied().max().unwrap_or(0).max(self.alone_ns)
    }
}

/// What a system does; `sees`: with a small network for depth and labels.
fn settings(system: System, sees: bool, mut settings: Settings) -> Settings {
    settings.priority = system.priority().unwrap_or_default();
    if sees {
        (settings.criterion, settings.apart) = (Criterion::AROUND, FAR_APART);
    }
    if system.spends_all() {
        settings.padding = Padding::NONE;
        settings.whole_windows = Some(WholeWindows::ALL);
    }
    settings
}

impl<'a> Frames<'a> {
    /// Initialises a system with a first full frame.
    pub fn new(
        session: &'a Session<'a>,
        setup: Setup,
        alone: &Alone,
    ) -> Result<Self, AriaLiveError> {
        let (scenario, top) = (session.scenario, session.top());
        let (requirements, region) = (&scenario.requirements, &scenario.plan.region);
        let highest = session.top_level();
        let answer = session.level_ticket(highest, FULL, 0)?.wait()?;
        let first = session.level_features(highest, &answer)?.resampled(top)?;
        let pose = session.video.pose(0);
        let size = [session.parts.region.rows(), session.parts.region.cols()];
        let mut depths = ShownDepths::default();
        if let Some(dense) = session.decode(&first)? {
            depths.push(0, dense.depths_of_patches(top));
        }
        let shown = match setup.system {
            System::NpuOnly | System::MobiSrLike => Shown::Whole(first),
            System::Base => Shown::Blocks(Box::new(BlockFrames::new(
                session.video.camera(),
                size,
                first,
                pose,
            )?)),
            _ => {
                let settings = Settings::new(top, first.width(), size);
                let settings = self::settings(setup.system, session.parts.sees, settings);
                let flow = Flow::new(&session.flow, top, session.video.intrinsics());
                let mut runtime = Runtime::new(settings, flow)?;
                runtime.full_frame(0, &pose, &mut first.values().to_vec())?;
                Shown::Runtime(Box::new(runtime))
            }
        };
        let upper = region.cycle.interval(requirements.confidence)[1];
        let top_level = scenario.plan.usable().next_back();
        let overhead_ns = top_level.map_or(1.0, |level| level.rest_ns).max(1.0);
        let levels = scenario.costs.levels.iter().take(session.parts.levels.len());
        let full: Vec<u64> =
            levels.map(|level| level.full_frame.point_ns().max(1.0) as u64).collect();
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
            setup,
            session,
            shown,
            running: None,
            latest: 0,
            depths,
            cycles_ns: 0,
            last_cycle_ns: None,
            tails: Tails {
                alone_ns: alone.cycle_ns[1] + alone.decoder_ns.last().copied().unwrap_or(0),
                most_ns: (requirements.target_ns / 2.0) as u64,
                latest: VecDeque::new(),
            },
        })
    }

    /// Runs a frame and decodes what it shows.
    pub fn frame(
        &mut self,
        frame: u64,
        clock: &FrameClock,
        outcome: &mut SystemRun,
    ) -> Result<(LiveFrame, Option<Dense>), AriaLiveError> {
        let mut this = LiveFrame { frame, ..LiveFrame::default() };
        self.cycles_ns = 0;
        self.full_frames(clock, frame, outcome)?;
        match self.setup.system {
            System::NpuOnly => self.whole(frame as usize)?,
            System::MobiSrLike => self.blocks(frame as usize, clock)?,
            System::Base => self.matched_blocks(frame as usize, &mut this)?,
            _ => self.aria(frame, clock, &mut this)?,
        }
        let features = match &self.shown {
            Shown::Whole(features) => features,
            Shown::Blocks(frames) => frames.shown(),
            Shown::Runtime(runtime) => runtime.aligned(),
        };
        let dense = self.session.decode(features)?;
        let now_ns = clock.now_ns();
        this.latency_ns = now_ns.saturating_sub(clock.time_of(frame));
        self.last_cycle_ns.take().into_iter().for_each(|begun| self.tails.saw(now_ns - begun));
        this.full_age = frame - self.latest;
        if let (Shown::Runtime(_), Some(dense)) = (&self.shown, &dense) {
            self.depths.push(frame, dense.depths_of_patches(self.session.top()));
        }
        let cycles = (this.cycles > 0).then(|| self.cycles_ns / this.cycles.max(1));
        self.budget.observe(0, this.latency_ns.saturating_sub(self.cycles_ns), cycles);
        Ok((this, dense))
    }

    /// Takes the completed full frame, if there is one, and starts the next.
    fn full_frames(
        &mut self,
        clock: &FrameClock,
        frame: u64,
        outcome: &mut SystemRun,
    ) -> Result<(), AriaLiveError> {
        if !self.setup.system.is_parallel() {
            self.latest = frame;
            return Ok(());
        }
        if let Some((running, answer, there_ns)) = self.done(clock.now_ns(), frame)? {
            self.take(&running, &answer, there_ns)?;
            outcome.full_frames += 1;
        }
        if self.running.is_none() {
            let highest = self.session.top_level();
            let scheduled = self.setup.system.is_scheduled();
            let level = if scheduled { self.ladder.level().min(highest) } else { highest };
            let ticket = self.session.level_ticket(level, FULL, frame as usize)?;
            let since_ns = clock.now_ns();
            self.running = Some(Running { ticket, frame, level, since_ns, answer: None });
        }
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

    /// Passes a full frame to what shows it and to the resolution ladder.
    fn take(
        &mut self,
        running: &Running,
        answer: &Answer,
        there_ns: u64,
    ) -> Result<(), AriaLiveError> {
        let session = self.session;
        let features = session.level_features(running.level, answer)?.resampled(session.top())?;
        let pose = session.video.pose(running.frame as usize);
        match &mut self.shown {
            Shown::Blocks(frames) => frames.full_frame(features, pose),
            Shown::Runtime(runtime) => {
                runtime.full_frame(running.frame, &pose, &mut features.values().to_vec())?;
                if let Some(depths) = self.depths.at(running.frame) {
                    runtime.estimator_mut().set_depths(depths);
                }
            }
            Shown::Whole(_) => {}
        }
        self.ladder.observe(running.level, there_ns - running.since_ns);
        self.latest = running.frame;
        Ok(())
    }

    /// Runs a frame of ARIA: tracks the regions that moved, and updates those that fit. A cycle that
    /// would end too late for the decoder does not begin.
    fn aria(
        &mut self,
        frame: u64,
        clock: &FrameClock,
        this: &mut LiveFrame,
    ) -> Result<(), AriaLiveError> {
        let Shown::Runtime(runtime) = &mut self.shown else { return Ok(()) };
        let video = self.session.video;
        let (before, pose) = (video.pose(frame as usize - 1), video.pose(frame as usize));
        self.ladder.moved(&CameraMotion::between(&before, &pose));
        let plan = runtime.frame(frame, &pose, self.budget.cycles(0) as usize)?;
        let until = clock.time_of(frame) + self.session.scenario.requirements.target_ns as u64;
        let longest_ns = self.tails.longest_ns();
        for cycle in &plan.cycles {
            let asked = clock.now_ns();
            if asked + longest_ns > until {
                runtime.left_out(cycle);
                continue;
            }
            let answer = self.session.region_ticket(frame as usize, cycle.window)?.wait()?;
            runtime.update(cycle, &self.session.region_features(&answer, cycle.window)?)?;
            self.last_cycle_ns = Some(asked);
            self.cycles_ns += clock.now_ns() - asked;
            this.cycles += 1;
        }
        this.regions = plan.asked as u64;
        Ok(())
    }

    /// Runs a frame of ARIA-base: updates the blocks that moved, the largest first, up to the
    /// planned number.
    fn matched_blocks(&mut self, frame: usize, this: &mut LiveFrame) -> Result<(), AriaLiveError> {
        let Shown::Blocks(frames) = &mut self.shown else { return Ok(()) };
        let video = self.session.video;
        let (before, now) = (video.picture(frame - 1), video.picture(frame));
        let most = self.setup.cycles as usize;
        let (windows, asked) = frames.frame(video.camera(), before, now, most)?;
        for window in &windows {
            let answer = self.session.region_ticket(frame, *window)?.wait()?;
            frames.update(*window, &self.session.region_features(&answer, *window)?)?;
        }
        (this.cycles, this.regions) = (windows.len() as u64, asked as u64);
        Ok(())
    }

    /// The level of frames that are shown whole.
    fn level(&self) -> usize {
        let level = self.setup.levels.first().copied().unwrap_or(0);
        level.min(self.session.top_level())
    }

    /// Runs a whole frame on the processor of regions.
    fn whole(&mut self, frame: usize) -> Result<(), AriaLiveError> {
        let level = self.level();
        let answer = self.session.level_ticket(level, REGIONS, frame)?.wait()?;
        self.shown = Shown::Whole(self.session.level_features(level, &answer)?);
        Ok(())
    }

    /// Runs a frame as blocks on both processors at the same time, the hardest of them at the highest
    /// resolution as well.
    fn blocks(&mut self, frame: usize, clock: &FrameClock) -> Result<(), AriaLiveError> {
        let (session, begun, level) = (self.session, clock.now_ns(), self.level());
        let grid = session.parts.levels[level];
        let block = [session.parts.block.rows(), session.parts.block.cols()];
        let pixels = session.level_pixels(level, frame)?;
        let mut tickets = Vec::new();
        let [here, _] = self.setup.blocks;
        let processor = |number: usize| if (number as u64) < here { REGIONS } else { FULL };
        for window in tiles(grid, block) {
            let processor = processor(tickets.len());
            let ticket = session.block_ticket(processor, &pixels, level, window)?;
            tickets.push((processor, window, ticket));
        }
        let (covering, refined) = (tickets.len(), self.setup.refined as usize);
        if refined > 0 {
            let picture = session.video.picture(frame);
            let hard = by_variation(session.video.camera(), picture, block);
            for window in hard.into_iter().take(refined) {
                let processor = processor(tickets.len());
                tickets.push((processor, window, session.hard_ticket(processor, frame, window)?));
            }
        }
        let (mut full_ns, mut parts) = (0, Vec::new());
        for (processor, window, ticket) in tickets {
            let answer = ticket.wait()?;
            full_ns += if processor == FULL { answer.busy_ns } else { 0 };
            parts.push((window, session.block_features(&answer)?));
        }
        let (covering, hard) = parts.split_at(covering);
        let covering = covering.iter().map(|(window, part)| (*window, part.values()));
        let mut shown = FeatureMap::of_windows(grid, covering)?;
        if !hard.is_empty() {
            shown = shown.resampled(session.top())?;
        }
        for (window, part) in hard {
            shown.replace_window(*window, part.values())?;
        }
        self.shown = Shown::Whole(shown);
        clock.wait_until(begun + (full_ns as f64 * session.slowdown(frame)) as u64);
        Ok(())
    }

    /// Waits for the running full frame.
    pub fn finish(self) {
        if let Some(running) = self.running {
            let _ = running.ticket.wait();
        }
    }
}
