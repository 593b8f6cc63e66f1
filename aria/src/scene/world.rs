//! The contents of a scene: a room with patterned walls, and objects in it, some of which move.
//! Lengths in metres, times in frames.
//!
//! Walls are 0 to 5, objects follow. In plain worlds, objects are balls, patterns are value noise on
//! a lattice, fixed to the wall or ball, and labels are numbers that no picture shows. In furnished
//! worlds, shapes and materials make the label, under a light, so that a network can learn it.

use super::{
    Shape,
    surface::{Light, Material, PATTERNS, Pattern},
};
use crate::{
    flow::{minus, plus, scaled},
    random::Random,
};

/// An object that is static or moves back and forth between two walls of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    middle: [f64; 3],
    reach: [f64; 3],
    start: [f64; 3],
    /// Metres per frame along each axis.
    speed: [f64; 3],
    shape: Shape,
    /// What kind of thing it is.
    pub label: u16,
    pattern: u64,
}

impl Object {
    /// Where its centre is.
    #[must_use]
    pub fn centre(&self, frame: f64) -> [f64; 3] {
        std::array::from_fn(|i| {
            if self.reach[i] <= 0.0 {
                return self.middle[i];
            }
            // To and fro: a triangle wave of period 4.
            let phase = (self.start[i] + self.speed[i] * frame / self.reach[i]).rem_euclid(4.0);
            self.middle[i] + self.reach[i] * if phase < 2.0 { phase - 1.0 } else { 3.0 - phase }
        })
    }

    /// What it looks like from outside.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether it moves at all.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.speed.iter().zip(self.reach).any(|(speed, reach)| *speed != 0.0 && reach > 0.0)
    }
}

/// A room with its objects.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// From the middle to the walls.
    half: [f64; 3],
    objects: Vec<Object>,
    pattern: u64,
    furnishing: Option<Furnishing>,
}

/// Materials and light of a furnished world.
#[derive(Clone, Debug, PartialEq)]
struct Furnishing {
    /// Of the floor, the walls and the ceiling.
    room: [Material; 3],
    objects: Vec<Material>,
    light: Light,
}

/// The hit of a ray.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// In units of the ray's direction.
    pub distance: f64,
    /// Wall, or 6 and the number of the object.
    pub thing: u16,
}

/// Walls of a room.
pub const WALLS: u16 = 6;
/// Kinds of objects.
const KINDS: u16 = 5;
/// Kinds of objects; each wall is a kind of its own. In furnished worlds: the floor, walls with the
/// ceiling, and nine kinds of objects, by shape and pattern.
pub const LABELS: usize = (WALLS + KINDS) as usize;
/// The wall that is the floor, and that above.
const FLOOR: u16 = 3;
const CEILING: u16 = 2;
/// Labels of surfaces in furnished worlds; objects follow.
const SURFACES: u16 = 2;

impl World {
    /// A room of 8 x 3.2 x 8 m with `still` and `moving` objects; the moving ones go `speed` metres a
    /// frame.
    #[must_use]
    pub(crate) fn new(random: &mut Random, still: usize, moving: usize, speed: f64) -> Self {
        let half = [4.0, 1.6, 4.0];
        let mut object = |number: usize, moves: bool| {
            let depth = if moves { random.between(1.6, 2.9) } else { random.between(2.4, 3.3) };
            let middle = [random.between(-1.6, 1.6), random.between(-0.5, 0.8), depth];
            let angle = random.between(0.0, std::f64::consts::TAU);
            let velocity = if moves { speed * random.between(0.7, 1.3) } else { 0.0 };
            Object {
                middle,
                reach: if moves { [1.5, 0.5, 0.4] } else { [0.0; 3] },
                start: std::array::from_fn(|_| random.between(0.0, 4.0)),
                speed: [
                    velocity * angle.cos().abs().max(0.6),
                    velocity * 0.5 * angle.sin(),
                    0.3 * velocity * angle.sin(),
                ],
                shape: Shape::Ball { radius: random.between(0.22, 0.42) },
                label: WALLS + (number % usize::from(KINDS)) as u16,
                pattern: random.bits(),
            }
        };
        let objects = (0..still)
            .map(|n| (n, false))
            .chain((0..moving).map(|n| (n, true)))
            .map(|(n, moves)| object(n, moves))
            .collect();
        Self { half, objects, pattern: random.bits(), furnishing: None }
    }

