//! [`Shape`]: what an object looks like from outside: where rays meet it, and its normals.

use crate::flow::dot;

/// The shape of an object, around its centre. Lengths in metres; y points down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A ball.
    Ball {
        /// Its radius.
        radius: f64,
    },
    /// A box that stands upright.
    Box {
        /// From the centre to the sides, along its own axes.
        half: [f64; 3],
        /// Cosine and sine of its turn around the upright axis.
        turn: [f64; 2],
    },
    /// A cylinder that stands upright.
    Cylinder {
        /// Its radius.
        radius: f64,
        /// From the centre to its lids.
        half_height: f64,
    },
}

impl Shape {
    /// From the centre to the lowest point.
    #[must_use]
    pub fn half_height(self) -> f64 {
        match self {
            Self::Ball { radius } => radius,
            Self::Box { half, .. } => half[1],
            Self::Cylinder { half_height, .. } => half_height,
        }
    }

    /// Where a ray meets it, in units of `direction`; `away` is the eye, seen from the centre.
    pub(crate) fn meet(self, away: [f64; 3], direction: [f64; 3]) -> Option<f64> {
        let distance = match self {
            Self::Ball { radius } => ball(radius, away, direction),
            Self::Box { half, turn } => {
                slabs(half, inside(turn, away), inside(turn, direction)).map(|(near, _)| near)
            }
            Self::Cylinder { radius, half_height } => {
                cylinder(radius, half_height, away, direction)
            }
        };
        distance.filter(|distance| *distance > 1e-6)
    }

    /// The unit normal at a point of the surface, and the point in the object's own axes; `at` is
    /// seen from the centre.
    pub(crate) fn surface(self, at: [f64; 3]) -> ([f64; 3], [f64; 3]) {
        match self {
            Self::Ball { radius } => (at.map(|x| x / radius), at),
            Self::Box { half, turn: [cos, sin] } => {
                let own = inside([cos, sin], at);
                let out = |axis: usize| own[axis].abs() / half[axis];
                let axis = (0..3).max_by(|a, b| out(*a).total_cmp(&out(*b))).unwrap_or(0);
                let mut normal = [0.0; 3];
                normal[axis] = own[axis].signum();
                (inside([cos, -sin], normal), own)
            }
            Self::Cylinder { radius, half_height } => {
                let on_lid = at[1].abs() / half_height > at[0].hypot(at[2]) / radius;
                let side = [at[0] / radius, 0.0, at[2] / radius];
                (if on_lid { [0.0, at[1].signum(), 0.0] } else { side }, at)
            }
        }
    }
}

/// A vector in axes that are turned around the upright one.
fn inside([cos, sin]: [f64; 2], [x, y, z]: [f64; 3]) -> [f64; 3] {
    [cos * x + sin * z, y, cos * z - sin * x]
}

fn ball(radius: f64, away: [f64; 3], direction: [f64; 3]) -> Option<f64> {
    let square = dot(direction, direction);
    let along = dot(away, direction);
    let inside = along * along - square * (dot(away, away) - radius * radius);
    (inside > 0.0).then(|| (-along - inside.sqrt()) / square)
}

/// Where a ray enters and leaves a box along the axes.
fn slabs(half: [f64; 3], away: [f64; 3], direction: [f64; 3]) -> Option<(f64, f64)> {
    let (mut near, mut far) = (f64::NEG_INFINITY, f64::INFINITY);
    for axis in 0..3 {
        let at = |side: f64| (side * half[axis] - away[axis]) / direction[axis];
        let (a, b) = (at(-1.0), at(1.0));
        // A ray along a side divides zero by zero: `min` and `max` leave those out.
        (near, far) = (near.max(a.min(b)), far.min(a.max(b)));
    }
    (near < far).then_some((near, far))
}

fn cylinder(radius: f64, half_height: f64, away: [f64; 3], direction: [f64; 3]) -> Option<f64> {
    let flat = |[x, _, z]: [f64; 3]| [x, 0.0, z];
    let (from, along) = (flat(away), flat(direction));
    let square = dot(along, along);
    let middle = dot(from, along);
    let inside = middle * middle - square * (dot(from, from) - radius * radius);
    if inside <= 0.0 || square <= 0.0 {
        return None;
    }
    let (enters, leaves) = ((-middle - inside.sqrt()) / square, (-middle + inside.sqrt()) / square);
    let lid = |side: f64| (side * half_height - away[1]) / direction[1];
    let (a, b) = (lid(-1.0), lid(1.0));
    let (near, far) = (enters.max(a.min(b)), leaves.min(a.max(b)));
    (near < far).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        flow::{plus, scaled},
        random::Random,
    };

    /// Whether a point lies inside, by the definition of each shape.
    fn holds(shape: Shape, at: [f64; 3]) -> bool {
        match shape {
            Shape::Ball { radius } => dot(at, at) < radius * radius,
            Shape::Box { half, turn } => {
                let own = inside(turn, at);
                (0..3).all(|axis| own[axis].abs() < half[axis])
            }
            Shape::Cylinder { radius, half_height } => {
                at[0].hypot(at[2]) < radius && at[1].abs() < half_height
            }
        }
    }

    #[test]
    fn rays_enter_shapes_where_they_are_met() {
        let mut random = Random::new(3);
        let shapes = [
            Shape::Ball { radius: 0.4 },
            Shape::Box { half: [0.3, 0.2, 0.5], turn: [0.6f64.cos(), 0.6f64.sin()] },
            Shape::Cylinder { radius: 0.3, half_height: 0.4 },
        ];
        for shape in shapes {
            let mut met = 0;
            for _ in 0..2000 {
                let away = [0, 1, 2].map(|_| random.between(-2.0, 2.0));
                if holds(shape, away) {
                    continue;
                }
                let direction = [0, 1, 2].map(|axis| random.between(-0.5, 0.5) - away[axis]);
                let at = |distance: f64| plus(away, scaled(direction, distance));
                let steps = (0..4000).map(|step| f64::from(step) / 2000.0);
                let first = steps.clone().find(|step| holds(shape, at(*step)));
                match (first, shape.meet(away, direction)) {
                    (Some(first), Some(found)) => {
                        assert!((first - found).abs() < 1e-3, "{shape:?}: {first} {found}");
                        let (normal, _) = shape.surface(at(found));
                        assert!((dot(normal, normal) - 1.0).abs() < 1e-6, "{normal:?}");
                        assert!(dot(normal, direction) < 1e-9, "{shape:?} faces the eye");
                        met += 1;
                    }
                    // Rays that graze a shape for less than a step.
                    (None, Some(found)) => assert!(!holds(shape, at(found + 1e-3))),
                    (Some(first), None) => panic!("{shape:?} is missed at {first}"),
                    (None, None) => {}
                }
            }
            assert!(met > 200, "{shape:?}: {met}");
        }
    }
}
