//! [`Material`] and [`Light`]: textures by which a network can tell kinds of objects, and the light
//! on them, for [`super::Scene::furnished`].

use super::world::{lattice, noise};
use crate::{
    flow::{dot, scaled},
    random::Random,
};

/// What a surface is covered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Spots of random sizes.
    Mottled,
    /// Parallel stripes.
    Striped,
    /// A chequerboard.
    Chequered,
    /// Upright tiles with joints, seen from above.
    Tiled,
    /// Plain, with faint clouds.
    Plain,
}

/// Patterns of objects.
pub const PATTERNS: [Pattern; 3] = [Pattern::Mottled, Pattern::Striped, Pattern::Chequered];

/// A pattern with its two colours, size and direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Material {
    pattern: Pattern,
    colours: [[f32; 3]; 2],
    /// Metres of a stripe, square or tile.
    period: f64,
    direction: [f64; 3],
    seed: u64,
}

impl Material {
    /// A pattern in two shades of about a hue, from 0 to 1; nearly grey without.
    pub(crate) fn new(random: &mut Random, pattern: Pattern, hue: Option<f64>) -> Self {
        let grey = hue.is_none();
        let hue = hue.map_or(random.uniform(), |hue| hue + random.between(-0.03, 0.03));
        let colour = saturated(hue, if grey { 0.15 } else { random.between(0.6, 0.95) });
        let bright = random.between(0.3, 0.95);
        let far = random.between(0.25, 0.5);
        let other = if bright > 0.6 { bright - far } else { bright + far };
        let colours = [bright, other].map(|shade| colour.map(|c| (shade * c) as f32));
        let angle = random.between(0.0, std::f64::consts::TAU);
        let tilt = random.between(-0.8, 0.8);
        let period = match pattern {
            Pattern::Mottled => random.between(0.07, 0.10),
            Pattern::Striped => random.between(0.05, 0.08),
            Pattern::Chequered => random.between(0.09, 0.13),
            Pattern::Tiled => random.between(0.4, 0.7),
            Pattern::Plain => random.between(0.5, 1.0),
        };
        let direction = [angle.cos() * (1.0 - tilt * tilt).sqrt(), tilt, angle.sin()];
        Self { pattern, colours, period, direction, seed: random.bits() }
    }

    /// Red, green and blue at a point in the object's own axes.
    pub(crate) fn colour(&self, point: [f64; 3]) -> [f32; 3] {
        let at = scaled(point, 1.0 / self.period);
        let share = match self.pattern {
            Pattern::Mottled => {
                let [spots, ..] = noise(self.seed, at);
                ((spots - 0.5) * 4.0 + 0.5).clamp(0.0, 1.0)
            }
            Pattern::Striped => (dot(at, self.direction).rem_euclid(2.0) < 1.0).into(),
            Pattern::Chequered => {
                let [x, y, z] = at.map(|x| (x + 0.01).floor() as i64);
                ((x + y + z).rem_euclid(2) == 0).into()
            }
            Pattern::Tiled => {
                let near = |x: f64| (x - x.round()).abs() < 0.03;
                (near(at[0]) || near(at[2])).into()
            }
            Pattern::Plain => 0.0,
        };
        let [clouds, ..] = noise(self.seed ^ 0xA5A5, scaled(point, 1.7));
        let own = match self.pattern {
            Pattern::Tiled => {
                let [x, _, z] = at.map(|x| x.floor() as i64);
                let [tone, ..] = lattice(self.seed, [x, 0, z]);
                0.9 + 0.2 * tone
            }
            _ => 1.0,
        };
        let [first, second] = self.colours;
        std::array::from_fn(|c| {
            (first[c] + share * (second[c] - first[c])) * own * (0.85 + 0.3 * clouds)
        })
    }
}

/// The brightest colour of a hue and a saturation.
fn saturated(hue: f64, saturation: f64) -> [f64; 3] {
    [0.0, 1.0 / 3.0, 2.0 / 3.0].map(|own| {
        let apart = (hue - own).rem_euclid(1.0);
        let near = (2.0 - 6.0 * apart.min(1.0 - apart)).clamp(0.0, 1.0);
        1.0 - saturation * (1.0 - near)
    })
}

/// Light from one direction and from everywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Light {
    /// Unit vector towards the lamp.
    towards: [f64; 3],
    ambient: f64,
    colour: [f32; 3],
    /// Frames of a flicker of 3 %.
    period: f64,
}

impl Light {
    /// A lamp somewhere above.
    pub(crate) fn new(random: &mut Random) -> Self {
        let (x, y, z) =
            (random.between(-0.8, 0.8), random.between(-1.0, -0.5), random.between(-0.9, 0.3));
        let length = dot([x, y, z], [x, y, z]).sqrt();
        let gain = random.between(0.65, 1.2);
        Self {
            towards: [x, y, z].map(|part| part / length),
            ambient: random.between(0.45, 0.75),
            colour: std::array::from_fn(|_| (gain * random.between(0.88, 1.12)) as f32),
            period: random.between(20.0, 60.0),
        }
    }

    /// The colour of a lit surface in a frame.
    pub(crate) fn on(&self, colour: [f32; 3], normal: [f64; 3], frame: f64) -> [f32; 3] {
        let lit = self.ambient + (1.0 - self.ambient) * dot(normal, self.towards).max(0.0);
        let flicker = 1.0 + 0.03 * (std::f64::consts::TAU * frame / self.period).sin();
        let gain = (lit * flicker) as f32;
        std::array::from_fn(|c| (colour[c] * self.colour[c] * gain).clamp(0.0, 1.0))
    }
}
