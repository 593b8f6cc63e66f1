//! [`Walk`]: makes a trace of the camera and of moving regions, from rendered scenes with a known
//! ground truth.

use vitempo_aria::{
    AriaError, CameraMotion, Grid,
    scene::{Kind, Scene, VisibleObject},
};
use vitempo_planners::aria::{Moving, Trace, TraceFrame};

/// Longest walk, s: ten hours.
pub const MOST_SECONDS: usize = 36_000;
/// Frames per second of a scene.
const FRAMES_PER_S: f64 = 30.0;
/// Numbers of a scene's regions are below this.
const MOST_REGIONS: u64 = 1000;
/// Height, width and patch of the paper's highest resolution, px.
const IMAGE: [usize; 3] = [406, 658, 14];

/// Why a walk cannot be made.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum WalkError {
    /// The walk is longer than [`MOST_SECONDS`].
    #[error("{seconds}: ten hours are the most")]
    TooLong {
        /// The requested length, s.
        seconds: usize,
    },
    /// The scenes have no duration.
    #[error("a scene of no seconds")]
    NoScene,
    /// The scenes' grid is refused.
    #[error(transparent)]
    Aria(#[from] AriaError),
}

/// A sequence of scenes; at a change of scenes, the camera's motion is that of the next scene.
///
/// ```
/// use vitempo::plan::aria::Walk;
///
/// let walk = Walk { seconds: 3, scene_seconds: 1, ..Walk::default() };
/// let trace = walk.trace()?;
/// assert_eq!(trace.frames.len(), 90);
/// assert_eq!(trace, walk.trace()?);
/// # Ok::<(), vitempo::plan::aria::WalkError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Length, s.
    pub seconds: usize,
    /// Time spent in one scene, s.
    pub scene_seconds: usize,
    /// The scenes, in turns; if empty, all.
    pub scenes: Vec<Kind>,
    /// Seed of the scenes.
    pub seed: u64,
}

impl Default for Walk {
    fn default() -> Self {
        Self { seconds: 600, scene_seconds: 30, scenes: Vec::new(), seed: 1 }
    }
}

impl Walk {
    /// The motion of the camera and of the regions, frame by frame.
    ///
    /// # Errors
    /// [`WalkError`] where it is too long or its scenes have no length.
    pub fn trace(&self) -> Result<Trace, WalkError> {
        if self.seconds > MOST_SECONDS {
            return Err(WalkError::TooLong { seconds: self.seconds });
        }
        if self.scene_seconds == 0 {
            return Err(WalkError::NoScene);
        }
        let [height, width, patch] = IMAGE;
        let grid = Grid::of_image(height, width, patch)?;
        let kinds = self.kinds();
        let mut frames = Vec::with_capacity(self.seconds * FRAMES_PER_S as usize);
        for (number, start) in (0..self.seconds).step_by(self.scene_seconds).enumerate() {
            let kind = kinds[number % kinds.len()];
            let seed = self.seed.wrapping_mul(1000).wrapping_add(number as u64);
            let scene = Scene::new(kind, seed, grid, patch)?;
            let seconds = self.scene_seconds.min(self.seconds - start);
            // Starts at frame 1, so that every frame has one before it.
            let last = (seconds as f64 * FRAMES_PER_S) as u64;
            frames.extend((1..=last).map(|frame| seen(&scene, frame, number as u64)));
        }
        Ok(Trace { grid, frames_per_s: FRAMES_PER_S, frames })
    }

    /// The origin of the trace, as a line of its file.
    #[must_use]
    pub fn comment(&self) -> String {
        let names: Vec<&str> = self.kinds().iter().map(|kind| kind.name()).collect();
        format!(
            "from rendered scenes, nobody walked there: {}, {} s each, seed {}",
            names.join(", "),
            self.scene_seconds,
            self.seed
        )
    }

    fn kinds(&self) -> Vec<Kind> {
        if self.scenes.is_empty() { Kind::ALL.to_vec() } else { self.scenes.clone() }
    }
}

fn seen(scene: &Scene, frame: u64, number: u64) -> TraceFrame {
    let mut seen = trace_frame(scene, frame - 1, frame);
    seen.moving.iter_mut().for_each(|moving| moving.region += number * MOST_REGIONS);
    seen
}

/// What moves in a frame of a scene that is shown after another one: before it, things run
/// backwards.
#[must_use]
pub fn trace_frame(scene: &Scene, before: u64, now: u64) -> TraceFrame {
    let motion = CameraMotion::between(&scene.pose(before), &scene.pose(now));
    let sign = if now < before { -1.0 } else { 1.0 };
    let moving = |seen: VisibleObject| Moving {
        region: seen.object as u64,
        window: seen.window,
        patches: seen.patches.min(seen.window.patches()),
        velocity: seen.velocity.map(|v| sign * v),
    };
    let moving = scene.visible_objects(now).into_iter().map(moving).collect();
    TraceFrame { translation_m: motion.distance_m(), rotation_rad: motion.angle_rad(), moving }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_follow_each_other_with_regions_of_their_own() {
        let scenes = vec![Kind::Crowded, Kind::Slow];
        let walk = Walk { seconds: 3, scene_seconds: 2, scenes, seed: 4 };
        let trace = walk.trace().expect("a walk");
        assert_eq!(trace.frames.len(), 90);
        let number =
            |frame: &TraceFrame| frame.moving.iter().map(|m| m.region / MOST_REGIONS).max();
        assert!(trace.frames[..60].iter().filter_map(number).all(|scene| scene == 0));
        assert!(trace.frames[60..].iter().filter_map(number).all(|scene| scene == 1));
        assert!(trace.frames[..60].iter().any(|frame| !frame.moving.is_empty()));
        assert!(walk.comment().contains("crowded, slow, 2 s each, seed 4"));
    }

    #[test]
    fn walks_without_end_or_scene_are_refused() {
        let long = Walk { seconds: MOST_SECONDS + 1, ..Walk::default() };
        assert_eq!(long.trace(), Err(WalkError::TooLong { seconds: 36_001 }));
        let none = Walk { scene_seconds: 0, ..Walk::default() };
        assert_eq!(none.trace(), Err(WalkError::NoScene));
    }
}
