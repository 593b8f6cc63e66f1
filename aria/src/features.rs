//! [`FeatureMap`]: the features that an encoder computes for each patch of a frame, in the
//! decoder's layout: patches row by row, the features of a patch side by side.

use crate::{
    AriaError, Grid, Instructions, Window,
    aligned::Aligned,
    simd::{SimdVector, dot, vectorised},
};

/// One vector of features per patch, f32, and the length of each.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureMap {
    grid: Grid,
    width: usize,
    values: Aligned<f32>,
    norms: Vec<f32>,
}

impl FeatureMap {
    /// Zeros: `width` features for each patch.
    ///
    /// # Errors
    /// When `width` is 0.
    pub fn new(grid: Grid, width: usize) -> Result<Self, AriaError> {
        if width == 0 || width > 1 << 16 {
            return Err(AriaError::setting("the number of features", width, "between 1 and 65536"));
        }
        Ok(Self {
            grid,
            width,
            values: Aligned::zeros(grid.patches() * width),
            norms: vec![0.0; grid.patches()],
        })
    }

    /// An encoder's output: class and register tokens left out.
    ///
    /// # Errors
    /// When the number of values is not patches times `width`, or one is not finite.
    pub fn from_values(
        instructions: Instructions,
        grid: Grid,
        width: usize,
        values: &[f32],
    ) -> Result<Self, AriaError> {
        let mut map = Self::new(grid, width)?;
        map.set(instructions, values)?;
        Ok(map)
    }

    /// Puts a new output of the encoder in the place of the old; no memory is allocated.
    ///
    /// # Errors
    /// As [`Self::from_values`]; the map is then as before but for a value that is not finite.
    pub fn set(&mut self, instructions: Instructions, values: &[f32]) -> Result<(), AriaError> {
        self.takes(values)?;
        take(instructions, values, self.width, &mut self.values, &mut self.norms);
        self.finite()
    }

    /// Takes an encoder's output and returns the previous buffers; the caller fills the lengths in.
    ///
    /// # Errors
    /// When the number of values is not patches times `width`. Then nothing has changed.
    pub(crate) fn exchange(&mut self, values: &mut Vec<f32>) -> Result<(), AriaError> {
        self.takes(values)?;
        let before = std::mem::replace(&mut self.values, std::mem::take(values).into());
        *values = before.into_vec();
        Ok(())
    }

    /// Whether there are as many values as this map holds.
    fn takes(&self, values: &[f32]) -> Result<(), AriaError> {
        let fits = values.len() == self.values.len();
        if fits {
            Ok(())
        } else {
            Err(AriaError::Values {
                given: values.len(),
                patches: self.grid.patches(),
                width: self.width,
            })
        }
    }

    /// Checks by the lengths that all of it is finite.
    pub(crate) fn finite(&self) -> Result<(), AriaError> {
        finite(&self.norms)
    }

    /// Replaces the features of one patch; both come from the same encoder.
    pub(crate) fn replace(&mut self, patch: usize, features: &[f32], norm: f32) {
        self.values[patch * self.width..][..self.width].copy_from_slice(features);
        self.norms[patch] = norm;
    }

    /// Features of windows that cover a grid, row by row; the last of those that overlap count.
    ///
    /// # Errors
    /// As [`Self::replace_window`]; without windows, as [`Self::new`].
    pub fn of_windows<'a>(
        grid: Grid,
        parts: impl IntoIterator<Item = (Window, &'a [f32])>,
    ) -> Result<Self, AriaError> {
        let mut parts = parts.into_iter().peekable();
        let width = match parts.peek() {
            Some((window, values)) => values.len() / Grid::new(window.rows, window.cols)?.patches(),
            None => 0,
        };
        let mut all = Self::new(grid, width)?;
        parts.try_for_each(|(window, values)| all.replace_window(window, values))?;
        Ok(all)
    }

    /// Replaces the features of a window by others, row by row.
    ///
    /// # Errors
    /// When the window does not lie in the grid, or there is not one row for each of its patches.
    pub fn replace_window(&mut self, window: Window, values: &[f32]) -> Result<(), AriaError> {
        if !self.grid.window().covers(window) {
            return Err(AriaError::Shapes {
                what: "a window and its features",
                left: format!("{window:?}"),
                right: self.grid.to_string(),
            });
        }
        let grid = Grid::new(window.rows, window.cols)?;
        let part = Self::from_values(Instructions::best(), grid, self.width, values)?;
        for (number, (row, col)) in window.places().enumerate() {
            self.replace(self.grid.index(row, col), part.row(number), part.norms()[number]);
        }
        Ok(())
    }

