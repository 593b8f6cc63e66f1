//! [`learn`]: the patch flow of section 4.3.1, trained on the features of a network with the paper's
//! loss or by the decoder's depth, and its error in held-out scenes beside flows in closed form.

use super::{AriaStudyError, LEVELS, OnEngine, Trained, top};
use vitempo::{
    aria::{
        CameraFlow, CameraMotion, FeatureMap, FlowEstimator, Frame, Grid, Instructions, Intrinsics,
        LearnedFlow, PatchFlow, Structure, View, Warped,
        flow::{Pair, Training},
        scene::{Kind, Network, Picture, Scene, Truth},
    },
    plan::aria::{FlowFigures, FlowFile, FlowLens, FlowProvenance},
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

    fn figures(&self) -> FlowFigures {
        FlowFigures {
            flow: self.name.clone(),
            patches_off: self.distance_patches(),
            one_minus_cosine: self.difference(),
            patches: self.patches,
        }
    }
}

/// What a flow learns from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Teacher {
    /// The features of the later frame: the paper's loss.
    #[default]
    Features,
    /// The flow by the decoder's depth of the earlier frame.
    Depth,
}

impl Teacher {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Features => "features",
            Self::Depth => "depth",
        }
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
    /// What is learned from.
    pub teacher: Teacher,
    /// Number of the first held-out scene.
    pub first: u64,
}

