//! Finds the patches that moved (equation 1): those whose features differ from those that the
//! camera's motion alone would bring there.

use crate::{
    AriaError, FeatureMap, Instructions, PatchFlow, PatchSet, Warped, regions::components,
    warp::WarpedQuantized,
};

/// The paper's threshold on cosine similarity (figure 9).
pub const THRESHOLD: f32 = 0.9;

/// The widest Gaussian, in patches.
const MOST_SMOOTHING: f32 = 8.0;

/// Which patches are dynamic. The default is the paper's equation (1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Cosine similarity below which a patch is dynamic.
    pub threshold: f32,
    /// Standard deviation of a Gaussian over the similarities of the patches around, in patches;
    /// without (0) each patch is judged alone. A thing covers several patches, and noise differs
    /// from patch to patch.
    pub smoothing: f32,
    /// Patches that touch count only where one of them has a similarity below this. Beyond the paper:
    /// what differs a little everywhere is noise of warping. From the threshold on it asks nothing.
    pub region_below: f32,
}

impl Criterion {
    /// By the patches around, and only where one differs clearly: for features of small networks,
    /// where the paper's finds many regions in which nothing moved. Chosen on rendered scenes with the
    /// network in `datasets/aria`.
    pub const AROUND: Self = Self { threshold: 0.8, smoothing: 1.0, region_below: 0.72 };
}

impl Default for Criterion {
    fn default() -> Self {
        Self { threshold: THRESHOLD, smoothing: 0.0, region_below: 1.0 }
    }
}

/// The answer for one full frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Identified {
    /// Patches that meet the criterion and that the earlier frame showed: `P_Dyn`.
    pub dynamic: PatchSet,
    /// Patches that the earlier frame did not show. Nothing is known of their motion, so they seed
    /// no region.
    pub unseen: PatchSet,
    /// Cosine similarity of each patch; -1 for unseen ones.
    pub similarities: Vec<f32>,
}

/// Compares a full frame with the one before, warped into it.
///
/// # Errors
/// When shapes differ or the criterion is out of its range.
pub fn identify(
    instructions: Instructions,
    warped: &Warped,
    current: &FeatureMap,
    criterion: Criterion,
) -> Result<Identified, AriaError> {
    criterion.check()?;
    let mut similarities = Vec::new();
    warped.features.similarities(instructions, current, &mut similarities)?;
    Ok(criterion.apply(&warped.unseen, similarities))
}

/// Warps a full frame into the next, fills in the lengths of that one's features, and compares the
/// two: in one pass over the features.
pub(crate) fn warp_and_identify(
    instructions: Instructions,
    warped: &mut WarpedQuantized,
    earlier: &FeatureMap,
    flow: &PatchFlow,
    current: &mut FeatureMap,
    criterion: Criterion,
) -> Result<Identified, AriaError> {
    criterion.check()?;
    let mut similarities = Vec::new();
    warped.warp_compared(instructions, earlier, flow, current, &mut similarities)?;
    Ok(criterion.apply(&warped.unseen, similarities))
}

impl Criterion {
    fn check(self) -> Result<(), AriaError> {
        if !(-1.0..=1.0).contains(&self.threshold) {
            let what = "the threshold on cosine similarity";
            return Err(AriaError::setting(what, self.threshold, "between -1 and 1"));
        }
        if !(0.0..=MOST_SMOOTHING).contains(&self.smoothing) {
            let what = "the smoothing of similarities";
            return Err(AriaError::setting(what, self.smoothing, "0 to 8 patches"));
        }
        if !(-1.0..=1.0).contains(&self.region_below) {
            let what = "the similarity that a region must go below";
            return Err(AriaError::setting(what, self.region_below, "between -1 and 1"));
        }
        Ok(())
    }

    fn apply(self, unseen: &PatchSet, mut similarities: Vec<f32>) -> Identified {
        let judged = if self.smoothing > 0.0 {
            &smoothed(unseen, &similarities, self.smoothing)
        } else {
            &similarities
        };
        let mut dynamic = PatchSet::of(unseen.grid(), |patch| judged[patch] < self.threshold);
        dynamic.exclude(unseen);
        if self.region_below < self.threshold {
            let noise =
                |patches: &Vec<usize>| patches.iter().all(|at| judged[*at] >= self.region_below);
            for patches in components(&dynamic).into_iter().filter(noise) {
                patches.into_iter().for_each(|patch| dynamic.remove(patch));
            }
        }
        for patch in unseen.iter() {
            similarities[patch] = -1.0;
        }
        Identified { dynamic, unseen: unseen.clone(), similarities }
    }
}

/// Means of the similarities of the seen patches around each patch, weighted by a Gaussian; 0 where
/// none is seen.
fn smoothed(unseen: &PatchSet, similarities: &[f32], deviation: f32) -> Vec<f32> {
    let grid = unseen.grid();
    let reach = (3.0 * deviation).ceil() as usize;
    let weight = |distance: usize| (-0.5 * (distance as f32 / deviation).powi(2)).exp();
    let weights: Vec<f32> = (0..=reach).map(weight).collect();
    let seen = |patch: usize| if unseen.contains(patch) { 0.0 } else { 1.0 };
    let mut sums: Vec<[f32; 2]> =
        (0..grid.patches()).map(|patch| [seen(patch) * similarities[patch], seen(patch)]).collect();
    for (stride, extent) in [(grid.cols(), grid.rows()), (1, grid.cols())] {
        sums = along(stride, extent, &weights, &sums);
    }
    sums.iter().map(|[sum, weight]| if *weight > 0.0 { sum / weight } else { 0.0 }).collect()
}

