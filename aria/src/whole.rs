//! [`Whole`]: features as whole numbers of 16 bits, for searches: half as much to load as of f32, and twice as many products at once. Every row has its own scale, as
//! long as there is room for, so that cosines err by some 1e-5.

use crate::{
    FeatureMap, Grid, Instructions, PatchSet,
    aligned::Aligned,
    lanes::{Lanes, WHOLE, prefetch_row, round, vectorised, whole_dot},
};

/// The length of a row of whole numbers. Sums of products of two rows fit into 32 bits then, with what rounding adds.
pub(crate) const LONGEST: f32 = 32_000.0;

/// One row of whole numbers per patch; some may not be there yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Whole {
    stride: usize,
    values: Aligned<i16>,
    /// One over the length of each row; 0 of none, which is similar to nothing.
    inverses: Vec<f32>,
    there: PatchSet,
}

impl Whole {
    /// Room; no row is there.
    pub fn new(grid: Grid, width: usize) -> Self {
        let stride = stride(width);
        Self { stride, values: Aligned::zeros(grid.patches() * stride), inverses: vec![0.0; grid.patches()], there: PatchSet::new(grid) }
    }

    /// The patches.
    #[inline(always)]
    pub fn grid(&self) -> Grid {
        self.there.grid()
    }

    /// No row is there any more.
    pub fn clear(&mut self) {
        self.there.clear();
    }

    /// Numbers in a row, zeros at its end included.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// All rows and one over their lengths, to be overwritten: they are there from now on.
    pub fn parts_mut(&mut self) -> (&mut [i16], &mut [f32]) {
        self.there.fill();
        (&mut self.values, &mut self.inverses)
    }

    /// Makes the row of a patch from features and their length.
    ///
    /// # Safety
    /// As [`Lanes`].
    #[inline(always)]
    pub unsafe fn put<L: Lanes>(&mut self, patch: usize, features: &[f32], norm: f32) {
        let (by, inverse) = scale(norm);
        // SAFETY: as for this function.
        unsafe { round::<L>(features, by, &mut self.values[patch * self.stride..][..self.stride]) };
        self.inverses[patch] = inverse;
        self.there.insert(patch);
    }

    /// The row of a patch that is there.
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
    width.next_multiple_of(WHOLE)
}

/// What features of a length are multiplied with, and one over the length that results: both 0 for none.
#[inline(always)]
pub(crate) fn scale(norm: f32) -> (f32, f32) {
    if norm > 0.0 { (LONGEST / norm, 1.0 / LONGEST) } else { (0.0, 0.0) }
}

/// Rows of whole numbers to search among, made from features when they are first asked for.
pub(crate) struct Candidates<'a> {
    whole: &'a mut Whole,
    features: Option<&'a FeatureMap>,
}

impl<'a> Candidates<'a> {
    /// Rows that are all there.
    pub fn of(whole: &'a mut Whole) -> Self {
        Self { whole, features: None }
    }

    /// Rows of these features, as far as they are not there.
    pub fn from_features(whole: &'a mut Whole, features: &'a FeatureMap) -> Self {
        Self { whole, features: Some(features) }
    }

    /// The patches.
    #[inline(always)]
    pub fn grid(&self) -> Grid {
        self.whole.grid()
    }

    /// Sees to it that the row of a patch is there.
    ///
    /// # Safety
    /// As [`Lanes`].
    #[inline(always)]
    pub unsafe fn make<L: Lanes>(&mut self, patch: usize) {
        if let Some(features) = self.features.filter(|_| !self.whole.there.contains(patch)) {
            // SAFETY: as for this function.
            unsafe { self.whole.put::<L>(patch, features.row(patch), features.norms()[patch]) };
        }
    }

    /// Has what the row of a patch is made of brought near.
    #[inline(always)]
    pub fn prefetch(&self, patch: usize) {
        if let Some(features) = self.features.filter(|_| !self.whole.there.contains(patch)) {
            prefetch_row(features.row(patch));
        }
    }

    /// The rows.
    #[inline(always)]
    pub fn whole(&self) -> &Whole {
        self.whole
    }

    /// Cosine similarities of features to those of their patches here, given patches, features and the length of these. The rows of the patches are there afterwards.
    pub fn similarities(&mut self, instructions: Instructions, others: &[(usize, &[f32], f32)]) -> Vec<f32> {
        let mut similarities = vec![0.0; others.len()];
        compare(instructions, self, others, &mut similarities);
        similarities
    }
}

vectorised!(fn compare(candidates: &mut Candidates, others: &[(usize, &[f32], f32)], out: &mut [f32]) = compare_each);

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn compare_each<L: Lanes>(candidates: &mut Candidates, others: &[(usize, &[f32], f32)], out: &mut [f32]) {
    let mut rounded = vec![0; candidates.whole.stride];
    for ((patch, features, norm), out) in others.iter().zip(out) {
        let (by, inverse) = scale(*norm);
        // SAFETY: as for this function.
        let product = unsafe {
            candidates.make::<L>(*patch);
            round::<L>(features, by, &mut rounded);
            whole_dot::<L>(&rounded, candidates.whole.row(*patch))
        };
        *out = product as f32 * (inverse * candidates.whole.inverse(*patch));
    }
}

/// Some rows of features as whole numbers, one after the other, and one over the length of each.
pub(crate) struct Selection {
    stride: usize,
    values: Vec<i16>,
    inverses: Vec<f32>,
}

impl Selection {
    /// From features of one width and their lengths.
    pub fn of(instructions: Instructions, rows: &[(&[f32], f32)]) -> Self {
        let stride = rows.first().map_or(0, |(row, _)| stride(row.len()));
        let (mut values, scales) = (vec![0; rows.len() * stride], rows.iter().map(|(_, norm)| scale(*norm)));
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
/// As [`Lanes`].
#[inline(always)]
unsafe fn round_rows<L: Lanes>(rows: &[(&[f32], f32)], out: &mut [i16], stride: usize) {
    for ((row, norm), out) in rows.iter().zip(out.chunks_exact_mut(stride.max(1))) {
        // SAFETY: as for this function.
        unsafe { round::<L>(row, scale(*norm).0, out) };
    }
}
