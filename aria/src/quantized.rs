//! [`Quantized`]: features as 16-bit integers, for searches: half as much to load as of f32, and
//! twice as many products at once. Every row has its own scale, the largest whose sums of products
//! fit into 32 bits: the error of cosines is about 1e-5.

use crate::{
    Grid, Instructions, PatchSet,
    aligned::Aligned,
    simd::{ROW_MULTIPLE, SimdVector, round, vectorised},
};

/// The length of a row of integers. Sums of products of two rows fit into 32 bits then, with
/// what rounding adds.
pub(crate) const LONGEST: f32 = 32_000.0;

/// One row of integers per patch; some may not be there yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantized {
    stride: usize,
    values: Aligned<i16>,
    /// One over the length of each row; 0 of none, which is similar to nothing.
    inverses: Vec<f32>,
    there: PatchSet,
}

impl Quantized {
    /// A buffer without rows.
    pub fn new(grid: Grid, width: usize) -> Self {
        let stride = stride(width);
        Self {
            stride,
            values: Aligned::zeros(grid.patches() * stride),
            inverses: vec![0.0; grid.patches()],
            there: PatchSet::new(grid),
        }
    }

    /// The patches.
    #[inline(always)]
    pub fn grid(&self) -> Grid {
        self.there.grid()
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.there.clear();
    }

    /// Whether the row of a patch exists.
    #[inline(always)]
    pub fn has(&self, patch: usize) -> bool {
        self.there.contains(patch)
    }

    /// Numbers in a row, zeros at its end included.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// All rows and the reciprocals of their lengths, to be overwritten; they count as present
    /// afterwards.
    pub fn parts_mut(&mut self) -> (&mut [i16], &mut [f32]) {
        self.there.fill();
        (&mut self.values, &mut self.inverses)
    }

    /// Makes the row of a patch from features and their length.
    ///
    /// # Safety
    /// As [`SimdVector`].
    #[inline(always)]
    pub unsafe fn put<L: SimdVector>(&mut self, patch: usize, features: &[f32], norm: f32) {
        let (by, inverse) = scale(norm);
        // SAFETY: the caller has the instructions of `L`.
        unsafe { round::<L>(features, by, &mut self.values[patch * self.stride..][..self.stride]) };
        self.inverses[patch] = inverse;
        self.there.insert(patch);
    }

    /// Has the row of a patch made by what returns its length.
    #[inline(always)]
    pub fn fill(&mut self, patch: usize, make: impl FnOnce(&mut [i16]) -> f32) {
        self.inverses[patch] =
            inverse_of(make(&mut self.values[patch * self.stride..][..self.stride]));
        self.there.insert(patch);
    }

    /// The row of a patch, which must exist.
    #[inline(always)]
    pub fn row(&self, patch: usize) -> &[i16] {
        &self.values[patch * self.stride..][..self.stride]
    }

    /// One over its length.
    #[inline(always)]
    pub fn inverse(&self, patch: usize) -> f32 {
        self.inverses[patch]
    }
}

/// Numbers of a row of so many features.
fn stride(width: usize) -> usize {
    width.next_multiple_of(ROW_MULTIPLE)
}

/// What features of a length are multiplied with, and one over the length that results: both 0 for
/// none.
#[inline(always)]
pub(crate) fn scale(norm: f32) -> (f32, f32) {
    if norm > 0.0 { (LONGEST / norm, 1.0 / LONGEST) } else { (0.0, 0.0) }
}

/// One over a length; 0 of none.
#[inline(always)]
pub(crate) fn inverse_of(length: f32) -> f32 {
    if length > 0.0 { 1.0 / length } else { 0.0 }
}

/// Some rows of features as integers, one after the other, and one over the length of each.
pub(crate) struct Selection {
    stride: usize,
    values: Vec<i16>,
    inverses: Vec<f32>,
}

impl Selection {
    /// From features of one width and their lengths.
    pub fn of(instructions: Instructions, rows: &[(&[f32], f32)]) -> Self {
        let stride = rows.first().map_or(0, |(row, _)| stride(row.len()));
        let (mut values, scales) =
            (vec![0; rows.len() * stride], rows.iter().map(|(_, norm)| scale(*norm)));
        round_all(instructions, rows, &mut values, stride);
        Self { stride, values, inverses: scales.map(|(_, inverse)| inverse).collect() }
    }

    /// The rows and one over their lengths.
    pub fn iter(&self) -> impl Iterator<Item = (&[i16], f32)> {
        self.values.chunks_exact(self.stride.max(1)).zip(self.inverses.iter().copied())
    }
}

vectorised!(fn round_all(rows: &[(&[f32], f32)], out: &mut [i16], stride: usize) = round_rows);

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn round_rows<L: SimdVector>(rows: &[(&[f32], f32)], out: &mut [i16], stride: usize) {
    for ((row, norm), out) in rows.iter().zip(out.chunks_exact_mut(stride.max(1))) {
        // SAFETY: the caller has the instructions of `L`.
        unsafe { round::<L>(row, scale(*norm).0, out) };
    }
}
