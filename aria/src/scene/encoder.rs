//! [`StandIn`]: features of patches without a network, so that scenes can be evaluated on any
//! machine. It stands in for a vision foundation model, and is not one.
//!
//! A patch is described by mean and spread of its colours, by how much its brightness changes in
//! each of eight directions, and by the same numbers of the patches around it. Random Fourier
//! features (Rahimi and Recht, NIPS 2007) turn descriptions into vectors whose cosine similarity
//! falls off as a Gaussian of the distance between descriptions: 1 for equal descriptions, near 0
//! for different ones.

use super::picture::{Camera, Picture};
use crate::random::Random;
use std::f32::consts::{PI, TAU};

/// Directions of change of brightness.
const DIRECTIONS: usize = 8;
/// Numbers that describe a patch alone: means and spreads of three colours, and directions.
const ALONE: usize = 6 + DIRECTIONS;
/// With those of its surroundings.
const DESCRIPTION: usize = 2 * ALONE;
/// Distance of two descriptions with a similarity of exp(-1/2).
const REACH: f32 = 0.22;
/// What surroundings count, against the patch.
const AROUND: f32 = 0.5;

/// An encoder of a given width, the same for the same seed.
#[derive(Clone, Debug, PartialEq)]
pub struct StandIn {
    width: usize,
    directions: Vec<[f32; DESCRIPTION]>,
    phases: Vec<f32>,
}

impl StandIn {
    /// `width` features per patch.
    #[must_use]
    pub fn new(width: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let directions =
            (0..width).map(|_| std::array::from_fn(|_| random.normal() as f32 / REACH)).collect();
        let phases = (0..width).map(|_| random.uniform() as f32 * TAU).collect();
        Self { width, directions, phases }
    }

    /// Features per patch.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Features of a picture, patch by patch.
    #[must_use]
    pub fn encode(&self, camera: &Camera, picture: &Picture) -> Vec<f32> {
        let alone: Vec<[f32; ALONE]> =
            (0..camera.grid.patches()).map(|patch| describe(camera, picture, patch)).collect();
        let mut features = Vec::with_capacity(camera.grid.patches() * self.width);
        for patch in 0..camera.grid.patches() {
            let description = with_surroundings(camera, &alone, patch);
            features.extend(self.directions.iter().zip(&self.phases).map(|(direction, phase)| {
                let along: f32 = direction.iter().zip(&description).map(|(a, b)| a * b).sum();
                (along + phase).cos()
            }));
        }
        features
    }
}

fn describe(camera: &Camera, picture: &Picture, patch: usize) -> [f32; ALONE] {
    let (mut sums, mut squares, mut changes) = ([0.0f32; 3], [0.0f32; 3], [0.0f32; DIRECTIONS]);
    let mut count = 0.0;
    for pixel in camera.pixels_of(patch) {
        let colour = picture.colours[pixel];
        for c in 0..3 {
            sums[c] += colour[c];
            squares[c] += colour[c] * colour[c];
        }
        let (x, y) = (pixel % picture.width, pixel / picture.width);
        let across = brightness(picture, (x + 1).min(picture.width - 1), y)
            - brightness(picture, x.saturating_sub(1), y);
        let down = brightness(picture, x, (y + 1).min(picture.height - 1))
            - brightness(picture, x, y.saturating_sub(1));
        // Shared by the two directions next to it.
        let angle = (down.atan2(across) + PI) / TAU * DIRECTIONS as f32;
        let (first, share) = (angle as usize, angle.fract());
        let size = across.hypot(down);
        changes[first % DIRECTIONS] += size * (1.0 - share);
        changes[(first + 1) % DIRECTIONS] += size * share;
        count += 1.0;
    }
    let mut description = [0.0; ALONE];
    for c in 0..3 {
        let mean = sums[c] / count;
        description[c] = mean;
        description[3 + c] = (squares[c] / count - mean * mean).max(0.0).sqrt();
    }
    description[6..].copy_from_slice(&changes.map(|change| change / count));
    description
}

fn brightness(picture: &Picture, x: usize, y: usize) -> f32 {
    let [r, g, b] = picture.colours[y * picture.width + x];
    0.3 * r + 0.6 * g + 0.1 * b
}

/// The patch, and the mean of the patches that touch it.
fn with_surroundings(camera: &Camera, alone: &[[f32; ALONE]], patch: usize) -> [f32; DESCRIPTION] {
    let grid = camera.grid;
    let (row, col) = grid.place(patch);
    let (mut sum, mut count) = ([0.0; ALONE], 0.0);
    for r in row.saturating_sub(1)..(row + 2).min(grid.rows()) {
        for c in col.saturating_sub(1)..(col + 2).min(grid.cols()) {
            let other = &alone[grid.index(r, c)];
            sum = std::array::from_fn(|i| sum[i] + other[i]);
            count += 1.0;
        }
    }
    std::array::from_fn(
        |i| if i < ALONE { alone[patch][i] } else { AROUND * sum[i - ALONE] / count },
    )
}
