//! [`CameraFlow`]: flow in closed form, from the camera's motion and what is known of the scene.
//!
//! A patch of the target is seen along `d = K^-1 x`. With nothing known but the rotation `R`, it
//! was along `R^T d`. If the scene is the plane `n . X = h` of the source's axes, `X = R^T (z d -
//! t)` must lie on it, which gives `z`. With a depth for each patch of the source, the point whose
//! image in the target is `x` is found by fixed-point iteration.

use super::{CameraMotion, FlowEstimator, Intrinsics, PatchFlow, camera::dot};
use crate::{
    AriaError, FeatureMap, Grid, Instructions,
    simd::{SimdVector, vectorised},
};

/// Most steps of the iteration on depth; each shrinks the error by the relative change of depth
/// along the parallax.
const STEPS: usize = 6;
/// A step so short, in patches, is the last.
const CLOSE: f32 = 5e-3;

/// What is known of the scene.
#[derive(Clone, Debug, PartialEq)]
pub enum Structure {
    /// Nothing: as if all were far away.
    Distant,
    /// A plane.
    Plane {
        /// Its unit normal in the axes of the source's camera.
        normal: [f64; 3],
        /// Its distance from the source's camera along the normal, m.
        distance_m: f64,
    },
    /// Depth along the camera's axis for each patch of the source frame, m: a depth decoder's
    /// output for the last full frame.
    Depth(Vec<f32>),
}

/// Flow in closed form.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraFlow {
    intrinsics: Intrinsics,
    structure: Structure,
}

impl CameraFlow {
    /// A camera before a scene.
    #[must_use]
    pub fn new(intrinsics: Intrinsics, structure: Structure) -> Self {
        Self { intrinsics, structure }
    }

    /// What is known of the scene now.
    pub fn set_structure(&mut self, structure: Structure) {
        self.structure = structure;
    }

    /// The flow over a grid.
    ///
    /// # Errors
    /// When there is not one depth for each patch.
    pub fn over(&self, grid: Grid, motion: &CameraMotion) -> Result<PatchFlow, AriaError> {
        match &self.structure {
            Structure::Distant => {
                let turned = CameraMotion { translation: [0.0; 3], ..*motion };
                Ok(self.each(grid, |_, direction| Some(turned.to_source(direction))))
            }
            Structure::Plane { normal, distance_m } => {
                Ok(self
                    .each(grid, |_, direction| on_plane(motion, direction, *normal, *distance_m)))
            }
            Structure::Depth(depths) if depths.len() == grid.patches() => {
                Ok(self.by_depth(grid, depths, motion))
            }
            Structure::Depth(depths) => {
                let (left, right) = (format!("{} depths", depths.len()), grid.to_string());
                Err(AriaError::Shapes {
                    what: "the depth of the source frame and its features",
                    left,
                    right,
                })
            }
        }
    }

    fn each(&self, grid: Grid, source: impl Fn(usize, [f64; 3]) -> Option<[f64; 3]>) -> PatchFlow {
        PatchFlow::of(grid, |patch| {
            let direction = self.intrinsics.direction(grid.centre(patch).map(f64::from));
            let point = self.intrinsics.project(source(patch, direction)?)?;
            Some(point.map(|x| x as f32))
        })
    }

    /// Row by row: the patches of a row do not wait for each other, and begin with the
    /// displacements of those above them.
    fn by_depth(&self, grid: Grid, depths: &[f32], motion: &CameraMotion) -> PatchFlow {
        let turned = CameraMotion { translation: [0.0; 3], ..*motion };
        let nearness: Vec<f32> =
            depths.iter().map(|depth| if *depth > 0.0 { 1.0 / depth } else { 0.0 }).collect();
        let scene = Scene { grid, nearness: &nearness, image: Image::of(&self.intrinsics, motion) };
        let (mut row, mut sources) =
            (Sources::none(grid.cols()), Vec::with_capacity(grid.patches()));
        for down in 0..grid.rows() {
            for (col, (x, y)) in row.xs.iter_mut().zip(&mut row.ys).enumerate() {
                *y += 1.0;
                if x.is_nan() || y.is_nan() {
                    let ahead = self.intrinsics.direction([col as f64 + 0.5, down as f64 + 0.5]);
                    [*x, *y] = self
                        .intrinsics
                        .project(turned.to_source(ahead))
                        .unwrap_or([f64::NAN; 2])
                        .map(|place| place as f32);
                }
            }
            follow(Instructions::best(), &scene, down, &mut row);
            sources.extend(row.xs.iter().zip(&row.ys).map(|(x, y)| [*x, *y]));
        }
        PatchFlow::of(grid, |patch| sources.get(patch).copied())
    }
}

