//! `--live`: ARIA and what it is compared with, for real: two engines on cores of their own are the
//! two processors, a rendered video is the camera.
//!
//! The encoder really runs, re-shaped to every size, with seeded random weights: what it sees makes
//! no difference to how long it takes, and little to what counts as moving. Regions, warping,
//! merging and scheduling are those of `vitempo-aria`. Throttling is injected: with `--throttle
//! 3.7` an answer of the processor of full frames counts as there only after 3.7 times what it
//! took.

mod results;
mod worker;

use super::{
    super::{
        super::{
            error::{CliError, CliResult},
            interrupt::go_on,
            progress,
            quantity::{self, positive},
        },
        live::{in_a_line, parse_engine},
    },
    forecast::Models,
    simulated::Stage,
    video::{Video, input},
};
use results::{Came, Live};
use std::sync::Arc;
use vitempo::aria::{AriaError, Grid, Window, scene::Kind};
use vitempo::graph::Latency;
use vitempo::plan::live::{Engine, WARMUPS, described};
use vitempo::planners::aria::{Setup, System};
use vitempo::profiler::{
    live::{Answer, FrameClock, Rig, Ticket},
    statistics,
};
use worker::Worker;

/// Processors of the rig.
const FULL: usize = 0;
const REGIONS: usize = 1;
/// Frames of the video; it is played to and fro.
const RENDERED: usize = 90;

/// Running for real.
#[derive(clap::Args, Clone, Debug)]
pub struct LiveArgs {
    /// Run for real: `gpu=BACKEND@CORES` and `npu=BACKEND@CORES` as the two processors, e.g.
    /// `--live gpu=onnxruntime@0 --live npu=onnxruntime@1`
    #[arg(long = "live", value_name = "NAME=BACKEND[@CORES]", value_parser = parse_engine, requires = "encoder", conflicts_with = "simulate")]
    pub engines: Vec<Engine>,

    /// Camera frames that each system is given
    #[arg(long, value_name = "COUNT", default_value = "300", value_parser = positive, requires = "engines")]
    pub frames: usize,

    /// From the middle of the run on, full frames take so many times as long
    #[arg(long, value_name = "TIMES", value_parser = quantity::above_zero, requires = "engines")]
    pub throttle: Option<f64>,
}

impl From<AriaError> for CliError {
    fn from(error: AriaError) -> Self {
        Self::user(error)
    }
}

/// Everything that is needed to run a frame.
struct Show<'a> {
    rig: Rig,
    video: &'a Video,
    stage: &'a Stage<'a>,
    /// How many levels there are: the first parts of the rig. The region encoder is the one after
    /// them.
    levels: usize,
    top: Grid,
    frames: usize,
    throttle: Option<f64>,
}

pub fn run(args: &LiveArgs, models: &Models, stage: &Stage) -> CliResult<Live> {
    let find = |name: &str| {
        let found = args.engines.iter().find(|engine| engine.name == name).cloned();
        found.ok_or_else(|| {
            CliError::user(format!("--live: there is no engine `{name}`"))
                .hint("give --live gpu=BACKEND@CORES and --live npu=BACKEND@CORES")
        })
    };
    let engines = [find("gpu")?, find("npu")?];
    let top = stage.plan.usable().next_back().ok_or_else(|| {
        CliError::user(format!("nothing fits {}", Latency::from_ns(stage.requirements.target_ns)))
            .hint("the plan without --live says what would have to change, e.g. --target")
    })?;
    let top = Grid::new(top.rows, top.cols)?;
    let levels: Vec<[usize; 2]> = stage
        .costs
        .levels
        .iter()
        .map(|level| [level.rows, level.cols])
        .filter(|[rows, cols]| *rows <= top.rows() && *cols <= top.cols())
        .collect();
    let region = &stage.plan.region;
    let sizes: Vec<[usize; 2]> =
        levels.iter().copied().chain([[region.rows, region.cols]]).collect();
    let parts = models.encoders(&sizes)?;
    progress::say(format!(
        "rendering {RENDERED} frames of {} x {} patches",
        top.rows(),
        top.cols()
    ));
    let video = Video::render(Kind::Crowded, 1, top, stage.costs.patch, RENDERED)?;
    let rig = Rig::start(&engines.each_ref().map(Engine::processor), parts)?;
    let described = in_a_line(&described(&engines, &rig));
    let show = Show {
        rig,
        video: &video,
        stage,
        levels: levels.len(),
        top,
        frames: args.frames,
        throttle: args.throttle,
    };
    let (cycle_ns, full_ns) = show.alone()?;
    let mut came = Vec::new();
    for system in [System::NpuOnly, System::MobiSrLike, System::Base, System::Aria] {
        progress::say(format!("{}: {} frames", system.name(), args.frames));
        came.push(show.run(system)?);
    }
    let level = stage.plan.usable().next_back();
    Ok(Live {
        engines: described,
        came,
        cycle_ns,
        full_ns,
        planned_cycles: stage.plan.cycles,
        forecast_cycle_ns: region.cycle.point_ns(),
        target_ns: stage.requirements.target_ns,
        rest_ns: level.map_or(0.0, |level| level.rest_ns),
    })
}

fn median(values: &[u64]) -> u64 {
    statistics::median(values).unwrap_or(0.0) as u64
}

