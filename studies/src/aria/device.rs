//! [`on_phone`]: every system on the paper's phone, simulated, where the trained network sees the
//! frames: latencies, heat and frequencies are the simulator's, regions are found and frames are shown
//! by the network (figures 12, 13, 15 to 17 and 19).

use super::{AriaStudyError, Find, LEVELS, OnEngine, Plan, SKIPPED, Scenes, top};
use vitempo::{
    aria::{
        Grid,
        scene::{Footage, Picture, Scene, Show, Shown, Stage, Viewer},
    },
    plan::aria::{Scenario, trace_frame},
    planners::aria::{
        AriaCosts, AriaOutcome, Requirements, Setup, Sight, Simulation, System, Trace, Truth,
    },
};

/// Camera frames per second.
pub const FRAMES_PER_S: f64 = 30.0;
/// Seed of the spread of run times.
const SEED: u64 = 0;
/// Patches of the regions of the paper's phone on our grid: about the same share of a frame.
const REGIONS: [[usize; 2]; 3] = [[8, 8], [12, 16], [15, 20]];

/// A system over the scenes.
#[derive(Clone, Debug)]
pub struct OnPhone {
    /// Its name.
    pub name: String,
    /// Times, heat, frequencies.
    pub outcome: AriaOutcome,
    /// What was shown, second by second; the first frames of each scene do not count.
    pub seconds: Vec<Shown>,
}

impl OnPhone {
    /// What was shown in all.
    #[must_use]
    pub fn shown(&self) -> Shown {
        self.seconds.iter().fold(Shown::default(), |mut all, second| {
            all.add(second);
            all
        })
    }
}

impl Plan {
    /// Plans for the paper's phone, with the network's resolutions in the place of the paper's: the
    /// lowest has the latencies of its lowest, and so on. They are about the same shares of the
    /// highest: 25, 39 and 56 % beside 29, 39 and 54 %.
    ///
    /// # Errors
    /// [`AriaStudyError`] naming the requirement that is invalid.
    pub fn phone(patch: usize, requirements: Requirements) -> Result<Self, AriaStudyError> {
        let (mut costs, device) = AriaCosts::paper_phone()?;
        for (level, [rows, cols]) in costs.levels.iter_mut().zip(LEVELS) {
            (level.rows, level.cols) = (rows, cols);
            (level.height, level.width) = (rows * patch, cols * patch);
        }
        for (region, [rows, cols]) in costs.regions.iter_mut().zip(REGIONS) {
            (region.rows, region.cols) = (rows, cols);
        }
        costs.patch = patch;
        Ok(Self { scenario: Scenario::new(costs, device, requirements)?, notes: Vec::new() })
    }
}

/// Scenes one after another, as a camera sees them.
struct Video {
    scenes: Vec<(Scene, Vec<Picture>)>,
    /// Frames of each.
    each: usize,
    trace: Trace,
}

impl Video {
    fn of(scenes: Scenes, patch: usize) -> Result<Self, AriaStudyError> {
        let (grid, mut all, mut frames) = (top()?, Vec::new(), Vec::new());
        for scene in scenes.each(grid, patch) {
            let scene = scene?;
            // Every frame has one before it.
            frames.extend((1..=scenes.frames).map(|now| trace_frame(&scene, now - 1, now)));
            let pictures = (0..=scenes.frames).map(|frame| scene.picture(frame)).collect();
            all.push((scene, pictures));
        }
        let trace = Trace { grid, frames_per_s: FRAMES_PER_S, frames };
        Ok(Self { scenes: all, each: scenes.frames as usize, trace })
    }

    fn footage(&self) -> impl Iterator<Item = Footage<'_>> {
        self.scenes.iter().map(|(scene, pictures)| Footage {
            camera: scene.camera(),
            pictures,
            world: Some(scene.world()),
        })
    }

    /// The scene of a frame, and the frame's number in it.
    fn place(&self, frame: usize) -> (usize, u64) {
        (frame / self.each, 1 + (frame % self.each) as u64)
    }
}