/// The position in the target of a point of the source, both in patches: the point in homogeneous
/// coordinates, rotated, plus the camera's translation divided by the point's depth.
struct Image {
    turned: [[f32; 3]; 3],
    went: [f32; 3],
}

impl Image {
    fn of(intrinsics: &Intrinsics, motion: &CameraMotion) -> Self {
        let ([fx, fy], [cx, cy]) = (intrinsics.focal(), intrinsics.centre());
        let pixels =
            |[x, y, z]: [f64; 3]| [fx * x + cx * z, fy * y + cy * z, z].map(|part| part as f32);
        let still = CameraMotion { translation: [0.0; 3], ..*motion };
        let columns = [[1.0 / fx, 0.0, 0.0], [0.0, 1.0 / fy, 0.0], [-cx / fx, -cy / fy, 1.0]]
            .map(|column| pixels(still.to_target(column)));
        Self {
            turned: std::array::from_fn(|row| columns.map(|column| column[row])),
            went: pixels(motion.translation),
        }
    }
}

/// The structure of the source frame, and its position in the target.
struct Scene<'a> {
    grid: Grid,
    /// One over the depth of each patch, 0 where it is not known.
    nearness: &'a [f32],
    image: Image,
}

/// Points of the source that patches of a row of the target show.
struct Sources {
    xs: Vec<f32>,
    ys: Vec<f32>,
    /// Room for their patches, and for one over the depth of these.
    patches: Vec<i32>,
    near: Vec<f32>,
    /// Where the centres of the row's patches are.
    centres: Vec<f32>,
}

impl Sources {
    fn none(cols: usize) -> Self {
        Self {
            xs: vec![f32::NAN; cols],
            ys: vec![f32::NAN; cols],
            patches: vec![0; cols],
            near: vec![0.0; cols],
            centres: (0..cols).map(|col| col as f32 + 0.5).collect(),
        }
    }
}

vectorised!(fn follow(scene: &Scene, down: usize, row: &mut Sources) = follow_row);

/// Moves the sources of a row until their images lie where they should.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn follow_row<L: SimdVector>(scene: &Scene, down: usize, row: &mut Sources) {
    for _ in 0..STEPS {
        look_up(scene, row);
        if step(&scene.image, down, row) == 0 {
            break;
        }
    }
}

/// One over the depth of the patch around each point, or of the nearest one.
#[inline(always)]
fn look_up(scene: &Scene, Sources { xs, ys, patches, near, .. }: &mut Sources) {
    let (cols, rows) = (scene.grid.cols() as f32, scene.grid.rows() as f32);
    for (patch, (x, y)) in patches.iter_mut().zip(xs.iter().zip(ys.iter())) {
        let within = |x: f32, sides: f32| x.max(0.0).min(sides - 1.0).floor();
        // SAFETY: a whole number between 0 and the most patches of a grid, which 32 bits hold.
        *patch = unsafe { (within(*y, rows) * cols + within(*x, cols)).to_int_unchecked() };
    }
    for (near, patch) in near.iter_mut().zip(patches) {
        *near = scene.nearness[*patch as usize];
    }
}

/// Moves the sources of a row by the errors of their images, and returns how many moved further
/// than [`CLOSE`]. Points behind the camera become NaN.
#[inline(always)]
fn step(image: &Image, down: usize, Sources { xs, ys, near, centres, .. }: &mut Sources) -> u32 {
    let (mut moved, row) = (0, down as f32 + 0.5);
    for (((x, y), near), col) in xs.iter_mut().zip(ys).zip(near).zip(centres) {
        let part = |n: usize| {
            image.turned[n][0] * *x
                + image.turned[n][1] * *y
                + (image.turned[n][2] + image.went[n] * *near)
        };
        let z = part(2);
        let near = 1.0 / z;
        let ahead = if z > 1e-9 { near } else { f32::NAN };
        let off = [*col - part(0) * ahead, row - part(1) * ahead];
        (*x, *y) = (*x + off[0], *y + off[1]);
        moved += u32::from((off[0].abs() >= CLOSE) | (off[1].abs() >= CLOSE));
    }
    moved
}

