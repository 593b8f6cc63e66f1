//! [`CameraFlow`]: flow in closed form, from the camera's motion and what is known of the scene.
//!
//! A patch of the target is seen along `d = K^-1 x`. With nothing known but the rotation `R`, it was along `R^T d`. If the scene is the plane
//! `n . X = h` of the source's axes, `X = R^T (z d - t)` must lie on it, which gives `z`. With a depth for each patch of the source, the point whose
//! image in the target is `x` is found by fixed-point iteration.

use super::{CameraMotion, FlowEstimator, Intrinsics, PatchFlow, camera::dot};
use crate::{AriaError, FeatureMap, Grid};

/// Most steps of the iteration on depth; each shrinks the error by the relative change of depth along the parallax.
const STEPS: usize = 6;
/// A step so short, in patches, is the last.
const CLOSE: f64 = 5e-3;

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
    /// Depth along the camera's axis for each patch of the source frame, m: what a depth decoder made of the last full frame.
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
            Structure::Plane { normal, distance_m } => Ok(self.each(grid, |_, direction| on_plane(motion, direction, *normal, *distance_m))),
            Structure::Depth(depths) if depths.len() == grid.patches() => Ok(self.by_depth(grid, depths, motion)),
            Structure::Depth(depths) => {
                let (left, right) = (format!("{} depths", depths.len()), grid.to_string());
                Err(AriaError::Shapes { what: "the depth of the source frame and its features", left, right })
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

    /// Row by row: the patches of a row do not wait for each other, and begin with the displacements of those above them.
    fn by_depth(&self, grid: Grid, depths: &[f32], motion: &CameraMotion) -> PatchFlow {
        let turned = CameraMotion { translation: [0.0; 3], ..*motion };
        let cols = grid.cols();
        let (mut xs, mut ys, mut far) = (vec![f64::NAN; cols], vec![f64::NAN; cols], vec![0.0; cols]);
        let mut sources = Vec::with_capacity(grid.patches());
        for row in 0..grid.rows() {
            for (col, (x, y)) in xs.iter_mut().zip(&mut ys).enumerate() {
                *y += 1.0;
                if x.is_nan() || y.is_nan() {
                    let ahead = self.intrinsics.direction([col as f64 + 0.5, row as f64 + 0.5]);
                    [*x, *y] = self.intrinsics.project(turned.to_source(ahead)).unwrap_or([f64::NAN; 2]);
                }
            }
            for _ in 0..STEPS {
                far.iter_mut().zip(xs.iter().zip(&ys)).for_each(|(far, (x, y))| *far = depth_at(grid, depths, [*x, *y]));
                if self.step(motion, row, &far, &mut xs, &mut ys) == 0 {
                    break;
                }
            }
            sources.extend(xs.iter().zip(&ys).map(|(x, y)| [*x as f32, *y as f32]));
        }
        PatchFlow::of(grid, |patch| sources.get(patch).copied())
    }

    /// Moves the sources of a row by how far their images lie from where they should; how many of them went further than [`CLOSE`]. What lies behind the
    /// camera is not a number from then on.
    fn step(&self, motion: &CameraMotion, row: usize, depths: &[f64], xs: &mut [f64], ys: &mut [f64]) -> usize {
        let mut moved = 0;
        for (col, ((x, y), depth)) in xs.iter_mut().zip(ys).zip(depths).enumerate() {
            let point = self.intrinsics.direction([*x, *y]).map(|part| part * depth);
            let [across, down] = self.intrinsics.project(motion.to_target(point)).unwrap_or([f64::NAN; 2]);
            let off = [col as f64 + 0.5 - across, row as f64 + 0.5 - down];
            (*x, *y) = (*x + off[0], *y + off[1]);
            moved += usize::from((off[0].abs() >= CLOSE) | (off[1].abs() >= CLOSE));
        }
        moved
    }
}

impl FlowEstimator for CameraFlow {
    fn flow(&self, source: &FeatureMap, motion: &CameraMotion) -> Result<PatchFlow, AriaError> {
        self.over(source.grid(), motion)
    }
}

