//! [`Whole`]: features as whole numbers of 16 bits, for searches: half as much to load as of f32,
//! and twice as many products at once. Every row has its own scale, as long as there is room for,
//! so that cosines err by some 1e-5.

use crate::{
    FeatureMap, Grid, Instructions, PatchSet,
    aligned::Aligned,
    lanes::{Lanes, WHOLE, prefetch_row, round, vectorised, whole_dot},
    warp::Warp,
};

/// The length of a row of whole numbers. Sums of products of two rows fit into 32 bits then, with
/// what rounding adds.
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

    /// Has the row of a patch made by what returns its length.
    #[inline(always)]
    pub fn fill(&mut self, patch: usize, make: impl FnOnce(&mut [i16]) -> f32) {
        self.inverses[patch] =
            inverse_of(make(&mut self.values[patch * self.stride..][..self.stride]));
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

/// Rows of whole numbers to search among, made when they are first asked for.
pub(crate) struct Candidates<'a> {
    whole: &'a mut Whole,
    origin: Origin<'a>,
}

/// What rows are made of.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// Features that are as they should be.
    Features(&'a FeatureMap),
    /// Features that are not there yet.
    Warp(Warp<'a>),
    /// The former, but for some patches.
    Mixed { features: &'a FeatureMap, without: &'a PatchSet, warp: Warp<'a> },
}

impl Origin<'_> {
    /// The same of one patch, which is never mixed.
    #[inline(always)]
    fn of(self, patch: usize) -> Self {
        match self {
            Self::Mixed { without, warp, .. } if without.contains(patch) => Self::Warp(warp),
            Self::Mixed { features, .. } => Self::Features(features),
            whole => whole,
        }
    }
}

impl<'a> Candidates<'a> {
    /// Rows of this origin, as far as they are not there.
    pub fn new(whole: &'a mut Whole, origin: Origin<'a>) -> Self {
        Self { whole, origin }
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
        if self.whole.there.contains(patch) {
            return;
        }
        // SAFETY: as for this function.
        unsafe {
            match self.origin.of(patch) {
                Origin::Warp(warp) => warp.make::<L>(patch, self.whole),
                Origin::Features(features) | Origin::Mixed { features, .. } => {
                    self.whole.put::<L>(patch, features.row(patch), features.norms()[patch])
                }
            }
        }
    }

    /// Has what the row of a patch is made of brought near.
    #[inline(always)]
    pub fn prefetch(&self, patch: usize) {
        if !self.whole.there.contains(patch) {
            prefetch_row(match self.origin.of(patch) {
                Origin::Warp(warp) => warp.newest(patch),
                Origin::Features(features) | Origin::Mixed { features, .. } => features.row(patch),
            });
        }
    }

    /// Sees to it that the rows of some patches are there.
    pub fn make_all(&mut self, instructions: Instructions, patches: &[usize]) {
        make(instructions, self, patches);
    }

    /// The rows.
    #[inline(always)]
    pub fn whole(&self) -> &Whole {
        self.whole
    }

    /// Cosine similarities of features to those of their patches here, given patches, features and
    /// the length of these. The rows of the patches are there afterwards.
    pub fn similarities(
        &mut self,
        instructions: Instructions,
        others: &[(usize, &[f32], f32)],
    ) -> Vec<f32> {
        let mut similarities = vec![0.0; others.len()];
        compare(instructions, self, others, &mut similarities);
        similarities
    }
}

vectorised!(fn make(candidates: &mut Candidates, patches: &[usize]) = make_each);

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn make_each<L: Lanes>(candidates: &mut Candidates, patches: &[usize]) {
    // SAFETY: as for this function.
    patches.iter().for_each(|patch| unsafe { candidates.make::<L>(*patch) });
}

vectorised!(fn compare(candidates: &mut Candidates, others: &[(usize, &[f32], f32)], out: &mut [f32]) = compare_each);

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn compare_each<L: Lanes>(
    candidates: &mut Candidates,
    others: &[(usize, &[f32], f32)],
    out: &mut [f32],
) {
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
/// As [`Lanes`].
#[inline(always)]
unsafe fn round_rows<L: Lanes>(rows: &[(&[f32], f32)], out: &mut [i16], stride: usize) {
    for ((row, norm), out) in rows.iter().zip(out.chunks_exact_mut(stride.max(1))) {
        // SAFETY: as for this function.
        unsafe { round::<L>(row, scale(*norm).0, out) };
    }
}
