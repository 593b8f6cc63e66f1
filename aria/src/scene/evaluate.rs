//! [`evaluate`](evaluate()): errors of identification, tracking and warping in a scene, against the
//! truth and beside simple baselines.

use super::{Blocks, Picture, Scene, StandIn, Truth, truth::way, world::WALLS};
use crate::{
    AriaError, CameraFlow, CameraMotion, Criterion, FeatureMap, FlowEstimator, FullFrames,
    Instructions, PatchFlow, PatchSet, Structure, Tracker, Tracking, Velocity, Warped, identify,
};

/// Patches found against patches that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detection {
    /// Patches that were found and moved.
    pub found_and_moved: usize,
    /// Patches that were found.
    pub found: usize,
    /// Patches that moved.
    pub moved: usize,
}

impl Detection {
    pub(super) fn add(&mut self, other: &Self) {
        self.found_and_moved += other.found_and_moved;
        self.found += other.found;
        self.moved += other.moved;
    }

    pub(super) fn count(&mut self, found: &PatchSet, truth: &Truth) {
        let of = |set: &PatchSet| {
            PatchSet::of(set.grid(), |patch| set.contains(patch) && truth.known.contains(patch))
        };
        let (found, moved) = (of(found), of(&truth.moving));
        self.found_and_moved += found.shared(&moved);
        self.found += found.count();
        self.moved += moved.count();
    }

    /// Precision: share of the found patches that moved; 1 if none was found.
    #[must_use]
    pub fn precision(&self) -> f64 {
        if self.found == 0 { 1.0 } else { self.found_and_moved as f64 / self.found as f64 }
    }

    /// Share of what moved that was found; 1 if nothing moved.
    #[must_use]
    pub fn recall(&self) -> f64 {
        if self.moved == 0 { 1.0 } else { self.found_and_moved as f64 / self.moved as f64 }
    }

    /// Harmonic mean of the two.
    #[must_use]
    pub fn f1(&self) -> f64 {
        let (p, r) = (self.precision(), self.recall());
        if p + r > 0.0 { 2.0 * p * r / (p + r) } else { 0.0 }
    }
}

/// How far regions are from where they should be, in patches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrackingError {
    /// Positions compared.
    pub positions: usize,
    tracked: f64,
    still: f64,
}

impl TrackingError {
    /// Mean error of tracked positions.
    #[must_use]
    pub fn tracked(&self) -> f64 {
        self.tracked / self.positions.max(1) as f64
    }

    /// Mean error of positions that stay as they were found.
    #[must_use]
    pub fn still(&self) -> f64 {
        self.still / self.positions.max(1) as f64
    }
}

/// Error of warped features where only the camera moved: 1 - cosine similarity to the true ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WarpingError {
    /// Patches compared.
    pub patches: usize,
    sums: [f64; 3],
}

impl WarpingError {
    /// Mean if nothing is warped.
    #[must_use]
    pub fn unwarped(&self) -> f64 {
        self.sums[0] / self.patches.max(1) as f64
    }

    /// Mean with [`Structure::Distant`].
    #[must_use]
    pub fn distant(&self) -> f64 {
        self.sums[1] / self.patches.max(1) as f64
    }

    /// Mean with the true [`Structure::Depth`].
    #[must_use]
    pub fn depth(&self) -> f64 {
        self.sums[2] / self.patches.max(1) as f64
    }
}

/// The figures of a scene.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Equation (1) alone.
    pub dynamic: Detection,
    /// Regions: with hulls filled.
    pub regions: Detection,
    /// Block matching.
    pub blocks: Detection,
    /// Of regions that show one moving thing.
    pub tracking: TrackingError,
    /// The same with [`Velocity::Mean`].
    pub tracking_by_means: TrackingError,
    /// Over the interval between full frames.
    pub warping: WarpingError,
}

/// A full frame of the scene: the picture, and its features.
struct Full {
    picture: Picture,
    features: FeatureMap,
}