/// Field of view of the camera of held-out pairs, rad.
const VIEW_RAD: f64 = 1.1;
/// First seed of scenes to train on: none of the network's training, none held out.
const TRAINED_SEED: u64 = 0x0F10_0000_0000;
/// Frames between the two of a pair that is trained on, and of a held-out one.
const BETWEEN: [u64; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
const TESTED_BETWEEN: [u64; 4] = [4, 6, 8, 12];
/// Resolutions of the earlier frame in training: every other has the highest, as in ARIA, which
/// resamples full frames to that.
const BEFORE: [usize; 6] = [3, 0, 3, 1, 3, 2];

/// Two frames with everything known about them.
struct Seen {
    scene: Scene,
    pictures: [Picture; 2],
    pair: Pair,
    /// The decoder's depth of the earlier frame.
    depths: Vec<f32>,
}

/// A scene and two of its frames, the earlier one at a resolution.
struct TwoFrames {
    scene: Scene,
    frames: [u64; 2],
    before: Grid,
}

impl TwoFrames {
    /// To train on: all kinds, lenses of their own, any resolution.
    fn trained(number: u64, patch: usize) -> Result<Self, AriaStudyError> {
        let kinds = Kind::ALL.len() as u64;
        let (kind, round) = (Kind::ALL[(number % kinds) as usize], (number / kinds) as usize);
        let scene = Scene::furnished(kind, TRAINED_SEED + 1000 + number, top()?, patch)?;
        let [rows, cols] = LEVELS[BEFORE[round % BEFORE.len()]];
        let frames = frames(number, BETWEEN[round % BETWEEN.len()]);
        Ok(Self { scene, frames, before: Grid::new(rows, cols)? })
    }

    /// Held out: cameras that walk, behind one lens, at the highest resolution.
    fn held_out(number: u64, first: u64, patch: usize) -> Result<Self, AriaStudyError> {
        let kind = [Kind::Fast, Kind::Crowded][number as usize % 2];
        let lens = Intrinsics::with_field_of_view(top()?, VIEW_RAD)?;
        let seed = Scene::HELD_OUT + 1000 + first + number;
        let scene = Scene::furnished(kind, seed, top()?, patch)?.behind(lens);
        let between = TESTED_BETWEEN[number as usize / 2 % TESTED_BETWEEN.len()];
        Ok(Self { scene, frames: frames(number, between), before: top()? })
    }

    fn seen(self, network: &mut OnEngine) -> Result<Seen, AriaStudyError> {
        let Self { scene, frames, before } = self;
        let pictures = frames.map(|frame| scene.picture(frame));
        let camera = *scene.camera();
        let top = camera.grid;
        let mut see = |picture: &Picture, grid: Grid| -> Result<FeatureMap, AriaStudyError> {
            let pixels = Frame::new(&picture.colours, top, camera.patch, camera.intrinsics)?
                .pixels(&View::whole(top, grid))?;
            let values = network.encode(pixels, grid)?;
            let width = values.len() / grid.patches();
            let map = FeatureMap::from_values(Instructions::best(), grid, width, &values)?;
            Ok(map.resampled(top)?)
        };
        let [before, now] = [see(&pictures[0], before)?, see(&pictures[1], top)?];
        let depths = network.decode(&before)?.depths_of_patches(top);
        let motion = CameraMotion::between(&pictures[0].pose, &pictures[1].pose);
        let pair = Pair { intrinsics: camera.intrinsics, before, now, motion, taught: None };
        Ok(Seen { scene, pictures, pair, depths })
    }
}

fn frames(number: u64, between: u64) -> [u64; 2] {
    let first = 17 * number % 300;
    [first, first + between]
}

impl Seen {
    /// Flow in closed form.
    fn by(&self, structure: Structure) -> Result<PatchFlow, AriaStudyError> {
        let flow = CameraFlow::new(self.pair.intrinsics, structure);
        Ok(flow.flow(&self.pair.before, &self.pair.motion)?)
    }

    fn pair_for(self, teacher: Teacher) -> Result<Pair, AriaStudyError> {
        let taught = match teacher {
            Teacher::Features => None,
            Teacher::Depth => Some(self.by(Structure::Depth(self.depths.clone()))?),
        };
        Ok(Pair { taught, ..self.pair })
    }
}

/// Sizes and steps, chosen on other scenes than those held out.
fn training(steps: usize) -> Training {
    Training { latent: 16, hidden: 64, steps, ..Training::default() }
}

/// Trains a flow, and compares it as [`flow_errors`] does. The network is prepared for encoding at
/// all [`LEVELS`] and for decoding at the highest.
///
/// # Errors
/// [`AriaStudyError`] when the network fails or has no features of patches.
pub fn learn(
    network: &mut OnEngine,
    trained: &Trained,
    study: FlowStudy,
) -> Result<(Vec<FlowError>, FlowFile), AriaStudyError> {
    let (top, patch, features) = (top()?, trained.models.patch(), trained.models.features()?);
    let pairs: Vec<Pair> = (0..study.pairs)
        .map(|number| TwoFrames::trained(number, patch)?.seen(network)?.pair_for(study.teacher))
        .collect::<Result<_, AriaStudyError>>()?;
    let training = training(study.steps);
    let learned = training.train(&pairs)?;
    drop(pairs);
    let errors = flow_errors(network, patch, study, &learned)?;
    let provenance = FlowProvenance {
        held_out: errors.iter().map(FlowError::figures).collect(),
        ..FlowProvenance::of(&training, study.pairs, study.teacher.name())
    };
    let lens = FlowLens { grid: [top.rows(), top.cols()], view_rad: Scene::VIEWS_RAD };
    let encoder = features.weights.unwrap_or_default();
    let file = FlowFile::new(&learned, encoder, lens, provenance);
    Ok((errors, file))
}

/// Errors on held-out pairs: of no flow, by rotation, learned, by the decoder's depth and by the true
/// depth.
///
/// # Errors
/// [`AriaStudyError`] when the network fails or has other features than the flow.
pub fn flow_errors(
    network: &mut OnEngine,
    patch: usize,
    FlowStudy { tested, first, .. }: FlowStudy,
    learned: &LearnedFlow,
) -> Result<Vec<FlowError>, AriaStudyError> {
    let top = top()?;
    let names = ["none", "rotation", "learned", "decoder's depth", "true depth"];
    let mut errors = names.map(|name| FlowError { name: name.to_owned(), ..FlowError::default() });
    for number in 0..tested {
        let seen = TwoFrames::held_out(number, first, patch)?.seen(network)?;
        let truth =
            seen.by(Structure::Depth(seen.scene.camera().depths_of_patches(&seen.pictures[0])))?;
        let Pair { intrinsics, before, motion, .. } = &seen.pair;
        let flows = [
            PatchFlow::still(top),
            seen.by(Structure::Distant)?,
            learned.behind(top, *intrinsics).flow(before, motion)?,
            seen.by(Structure::Depth(seen.depths.clone()))?,
            truth.clone(),
        ];
        for (flow, error) in flows.iter().zip(&mut errors) {
            error.count(&seen, flow, &truth)?;
        }
    }
    Ok(errors.to_vec())
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
