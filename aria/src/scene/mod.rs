//! Rendered scenes with known truth, and the accuracy of the runtime in them.
//!
//! A [`Scene`] is a room, things in it, and the path of a camera, all from a seed.
//! [`Scene::picture`] renders a frame with depth and thing per pixel, [`Scene::visible_objects`]
//! lists what moves without rendering, [`StandIn`] computes features of pictures, [`Truth`] holds
//! what moved, and [`evaluate`](evaluate()) scores identification (beside block matching), tracking
//! and warping; [`end_to_end`](end_to_end()) scores the output: depth and labels of a stand-in
//! [`Model`]. Scenes and encoder differ from the paper's, and so do these figures.

mod answer;
mod block_frames;
mod blocks;
mod dense;
mod depths;
mod encoder;
mod end_to_end;
mod evaluate;
mod picture;
mod pipeline;
mod shape;
mod surface;
mod truth;
mod visible_objects;
mod world;

pub use answer::{Answer, Model, Score};
pub use block_frames::BlockFrames;
pub use blocks::{Blocks, by_variation, tiles};
pub use dense::{CELLS, Dense, Target};
pub use depths::ShownDepths;
pub use encoder::StandIn;
pub use end_to_end::{Way, end_to_end};
pub use evaluate::{Detection, Evaluation, TrackingError, WarpingError, evaluate};
pub use picture::{Camera, Picture};
pub use pipeline::{
    Choices, Footage, Found, Network, Pace, PacedLevel, Show, Shown, Stage, Viewer, cut, pipeline,
    watched,
};
pub use shape::Shape;
pub use truth::{LEAST, SHARE, Truth, way};
pub use visible_objects::VisibleObject;
pub use world::{Hit, LABELS, Object, WALLS, World};

use crate::{
    AriaError, CameraMotion, FeatureMap, Grid, Instructions, Intrinsics, Pose, flow::Pair,
    random::Random,
};

/// The kind of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Few objects, a camera that hardly moves.
    Slow,
    /// Few objects that move fast, a camera that walks and looks around.
    Fast,
    /// Many objects.
    Crowded,
    /// A camera that turns away abruptly, time and again.
    AbruptTurns,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Slow, Self::Fast, Self::Crowded, Self::AbruptTurns];

    /// The name as people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Fast => "fast",
            Self::Crowded => "crowded",
            Self::AbruptTurns => "abrupt turns",
        }
    }

    /// Static objects, moving objects, and their speed in metres per frame.
    fn things(self) -> (usize, usize, f64) {
        match self {
            Self::Slow => (3, 2, 0.03),
            Self::Fast => (3, 2, 0.07),
            Self::Crowded => (5, 7, 0.04),
            Self::AbruptTurns => (3, 3, 0.04),
        }
    }
}

/// A world and the path of a camera through it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    kind: Kind,
    world: World,
    camera: Camera,
    /// Phases of the path.
    phases: [f64; 6],
    /// How far the camera walks to the side and ahead, m.
    walk: [f64; 2],
    /// How far the camera looks up, rad.
    pitch: f64,
}

impl Scene {
    /// First of the seeds that no network is trained on: figures come from these.
    pub const HELD_OUT: u64 = 0x4E1D_0000_0000;

    /// Least and largest field of view of furnished scenes' lenses, from left to right, rad.
    pub const VIEWS_RAD: [f64; 2] = [0.95, 1.25];

    /// A scene of a kind. Pictures are `grid` patches of `patch` pixels.
    ///
    /// # Errors
    /// When a patch has less than 2 pixels on a side.
    pub fn new(kind: Kind, seed: u64, grid: Grid, patch: usize) -> Result<Self, AriaError> {
        if !(2..=64).contains(&patch) {
            return Err(AriaError::setting(
                "the pixels on a side of a patch",
                patch,
                "between 2 and 64",
            ));
        }
        let mut random = Random::new(seed);
        let (still, moving, speed) = kind.things();
        let world = World::new(&mut random, still, moving, speed);
        let camera = Camera {
            grid,
            patch,
            intrinsics: Intrinsics::with_field_of_view(grid, 1.1)?,
            noise: 0.01,
        };
        let phases = std::array::from_fn(|_| random.between(0.0, std::f64::consts::TAU));
        Ok(Self { kind, world, camera, phases, walk: [0.0; 2], pitch: 0.0 })
    }