    /// The same features on other patches of the same field of view: between the centres of patches,
    /// bilinear.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn resampled(&self, grid: Grid) -> Result<Self, AriaError> {
        if grid == self.grid {
            return Ok(self.clone());
        }
        let mut values = Vec::with_capacity(grid.patches() * self.width);
        let across = between(grid.cols(), self.grid.cols());
        for (above, below, down) in between(grid.rows(), self.grid.rows()) {
            for (left, right, along) in &across {
                let row = |row, col| self.row(self.grid.index(row, col));
                let corners = [
                    (row(above, *left), (1.0 - down) * (1.0 - along)),
                    (row(above, *right), (1.0 - down) * along),
                    (row(below, *left), down * (1.0 - along)),
                    (row(below, *right), down * along),
                ];
                values.extend((0..self.width).map(|feature| {
                    corners.iter().map(|(row, share)| row[feature] * share).sum::<f32>()
                }));
            }
        }
        Self::from_values(Instructions::best(), grid, self.width, &values)
    }

    /// The patches.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Features per patch.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// All values, as the decoder takes them.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The features of a patch; none for one that the grid lacks.
    #[must_use]
    pub fn row(&self, patch: usize) -> &[f32] {
        self.values.get(patch * self.width..(patch + 1) * self.width).unwrap_or(&[])
    }

    /// Euclidean length of the features of each patch.
    #[must_use]
    pub fn norms(&self) -> &[f32] {
        &self.norms
    }

    /// Both at once, to be overwritten.
    pub(crate) fn parts_mut(&mut self) -> (&mut [f32], &mut [f32]) {
        (&mut self.values, &mut self.norms)
    }

    /// Cosine similarity of each patch with the same patch of another map, written into `out`; 0
    /// where one of the two is zero.
    ///
    /// # Errors
    /// When the maps differ in shape.
    pub fn similarities(
        &self,
        instructions: Instructions,
        other: &Self,
        out: &mut Vec<f32>,
    ) -> Result<(), AriaError> {
        self.same_shape(other)?;
        out.clear();
        out.resize(self.grid.patches(), 0.0);
        products(instructions, &self.values, &other.values, self.width, out);
        for (similarity, (a, b)) in out.iter_mut().zip(self.norms.iter().zip(&other.norms)) {
            *similarity = cosine(*similarity, *a, *b);
        }
        Ok(())
    }

    pub(crate) fn same_shape(&self, other: &Self) -> Result<(), AriaError> {
        if self.grid == other.grid && self.width == other.width {
            return Ok(());
        }
        let shape = |map: &Self| format!("{} of {} features", map.grid, map.width);
        Err(AriaError::Shapes {
            what: "two maps of features",
            left: shape(self),
            right: shape(other),
        })
    }
}

/// For each of `count` cells along a side the two of `of` cells that its centre lies between, and
/// how far it is on the way to the second.
pub(crate) fn between(count: usize, of: usize) -> Vec<(usize, usize, f32)> {
    let place = |cell: usize| {
        let at = (cell as f32 + 0.5) * of as f32 / count as f32 - 0.5;
        let at = at.clamp(0.0, (of - 1) as f32);
        (at as usize, (at as usize + 1).min(of - 1), at.fract())
    };
    (0..count).map(place).collect()
}

/// Features of a part of a frame, as a region encoder puts them out; the patches have the numbers
/// that they have in the frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    grid: Grid,
    window: Window,
    width: usize,
    values: &'a [f32],
    norms: &'a [f32],
}

impl<'a> Part<'a> {
    /// The rows of a window of the grid; `norms` is room for their lengths.
    ///
    /// # Errors
    /// As [`FeatureMap::from_values`].
    pub fn new(
        instructions: Instructions,
        grid: Grid,
        window: Window,
        width: usize,
        values: &'a [f32],
        norms: &'a mut Vec<f32>,
    ) -> Result<Self, AriaError> {
        if values.len() != window.patches() * width {
            return Err(AriaError::Values {
                given: values.len(),
                patches: window.patches(),
                width,
            });
        }
        norms.resize(window.patches(), 0.0);
        lengths(instructions, values, width, norms);
        finite(norms)?;
        Ok(Self { grid, window, width, values, norms })
    }

    /// Features and length of a patch of the window.
    pub fn row(&self, patch: usize) -> (&'a [f32], f32) {
        let (row, col) = self.grid.place(patch);
        let at = (row - self.window.row) * self.window.cols + col - self.window.col;
        (&self.values[at * self.width..][..self.width], self.norms[at])
    }
}

fn finite(norms: &[f32]) -> Result<(), AriaError> {
    norms
        .iter()
        .position(|norm| !norm.is_finite())
        .map_or(Ok(()), |patch| Err(AriaError::NotFinite { patch }))
}

