//! The patches that moved between two pictures.
//!
//! A pixel has changed if it shows a object that moved, or a static surface that a moved object hid
//! before. Pixels outside of the earlier picture, and of objects that moved less than [`LEAST`], are
//! unknown.

use super::{
    picture::{Camera, Picture},
    world::World,
};
use crate::{CameraMotion, PatchSet, Pose};

/// Least motion of a object in the picture between the two, in patches, to count.
pub const LEAST: f64 = 0.5;
/// Share of a patch's pixels that must have changed.
pub const SHARE: f64 = 0.25;

/// The truth about two pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// Patches of the later picture that changed.
    pub moving: PatchSet,
    /// Patches about which something is claimed.
    pub known: PatchSet,
}

#[derive(Clone, Copy, PartialEq)]
enum Pixel {
    Moving,
    Still,
    Unknown,
}

impl Truth {
    /// What happened from one picture to the next.
    #[must_use]
    pub fn between(world: &World, camera: &Camera, before: &Picture, now: &Picture) -> Self {
        let motion = CameraMotion::between(&before.pose, &now.pose);
        let moved: Vec<Pixel> = (0..world.objects().len())
            .map(|object| object_moved(world, camera, before, now, object))
            .collect();
        let of = |thing: u16| {
            thing
                .checked_sub(super::world::WALLS)
                .and_then(|object| moved.get(usize::from(object)))
                .copied()
                .unwrap_or(Pixel::Still)
        };
        let classify = |pixel: usize| {
            let shown = of(now.things[pixel]);
            if shown != Pixel::Still {
                return shown;
            }
            let point = camera
                .intrinsics
                .direction(camera.point(pixel % now.width, pixel / now.width))
                .map(|x| x * f64::from(now.depths_m[pixel]));
            let earlier = motion.to_source(point);
            match camera.intrinsics.project(earlier).and_then(|point| camera.pixel(point)) {
                None => Pixel::Unknown,
                // Something nearer stood before it.
                Some(pixel) if f64::from(before.depths_m[pixel]) < earlier[2] - 0.05 => {
                    of(before.things[pixel])
                }
                Some(_) => Pixel::Still,
            }
        };
        let (mut moving, mut known) = (PatchSet::new(camera.grid), PatchSet::new(camera.grid));
        for patch in 0..camera.grid.patches() {
            let classes: Vec<Pixel> = camera.pixels_of(patch).map(classify).collect();
            let share = |kind| {
                classes.iter().filter(|pixel| **pixel == kind).count() as f64 / classes.len() as f64
            };
            if share(Pixel::Moving) >= SHARE {
                moving.insert(patch);
            }
            if share(Pixel::Unknown) < SHARE {
                known.insert(patch);
            }
        }
        Self { moving, known }
    }
}

/// Displacement of a object in the picture of a camera at `pose` from one frame to another, in
/// patches; `None` if it is behind the camera.
#[must_use]
pub fn way(
    world: &World,
    camera: &Camera,
    pose: &Pose,
    object: usize,
    from: u64,
    to: u64,
) -> Option<[f64; 2]> {
    let object = world.objects().get(object)?;
    let seen = |frame: u64| camera.intrinsics.project(pose.to_camera(object.centre(frame as f64)));
    let ([from_x, from_y], [to_x, to_y]) = (seen(from)?, seen(to)?);
    Some([to_x - from_x, to_y - from_y])
}

fn object_moved(
    world: &World,
    camera: &Camera,
    before: &Picture,
    now: &Picture,
    object: usize,
) -> Pixel {
    match way(world, camera, &now.pose, object, before.frame, now.frame) {
        _ if !world.objects()[object].moves() => Pixel::Still,
        Some([x, y]) if x.hypot(y) >= LEAST => Pixel::Moving,
        _ => Pixel::Unknown,
    }
}
