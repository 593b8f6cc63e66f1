//! Finds the patches that moved (equation 1): those whose features differ from those that the
//! camera's motion alone would bring there.

use crate::{
    AriaError, FeatureMap, Instructions, PatchFlow, PatchSet, Warped, warp::WarpedQuantized,
};

/// The paper's threshold on cosine similarity (figure 9).
pub const THRESHOLD: f32 = 0.9;

/// The answer for one full frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Identified {
    /// Patches below the threshold that the earlier frame showed: `P_Dyn`.
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
/// When shapes differ or the threshold is not between -1 and 1.
pub fn identify(
    instructions: Instructions,
    warped: &Warped,
    current: &FeatureMap,
    threshold: f32,
) -> Result<Identified, AriaError> {
    check(threshold)?;
    let mut similarities = Vec::new();
    warped.features.similarities(instructions, current, &mut similarities)?;
    Ok(below_threshold(&warped.unseen, similarities, threshold))
}

/// Warps a full frame into the next, fills in the lengths of that one's features, and compares the
/// two: in one pass over the features.
pub(crate) fn warp_and_identify(
    instructions: Instructions,
    warped: &mut WarpedQuantized,
    earlier: &FeatureMap,
    flow: &PatchFlow,
    current: &mut FeatureMap,
    threshold: f32,
) -> Result<Identified, AriaError> {
    check(threshold)?;
    let mut similarities = Vec::new();
    warped.warp_compared(instructions, earlier, flow, current, &mut similarities)?;
    Ok(below_threshold(&warped.unseen, similarities, threshold))
}

fn check(threshold: f32) -> Result<(), AriaError> {
    let fits = (-1.0..=1.0).contains(&threshold);
    if fits {
        Ok(())
    } else {
        Err(AriaError::setting("the threshold on cosine similarity", threshold, "between -1 and 1"))
    }
}

fn below_threshold(unseen: &PatchSet, mut similarities: Vec<f32>, threshold: f32) -> Identified {
    for patch in unseen.iter() {
        similarities[patch] = -1.0;
    }
    let mut dynamic = PatchSet::of(unseen.grid(), |patch| similarities[patch] < threshold);
    dynamic.exclude(unseen);
    Identified { dynamic, unseen: unseen.clone(), similarities }
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
        let found = identify(best, &warped, &now, THRESHOLD).expect("patches");
        assert_eq!(found.dynamic.iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(found.unseen.count(), 0);
        let shifted = PatchFlow::of(grid, |patch| Some([grid.centre(patch)[0] - 1.0, 0.5]));
        warped.warp(best, &before, &shifted).expect("a warp");
        let found = identify(best, &warped, &now, THRESHOLD).expect("patches");
        assert!(found.unseen.contains(0) && !found.dynamic.contains(0));
        assert_eq!(found.similarities[0], -1.0);
        assert!(identify(best, &warped, &now, f32::NAN).is_err());
    }
}