/// Runs every system of the paper over the scenes, and ARIA with the other choices of [`Plan::ours`].
///
/// # Errors
/// [`AriaStudyError`] when the network fails or the deadline leaves no plan.
pub fn on_phone(
    network: &mut OnEngine,
    plan: &Plan,
    scenes: Scenes,
    patch: usize,
    find: Find,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<OnPhone>, AriaStudyError> {
    let video = Video::of(scenes, patch)?;
    let mut stages = Vec::new();
    for footage in video.footage() {
        progress("reference");
        stages.push(Stage::new(footage, network)?);
    }
    let Scenario { costs, device, requirements, .. } = &plan.scenario;
    let simulation = Simulation {
        trace: &video.trace,
        costs,
        device,
        requirements: *requirements,
        truth: Truth::Deviations(0.0),
        seed: SEED,
    };
    let mut ways = Vec::new();
    for system in System::ALL {
        ways.push((system.name().to_owned(), plan.setup(system), plan.show(system, find)?));
    }
    ways.extend(plan.ours(find)?);
    let mut all = Vec::new();
    for (name, setup, show) in ways {
        progress(&name);
        let mut eyes = Eyes::new(&video, &mut stages, network, &show, &setup)?;
        let outcome = simulation.run_seeing(setup, &mut eyes)?;
        let seconds = eyes.done()?;
        all.push(OnPhone { name, outcome, seconds });
    }
    Ok(all)
}

/// The network, as a simulated system's eyes.
struct Eyes<'a, 'v> {
    video: &'a Video,
    stages: &'a mut [Stage<'v>],
    network: &'a mut OnEngine,
    show: &'a Show,
    /// There is a full frame before each scene, which is the first thing that is shown of it.
    first: Option<(u64, Grid)>,
    viewer: Viewer,
    scene: usize,
    /// What full frames have shown since the last frame.
    pending: Shown,
    seconds: Vec<Shown>,
    error: Option<AriaStudyError>,
}

impl<'a, 'v> Eyes<'a, 'v> {
    fn new(
        video: &'a Video,
        stages: &'a mut [Stage<'v>],
        network: &'a mut OnEngine,
        show: &'a Show,
        setup: &Setup,
    ) -> Result<Self, AriaStudyError> {
        let first = setup.system.is_parallel().then_some((0, top()?));
        let viewer = Viewer::new(&mut stages[0], network, show, first)?;
        let seconds = video.trace.seconds().ceil() as usize;
        Ok(Self {
            video,
            stages,
            network,
            show,
            first,
            viewer,
            scene: 0,
            pending: Shown::default(),
            seconds: vec![Shown::default(); seconds.max(1)],
            error: None,
        })
    }

    fn done(self) -> Result<Vec<Shown>, AriaStudyError> {
        self.error.map_or(Ok(self.seconds), Err)
    }

    /// Frames of another scene follow.
    fn turn_to(&mut self, scene: usize) -> Result<(), AriaStudyError> {
        if scene != self.scene {
            let stage = &mut self.stages[scene];
            self.viewer = Viewer::new(stage, self.network, self.show, self.first)?;
            (self.scene, self.pending) = (scene, Shown::default());
        }
        Ok(())
    }

    fn see(&mut self, frame: usize, most: usize) -> Result<u64, AriaStudyError> {
        let (scene, number) = self.video.place(frame);
        self.turn_to(scene)?;
        let mut shown = std::mem::take(&mut self.pending);
        self.viewer.frame(&mut self.stages[scene], self.network, number, most, &mut shown)?;
        if number > SKIPPED {
            let second = (frame as f64 / FRAMES_PER_S) as usize;
            let last = self.seconds.len() - 1;
            self.seconds[second.min(last)].add(&shown);
        }
        Ok(shown.cycles)
    }

    fn take(&mut self, frame: usize, [rows, cols]: [usize; 2]) -> Result<(), AriaStudyError> {
        let (scene, number) = self.video.place(frame);
        if scene < self.scene {
            // Of a scene that is over.
            return Ok(());
        }
        self.turn_to(scene)?;
        let level = Grid::new(rows, cols)?;
        let stage = &mut self.stages[scene];
        self.viewer.full_frame(stage, self.network, number, level, &mut self.pending)
    }
}

impl Sight for Eyes<'_, '_> {
    fn full_frame(&mut self, frame: usize, patches: [usize; 2]) {
        if self.error.is_none() {
            self.error = self.take(frame, patches).err();
        }
    }

    fn frame(&mut self, frame: usize, most: u64) -> u64 {
        if self.error.is_some() {
            return 0;
        }
        self.see(frame, most as usize).unwrap_or_else(|error| {
            self.error = Some(error);
            0
        })
    }
}
