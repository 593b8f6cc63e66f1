//! [`Candidates`]: the rows of an earlier frame that a search compares. A row is quantised when it
//! is first read.

use crate::{
    FeatureMap, Grid, Instructions, PatchSet,
    quantized::{Quantized, scale},
    simd::{SimdVector, integer_dot, prefetch_row, round, vectorised},
    warp::{Warp, WarpedQuantized},
};

/// Quantised rows to search among, made when they are first read.
pub(crate) struct Candidates<'a> {
    rows: &'a mut Quantized,
    origin: Origin<'a>,
}

/// The source of the rows.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// Features that are as they should be.
    Features(&'a FeatureMap),
    /// Features that are not computed yet.
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
            single => single,
        }
    }
}

impl<'a> Candidates<'a> {
    /// Rows of this source, made on demand.
    pub fn new(rows: &'a mut Quantized, origin: Origin<'a>) -> Self {
        Self { rows, origin }
    }

    /// Rows to search among, all present; they were made from `source`.
    pub fn among(warped: &'a mut WarpedQuantized, source: &'a FeatureMap) -> Self {
        let (rows, warp) = warped.rows_and_warp(source);
        Self::new(rows, Origin::Warp(warp))
    }

    /// The patches.
    #[inline(always)]
    pub fn grid(&self) -> Grid {
        self.rows.grid()
    }

    /// Ensures that the row of a patch exists.
    ///
    /// # Safety
    /// As [`SimdVector`].
    #[inline(always)]
    pub unsafe fn make<L: SimdVector>(&mut self, patch: usize) {
        if self.rows.has(patch) {
            return;
        }
        // SAFETY: the caller has the instructions of `L`.
        unsafe {
            match self.origin.of(patch) {
                Origin::Warp(warp) => warp.make::<L>(patch, self.rows),
                Origin::Features(features) | Origin::Mixed { features, .. } => {
                    self.rows.put::<L>(patch, features.row(patch), features.norms()[patch]);
                }
            }
        }
    }

    /// Prefetches the source of a patch's row.
    #[inline(always)]
    pub fn prefetch(&self, patch: usize) {
        if !self.rows.has(patch) {
            prefetch_row(match self.origin.of(patch) {
                Origin::Warp(warp) => warp.newest(patch),
                Origin::Features(features) | Origin::Mixed { features, .. } => features.row(patch),
            });
        }
    }

    /// Ensures that the rows of some patches exist.
    pub fn make_all(&mut self, instructions: Instructions, patches: &[usize]) {
        make(instructions, self, patches);
    }

    /// The rows.
    #[inline(always)]
    pub fn rows(&self) -> &Quantized {
        self.rows
    }

    /// Cosine similarities of features to those of their patches here, given patches, features and
    /// the length of these. The rows of the patches exist afterwards.
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
/// As [`SimdVector`].
#[inline(always)]
unsafe fn make_each<L: SimdVector>(candidates: &mut Candidates, patches: &[usize]) {
    // SAFETY: the caller has the instructions of `L`.
    patches.iter().for_each(|patch| unsafe { candidates.make::<L>(*patch) });
}

vectorised!(fn compare(candidates: &mut Candidates, others: &[(usize, &[f32], f32)], out: &mut [f32]) = compare_each);

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn compare_each<L: SimdVector>(
    candidates: &mut Candidates,
    others: &[(usize, &[f32], f32)],
    out: &mut [f32],
) {
    let mut rounded = vec![0; candidates.rows.stride()];
    for ((patch, features, norm), out) in others.iter().zip(out) {
        let (by, inverse) = scale(*norm);
        // SAFETY: the caller has the instructions of `L`.
        let product = unsafe {
            candidates.make::<L>(*patch);
            round::<L>(features, by, &mut rounded);
            integer_dot::<L>(&rounded, candidates.rows.row(*patch))
        };
        *out = product as f32 * (inverse * candidates.rows.inverse(*patch));
    }
}