/// Weighted sums over the patches at most so far away along an axis, on which neighbours are `stride`
/// apart and of which `extent` patches are in a row.
fn along(stride: usize, extent: usize, weights: &[f32], values: &[[f32; 2]]) -> Vec<[f32; 2]> {
    let reach = weights.len() - 1;
    let sum = |patch: usize| {
        let at = patch / stride % extent;
        let first = patch - at * stride;
        let (low, high) = (at.saturating_sub(reach), (at + reach).min(extent - 1));
        (low..=high).fold([0.0, 0.0], |[a, b], other| {
            let (weight, [x, y]) = (weights[other.abs_diff(at)], values[first + other * stride]);
            [a + weight * x, b + weight * y]
        })
    };
    (0..values.len()).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grid;

    #[test]
    fn patches_below_the_threshold_are_dynamic_and_unseen_ones_apart() {
        let grid = Grid::new(1, 4).expect("a grid");
        let best = Instructions::best();
        let map = |values: &[f32]| FeatureMap::from_values(best, grid, 2, values).expect("a map");
        let before = map(&[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        // Similarities 1, 0.8, 0.95...; zero features are similar to nothing.
        let now = map(&[2.0, 0.0, 0.8, 0.6, 0.95, 0.312_25, 1.0, 0.0]);
        let mut warped = Warped::new(grid, 2).expect("room");
        warped.warp(best, &before, &PatchFlow::still(grid)).expect("a warp");
        let found = identify(best, &warped, &now, Criterion::default()).expect("patches");
        assert_eq!(found.dynamic.iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(found.unseen.count(), 0);
        let shifted = PatchFlow::of(grid, |patch| Some([grid.centre(patch)[0] - 1.0, 0.5]));
        warped.warp(best, &before, &shifted).expect("a warp");
        let found = identify(best, &warped, &now, Criterion::default()).expect("patches");
        assert!(found.unseen.contains(0) && !found.dynamic.contains(0));
        assert_eq!(found.similarities[0], -1.0);
        for refused in [
            Criterion { threshold: f32::NAN, ..Criterion::default() },
            Criterion { smoothing: -0.1, ..Criterion::default() },
            Criterion { smoothing: f32::NAN, ..Criterion::default() },
            Criterion { region_below: f32::NAN, ..Criterion::default() },
        ] {
            assert!(identify(best, &warped, &now, refused).is_err());
        }
    }

    #[test]
    fn patches_that_touch_count_where_one_of_them_differs_clearly() {
        let grid = Grid::new(3, 8).expect("a grid");
        // Two groups of two patches, one of them with a patch below 0.5, and one patch alone.
        let similarities: Vec<f32> = (0..grid.patches())
            .map(|patch| match patch {
                0 => 0.4,
                1 | 4 | 5 => 0.7,
                23 => 0.45,
                _ => 1.0,
            })
            .collect();
        let found = |region_below| {
            let criterion = Criterion { threshold: 0.8, smoothing: 0.0, region_below };
            let found = criterion.apply(&PatchSet::new(grid), similarities.clone());
            found.dynamic.iter().collect::<Vec<_>>()
        };
        assert_eq!(found(0.5), [0, 1, 23]);
        assert_eq!(found(0.42), [0, 1]);
        assert_eq!([found(0.8), found(1.0)], [[0, 1, 4, 5, 23]; 2]);
    }

    #[test]
    fn smoothing_drops_single_patches_and_fills_single_holes() {
        let grid = Grid::new(12, 16).expect("a grid");
        let thing = |row: usize, col: usize| (3..8).contains(&row) && (4..9).contains(&col);
        let moved = |patch: usize| {
            let (row, col) = (patch / 16, patch % 16);
            (thing(row, col) && (row, col) != (5, 6)) || (row, col) == (9, 13)
        };
        let unseen = PatchSet::of(grid, |patch| patch % 16 == 15);
        let similarities: Vec<f32> = (0..grid.patches())
            .map(|patch| if unseen.contains(patch) || moved(patch) { 0.5 } else { 1.0 })
            .collect();
        let alone = Criterion::default().apply(&unseen, similarities.clone());
        assert!(alone.dynamic.iter().eq((0..grid.patches()).filter(|patch| moved(*patch))));
        let criterion = Criterion { threshold: 0.75, smoothing: 0.8, ..Criterion::default() };
        let around = criterion.apply(&unseen, similarities.clone());
        assert!(around.dynamic.contains(5 * 16 + 6) && !around.dynamic.contains(9 * 16 + 13));
        // What was not seen neither counts nor makes its neighbours dynamic.
        assert!((0..12).all(|row| !around.dynamic.contains(row * 16 + 14)));
        assert_eq!(around.similarities[15], -1.0);
        // The same along both axes, and as a plain sum over the neighbourhood.
        let plain = |patch: usize| {
            let (mut sum, mut total) = (0.0, 0.0);
            for other in (0..grid.patches()).filter(|other| !unseen.contains(*other)) {
                let (dy, dx) =
                    ((patch / 16).abs_diff(other / 16), (patch % 16).abs_diff(other % 16));
                if dy <= 3 && dx <= 3 {
                    let weight = (-0.5 * ((dy * dy + dx * dx) as f32) / 0.64).exp();
                    sum += weight * similarities[other];
                    total += weight;
                }
            }
            sum / total
        };
        let quick = smoothed(&unseen, &similarities, 0.8);
        assert!((0..grid.patches()).all(|patch| (quick[patch] - plain(patch)).abs() < 1e-5));
    }
}
