//! [`Merged`]: the latest full frame warped to the current one and, on top of it, what was updated since. What an update hides is kept aside, because later updates
//! of the frame are compared with the full frame alone.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, PatchFlow, Warped,
    whole::{Candidates, Whole},
};

/// What goes to the decoder, and what it hides.
#[derive(Clone, Debug)]
pub(crate) struct Merged {
    warped: Warped,
    hidden: Hidden,
    /// Of the full frame, what was searched among so far.
    whole: Whole,
}

/// Rows that something else was put in the place of.
#[derive(Clone, Debug)]
struct Hidden {
    /// By patch: which row it is of those kept here, or [`NONE`].
    slots: Vec<u32>,
    values: Vec<f32>,
    norms: Vec<f32>,
}

/// A patch that shows the full frame.
const NONE: u32 = u32::MAX;

impl Merged {
    /// Room for features of a shape.
    pub fn new(grid: Grid, width: usize) -> Result<Self, AriaError> {
        let hidden = Hidden { slots: vec![NONE; grid.patches()], values: Vec::new(), norms: Vec::new() };
        Ok(Self { warped: Warped::new(grid, width)?, hidden, whole: Whole::new(grid, width) })
    }

    /// A full frame along a flow; nothing is on top of it.
    pub fn warp(&mut self, instructions: Instructions, source: &FeatureMap, flow: &PatchFlow) -> Result<(), AriaError> {
        self.hidden.slots.fill(NONE);
        self.hidden.values.clear();
        self.hidden.norms.clear();
        self.whole.clear();
        self.warped.warp(instructions, source, flow)
    }

    /// Puts features on top of a patch.
    pub fn replace(&mut self, patch: usize, features: &[f32], norm: f32) {
        let Hidden { slots, values, norms } = &mut self.hidden;
        if let Some(slot) = slots.get_mut(patch).filter(|slot| **slot == NONE) {
            *slot = norms.len() as u32;
            values.extend_from_slice(self.warped.features.row(patch));
            norms.push(self.warped.features.norms()[patch]);
        }
        self.warped.features.replace(patch, features, norm);
    }

    /// With what is on top.
    pub fn features(&self) -> &FeatureMap {
        &self.warped.features
    }

    /// What the full frame did not show.
    pub fn unseen(&self) -> &crate::PatchSet {
        &self.warped.unseen
    }

    /// Without what is on top.
    pub fn full_frame(&self) -> Rows<'_> {
        Rows { map: &self.warped.features, hidden: Some(&self.hidden) }
    }

    /// The same, to search among.
    pub fn candidates(&mut self) -> Candidates<'_> {
        let Self { warped, hidden, whole } = self;
        Candidates::from_features(whole, Rows { map: &warped.features, hidden: Some(hidden) })
    }
}

/// Features of patches, some of which may lie aside.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    map: &'a FeatureMap,
    hidden: Option<&'a Hidden>,
}

impl<'a> Rows<'a> {
    /// Those of a map.
    pub fn of(map: &'a FeatureMap) -> Self {
        Self { map, hidden: None }
    }

    /// Which row of those aside a patch has, if any.
    #[inline(always)]
    fn aside(self, patch: usize) -> Option<(&'a Hidden, usize)> {
        let hidden = self.hidden?;
        hidden.slots.get(patch).filter(|slot| **slot != NONE).map(|slot| (hidden, *slot as usize))
    }

    /// The features of a patch.
    #[inline(always)]
    pub fn row(self, patch: usize) -> &'a [f32] {
        let width = self.map.width();
        match self.aside(patch) {
            Some((hidden, slot)) => &hidden.values[slot * width..][..width],
            None => self.map.row(patch),
        }
    }

    /// Their length.
    #[inline(always)]
    pub fn norm(self, patch: usize) -> f32 {
        self.aside(patch).map_or_else(|| self.map.norms()[patch], |(hidden, slot)| hidden.norms[slot])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_can_still_be_looked_at() {
        let grid = Grid::new(2, 3).expect("a grid");
        let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let map = FeatureMap::from_values(Instructions::best(), grid, 2, &values).expect("a map");
        let mut merged = Merged::new(grid, 2).expect("room");
        for _ in 0..2 {
            merged.warp(Instructions::best(), &map, &PatchFlow::still(grid)).expect("a warp");
            merged.replace(4, &[30.0, 40.0], 50.0);
            merged.replace(1, &[6.0, 8.0], 10.0);
            merged.replace(4, &[3.0, 4.0], 5.0);
            assert_eq!((merged.features().row(4), merged.features().norms()[4], merged.features().row(1)), (&[3.0, 4.0][..], 5.0, &[6.0, 8.0][..]));
            let full = merged.full_frame();
            for patch in 0..6 {
                assert_eq!((full.row(patch), full.norm(patch)), (map.row(patch), map.norms()[patch]), "{patch}");
            }
        }
    }
}
