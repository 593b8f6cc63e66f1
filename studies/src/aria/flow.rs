//! [`learn`]: the patch flow of section 4.3.1, trained on the features of a network with the paper's
//! loss, and its error in held-out scenes beside flows in closed form.

use super::{AriaStudyError, OnEngine, top};
use vitempo::aria::{
    CameraFlow, CameraMotion, FeatureMap, FlowEstimator, Frame, Grid, Instructions, Intrinsics,
    PatchFlow, Structure, View, Warped,
    flow::{Pair, Training},
    scene::{Kind, Network, Picture, Scene, Truth},
};

/// A flow and how wrong it is where nothing but the camera moved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowError {
    /// What it is computed from.
    pub name: String,
    /// Patches.
    pub patches: usize,
    /// Sum of distances to the true source, in patches.
    distance: f64,
    /// Sum of 1 - cosine similarity of warped features to the true ones.
    difference: f64,
}

impl FlowError {
    /// Mean distance to the true source of a patch, in patches.
    #[must_use]
    pub fn distance_patches(&self) -> f64 {
        self.distance / self.patches.max(1) as f64
    }

    /// Mean of 1 - cosine similarity.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.difference / self.patches.max(1) as f64
    }
}

/// What is trained on, and tested with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStudy {
    /// Pairs of frames to train on, each of a scene of its own.
    pub pairs: u64,
    /// Held-out pairs.
    pub tested: u64,
    /// Steps of training.
    pub steps: usize,
}

/// Field of view of the one camera that the flow is for, radians.
const VIEW_RAD: f64 = 1.1;
/// First seed of scenes to train on: none of the network's training, none held out.
const TRAINED_SEED: u64 = 0x0F10_0000_0000;
/// Frames between the two of a pair.
const BETWEEN: [u64; 4] = [4, 6, 8, 12];

/// Two frames with everything known about them.
struct Seen {
    scene: Scene,
    pictures: [Picture; 2],
    pair: Pair,
    /// The decoder's depth of the earlier frame.
    depths: Vec<f32>,
}

/// Trains a flow, and compares it: none, by rotation, learned, by the decoder's depth, by the true
/// depth.
///
/// # Errors
/// [`AriaStudyError`] when the network fails.
pub fn learn(
    network: &mut OnEngine,
    patch: usize,
    study: FlowStudy,
) -> Result<Vec<FlowError>, AriaStudyError> {
    let top = top()?;
    let lens = Intrinsics::with_field_of_view(top, VIEW_RAD)?;
    let mut see = |seed: u64, number: u64| seen(network, [top, top], lens, patch, seed, number);
    let pairs: Vec<Pair> = (0..study.pairs)
        .map(|number| Ok(see(TRAINED_SEED, number)?.pair))
        .collect::<Result<_, AriaStudyError>>()?;
    let training = Training { latent: 16, hidden: 64, steps: study.steps, ..Training::default() };
    let learned = training.train(lens, &pairs)?;
    let names = ["none", "rotation", "learned", "decoder's depth", "true depth"];
    let mut errors = names.map(|name| FlowError { name: name.to_owned(), ..FlowError::default() });
    for number in 0..study.tested {
        let seen = see(Scene::HELD_OUT, number)?;
        let by =
            |structure| CameraFlow::new(lens, structure).flow(&seen.pair.before, &seen.pair.motion);
        let depths = seen.scene.camera().depths_of_patches(&seen.pictures[0]);
        let truth = by(Structure::Depth(depths))?;
        let flows = [
            PatchFlow::still(top),
            by(Structure::Distant)?,
            learned.flow(&seen.pair.before, &seen.pair.motion)?,
            by(Structure::Depth(seen.depths.clone()))?,
            truth.clone(),
        ];
        for (flow, error) in flows.iter().zip(&mut errors) {
            error.count(&seen, flow, &truth)?;
        }
    }
    Ok(errors.to_vec())
}

fn seen(
    network: &mut OnEngine,
    [top, grid]: [Grid; 2],
    lens: Intrinsics,
    patch: usize,
    seed: u64,
    number: u64,
) -> Result<Seen, AriaStudyError> {
    // Scenes whose cameras walk.
    let kind = [Kind::Fast, Kind::Crowded][number as usize % 2];
    let scene = Scene::furnished(kind, seed + 1000 + number, top, patch)?.behind(lens);
    let first = 17 * number % 300;
    let later = first + BETWEEN[number as usize / 2 % BETWEEN.len()];
    let pictures = [first, later].map(|frame| scene.picture(frame));
    let mut maps = Vec::new();
    for picture in &pictures {
        let pixels =
            Frame::new(&picture.colours, top, patch, lens)?.pixels(&View::whole(top, grid))?;
        let values = network.encode(pixels, grid)?;
        let width = values.len() / grid.patches();
        maps.push(FeatureMap::from_values(Instructions::best(), grid, width, &values)?);
    }
    let depths = network.decode(&maps[0])?.depths_of_patches(grid);
    let motion = CameraMotion::between(&pictures[0].pose, &pictures[1].pose);
    let now = maps.pop().unwrap_or_else(|| maps[0].clone());
    let pair = Pair { before: maps.swap_remove(0), now, motion };
    Ok(Seen { scene, pictures, pair, depths })
}

impl FlowError {
    /// Counts patches that nothing moved in and that the earlier frame shows.
    fn count(
        &mut self,
        seen: &Seen,
        flow: &PatchFlow,
        truth: &PatchFlow,
    ) -> Result<(), AriaStudyError> {
        let (camera, pair) = (seen.scene.camera(), &seen.pair);
        let [before, now] = &seen.pictures;
        let moved = Truth::between(seen.scene.world(), camera, before, now);
        let mut warped = Warped::new(camera.grid, pair.now.width())?;
        warped.warp(Instructions::best(), &pair.before, flow)?;
        let mut similarities = Vec::new();
        warped.features.similarities(Instructions::best(), &pair.now, &mut similarities)?;
        for (patch, similarity) in similarities.iter().enumerate() {
            let ([x, y], [true_x, true_y]) = (flow.sources()[patch], truth.sources()[patch]);
            let inside = camera.grid.at([true_x, true_y]).is_some();
            if inside && moved.known.contains(patch) && !moved.moving.contains(patch) {
                self.patches += 1;
                self.distance += f64::from((x - true_x).hypot(y - true_y));
                self.difference += f64::from(1.0 - similarity);
            }
        }
        Ok(())
    }
}