impl FlowEstimator for CameraFlow {
    fn flow(&self, source: &FeatureMap, motion: &CameraMotion) -> Result<PatchFlow, AriaError> {
        self.over(source.grid(), motion)
    }
}

/// The point of the plane that the target sees along `direction`, in the source's axes.
fn on_plane(
    motion: &CameraMotion,
    direction: [f64; 3],
    normal: [f64; 3],
    distance_m: f64,
) -> Option<[f64; 3]> {
    let (eye, ahead) = (motion.to_source([0.0; 3]), motion.to_source(direction));
    let along = dot(normal, ahead) - dot(normal, eye);
    let depth = (distance_m - dot(normal, eye)) / along;
    (depth > 0.0 && depth.is_finite())
        .then(|| std::array::from_fn(|i| eye[i] + depth * (ahead[i] - eye[i])))
}

#[cfg(test)]
mod tests {
    use super::{super::Pose, *};

    fn setting() -> (Grid, Intrinsics) {
        let grid = Grid::new(29, 47).expect("a grid");
        (grid, Intrinsics::with_field_of_view(grid, 1.1).expect("a camera"))
    }

    /// A wall 4 m ahead: points of the target, projected into the source by hand.
    #[test]
    fn plane_and_depth_agree_with_projection_and_rotation_alone_does_not() {
        let (grid, intrinsics) = setting();
        let (source, target) =
            (Pose::default(), Pose::looking([0.2, -0.05, 0.3], 0.05, 0.02, -0.01));
        let motion = CameraMotion::between(&source, &target);
        let expected = PatchFlow::of(grid, |patch| {
            let ahead = target.to_world(intrinsics.direction(grid.centre(patch).map(f64::from)));
            let reach = (4.0 - target.position[2]) / (ahead[2] - target.position[2]);
            let point = std::array::from_fn(|i| {
                target.position[i] + reach * (ahead[i] - target.position[i])
            });
            intrinsics.project(point).map(|p| p.map(|x| x as f32))
        });
        let worst = |structure: Structure| -> f32 {
            let flow = CameraFlow::new(intrinsics, structure).over(grid, &motion).expect("a flow");
            let pairs =
                flow.sources().iter().zip(expected.sources()).filter(|(_, e)| grid.holds(**e));
            pairs.map(|(a, e)| (a[0] - e[0]).hypot(a[1] - e[1])).fold(0.0, f32::max)
        };
        assert!(worst(Structure::Plane { normal: [0.0, 0.0, 1.0], distance_m: 4.0 }) < 1e-3);
        assert!(worst(Structure::Depth(vec![4.0; grid.patches()])) < 1e-3);
        assert!(
            worst(Structure::Distant) > 1.0,
            "two patches of parallax are not seen by the rotation"
        );
    }

    #[test]
    fn for_a_turn_on_the_spot_all_agree() {
        let (grid, intrinsics) = setting();
        let motion =
            CameraMotion::between(&Pose::default(), &Pose::looking([0.0; 3], 0.1, -0.05, 0.02));
        let flow =
            |structure| CameraFlow::new(intrinsics, structure).over(grid, &motion).expect("a flow");
        let distant = flow(Structure::Distant);
        for structure in [
            Structure::Plane { normal: [0.0, 0.0, 1.0], distance_m: 2.0 },
            Structure::Depth(vec![3.0; grid.patches()]),
        ] {
            for (a, b) in flow(structure).sources().iter().zip(distant.sources()) {
                assert!((a[0] - b[0]).abs() < 1e-3 && (a[1] - b[1]).abs() < 1e-3, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_depth_map_of_another_size_is_an_error() {
        let (grid, intrinsics) = setting();
        let motion = CameraMotion::between(&Pose::default(), &Pose::default());
        assert!(
            CameraFlow::new(intrinsics, Structure::Depth(vec![1.0; 3]))
                .over(grid, &motion)
                .is_err()
        );
    }
}
