//! [`View`]: the part of a frame that an encoder gets, and its pixels as the encoder's input.
//!
//! Beside colours, each pixel has the direction in which the camera sees it and the size of a patch,
//! as extra channels ("CAM-Convs", Facil et al., CVPR 2019). They replace position embeddings: an
//! encoder works at every resolution, on parts of a frame, and behind every lens.

use crate::{AriaError, Grid, Intrinsics, Window};

/// Channels of an encoder's input: red, green, blue, direction to the right, direction down, size
/// of a patch.
pub const CHANNELS: usize = 6;
/// A patch of this size, in radians at the middle of the picture, has 0 in the last channel.
const PATCH_RAD: f64 = 0.05;

/// Colours of a frame, row by row, from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    colours: &'a [[f32; 3]],
    grid: Grid,
    patch: usize,
    intrinsics: Intrinsics,
}

/// A part of a frame, resized to patches of the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Patches of the frame.
    pub window: Window,
    /// Patches of the encoder's input.
    pub grid: Grid,
}

impl View {
    /// A whole frame of `frame` patches, resized.
    #[must_use]
    pub fn whole(frame: Grid, grid: Grid) -> Self {
        Self { window: frame.window(), grid }
    }

    /// A window as it is.
    ///
    /// # Errors
    /// When the window is empty.
    pub fn part(window: Window) -> Result<Self, AriaError> {
        Ok(Self { window, grid: Grid::new(window.rows, window.cols)? })
    }
}

impl<'a> Frame<'a> {
    /// A frame of `grid` patches of `patch` pixels on each side, behind a lens in patches.
    ///
    /// # Errors
    /// When there is not one colour for each pixel.
    pub fn new(
        colours: &'a [[f32; 3]],
        grid: Grid,
        patch: usize,
        intrinsics: Intrinsics,
    ) -> Result<Self, AriaError> {
        if colours.len() != grid.patches() * patch * patch {
            return Err(AriaError::Shapes {
                what: "the pixels of a frame and its patches",
                left: format!("{} pixels", colours.len()),
                right: format!("{grid} of {patch} pixels"),
            });
        }
        Ok(Self { colours, grid, patch, intrinsics })
    }

    /// The encoder's input for a view, channels first, each pixel the mean of the area that it
    /// shows. Values lie around 0, most between -1 and 1.
    ///
    /// # Errors
    /// When the window does not lie in the frame.
    pub fn pixels(&self, view: &View) -> Result<Vec<f32>, AriaError> {
        let View { window, grid } = *view;
        if !self.grid.window().covers(window) {
            return Err(AriaError::Shapes {
                what: "a view and its frame",
                left: format!("{window:?}"),
                right: self.grid.to_string(),
            });
        }
        let (height, width) = (grid.rows() * self.patch, grid.cols() * self.patch);
        let spans = |count: usize, first: usize, patches: usize| -> Vec<[f64; 2]> {
            let step = (patches * self.patch) as f64 / count as f64;
            let at = |pixel: usize| (first * self.patch) as f64 + step * pixel as f64;
            (0..count).map(|pixel| [at(pixel), at(pixel + 1)]).collect()
        };
        let down = spans(height, window.row, window.rows);
        let across = spans(width, window.col, window.cols);
        let first = window.row * self.patch;
        let lines = self.narrowed(&across, first, window.rows * self.patch);
        let area = height * width;
        let mut values = vec![0.0; CHANNELS * area];
        for (y, span) in down.iter().enumerate() {
            for (x, column) in across.iter().enumerate() {
                let mut mean = [0.0; 3];
                for (line, share) in shares(*span) {
                    let colour = lines[(line - first) * width + x];
                    mean = std::array::from_fn(|c| mean[c] + share * colour[c]);
                }
                let middle = [column, span].map(|[a, b]| (a + b) / 2.0 / self.patch as f64);
                let [right, below, _] = self.intrinsics.direction(middle);
                let at = y * width + x;
                (0..3).for_each(|c| values[c * area + at] = 2.0 * mean[c] - 1.0);
                (values[3 * area + at], values[4 * area + at]) = (right as f32, below as f32);
            }
        }
        let patches = window.cols as f64 / grid.cols() as f64;
        let size = (patches / self.intrinsics.focal()[0] / PATCH_RAD).ln() as f32;
        values[5 * area..].fill(size);
        Ok(values)
    }