/// The point of the plane that the target sees along `direction`, in the source's axes.
fn on_plane(motion: &CameraMotion, direction: [f64; 3], normal: [f64; 3], distance_m: f64) -> Option<[f64; 3]> {
    let (eye, ahead) = (motion.to_source([0.0; 3]), motion.to_source(direction));
    let along = dot(normal, ahead) - dot(normal, eye);
    let depth = (distance_m - dot(normal, eye)) / along;
    (depth > 0.0 && depth.is_finite()).then(|| std::array::from_fn(|i| eye[i] + depth * (ahead[i] - eye[i])))
}

/// Depth of the patch around a point, or of the nearest one.
fn depth_at(grid: Grid, depths: &[f32], [x, y]: [f64; 2]) -> f64 {
    let within = |x: f64, sides: usize| x.max(0.0).min((sides - 1) as f64) as i32 as usize;
    let depth = depths[grid.index(within(y, grid.rows()), within(x, grid.cols()))];
    if depth > 0.0 { f64::from(depth) } else { f64::MAX.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::{super::Pose, *};

    fn setting() -> (Grid, Intrinsics) {
        let grid = Grid::new(29, 47).expect("a grid");
        (grid, Intrinsics::with_field_of_view(grid, 1.1).expect("a camera"))
    }

    /// A wall 4 m ahead: what the target sees of it, projected into the source by hand.
    #[test]
    fn plane_and_depth_agree_with_projection_and_rotation_alone_does_not() {
        let (grid, intrinsics) = setting();
        let (source, target) = (Pose::default(), Pose::looking([0.2, -0.05, 0.3], 0.05, 0.02, -0.01));
        let motion = CameraMotion::between(&source, &target);
        let expected = PatchFlow::of(grid, |patch| {
            let ahead = target.to_world(intrinsics.direction(grid.centre(patch).map(f64::from)));
            let reach = (4.0 - target.position[2]) / (ahead[2] - target.position[2]);
            let point = std::array::from_fn(|i| target.position[i] + reach * (ahead[i] - target.position[i]));
            intrinsics.project(point).map(|p| p.map(|x| x as f32))
        });
        let worst = |structure: Structure| -> f32 {
            let flow = CameraFlow::new(intrinsics, structure).over(grid, &motion).expect("a flow");
            let pairs = flow.sources().iter().zip(expected.sources()).filter(|(_, e)| grid.holds(**e));
            pairs.map(|(a, e)| (a[0] - e[0]).hypot(a[1] - e[1])).fold(0.0, f32::max)
        };
        assert!(worst(Structure::Plane { normal: [0.0, 0.0, 1.0], distance_m: 4.0 }) < 1e-3);
        assert!(worst(Structure::Depth(vec![4.0; grid.patches()])) < 1e-3);
        assert!(worst(Structure::Distant) > 1.0, "two patches of parallax are not seen by the rotation");
    }

    #[test]
    fn for_a_turn_on_the_spot_all_agree() {
        let (grid, intrinsics) = setting();
        let motion = CameraMotion::between(&Pose::default(), &Pose::looking([0.0; 3], 0.1, -0.05, 0.02));
        let flow = |structure| CameraFlow::new(intrinsics, structure).over(grid, &motion).expect("a flow");
        let distant = flow(Structure::Distant);
        for structure in [Structure::Plane { normal: [0.0, 0.0, 1.0], distance_m: 2.0 }, Structure::Depth(vec![3.0; grid.patches()])] {
            for (a, b) in flow(structure).sources().iter().zip(distant.sources()) {
                assert!((a[0] - b[0]).abs() < 1e-3 && (a[1] - b[1]).abs() < 1e-3, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_depth_map_of_another_size_is_an_error() {
        let (grid, intrinsics) = setting();
        let motion = CameraMotion::between(&Pose::default(), &Pose::default());
        assert!(CameraFlow::new(intrinsics, Structure::Depth(vec![1.0; 3])).over(grid, &motion).is_err());
    }
}