/// Evaluates `full_frames` full frames at intervals of `interval` frames, with flow from the
/// camera's motion and the true depth.
///
/// # Errors
/// When a setting is out of its range.
pub fn evaluate(
    scene: &Scene,
    encoder: &StandIn,
    full_frames: u64,
    interval: u64,
    criterion: Criterion,
) -> Result<Evaluation, AriaError> {
    let (best, camera) = (Instructions::best(), scene.camera());
    let see = |frame: u64| -> Result<Full, AriaError> {
        let picture = scene.picture(frame);
        let features = FeatureMap::from_values(
            best,
            camera.grid,
            encoder.width(),
            &encoder.encode(camera, &picture),
        )?;
        Ok(Full { picture, features })
    };
    let mut evaluation = Evaluation::default();
    let mut tracker = Tracker::new(Tracking::default())?;
    let mut by_means = Tracker::new(Tracking { velocity: Velocity::Mean, ..Tracking::default() })?;
    let mut warped = Warped::new(camera.grid, encoder.width())?;
    let mut before = see(0)?;
    for number in 1..full_frames {
        let now = see(number * interval)?;
        let truth = Truth::between(scene.world(), camera, &before.picture, &now.picture);
        let motion = CameraMotion::between(&before.picture.pose, &now.picture.pose);
        let flows = flows(scene, &before, &motion)?;
        for (flow, sum) in flows.iter().zip(0..) {
            warped.warp(best, &before.features, flow)?;
            evaluation.warping.count(best, &warped, &now, &truth, sum)?;
        }
        // The last of the flows is by depth, and `warped` has its result.
        let found = identify(best, &warped, &now.features, criterion)?;
        let full = FullFrames {
            warped: &warped.features,
            current: &now.features,
            flow: &flows[2],
            frames: interval,
        };
        tracker.find(best, now.picture.frame, full, &found)?;
        by_means.find(best, now.picture.frame, full, &found)?;
        evaluation.dynamic.count(&found.dynamic, &truth);
        let mut regions = PatchSet::new(camera.grid);
        tracker.regions().iter().for_each(|region| regions.extend(&region.patches));
        evaluation.regions.count(&regions, &truth);
        evaluation
            .blocks
            .count(&Blocks::default().identify(camera, &before.picture, &now.picture), &truth);
        evaluation.tracking.count(scene, &tracker, &now.picture, interval);
        evaluation.tracking_by_means.count(scene, &by_means, &now.picture, interval);
        before = now;
    }
    Ok(evaluation)
}

/// None, by rotation, and by depth.
fn flows(scene: &Scene, before: &Full, motion: &CameraMotion) -> Result<[PatchFlow; 3], AriaError> {
    let camera = scene.camera();
    let by =
        |structure| CameraFlow::new(camera.intrinsics, structure).flow(&before.features, motion);
    let depth = Structure::Depth(camera.depths_of_patches(&before.picture));
    Ok([PatchFlow::still(camera.grid), by(Structure::Distant)?, by(depth)?])
}

impl WarpingError {
    fn count(
        &mut self,
        instructions: Instructions,
        warped: &Warped,
        now: &Full,
        truth: &Truth,
        sum: usize,
    ) -> Result<(), AriaError> {
        let mut similarities = Vec::new();
        warped.features.similarities(instructions, &now.features, &mut similarities)?;
        let known = (0..similarities.len())
            .filter(|patch| truth.known.contains(*patch) && !truth.moving.contains(*patch));
        let known: Vec<usize> = known.collect();
        self.sums[sum] +=
            known.iter().map(|patch| f64::from(1.0 - similarities[*patch])).sum::<f64>();
        if sum == 0 {
            self.patches += known.len();
        }
        Ok(())
    }
}

impl TrackingError {
    /// Compares with the true way of the object that a region shows most of, at every frame up to the
    /// next full frame.
    fn count(&mut self, scene: &Scene, tracker: &Tracker, now: &Picture, interval: u64) {
        for region in tracker.regions() {
            let Some(object) = shown(scene, now, &region.patches) else { continue };
            for frames in 1..=interval {
                let (pose, later) = (scene.pose(now.frame + frames), now.frame + frames);
                let Some([x, y]) =
                    way(scene.world(), scene.camera(), &pose, object, now.frame, later)
                else {
                    continue;
                };
                let [to_x, to_y] = region.velocity.map(|v| f64::from(v) * frames as f64);
                self.positions += 1;
                self.tracked += (x - to_x).hypot(y - to_y);
                self.still += x.hypot(y);
            }
        }
    }
}

/// The moving object with most pixels in some patches, if it has a fifth of them.
fn shown(scene: &Scene, picture: &Picture, patches: &PatchSet) -> Option<usize> {
    let mut counts = vec![0; scene.world().objects().len()];
    let mut all = 0;
    for pixel in patches.iter().flat_map(|patch| scene.camera().pixels_of(patch)) {
        all += 1;
        if let Some(count) = picture.things[pixel]
            .checked_sub(WALLS)
            .and_then(|object| counts.get_mut(usize::from(object)))
        {
            *count += 1;
        }
    }
    let (object, count) = counts.into_iter().enumerate().max_by_key(|(_, count)| *count)?;
    (5 * count >= all && scene.world().objects()[object].moves()).then_some(object)
}
