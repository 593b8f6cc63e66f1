//! The contents of a scene: a room with patterned walls, and balls in it, some of which move.
//! Lengths in metres, times in frames.
//!
//! Walls are 0 to 5, balls follow. Patterns are value noise on a lattice, fixed to the wall or
//! ball.

use crate::{
    flow::{dot, minus, plus, scaled},
    random::Random,
};

/// A ball that is static or moves back and forth between two walls of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Ball {
    middle: [f64; 3],
    reach: [f64; 3],
    start: [f64; 3],
    /// Metres per frame along each axis.
    speed: [f64; 3],
    radius: f64,
    /// What kind of thing it is.
    pub label: u16,
    pattern: u64,
}

impl Ball {
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
    balls: Vec<Ball>,
    pattern: u64,
}

/// The hit of a ray.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// In units of the ray's direction.
    pub distance: f64,
    /// Wall, or 6 and the number of the ball.
    pub thing: u16,
}

/// Walls of a room.
pub const WALLS: u16 = 6;
/// Kinds of balls.
const KINDS: u16 = 5;
/// Kinds of objects; each wall is a kind of its own.
pub const LABELS: usize = (WALLS + KINDS) as usize;

impl World {
    /// A room of 8 x 3.2 x 8 m with `still` and `moving` balls; the moving ones go `speed` metres a
    /// frame.
    #[must_use]
    pub(crate) fn new(random: &mut Random, still: usize, moving: usize, speed: f64) -> Self {
        let half = [4.0, 1.6, 4.0];
        let mut ball = |number: usize, moves: bool| {
            let depth = if moves { random.between(1.6, 2.9) } else { random.between(2.4, 3.3) };
            let middle = [random.between(-1.6, 1.6), random.between(-0.5, 0.8), depth];
            let angle = random.between(0.0, std::f64::consts::TAU);
            let velocity = if moves { speed * random.between(0.7, 1.3) } else { 0.0 };
            Ball {
                middle,
                reach: if moves { [1.5, 0.5, 0.4] } else { [0.0; 3] },
                start: std::array::from_fn(|_| random.between(0.0, 4.0)),
                speed: [
                    velocity * angle.cos().abs().max(0.6),
                    velocity * 0.5 * angle.sin(),
                    0.3 * velocity * angle.sin(),
                ],
                radius: random.between(0.22, 0.42),
                label: WALLS + (number % usize::from(KINDS)) as u16,
                pattern: random.bits(),
            }
        };
        let balls = (0..still)
            .map(|n| (n, false))
            .chain((0..moving).map(|n| (n, true)))
            .map(|(n, moves)| ball(n, moves))
            .collect();
        Self { half, balls, pattern: random.bits() }
    }

    /// The balls.
    #[must_use]
    pub fn balls(&self) -> &[Ball] {
        &self.balls
    }

    /// The kind of an object; walls are kinds of their own.
    #[must_use]
    pub fn label(&self, thing: u16) -> u16 {
        thing
            .checked_sub(WALLS)
            .and_then(|ball| self.balls.get(usize::from(ball)))
            .map_or(thing, |ball| ball.label)
    }

    /// The ball of an object, unless it is a wall.
    #[must_use]
    pub fn ball(&self, thing: u16) -> Option<&Ball> {
        self.balls.get(usize::from(thing.checked_sub(WALLS)?))
    }

    /// The first hit of a ray from `eye`; `centres` are the current ones of the balls.
    pub(crate) fn meet(&self, centres: &[[f64; 3]], eye: [f64; 3], direction: [f64; 3]) -> Hit {
        let mut hit = self.wall(eye, direction);
        let square = dot(direction, direction);
        for (number, (ball, centre)) in self.balls.iter().zip(centres).enumerate() {
            let away = minus(eye, *centre);
            let along = dot(away, direction);
            let inside = along * along - square * (dot(away, away) - ball.radius * ball.radius);
            if inside > 0.0 {
                let distance = (-along - inside.sqrt()) / square;
                if distance > 1e-6 && distance < hit.distance {
                    hit = Hit { distance, thing: WALLS + number as u16 };
                }
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
    ) -> [f32; 3] {
        let point = plus(eye, scaled(direction, hit.distance));
        match self.ball(hit.thing).zip(centres.get(usize::from(hit.thing.saturating_sub(WALLS)))) {
            // Finer patterns on smaller objects.
            Some((ball, centre)) => pattern(ball.pattern, scaled(minus(point, *centre), 3.0)),
            None => pattern(self.pattern.wrapping_add(u64::from(hit.thing)), point),
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
fn lattice(seed: u64, point: [i64; 3]) -> [f32; 3] {
    let mixed = point.iter().fold(seed, |seed, x| Random::new(seed ^ (*x as u64)).bits());
    let mut random = Random::new(mixed);
    std::array::from_fn(|_| random.uniform() as f32)
}

/// Smooth interpolation between points of the lattice.
fn noise(seed: u64, point: [f64; 3]) -> [f32; 3] {
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
        assert_eq!(world.balls().iter().filter(|ball| ball.moves()).count(), 5);
        for ball in world.balls() {
            for frame in 0..500 {
                let (now, next) =
                    (ball.centre(f64::from(frame)), ball.centre(f64::from(frame + 1)));
                for i in 0..3 {
                    assert!((now[i] - ball.middle[i]).abs() <= ball.reach[i] + 1e-9);
                    assert!((next[i] - now[i]).abs() <= ball.speed[i].abs() + 1e-9);
                }
            }
        }
    }

    #[test]
    fn rays_meet_the_nearest_thing() {
        let mut world = World::new(&mut Random::new(4), 1, 0, 0.0);
        world.balls[0].middle = [0.0, 0.0, 2.0];
        let centres = [world.balls[0].centre(0.0)];
        let ahead = world.meet(&centres, [0.0; 3], [0.0, 0.0, 1.0]);
        assert_eq!(ahead.thing, WALLS);
        assert!((ahead.distance - (2.0 - world.balls[0].radius)).abs() < 1e-9);
        assert_eq!(
            world.meet(&centres, [0.0; 3], [0.0, 0.0, -1.0]),
            Hit { distance: 4.0, thing: 4 }
        );
        assert_eq!(world.label(WALLS), world.balls[0].label);
        assert_eq!(world.label(3), 3);
    }
}