    /// Some lines, their pixels averaged over spans.
    fn narrowed(&self, spans: &[[f64; 2]], first: usize, count: usize) -> Vec<[f32; 3]> {
        let width = self.grid.cols() * self.patch;
        let mut lines = Vec::with_capacity(count * spans.len());
        for line in self.colours.chunks_exact(width).skip(first).take(count) {
            lines.extend(spans.iter().map(|span| {
                shares(*span).fold([0.0; 3], |mean: [f32; 3], (pixel, share)| {
                    std::array::from_fn(|c| mean[c] + share * line[pixel][c])
                })
            }));
        }
        lines
    }
}

/// The pixels that a span covers, and the share of the span that each has.
fn shares([from, to]: [f64; 2]) -> impl Iterator<Item = (usize, f32)> {
    const CLOSE: f64 = 1e-9;
    let last = (to - CLOSE).floor().max(from.floor()) as usize;
    (from.floor() as usize..=last).map(move |pixel| {
        let covered = to.min(pixel as f64 + 1.0) - from.max(pixel as f64);
        (pixel, (covered / (to - from)) as f32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_means_of_areas_with_the_directions_of_their_pixels() {
        let (grid, patch) = (Grid::new(2, 3).expect("a grid"), 4);
        let lens = Intrinsics::with_field_of_view(grid, 1.0).expect("a lens");
        let colours: Vec<[f32; 3]> = (0..8 * 12)
            .map(|pixel| [(pixel % 12) as f32 / 12.0, (pixel / 12) as f32, 0.5])
            .collect();
        let frame = Frame::new(&colours, grid, patch, lens).expect("a frame");
        let window = Window { row: 1, col: 1, rows: 1, cols: 2 };
        let part = frame.pixels(&View::part(window).expect("a view")).expect("pixels");
        assert_eq!(part.len(), CHANNELS * 4 * 8);
        for (y, x) in [(0, 0), (3, 7), (2, 5)] {
            let at = y * 8 + x;
            let [right, below, _] =
                lens.direction([1.0 + (x as f64 + 0.5) / 4.0, 1.0 + (y as f64 + 0.5) / 4.0]);
            let expected = [
                (4 + x) as f32 / 6.0 - 1.0,
                2.0 * (4 + y) as f32 - 1.0,
                0.0,
                right as f32,
                below as f32,
            ];
            for (channel, expected) in expected.into_iter().enumerate() {
                assert!((part[channel * 32 + at] - expected).abs() < 1e-5, "{channel} {y} {x}");
            }
        }
        // Half and two thirds of the size: areas of 2 x 2 and 1.5 x 1.5 pixels, the same mean.
        for small in [Grid::new(1, 3).expect("a grid"), Grid::new(1, 2).expect("a grid")] {
            let whole = frame.pixels(&View::whole(grid, small)).expect("pixels");
            let area = small.patches() * patch * patch;
            let mean =
                |channel: usize| whole[channel * area..][..area].iter().sum::<f32>() / area as f32;
            assert!((mean(0) - (11.0 / 12.0 - 1.0)).abs() < 1e-5, "{}", mean(0));
            assert!((mean(1) - 6.0).abs() < 1e-5 && mean(3).abs() < 1e-5);
        }
        let beyond = Window { row: 1, col: 2, rows: 1, cols: 2 };
        assert!(frame.pixels(&View::part(beyond).expect("a view")).is_err());
        assert!(Frame::new(&colours[1..], grid, patch, lens).is_err());
    }
}