impl Show<'_> {
    fn ask(
        &self,
        part: usize,
        processor: usize,
        frame: usize,
        window: Window,
        scale: Option<[usize; 2]>,
    ) -> CliResult<Ticket> {
        let graph = &self.rig.parts()[part];
        let picture = input(graph, self.video, frame, window, scale)?;
        Ok(self.rig.ask(part, processor, &[Arc::new(picture)])?)
    }

    fn level_ticket(&self, level: usize, processor: usize, frame: usize) -> CliResult<Ticket> {
        let costs = &self.stage.costs.levels[level];
        self.ask(level, processor, frame, self.top.window(), Some([costs.rows, costs.cols]))
    }

    fn region_ticket(&self, processor: usize, frame: usize, window: Window) -> CliResult<Ticket> {
        self.ask(self.levels, processor, frame, window, None)
    }

    /// Somewhere in the frame, of the region encoder's size.
    fn some_window(&self) -> Window {
        let region = &self.stage.plan.region;
        Window { row: 0, col: 0, rows: region.rows, cols: region.cols }
    }

    /// Medians: a cycle alone and beside full frames; full frames of each level. Everything is
    /// loaded afterwards.
    fn alone(&self) -> CliResult<([u64; 2], Vec<u64>)> {
        let mut full_ns = Vec::new();
        for level in 0..self.levels {
            let mut took = Vec::new();
            for run in 0..WARMUPS + 3 {
                let answer = self.level_ticket(level, FULL, 0)?.wait()?;
                took.extend((run >= WARMUPS).then_some(answer.busy_ns));
                go_on()?;
            }
            let _ = self.level_ticket(level, REGIONS, 0)?.wait()?;
            full_ns.push(median(&took));
        }
        let _ = self.region_ticket(FULL, 0, self.some_window())?.wait()?;
        let mut cycle_ns = [0; 2];
        for (beside, ns) in cycle_ns.iter_mut().enumerate() {
            let mut took = Vec::new();
            let mut other: Option<Ticket> = None;
            for run in 0..WARMUPS + 15 {
                if beside == 1
                    && other.as_ref().is_none_or(|ticket| !matches!(ticket.poll(), Ok(None)))
                {
                    other = Some(self.level_ticket(self.levels - 1, FULL, 0)?);
                }
                let answer = self.region_ticket(REGIONS, 0, self.some_window())?.wait()?;
                took.extend((run >= WARMUPS).then_some(answer.busy_ns));
                go_on()?;
            }
            if let Some(ticket) = other {
                let _ = ticket.wait();
            }
            *ns = median(&took);
        }
        Ok((cycle_ns, full_ns))
    }

    fn run(&self, system: System) -> CliResult<Came> {
        let setup = Setup::of(system, self.stage.costs, &self.stage.requirements, self.stage.plan);
        let mut came = Came {
            system,
            latency_ns: Vec::new(),
            dropped: 0,
            cycles: 0,
            full_age: 0,
            full_frames: 0,
            regions: 0,
        };
        let mut worker = Worker::new(self, &setup)?;
        let clock = FrameClock::start(self.stage.requirements.frame_ns as u64);
        let mut next = 1u64;
        while next <= self.frames as u64 {
            let frame = clock.next(next);
            came.dropped += frame - next;
            next = frame + 1;
            worker.full_frames(&clock, frame, &mut came)?;
            match system {
                System::NpuOnly => {
                    let level = setup.levels.first().copied().unwrap_or(0).min(self.levels - 1);
                    let _: Answer = self.level_ticket(level, REGIONS, frame as usize)?.wait()?;
                }
                System::MobiSrLike => self.blocks(&setup, frame as usize, &clock)?,
                System::Base => worker.matched_blocks(&setup, frame as usize, &mut came)?,
                _ => worker.aria(frame, &clock, &mut came)?,
            }
            came.latency_ns.push(clock.now_ns().saturating_sub(clock.time_of(frame)));
            go_on()?;
        }
        worker.finish();
        Ok(came)
    }

    /// How much slower the processor of full frames is taken to be at a frame.
    fn slower(&self, frame: usize) -> f64 {
        self.throttle.filter(|_| frame > self.frames / 2).unwrap_or(1.0).max(1.0)
    }

    /// Blocks on both processors at the same time, as many of the plan's regions as cover the same
    /// patches.
    fn blocks(&self, setup: &Setup, frame: usize, clock: &FrameClock) -> CliResult<()> {
        let region = &self.stage.plan.region;
        let scaled = |blocks: u64| {
            (blocks as usize * setup.region.rows * setup.region.cols)
                .div_ceil(region.rows * region.cols)
        };
        let share = [(REGIONS, scaled(setup.blocks[0])), (FULL, scaled(setup.blocks[1]))];
        let begun = clock.now_ns();
        let processors =
            share.iter().flat_map(|(processor, count)| (0..*count).map(move |_| *processor));
        let tickets = processors.map(|processor| {
            Ok((processor, self.region_ticket(processor, frame, self.some_window())?))
        });
        let mut full_ns = 0;
        for (processor, ticket) in tickets.collect::<CliResult<Vec<_>>>()? {
            let answer = ticket.wait()?;
            full_ns += if processor == FULL { answer.busy_ns } else { 0 };
        }
        clock.wait_until(begun + (full_ns as f64 * self.slower(frame)) as u64);
        Ok(())
    }
}