    /// A room of a random size with objects of random shapes and materials, most of them on the
    /// floor, under a random light; the moving ones go about `speed` metres a frame.
    #[must_use]
    pub(crate) fn furnished(random: &mut Random, still: usize, moving: usize, speed: f64) -> Self {
        let half = [random.between(2.6, 4.5), random.between(1.3, 1.7), random.between(3.0, 4.8)];
        let (mut objects, mut materials) = (Vec::new(), Vec::new());
        for number in 0..still + moving {
            let moves = number >= still;
            let (kind, shape) = any_shape(random);
            let pattern = (random.bits() % PATTERNS.len() as u64) as usize;
            let reach = if moves { [1.4, random.between(0.0, 0.3), 0.5] } else { [0.0; 3] };
            let depth = if moves { random.between(1.5, 2.6) } else { random.between(1.4, 2.9) };
            let above = if random.uniform() < 0.3 { random.between(0.0, 1.2) } else { 0.0 };
            let floor = half[1] - shape.half_height() - reach[1];
            let side = half[0].min(2.2) - 0.6;
            let angle = random.between(0.0, std::f64::consts::TAU);
            let velocity = if moves { speed * random.between(0.7, 1.3) } else { 0.0 };
            objects.push(Object {
                middle: [random.between(-side, side), floor - above, depth],
                reach,
                start: std::array::from_fn(|_| random.between(0.0, 4.0)),
                speed: [
                    velocity * angle.cos().abs().max(0.6),
                    velocity * 0.4 * angle.sin(),
                    0.4 * velocity * angle.sin(),
                ],
                shape,
                label: SURFACES + kind * PATTERNS.len() as u16 + pattern as u16,
                pattern: random.bits(),
            });
            let label = kind * PATTERNS.len() as u16 + pattern as u16;
            let hue = f64::from(label) / f64::from(LABELS as u16 - SURFACES);
            materials.push(Material::new(random, PATTERNS[pattern], Some(hue)));
        }
        let room = [Pattern::Tiled, Pattern::Plain, Pattern::Plain]
            .map(|pattern| Material::new(random, pattern, None));
        let light = Light::new(random);
        let furnishing = Some(Furnishing { room, objects: materials, light });
        Self { half, objects, pattern: random.bits(), furnishing }
    }

    /// The objects.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The kind of a thing; without furniture, walls are kinds of their own.
    #[must_use]
    pub fn label(&self, thing: u16) -> u16 {
        let wall = match self.furnishing {
            None => thing,
            Some(_) => u16::from(thing != FLOOR),
        };
        self.object(thing).map_or(wall, |object| object.label)
    }

    /// The object of a thing, unless it is a wall.
    #[must_use]
    pub fn object(&self, thing: u16) -> Option<&Object> {
        self.objects.get(usize::from(thing.checked_sub(WALLS)?))
    }

    /// The first hit of a ray from `eye`; `centres` are the current ones of the objects.
    pub(crate) fn meet(&self, centres: &[[f64; 3]], eye: [f64; 3], direction: [f64; 3]) -> Hit {
        let mut hit = self.wall(eye, direction);
        for (number, (object, centre)) in self.objects.iter().zip(centres).enumerate() {
            let met = object.shape.meet(minus(eye, *centre), direction);
            if let Some(distance) = met.filter(|distance| *distance < hit.distance) {
                hit = Hit { distance, thing: WALLS + number as u16 };
            }
        }
        hit
    }

    fn wall(&self, eye: [f64; 3], direction: [f64; 3]) -> Hit {
        let mut hit = Hit { distance: f64::INFINITY, thing: 0 };
        for axis in 0..3 {
            let side = if direction[axis] < 0.0 { -1.0 } else { 1.0 };
            let distance = (side * self.half[axis] - eye[axis]) / direction[axis];
            if distance >= 0.0 && distance < hit.distance {
                hit = Hit { distance, thing: 2 * axis as u16 + u16::from(side > 0.0) };
            }
        }
        hit
    }

    /// Red, green and blue from 0 to 1 at a hit.
    pub(crate) fn colour(
        &self,
        centres: &[[f64; 3]],
        eye: [f64; 3],
        direction: [f64; 3],
        hit: Hit,
        frame: u64,
    ) -> [f32; 3] {
        let point = plus(eye, scaled(direction, hit.distance));
        if let Some(furnishing) = &self.furnishing {
            return self.lit(furnishing, centres, point, hit.thing, frame);
        }
        match self.object(hit.thing).zip(centres.get(usize::from(hit.thing.saturating_sub(WALLS))))
        {
            // Finer patterns on smaller objects.
            Some((object, centre)) => pattern(object.pattern, scaled(minus(point, *centre), 3.0)),
            None => pattern(self.pattern.wrapping_add(u64::from(hit.thing)), point),
        }
    }
}