    /// A scene of a kind in a furnished room: shapes and materials that show what a thing is, a
    /// light, a lens and noise of its own, and a camera that looks down a little and walks. A network can learn depth
    /// and labels from its pictures.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn furnished(kind: Kind, seed: u64, grid: Grid, patch: usize) -> Result<Self, AriaError> {
        let plain = Self::new(kind, seed, grid, patch)?;
        let mut random = Random::new(seed ^ 0xF042);
        let (still, moving, speed) = kind.things();
        let world = World::furnished(&mut random, still + 2, moving, speed);
        let [least, most] = Self::VIEWS_RAD;
        let angle = random.between(least, most);
        let camera = Camera {
            intrinsics: Intrinsics::with_field_of_view(grid, angle)?,
            noise: random.between(0.005, 0.03) as f32,
            ..plain.camera
        };
        // Metres to the side and ahead, at most; a slow scene's camera hardly moves.
        let far = if kind == Kind::Slow { 0.1 } else { 0.7 };
        let walk = [random.between(-far, far), random.between(0.0, far)];
        let pitch = -random.between(0.1, 0.3);
        Ok(Self { world, camera, walk, pitch, ..plain })
    }

    /// The same scene behind another lens.
    #[must_use]
    pub fn behind(mut self, intrinsics: Intrinsics) -> Self {
        self.camera.intrinsics = intrinsics;
        self
    }

    /// The world.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The camera.
    #[must_use]
    pub fn camera(&self) -> &Camera {
        &self.camera
    }

    /// Where the camera is.
    #[must_use]
    pub fn pose(&self, frame: u64) -> Pose {
        let time = frame as f64;
        let wave = |phase: usize, period: f64| {
            (self.phases[phase] + std::f64::consts::TAU * time / period).sin()
        };
        // Metres and radians; the period of the largest part in frames.
        let (way, turn, period) = match self.kind {
            Kind::Slow => (0.03, 0.02, 150.0),
            Kind::Fast => (0.30, 0.20, 120.0),
            Kind::Crowded => (0.10, 0.06, 120.0),
            Kind::AbruptTurns => (0.05, 0.03, 120.0),
        };
        let [side, ahead] = self.walk.map(|far| far * wave(0, 110.0));
        let position = [
            way * wave(0, period) + side,
            0.3 * way * wave(1, 0.7 * period),
            -0.5 + 0.5 * way * wave(2, 1.3 * period) + ahead - self.walk[1],
        ];
        let yaw = turn * wave(3, 1.1 * period) + self.abrupt(frame);
        Pose::looking(
            position,
            yaw,
            0.4 * turn * wave(4, 0.8 * period) + self.pitch,
            0.2 * turn * wave(5, 0.9 * period),
        )
    }

    /// Every 40 frames, a turn by half a radian or back within eight.
    fn abrupt(&self, frame: u64) -> f64 {
        if self.kind != Kind::AbruptTurns {
            return 0.0;
        }
        let (round, within) = (frame / 40, (frame % 40) as f64);
        let turned = ((within - 16.0) / 8.0).clamp(0.0, 1.0);
        0.5 * if round % 2 == 0 { turned } else { 1.0 - turned }
    }

    /// What the camera sees.
    #[must_use]
    pub fn picture(&self, frame: u64) -> Picture {
        self.camera.take(&self.world, &self.pose(frame), frame)
    }

    /// Two frames with their features and the motion between them, to train a flow on.
    ///
    /// # Errors
    /// When the encoder has no features.
    pub fn pair(&self, encoder: &StandIn, from: u64, to: u64) -> Result<Pair, AriaError> {
        let see = |frame: u64| {
            let features = encoder.encode(&self.camera, &self.picture(frame));
            FeatureMap::from_values(
                Instructions::best(),
                self.camera.grid,
                encoder.width(),
                &features,
            )
        };
        Ok(Pair {
            intrinsics: self.camera.intrinsics,
            before: see(from)?,
            now: see(to)?,
            motion: CameraMotion::between(&self.pose(from), &self.pose(to)),
            taught: None,
        })
    }
}
