//! [`Merged`]: the latest full frame, warped to the current one, with later updates on top of it.
//! The features below an update are kept as integers, because later updates of the frame are
//! compared with the full frame alone.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, PatchFlow, PatchSet, Warped,
    candidates::{Candidates, Origin},
    quantized::Quantized,
    warp::{Covered, Warp},
};

/// The decoder's input, and the features below updates.
#[derive(Clone, Debug)]
pub(crate) struct Merged {
    warped: Warped,
    /// Patches that the full frame was not warped into, as something is on top of them.
    covered: PatchSet,
    /// The parts of the full frame that updates cover, and the rows that searches have used.
    below: Quantized,
}

impl Merged {
    /// Room for features of a shape.
    pub fn new(grid: Grid, width: usize) -> Result<Self, AriaError> {
        Ok(Self {
            warped: Warped::new(grid, width)?,
            covered: PatchSet::new(grid),
            below: Quantized::new(grid, width),
        })
    }

    /// Computes where a flow moves a full frame, and which patches it does not show, for
    /// [`Self::warp`].
    ///
    /// # Errors
    /// When shapes differ.
    pub fn aim(
        &mut self,
        instructions: Instructions,
        source: &FeatureMap,
        flow: &PatchFlow,
    ) -> Result<(), AriaError> {
        self.warped.aim(instructions, source, flow)
    }

    /// A full frame as it was aimed. Something must be put on top of the patches in `covered`: they
    /// hold nothing. What lies below those that are in `near`, too, will soon be asked for.
    pub fn warp(
        &mut self,
        instructions: Instructions,
        source: &FeatureMap,
        covered: PatchSet,
        near: &PatchSet,
    ) {
        self.below.clear();
        self.covered = covered;
        let covered = Covered { patches: &self.covered, made: near, rows: &mut self.below };
        self.warped.blend(instructions, source, Some(covered));
    }

    /// Puts features on top of a patch that was covered, or that was compared with something.
    pub fn put(&mut self, patch: usize, features: &[f32], norm: f32) {
        self.warped.features.replace(patch, features, norm);
    }

    /// With updates on top.
    pub fn features(&self) -> &FeatureMap {
        &self.warped.features
    }

    /// Patches that the full frame did not show.
    pub fn unseen(&self) -> &PatchSet {
        &self.warped.unseen
    }

    /// Without updates, for comparisons and searches; `source` is the full frame that was aimed.
    pub fn full_frame<'a>(&'a mut self, source: &'a FeatureMap) -> Candidates<'a> {
        let warp = Warp { source, samples: self.warped.samples() };
        Candidates::new(
            &mut self.below,
            Origin::Mixed { features: &self.warped.features, without: &self.covered, warp },
        )
    }

    /// Saves the features below all updates, before the full frame is replaced.
    pub fn settle(&mut self, instructions: Instructions, source: &FeatureMap) {
        let covered: Vec<usize> = self.covered.iter().collect();
        self.full_frame(source).make_all(instructions, &covered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_can_still_be_looked_at() {
        let (grid, best) = (Grid::new(2, 3).expect("a grid"), Instructions::best());
        let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let map = FeatureMap::from_values(best, grid, 2, &values).expect("a map");
        let mut merged = Merged::new(grid, 2).expect("room");
        let gone = FeatureMap::new(grid, 2).expect("a map");
        for (near, settled) in [(0, false), (4, false), (0, true)] {
            merged.aim(best, &map, &PatchFlow::still(grid)).expect("a flow");
            merged.warp(
                best,
                &map,
                PatchSet::of(grid, |patch| patch == 4),
                &PatchSet::of(grid, |patch| patch == near),
            );
            if settled {
                merged.settle(best, &map);
            }
            let full_frame = if settled { &gone } else { &map };
            merged.put(4, &[30.0, 40.0], 50.0);
            let on_top = [(1, &[6.0, 8.0][..], 10.0), (4, &[3.0, 4.0], 5.0)];
            for (similarity, expected) in merged
                .full_frame(full_frame)
                .similarities(best, &on_top)
                .iter()
                .zip([(12.0 + 24.0) / 10.0, (24.0 + 36.0) / 5.0])
            {
                assert!(
                    (similarity
                        - expected
                            / if expected > 10.0 { 8f32.hypot(9.0) } else { 2f32.hypot(3.0) })
                    .abs()
                        < 1e-4
                );
            }
            on_top.iter().for_each(|(patch, features, norm)| merged.put(*patch, features, *norm));
            assert_eq!(
                (merged.features().row(4), merged.features().norms()[4], merged.features().row(1)),
                (&[3.0, 4.0][..], 5.0, &[6.0, 8.0][..])
            );
            let rows: Vec<_> =
                (0..6).map(|patch| (patch, map.row(patch), map.norms()[patch])).collect();
            assert!(
                merged
                    .full_frame(full_frame)
                    .similarities(best, &rows)
                    .iter()
                    .all(|similarity| (similarity - 1.0).abs() < 1e-4)
            );
        }
    }
}
