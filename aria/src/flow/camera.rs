//! How a camera moved, and where it sees things: [`Pose`], [`CameraMotion`], [`Intrinsics`].
//!
//! Camera axes: x to the right, y down, z forward. Lengths in metres, angles in radians, points of
//! the picture in patches.

use crate::AriaError;

/// Rows of a 3 x 3 matrix.
pub type Matrix = [[f64; 3]; 3];

const IDENTITY: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// Where a camera is and looks: a point `X` of the camera's axes is at `rotation X + position` in
/// the world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// From camera to world coordinates.
    pub rotation: Matrix,
    /// In world coordinates, m.
    pub position: [f64; 3],
}

impl Default for Pose {
    /// At the origin, looking along z.
    fn default() -> Self {
        Self { rotation: IDENTITY, position: [0.0; 3] }
    }
}

impl Pose {
    /// A camera at `position`, turned to the right by `yaw`, then up by `pitch`, then clockwise by
    /// `roll`.
    #[must_use]
    pub fn looking(position: [f64; 3], yaw: f64, pitch: f64, roll: f64) -> Self {
        let ((sy, cy), (sp, cp), (sr, cr)) = (yaw.sin_cos(), pitch.sin_cos(), roll.sin_cos());
        let turn = [[cy, 0.0, sy], [0.0, 1.0, 0.0], [-sy, 0.0, cy]];
        let lift = [[1.0, 0.0, 0.0], [0.0, cp, -sp], [0.0, sp, cp]];
        let roll = [[cr, -sr, 0.0], [sr, cr, 0.0], [0.0, 0.0, 1.0]];
        Self { rotation: product(&product(&turn, &lift), &roll), position }
    }

    /// From the camera's axes to the world's.
    #[must_use]
    pub fn to_world(&self, point: [f64; 3]) -> [f64; 3] {
        plus(apply(&self.rotation, point), self.position)
    }

    /// From the world's axes to the camera's.
    #[must_use]
    pub fn to_camera(&self, point: [f64; 3]) -> [f64; 3] {
        apply(&transposed(&self.rotation), minus(point, self.position))
    }
}

/// What moved between two frames: a point at `X` in the axes of the source's camera is at `rotation
/// X + translation` in those of the target's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CameraMotion {
    /// From the earlier camera's coordinates to the later one's.
    pub rotation: Matrix,
    /// The same, m.
    pub translation: [f64; 3],
}

impl CameraMotion {
    /// From one pose to another.
    #[must_use]
    pub fn between(source: &Pose, target: &Pose) -> Self {
        let back = transposed(&target.rotation);
        Self {
            rotation: product(&back, &source.rotation),
            translation: apply(&back, minus(source.position, target.position)),
        }
    }

    /// How far the camera went, m.
    #[must_use]
    pub fn distance_m(&self) -> f64 {
        dot(self.translation, self.translation).sqrt()
    }

    /// How far it turned, rad.
    #[must_use]
    pub fn angle_rad(&self) -> f64 {
        let [[a, ..], [_, b, _], [.., c]] = self.rotation;
        ((a + b + c - 1.0) / 2.0).clamp(-1.0, 1.0).acos()
    }

    /// A point of the target's axes in those of the source.
    #[must_use]
    pub fn to_source(&self, point: [f64; 3]) -> [f64; 3] {
        apply(&transposed(&self.rotation), minus(point, self.translation))
    }

    /// A point of the source's axes in those of the target.
    #[must_use]
    pub fn to_target(&self, point: [f64; 3]) -> [f64; 3] {
        plus(apply(&self.rotation, point), self.translation)
    }
}

/// A camera without distortion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intrinsics {
    focal: [f64; 2],
    /// One over those.
    inverse: [f64; 2],
    centre: [f64; 2],
}

impl Intrinsics {
    /// Focal lengths and principal point in patches: divide those in pixels of the encoder's input
    /// by the patch size.
    ///
    /// # Errors
    /// When a focal length is not positive or something not finite.
    pub fn new(focal: [f64; 2], centre: [f64; 2]) -> Result<Self, AriaError> {
        if focal.iter().all(|f| *f > 0.0 && f.is_finite()) && centre.iter().all(|c| c.is_finite()) {
            return Ok(Self { focal, inverse: focal.map(|f| 1.0 / f), centre });
        }
        Err(AriaError::setting(
            "the camera's focal length and centre",
            format!("{focal:?}, {centre:?}"),
            "positive and finite, in patches",
        ))
    }

