//! Generated images: a striped disc on a plain ground, stripes in one of four directions and in one
//! of four colours: 16 classes in all. Place, size, shades, width of the stripes and noise are
//! drawn at random; directions and colours are blurred by as much, and a smaller plain disc lies
//! somewhere.

use rand::{RngExt, rngs::StdRng};
use std::f32::consts::PI;

/// Pixels along each side.
pub const SIZE: usize = 20;
/// Red, green, blue.
pub const CHANNELS: usize = 3;
/// Directions times colours.
pub const CLASSES: usize = 16;
/// Standard deviation of the noise of a pixel.
const NOISE: f32 = 0.2;
/// How far a direction is off at most, radians, and a colour at most.
const TURN: f32 = 0.2;
const TINGE: f32 = 0.35;

/// One image, channels first, roughly between -1 and 1, and what it shows.
pub struct Labelled {
    pub pixels: Vec<f32>,
    pub class: u8,
}

/// The next image of a stream.
pub fn draw(random: &mut StdRng) -> Labelled {
    let class: u8 = random.random_range(0..CLASSES as u8);
    let (colour, direction) = (usize::from(class % 4), class / 4);
    let size = SIZE as f32;
    let radius = random.random_range(0.24..0.40) * size;
    let centre = [0, 1].map(|_| random.random_range(radius..size - radius));
    let slant = f32::from(direction) * PI / 4.0 + random.random_range(-TURN..TURN);
    let (period, phase) = (random.random_range(3.0..5.0f32), random.random_range(0.0..2.0 * PI));
    let ground: [f32; CHANNELS] = std::array::from_fn(|_| random.random_range(-0.6..-0.1));
    // Red, green, blue or white.
    let pure = |channel: usize| f32::from(u8::from(colour == 3 || colour == channel));
    let tint: [f32; CHANNELS] = std::array::from_fn(|channel| {
        ground[channel] + 0.2 + 0.7 * pure(channel) + random.random_range(-TINGE..TINGE)
    });
    let spot = [0, 1].map(|_| random.random_range(0.0..size));
    let spot_radius = random.random_range(1.5..3.5);
    let mut pixels = vec![0.0; CHANNELS * SIZE * SIZE];
    for index in 0..SIZE * SIZE {
        let at = [(index % SIZE) as f32 + 0.5, (index / SIZE) as f32 + 0.5];
        let (x, y) = (at[0] - centre[0], at[1] - centre[1]);
        let wave = ((x * slant.cos() + y * slant.sin()) * 2.0 * PI / period + phase).sin();
        let on_spot = (at[0] - spot[0]).hypot(at[1] - spot[1]) < spot_radius;
        let share =
            if x.hypot(y) < radius { 0.5 + 0.5 * wave } else { 0.5 * f32::from(u8::from(on_spot)) };
        for channel in 0..CHANNELS {
            pixels[channel * SIZE * SIZE + index] = ground[channel]
                + share * (tint[channel] - ground[channel])
                + NOISE * normal(random);
        }
    }
    Labelled { pixels, class }
}

/// Standard normal, by the sum of uniform numbers.
fn normal(random: &mut StdRng) -> f32 {
    (0..6).map(|_| random.random_range(-1.0..1.0f32)).sum::<f32>() / 2.0f32.sqrt()
}