/// Cosine from an inner product and two lengths; 0 if a length is.
#[inline(always)]
pub(crate) fn cosine(product: f32, a: f32, b: f32) -> f32 {
    let lengths = a * b;
    if lengths > 0.0 { product / lengths } else { 0.0 }
}

vectorised!(fn take(values: &[f32], width: usize, out: &mut [f32], norms: &mut [f32]) = take_rows);

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn take_rows<L: SimdVector>(
    values: &[f32],
    width: usize,
    out: &mut [f32],
    norms: &mut [f32],
) {
    for ((row, out), norm) in values.chunks_exact(width).zip(out.chunks_exact_mut(width)).zip(norms)
    {
        out.copy_from_slice(row);
        // SAFETY: the caller has the instructions of `L`.
        *norm = unsafe { dot::<L>(row, row) }.sqrt();
    }
}

vectorised!(fn lengths(values: &[f32], width: usize, norms: &mut [f32]) = lengths_of_rows);

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn lengths_of_rows<L: SimdVector>(values: &[f32], width: usize, norms: &mut [f32]) {
    for (row, norm) in values.chunks_exact(width).zip(norms) {
        // SAFETY: the caller has the instructions of `L`.
        *norm = unsafe { dot::<L>(row, row) }.sqrt();
    }
}

vectorised!(pub(crate) fn product(a: &[f32], b: &[f32]) -> f32 = dot);

vectorised!(fn products(a: &[f32], b: &[f32], width: usize, out: &mut [f32]) = products_of_rows);

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn products_of_rows<L: SimdVector>(a: &[f32], b: &[f32], width: usize, out: &mut [f32]) {
    for ((a, b), out) in a.chunks_exact(width).zip(b.chunks_exact(width)).zip(out) {
        // SAFETY: the caller has the instructions of `L`.
        *out = unsafe { dot::<L>(a, b) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TOLERANCE, random::Random};

    fn random(grid: Grid, width: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        (0..grid.patches() * width).map(|_| random.normal() as f32).collect()
    }

    #[test]
    fn all_instructions_give_the_definition_within_the_tolerance() {
        let grid = Grid::new(5, 7).expect("a grid");
        for width in [1, 7, 16, 33, 384, 1000] {
            let (a, b) = (random(grid, width, 1), random(grid, width, 2));
            for instructions in Instructions::available() {
                let map = |values| {
                    FeatureMap::from_values(instructions, grid, width, values).expect("a map")
                };
                let mut similarities = Vec::new();
                map(&a)
                    .similarities(instructions, &map(&b), &mut similarities)
                    .expect("similarities");
                for (patch, similarity) in similarities.iter().enumerate() {
                    let sum = |x: &[f32], y: &[f32]| -> f64 {
                        let rows =
                            x[patch * width..][..width].iter().zip(&y[patch * width..][..width]);
                        rows.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
                    };
                    let expected = sum(&a, &b) / (sum(&a, &a) * sum(&b, &b)).sqrt();
                    assert!(
                        (f64::from(*similarity) - expected).abs() < f64::from(TOLERANCE),
                        "{width} {}: {similarity} {expected}",
                        instructions.name()
                    );
                }
            }
        }
    }

    #[test]
    fn features_of_an_empty_window_are_refused() {
        let grid = Grid::new(2, 2).expect("a grid");
        let of = |window: Window, values: &[f32]| FeatureMap::of_windows(grid, [(window, values)]);
        let window = Window { rows: 0, ..grid.window() };
        assert!(matches!(of(window, &[]), Err(AriaError::Grid { rows: 0, cols: 2, .. })));
        assert!(of(grid.window(), &[1.0; 8]).is_ok());
        assert!(FeatureMap::of_windows(grid, []).is_err());
    }

    #[test]
    fn a_zero_is_similar_to_nothing_and_rubbish_is_refused() {
        let grid = Grid::new(1, 2).expect("a grid");
        let best = Instructions::best();
        let map = FeatureMap::from_values(best, grid, 2, &[0.0, 0.0, 3.0, 4.0]).expect("a map");
        let mut similarities = Vec::new();
        map.similarities(best, &map, &mut similarities).expect("similarities");
        assert_eq!(similarities, [0.0, 1.0]);
        assert_eq!(map.norms(), [0.0, 5.0]);
        assert_eq!(
            FeatureMap::from_values(best, grid, 2, &[0.0, f32::NAN, 1.0, 1.0]),
            Err(AriaError::NotFinite { patch: 0 })
        );
        assert!(matches!(
            FeatureMap::from_values(best, grid, 2, &[0.0]),
            Err(AriaError::Values { given: 1, .. })
        ));
        let other = FeatureMap::new(grid, 3).expect("a map");
        assert!(map.similarities(best, &other, &mut similarities).is_err());
    }
}