impl World {
    /// The colour of a point of a furnished world.
    fn lit(
        &self,
        furnishing: &Furnishing,
        centres: &[[f64; 3]],
        point: [f64; 3],
        thing: u16,
        frame: u64,
    ) -> [f32; 3] {
        let number = usize::from(thing.saturating_sub(WALLS));
        let object =
            self.object(thing).zip(centres.get(number)).zip(furnishing.objects.get(number));
        let (colour, normal) = match object {
            Some(((object, centre), material)) => {
                let (normal, own) = object.shape.surface(minus(point, *centre));
                (material.colour(own), normal)
            }
            None => {
                let [floor, walls, ceiling] = &furnishing.room;
                let material = match thing {
                    FLOOR => floor,
                    CEILING => ceiling,
                    _ => walls,
                };
                let axis = usize::from(thing / 2).min(2);
                let mut normal = [0.0; 3];
                normal[axis] = if thing % 2 == 1 { -1.0 } else { 1.0 };
                (material.colour(point), normal)
            }
        };
        furnishing.light.on(colour, normal, frame as f64)
    }
}

/// A shape of a random size, and the number of its kind.
fn any_shape(random: &mut Random) -> (u16, Shape) {
    let size = random.between(0.18, 0.38);
    match random.bits() % 3 {
        0 => (0, Shape::Ball { radius: size }),
        1 => {
            let angle = random.between(0.0, std::f64::consts::FRAC_PI_2);
            let half = [size, size * random.between(0.6, 1.4), size * random.between(0.7, 1.2)]
                .map(|x| 0.85 * x);
            (1, Shape::Box { half, turn: [angle.cos(), angle.sin()] })
        }
        _ => {
            let half_height = size * random.between(0.9, 1.6);
            (2, Shape::Cylinder { radius: 0.8 * size, half_height })
        }
    }
}

/// A colour of its own, and noise of two scales around it.
fn pattern(seed: u64, point: [f64; 3]) -> [f32; 3] {
    let own = lattice(seed, [i64::MAX; 3]);
    let coarse = noise(seed ^ 0xA5A5, scaled(point, 1.1));
    let fine = noise(seed ^ 0x5A5A, scaled(point, 3.7));
    std::array::from_fn(|c| {
        (0.15 + 0.45 * own[c] + 0.25 * coarse[c] + 0.15 * fine[c]).clamp(0.0, 1.0)
    })
}

/// Three random numbers from 0 to 1 at a point of the lattice.
pub(super) fn lattice(seed: u64, point: [i64; 3]) -> [f32; 3] {
    let mixed = point.iter().fold(seed, |seed, x| Random::new(seed ^ (*x as u64)).bits());
    let mut random = Random::new(mixed);
    std::array::from_fn(|_| random.uniform() as f32)
}

/// Smooth interpolation between points of the lattice.
pub(super) fn noise(seed: u64, point: [f64; 3]) -> [f32; 3] {
    let floor = point.map(f64::floor);
    let smooth: [f32; 3] = std::array::from_fn(|i| {
        let t = (point[i] - floor[i]) as f32;
        t * t * (3.0 - 2.0 * t)
    });
    let mut sum = [0.0; 3];
    for corner in 0..8usize {
        let bits: [usize; 3] = std::array::from_fn(|i| corner >> i & 1);
        let weight: f32 =
            (0..3).map(|i| if bits[i] == 1 { smooth[i] } else { 1.0 - smooth[i] }).product();
        let value = lattice(seed, std::array::from_fn(|i| floor[i] as i64 + bits[i] as i64));
        sum = std::array::from_fn(|c| sum[c] + weight * value[c]);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balls_stay_within_their_reach_and_keep_their_speed() {
        let world = World::new(&mut Random::new(4), 2, 5, 0.05);
        assert_eq!(world.objects().iter().filter(|object| object.moves()).count(), 5);
        for object in world.objects() {
            for frame in 0..500 {
                let (now, next) =
                    (object.centre(f64::from(frame)), object.centre(f64::from(frame + 1)));
                for i in 0..3 {
                    assert!((now[i] - object.middle[i]).abs() <= object.reach[i] + 1e-9);
                    assert!((next[i] - now[i]).abs() <= object.speed[i].abs() + 1e-9);
                }
            }
        }
    }

    #[test]
    fn rays_meet_the_nearest_thing() {
        let mut world = World::new(&mut Random::new(4), 1, 0, 0.0);
        world.objects[0].middle = [0.0, 0.0, 2.0];
        let centres = [world.objects[0].centre(0.0)];
        let ahead = world.meet(&centres, [0.0; 3], [0.0, 0.0, 1.0]);
        assert_eq!(ahead.thing, WALLS);
        assert!((ahead.distance - (2.0 - world.objects[0].shape.half_height())).abs() < 1e-9);
        assert_eq!(
            world.meet(&centres, [0.0; 3], [0.0, 0.0, -1.0]),
            Hit { distance: 4.0, thing: 4 }
        );
        assert_eq!(world.label(WALLS), world.objects[0].label);
        assert_eq!(world.label(3), 3);
    }
}