    /// Focal lengths along x and y, in patches.
    #[must_use]
    pub fn focal(&self) -> [f64; 2] {
        self.focal
    }

    /// Principal point, in patches.
    #[must_use]
    pub fn centre(&self) -> [f64; 2] {
        self.centre
    }

    /// A camera that sees `angle_rad` from left to right, with square pixels and its axis through
    /// the middle of the grid.
    ///
    /// # Errors
    /// When the angle is not between 0 and pi.
    pub fn with_field_of_view(grid: crate::Grid, angle_rad: f64) -> Result<Self, AriaError> {
        if !(angle_rad > 0.0 && angle_rad < std::f64::consts::PI) {
            return Err(AriaError::setting("the field of view", angle_rad, "between 0 and pi"));
        }
        let half = grid.cols() as f64 / 2.0;
        Self::new([half / (angle_rad / 2.0).tan(); 2], [half, grid.rows() as f64 / 2.0])
    }

    /// The angle that is seen from left to right in pictures of `grid` patches, rad.
    #[must_use]
    pub fn field_of_view(&self, grid: crate::Grid) -> f64 {
        let direction = |col: f64| self.direction([col, 0.0])[0].atan();
        direction(grid.cols() as f64) - direction(0.0)
    }

    /// The direction in which a point of the picture lies, with z = 1.
    #[must_use]
    pub fn direction(&self, [x, y]: [f64; 2]) -> [f64; 3] {
        [(x - self.centre[0]) * self.inverse[0], (y - self.centre[1]) * self.inverse[1], 1.0]
    }

    /// The position of a point in the picture, unless it lies behind the camera.
    #[must_use]
    pub fn project(&self, [x, y, z]: [f64; 3]) -> Option<[f64; 2]> {
        (z > 1e-9).then(|| {
            let near = 1.0 / z;
            [x * near * self.focal[0] + self.centre[0], y * near * self.focal[1] + self.centre[1]]
        })
    }
}

pub(crate) fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn plus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub(crate) fn minus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(crate) fn scaled(a: [f64; 3], by: f64) -> [f64; 3] {
    a.map(|a| a * by)
}

pub(crate) fn apply(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| dot(row, vector))
}

fn transposed(m: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| m[j][i]))
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let columns = transposed(b);
    std::array::from_fn(|i| std::array::from_fn(|j| dot(a[i], columns[j])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn motions_agree_with_the_poses_they_were_made_of() {
        let a = Pose::looking([0.1, -0.2, 0.3], 0.2, -0.1, 0.05);
        let b = Pose::looking([-0.4, 0.1, 0.6], -0.3, 0.2, 0.0);
        let motion = CameraMotion::between(&a, &b);
        let point = [0.5, 0.4, 3.0];
        let seen = b.to_camera(a.to_world(point));
        for (x, y) in motion.to_target(point).iter().zip(seen) {
            assert!((x - y).abs() < 1e-12);
        }
        for (x, y) in motion.to_source(seen).iter().zip(point) {
            assert!((x - y).abs() < 1e-12);
        }
        let moved = minus(a.position, b.position);
        assert!((motion.distance_m() - dot(moved, moved).sqrt()).abs() < 1e-12);
        let turned =
            CameraMotion::between(&Pose::default(), &Pose::looking([0.0; 3], 0.3, 0.0, 0.0));
        assert!((turned.angle_rad() - 0.3).abs() < 1e-12);
    }

    #[test]
    fn yaw_turns_right_and_pitch_up() {
        let ahead = |pose: Pose| pose.to_world([0.0, 0.0, 1.0]);
        assert!(ahead(Pose::looking([0.0; 3], 0.1, 0.0, 0.0))[0] > 0.0);
        assert!(ahead(Pose::looking([0.0; 3], 0.0, 0.1, 0.0))[1] < 0.0);
    }

    #[test]
    fn projection_undoes_direction() {
        let grid = crate::Grid::new(29, 47).expect("a grid");
        let camera = Intrinsics::with_field_of_view(grid, 1.1).expect("a camera");
        let point = [3.5, 20.25];
        let back = camera.project(scaled(camera.direction(point), 4.2)).expect("in front");
        assert!((back[0] - point[0]).abs() < 1e-9 && (back[1] - point[1]).abs() < 1e-9);
        assert_eq!(camera.project([1.0, 1.0, -1.0]), None);
        assert!(
            Intrinsics::new([0.0, 1.0], [0.0; 2]).is_err()
                && Intrinsics::with_field_of_view(grid, 4.0).is_err()
        );
    }
}
