//! [`Viewer`]: a way of showing frames, frame by frame: the caller says when full frames are done and
//! how many cycles fit.

use super::{Choices, Dense, Network, Show, Shown, Stage, Truth, by_variation};
use crate::{
    Flow, Grid, PatchSet, Runtime, Settings,
    scene::{BlockFrames, ShownDepths},
};

/// The state of a way between frames.
pub struct Viewer {
    way: Show,
    state: State,
    /// Number and resolution of the latest full frame.
    latest: (u64, Grid),
}

enum State {
    /// Of frames that are shown one by one.
    None,
    Blocks(Box<BlockFrames>),
    Runtime(Box<Seen>),
}

/// The runtime, and what it needs of earlier frames.
struct Seen {
    runtime: Runtime<Flow>,
    depths: ShownDepths,
    choices: Choices,
    /// Rows and columns of patches of the region encoder.
    region: [usize; 2],
}

impl Viewer {
    /// A way before the first frame; a full frame and its resolution are there from the beginning.
    ///
    /// # Errors
    /// When the network fails or a setting is out of its range.
    pub fn new<N: Network>(
        stage: &mut Stage<'_>,
        network: &mut N,
        way: &Show,
        first: Option<(u64, Grid)>,
    ) -> Result<Self, N::Error> {
        let (top, camera) = (stage.top(), *stage.camera());
        let latest = first.unwrap_or((0, top));
        let pose = stage.picture(latest.0).pose;
        let state = match way {
            Show::MovedBlocks(pace) => {
                let features = stage.full(network, latest.0, latest.1)?.resampled(top)?;
                State::Blocks(Box::new(BlockFrames::new(&camera, pace.region, features, pose)?))
            }
            Show::Regions(pace, choices) => {
                let features = stage.full(network, latest.0, latest.1)?.resampled(top)?;
                let flow = Flow::new(&choices.flow, top, camera.intrinsics);
                let settings = Settings {
                    padding: choices.padding,
                    priority: choices.priority,
                    criterion: choices.criterion,
                    zoom: choices.zoom,
                    apart: choices.apart,
                    whole_windows: choices.whole_windows,
                    ..Settings::new(top, features.width(), pace.region)
                };
                let mut runtime = Runtime::new(settings, flow)?;
                runtime.full_frame(latest.0, &pose, &mut features.values().to_vec())?;
                let shown = network.decode(&features)?.depths_of_patches(top);
                runtime.estimator_mut().set_depths(&shown);
                let mut depths = ShownDepths::default();
                depths.push(latest.0, shown);
                State::Runtime(Box::new(Seen {
                    runtime,
                    depths,
                    choices: choices.clone(),
                    region: pace.region,
                }))
            }
            _ => State::None,
        };
        Ok(Self { way: way.clone(), state, latest })
    }

    /// A full frame is done: number `frame`, captured earlier, at a resolution. Regions that are found
    /// by it are counted.
    ///
    /// # Errors
    /// When the network fails or the frame is not later than the last full frame.
    pub fn full_frame<N: Network>(
        &mut self,
        stage: &mut Stage<'_>,
        network: &mut N,
        frame: u64,
        level: Grid,
        shown: &mut Shown,
    ) -> Result<(), N::Error> {
        let arrived = stage.picture(frame);
        self.latest = (frame, level);
        if let State::None = self.state {
            return Ok(());
        }
        let features = stage.full(network, frame, level)?.resampled(stage.top())?;
        match &mut self.state {
            State::Blocks(frames) => frames.full_frame(features, arrived.pose),
            State::Runtime(seen) => {
                seen.runtime.full_frame(frame, &arrived.pose, &mut features.values().to_vec())?;
                if let Some(world) = stage.footage().world {
                    let before = stage.picture(seen.runtime.compared_with());
                    let truth = Truth::between(world, stage.camera(), before, arrived);
                    let regions: Vec<PatchSet> = seen
                        .runtime
                        .regions()
                        .iter()
                        .map(|region| region.patches.clone())
                        .collect();
                    shown.found.count(&regions, &truth);
                }
                if let Some(depths) = seen.depths.at(frame) {
                    seen.runtime.estimator_mut().set_depths(depths);
                }
            }
            State::None => {}
        }
        Ok(())
    }

    /// Shows a frame, with at most `cycles` cycles; returns the decoder's output.
    ///
    /// # Errors
    /// When the network fails.
    pub fn frame<N: Network>(
        &mut self,
        stage: &mut Stage<'_>,
        network: &mut N,
        frame: u64,
        cycles: usize,
        shown: &mut Shown,
    ) -> Result<Dense, N::Error> {
        let (picture, top) = (stage.picture(frame), stage.top());
        if self.way.pace().is_some() {
            shown.full_ages += frame - self.latest.0;
        }
        let dense = match (&self.way, &mut self.state) {
            (Show::Whole(level), _) => {
                let features = stage.full(network, frame, *level)?;
                stage.score(network, frame, &features, shown)?
            }
            (Show::Blocks(level, block, refined), _) => {
                let mut features = stage.blocks(network, picture, *level, *block)?;
                if *refined > 0 {
                    features = features.resampled(top)?;
                }
                let hard = by_variation(stage.camera(), picture, *block);
                for window in hard.into_iter().take(*refined) {
                    features.replace_window(window, &stage.part(network, picture, window)?)?;
                }
                stage.score(network, frame, &features, shown)?
            }
            (_, State::None) => {
                let (latest, level) = self.latest;
                let features = stage.full(network, latest, level)?.resampled(top)?;
                stage.score(network, frame, &features, shown)?
            }
            (_, State::Blocks(frames)) => {
                let before = stage.picture(frame.saturating_sub(1));
                let (windows, asked) = frames.frame(stage.camera(), before, picture, cycles)?;
                for window in &windows {
                    frames.update(*window, &stage.part(network, picture, *window)?)?;
                }
                shown.asked += asked as u64;
                shown.cycles += windows.len() as u64;
                stage.score(network, frame, frames.shown(), shown)?
            }
            (_, State::Runtime(seen)) => seen.frame(stage, network, frame, cycles, shown)?,
        };
        Ok(dense)
    }
}

impl Seen {
    fn frame<N: Network>(
        &mut self,
        stage: &mut Stage<'_>,
        network: &mut N,
        frame: u64,
        cycles: usize,
        shown: &mut Shown,
    ) -> Result<Dense, N::Error> {
        let (top, picture) = (stage.top(), stage.picture(frame));
        let mut whole = None;
        if let Some((most, level)) = self.choices.whole_beyond {
            let flow = self.runtime.flow_to(&picture.pose)?;
            whole = (flow.mean_distance() > most).then_some(level);
        }
        let dense = if let Some(level) = whole {
            shown.whole += 1;
            let features = stage.full(network, frame, level)?;
            stage.score(network, frame, &features, shown)?
        } else {
            let plan = self.runtime.frame(frame, &picture.pose, cycles)?;
            for cycle in &plan.cycles {
                let values = stage.region(network, picture, cycle.window, self.region)?;
                self.runtime.update(cycle, &values)?;
            }
            shown.cycles += plan.cycles.len() as u64;
            shown.asked += plan.asked as u64;
            stage.score(network, frame, self.runtime.aligned(), shown)?
        };
        self.depths.push(frame, dense.depths_of_patches(top));
        Ok(dense)
    }
}
