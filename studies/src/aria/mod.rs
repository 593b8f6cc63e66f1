//! What a trained network shows within a deadline: depth and labels of held-out scenes, by ARIA, by
//! its parts and by the baselines of Jung et al. (MobiSys 2025, sections 6.2 and 6.3).
//!
//! Latencies are forecasts of two bundles that never saw this network; the planner makes each
//! system's plan from them. Full frames, blocks and regions go through the encoder one by one, and
//! what a system shows through the decoder.

mod device;
mod error;
mod flow;
pub mod frames;
mod network;
pub mod pictures;
mod systems;

pub use device::{FRAMES_PER_S, OnPhone, on_phone};
pub use error::AriaStudyError;
pub use flow::{FlowError, FlowStudy, Teacher, flow_errors, learn};
pub use network::{OnEngine, Precision, Trained};
pub use systems::{Find, Plan, Way, ways};

use vitempo::aria::{
    Frame, Grid, View,
    scene::{Footage, Kind, Network, Scene, Score, Shown, pipeline},
};

/// Resolutions of frames, rows and columns of patches, rising.
pub const LEVELS: [[usize; 2]; 4] = [[12, 16], [15, 20], [18, 24], [24, 32]];
/// Sizes of regions to choose from, in patches.
pub const REGIONS: [[usize; 2]; 3] = [[6, 6], [8, 8], [12, 12]];

/// Which scenes, and how much of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenes {
    /// Scenes of each kind.
    pub of_each_kind: u64,
    /// Camera frames of each.
    pub frames: u64,
    /// First seed; [`Scene::HELD_OUT`] unless a setting is being chosen.
    pub seed: u64,
}

/// Frames of a scene that are not counted: full frames have to be under way.
pub const SKIPPED: u64 = 10;

impl Scenes {
    fn each(self, top: Grid, patch: usize) -> impl Iterator<Item = Result<Scene, AriaStudyError>> {
        let of_kind = move |kind: Kind| (0..self.of_each_kind).map(move |scene| (kind, scene));
        Kind::ALL
            .into_iter()
            .flat_map(of_kind)
            .map(move |(kind, scene)| Ok(Scene::furnished(kind, self.seed + scene, top, patch)?))
    }
}

/// The patches of the highest resolution.
///
/// # Errors
/// Never for the resolutions there are.
pub fn top() -> Result<Grid, AriaStudyError> {
    let [_, _, _, [rows, cols]] = LEVELS;
    Ok(Grid::new(rows, cols)?)
}

/// Error of whole frames by resolution: every `step`-th frame of the scenes.
///
/// # Errors
/// [`AriaStudyError`] when the network fails.
pub fn resolutions(
    network: &mut OnEngine,
    scenes: Scenes,
    step: u64,
    patch: usize,
) -> Result<Vec<(Grid, Score)>, AriaStudyError> {
    let top = top()?;
    let mut scores = Vec::new();
    for [rows, cols] in LEVELS {
        scores.push((Grid::new(rows, cols)?, Score::default()));
    }
    for scene in scenes.each(top, patch) {
        let scene = scene?;
        let camera = scene.camera();
        for frame in (0..scenes.frames).step_by(step.max(1) as usize) {
            let picture = scene.picture(frame);
            let seen = Frame::new(&picture.colours, camera.grid, camera.patch, camera.intrinsics)?;
            for (grid, score) in &mut scores {
                let features = network.encode(seen.pixels(&View::whole(top, *grid))?, *grid)?;
                let width = features.len() / grid.patches();
                let map = vitempo::aria::FeatureMap::from_values(
                    vitempo::aria::Instructions::best(),
                    *grid,
                    width,
                    &features,
                )?;
                network.decode(&map)?.score(scene.world(), &picture, score);
            }
        }
    }
    Ok(scores)
}

/// What each way shows of recorded frames.
///
/// # Errors
/// [`AriaStudyError`] when the network fails.
pub fn shown_of(
    network: &mut OnEngine,
    recorded: &frames::Recorded,
    ways: &[Way],
) -> Result<Vec<Shown>, AriaStudyError> {
    let (camera, pictures) = (&recorded.camera, &recorded.pictures[..]);
    let footage = Footage { camera, pictures, world: None };
    let skipped = SKIPPED.min(pictures.len() as u64 / 2);
    let shows: Vec<_> = ways.iter().map(|way| way.show.clone()).collect();
    pipeline(&footage, network, skipped, &shows)
}

/// What each way shows of the scenes.
///
/// # Errors
/// [`AriaStudyError`] when the network fails.
pub fn shown(
    network: &mut OnEngine,
    scenes: Scenes,
    patch: usize,
    ways: &[Way],
) -> Result<Vec<Shown>, AriaStudyError> {
    let shows: Vec<_> = ways.iter().map(|way| way.show.clone()).collect();
    let mut all = vec![Shown::default(); ways.len()];
    for scene in scenes.each(top()?, patch) {
        let scene = scene?;
        let pictures: Vec<_> = (0..scenes.frames).map(|frame| scene.picture(frame)).collect();
        let (camera, world) = (scene.camera(), Some(scene.world()));
        let footage = Footage { camera, pictures: &pictures, world };
        let shown = pipeline(&footage, network, SKIPPED.min(scenes.frames), &shows)?;
        all.iter_mut().zip(shown).for_each(|(all, shown)| all.add(&shown));
    }
    Ok(all)
}
