//! The baseline of identification, which needs no features: block matching on pixels, as in video
//! codecs and DeepCache (Xu et al., MobiCom 2018).
//!
//! Brightness is halved in size; each block of the later picture is searched in the earlier one by
//! least mean absolute difference. The median displacement counts as the camera's motion; a block
//! with another displacement, or without a match, is dynamic.

use super::picture::{Camera, Picture};
use crate::{Grid, PatchSet, Window};

/// How blocks are matched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blocks {
    /// Patches on each side of a block.
    pub patches: usize,
    /// Farthest displacement, in pixels.
    pub reach: usize,
    /// Displacement beyond the median that is motion, in pixels.
    pub motion: usize,
    /// Mean absolute difference of brightness above which nothing was found.
    pub difference: f32,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { patches: 2, reach: 32, motion: 6, difference: 0.05 }
    }
}

impl Blocks {
    /// Patches of the blocks that are dynamic.
    #[must_use]
    pub fn identify(&self, camera: &Camera, before: &Picture, now: &Picture) -> PatchSet {
        let (before, now) = (Half::of(before), Half::of(now));
        let side = self.patches.max(1) * camera.patch / 2;
        let (rows, cols) = (now.height / side.max(1), now.width / side.max(1));
        let found: Vec<([isize; 2], f32)> = (0..rows * cols)
            .map(|block| {
                self.search(&before, &now, [block % cols * side, block / cols * side], side)
            })
            .collect();
        let median = [0, 1].map(|axis| {
            let mut all: Vec<isize> =
                found.iter().map(|(displacement, _)| displacement[axis]).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or(0)
        });
        let dynamic = |(displacement, difference): &([isize; 2], f32)| {
            let off =
                (0..2).map(|axis| displacement[axis].abs_diff(median[axis])).max().unwrap_or(0);
            2 * off > self.motion || *difference > self.difference
        };
        PatchSet::of(camera.grid, |patch| {
            let (row, col) = camera.grid.place(patch);
            let (row, col) = (row / self.patches.max(1), col / self.patches.max(1));
            row < rows && col < cols && dynamic(&found[row * cols + col])
        })
    }

    /// Displacement with the least difference, the nearest among equals, in halved pixels.
    fn search(
        &self,
        before: &Half,
        now: &Half,
        [x, y]: [usize; 2],
        side: usize,
    ) -> ([isize; 2], f32) {
        let reach = (self.reach / 2) as isize;
        let mut best = (
            [0, 0],
            before.difference(now, [x, y], [0, 0], side, f32::INFINITY).unwrap_or(f32::INFINITY),
        );
        for down in -reach..=reach {
            for across in -reach..=reach {
                if let Some(difference) =
                    before.difference(now, [x, y], [across, down], side, best.1)
                    && difference < best.1
                {
                    best = ([across, down], difference);
                }
            }
        }
        best
    }
}

/// Windows of `block` patches that cover a grid; the last of a row or column overlap those before.
pub fn tiles(grid: Grid, block: [usize; 2]) -> impl Iterator<Item = Window> {
    let (rows, cols) = (block[0].clamp(1, grid.rows()), block[1].clamp(1, grid.cols()));
    let starts = |all: usize, side: usize| (0..all).step_by(side).map(move |at| at.min(all - side));
    starts(grid.rows(), rows).flat_map(move |row| {
        starts(grid.cols(), cols).map(move |col| Window { row, col, rows, cols })
    })
}

/// Blocks of `size` patches in the order of their total variation of brightness, the greatest first:
/// what MobiSR takes for hard (Lee et al., MobiCom 2019).
#[must_use]
pub fn by_variation(camera: &Camera, picture: &Picture, size: [usize; 2]) -> Vec<Window> {
    let brightness = |y: usize, x: usize| -> f64 {
        picture.colours[y * picture.width + x].iter().copied().map(f64::from).sum()
    };
    let variation = |window: &Window| {
        let (top, left) = (window.row * camera.patch, window.col * camera.patch);
        let (high, wide) = (window.rows * camera.patch, window.cols * camera.patch);
        let mut sum = 0.0;
        for y in top..top + high {
            for x in left..left + wide {
                let here = brightness(y, x);
                sum += if x + 1 < left + wide { (brightness(y, x + 1) - here).abs() } else { 0.0 };
                sum += if y + 1 < top + high { (brightness(y + 1, x) - here).abs() } else { 0.0 };
            }
        }
        sum
    };
    let mut all: Vec<(f64, Window)> =
        tiles(camera.grid, size).map(|window| (variation(&window), window)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().map(|(_, window)| window).collect()
}

/// Brightness at half the size.
struct Half {
    height: usize,
    width: usize,
    values: Vec<f32>,
}

impl Half {
    fn of(picture: &Picture) -> Self {
        let (height, width) = (picture.height / 2, picture.width / 2);
        let bright = |x: usize, y: usize| {
            let [r, g, b] = picture.colours[y * picture.width + x];
            0.3 * r + 0.6 * g + 0.1 * b
        };
        let mean = |pixel: usize| {
            let (x, y) = (2 * (pixel % width), 2 * (pixel / width));
            (bright(x, y) + bright(x + 1, y) + bright(x, y + 1) + bright(x + 1, y + 1)) / 4.0
        };
        Self { height, width, values: (0..height * width).map(mean).collect() }
    }

    /// Mean absolute difference between a block of `now` and the same block moved here; `None` if
    /// it does not lie in the picture. Stops above `most`.
    fn difference(
        &self,
        now: &Self,
        [x, y]: [usize; 2],
        [across, down]: [isize; 2],
        side: usize,
        most: f32,
    ) -> Option<f32> {
        let (from_x, from_y) = (x.checked_add_signed(-across)?, y.checked_add_signed(-down)?);
        if from_x + side > self.width || from_y + side > self.height {
            return None;
        }
        let pixels = (side * side) as f32;
        let mut sum = 0.0;
        for line in 0..side {
            let here = &self.values[(from_y + line) * self.width + from_x..][..side];
            let there = &now.values[(y + line) * now.width + x..][..side];
            sum += here.iter().zip(there).map(|(a, b)| (a - b).abs()).sum::<f32>();
            if sum > most * pixels {
                break;
            }
        }
        Some(sum / pixels)
    }
}
