//! [`Picture`]: what a camera sees, with the truth behind it: depth and object per pixel.

use super::world::World;
use crate::{Grid, Intrinsics, Pose, random::Random};

/// A rendered frame, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Pixels from top to bottom.
    pub height: usize,
    /// Pixels from left to right.
    pub width: usize,
    /// Red, green, blue, from 0 to 1.
    pub colours: Vec<[f32; 3]>,
    /// Along the camera's axis, m.
    pub depths_m: Vec<f32>,
    /// Number of the thing, as in [`World::label`].
    pub things: Vec<u16>,
    /// Where the camera was.
    pub pose: Pose,
    /// When.
    pub frame: u64,
}

/// The camera: patches, pixels per side of one, and lens in patches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Camera {
    /// Patches of a picture.
    pub grid: Grid,
    /// Pixels on each side of a patch.
    pub patch: usize,
    /// In patches.
    pub intrinsics: Intrinsics,
    /// Standard deviation of the noise of each colour.
    pub noise: f32,
}

impl Camera {
    /// Takes a picture of a world. The noise is the same for the same frame.
    #[must_use]
    pub fn take(&self, world: &World, pose: &Pose, frame: u64) -> Picture {
        let (height, width) = (self.grid.rows() * self.patch, self.grid.cols() * self.patch);
        let centres: Vec<[f64; 3]> =
            world.objects().iter().map(|object| object.centre(frame as f64)).collect();
        let mut random = Random::new(frame.wrapping_mul(0x1234_5677));
        let pixels = height * width;
        let (mut colours, mut depths_m, mut things) =
            (Vec::with_capacity(pixels), Vec::with_capacity(pixels), Vec::with_capacity(pixels));
        for pixel in 0..pixels {
            let ahead = self.intrinsics.direction(self.point(pixel % width, pixel / width));
            let to = pose.to_world(ahead);
            let direction = std::array::from_fn(|i| to[i] - pose.position[i]);
            let hit = world.meet(&centres, pose.position, direction);
            let colour = world.colour(&centres, pose.position, direction, hit, frame);
            colours.push(colour.map(|c| c + self.noise * (3.46 * random.uniform() - 1.73) as f32));
            // The direction has length 1 along the axis.
            depths_m.push(hit.distance as f32);
            things.push(hit.thing);
        }
        Picture { height, width, colours, depths_m, things, pose: *pose, frame }
    }

    /// Centre of a pixel, in patches.
    #[must_use]
    pub fn point(&self, x: usize, y: usize) -> [f64; 2] {
        [(x as f64 + 0.5) / self.patch as f64, (y as f64 + 0.5) / self.patch as f64]
    }

    /// Number of the pixel at a point in patches, if it is in the picture.
    #[must_use]
    pub fn pixel(&self, [x, y]: [f64; 2]) -> Option<usize> {
        let (width, height) = (self.grid.cols() * self.patch, self.grid.rows() * self.patch);
        let [x, y] = [x, y].map(|v| v * self.patch as f64);
        let inside = x >= 0.0 && y >= 0.0 && x < width as f64 && y < height as f64;
        inside.then(|| y as usize * width + x as usize)
    }

    /// The pixels of a patch.
    pub fn pixels_of(&self, patch: usize) -> impl Iterator<Item = usize> {
        let (row, col) = self.grid.place(patch);
        let (side, width) = (self.patch, self.grid.cols() * self.patch);
        (row * side..(row + 1) * side)
            .flat_map(move |y| (col * side..(col + 1) * side).map(move |x| y * width + x))
    }

    /// Median depth of each patch, m.
    #[must_use]
    pub fn depths_of_patches(&self, picture: &Picture) -> Vec<f32> {
        let median = |patch: usize| {
            let mut depths: Vec<f32> =
                self.pixels_of(patch).map(|pixel| picture.depths_m[pixel]).collect();
            depths.sort_by(f32::total_cmp);
            depths[depths.len() / 2]
        };
        (0..self.grid.patches()).map(median).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_and_pose_agree_with_the_world() {
        let grid = Grid::new(6, 8).expect("a grid");
        let camera = Camera {
            grid,
            patch: 4,
            intrinsics: Intrinsics::with_field_of_view(grid, 1.0).expect("a lens"),
            noise: 0.0,
        };
        let world = World::new(&mut Random::new(1), 0, 0, 0.0);
        let pose = Pose::looking([0.3, 0.1, -0.2], 0.2, 0.1, 0.0);
        let picture = camera.take(&world, &pose, 3);
        assert_eq!((picture.height, picture.width, picture.things.len()), (24, 32, 768));
        for (pixel, depth) in picture.depths_m.iter().enumerate() {
            let ahead = camera
                .intrinsics
                .direction(camera.point(pixel % 32, pixel / 32))
                .map(|x| x * f64::from(*depth));
            let point = pose.to_world(ahead);
            // Every point lies on a wall of the 8 x 3.2 x 8 m room.
            let [x, y, z] = point.map(f64::abs);
            assert!(
                (x - 4.0).abs() < 1e-5 || (y - 1.6).abs() < 1e-5 || (z - 4.0).abs() < 1e-5,
                "{point:?}"
            );
        }
        assert_eq!(camera.take(&world, &pose, 3), picture);
        assert_eq!(camera.pixels_of(9).count(), 16);
        assert!((0..48).all(|patch| {
            camera
                .pixels_of(patch)
                .all(|p| grid.at(camera.point(p % 32, p / 32).map(|v| v as f32)) == Some(patch))
        }));
    }
}
