//! What moves in a frame, from the scene's truth: for traces of many thousand frames, without
//! colours or features.

use super::{Scene, truth::way, world::WALLS};
use crate::Window;

/// Rays on each side of a patch; an object counts as visible if one in four meets it, as for
/// [`super::SHARE`].
const RAYS: usize = 2;

/// A visible moving object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisibleObject {
    /// Its number in the world.
    pub object: usize,
    /// The patches around it.
    pub window: Window,
    /// Patches that show it.
    pub patches: usize,
    /// Patches per frame to the right and down, for a camera that stays.
    pub velocity: [f64; 2],
}

impl Scene {
    /// The moving objects that a camera frame shows, without hidden ones.
    #[must_use]
    pub fn visible_objects(&self, frame: u64) -> Vec<VisibleObject> {
        let (camera, pose) = (self.camera(), self.pose(frame));
        let grid = camera.grid;
        let objects = self.world().objects();
        let centres: Vec<[f64; 3]> =
            objects.iter().map(|object| object.centre(frame as f64)).collect();
        let mut shown: Vec<Vec<usize>> = vec![Vec::new(); objects.len()];
        for patch in 0..grid.patches() {
            let (row, col) = grid.place(patch);
            for ray in 0..RAYS * RAYS {
                let inside = |ray: usize| (ray as f64 + 0.5) / RAYS as f64;
                let ahead = camera
                    .intrinsics
                    .direction([col as f64 + inside(ray % RAYS), row as f64 + inside(ray / RAYS)]);
                let to = pose.to_world(ahead);
                let hit = self.world().meet(
                    &centres,
                    pose.position,
                    std::array::from_fn(|i| to[i] - pose.position[i]),
                );
                let object = hit
                    .thing
                    .checked_sub(WALLS)
                    .map(usize::from)
                    .and_then(|object| shown.get_mut(object));
                if let Some(patches) = object.filter(|patches| patches.last() != Some(&patch)) {
                    patches.push(patch);
                }
            }
        }
        let seen = |(object, patches): (usize, &Vec<usize>)| {
            let places = || patches.iter().map(|patch| grid.place(*patch));
            let (top, bottom) = (places().map(|p| p.0).min()?, places().map(|p| p.0).max()?);
            let (left, right) = (places().map(|p| p.1).min()?, places().map(|p| p.1).max()?);
            let window =
                Window { row: top, col: left, rows: bottom - top + 1, cols: right - left + 1 };
            let velocity = way(self.world(), camera, &pose, object, frame, frame + 1)?;
            objects[object].moves().then_some(VisibleObject {
                object,
                window,
                patches: patches.len(),
                velocity,
            })
        };
        shown.iter().enumerate().filter_map(seen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grid, scene::Kind};

    #[test]
    fn visible_objects_are_those_that_a_picture_shows() {
        let scene =
            Scene::new(Kind::Crowded, 3, Grid::new(29, 47).expect("a grid"), 4).expect("a scene");
        for frame in [5, 60] {
            let (picture, seen) = (scene.picture(frame), scene.visible_objects(frame));
            assert!(!seen.is_empty());
            for s in &seen {
                let thing = WALLS + s.object as u16;
                let pixels = picture.things.iter().filter(|t| **t == thing).count();
                let shown = |(row, col): (usize, usize)| {
                    let patch = scene.camera().grid.index(row, col);
                    scene.camera().pixels_of(patch).any(|pixel| picture.things[pixel] == thing)
                };
                let inside = s.window.places().filter(|place| shown(*place)).count();
                assert!(
                    inside >= s.patches && s.patches * 16 * 2 > pixels,
                    "{s:?}: {inside} patches, {pixels} pixels"
                );
            }
        }
    }
}
