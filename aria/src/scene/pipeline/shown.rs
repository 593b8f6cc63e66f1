//! [`Shown`]: what was shown, and how far it is from the truth; [`Found`]: regions against what moved.

use super::{Detection, Score, Truth};
use crate::{PatchSet, group};

/// Regions found from features against what moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Patches of regions.
    pub patches: Detection,
    /// Regions, and those of them in which no patch moved.
    pub regions: usize,
    /// See `regions`.
    pub false_regions: usize,
    /// Groups of patches that moved, and those of them that no region touches.
    pub moved: usize,
    /// See `moved`.
    pub missed: usize,
}

impl Found {
    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        self.patches.add(&other.patches);
        self.regions += other.regions;
        self.false_regions += other.false_regions;
        self.moved += other.moved;
        self.missed += other.missed;
    }

    pub(super) fn count(&mut self, regions: &[PatchSet], truth: &Truth) {
        let mut all = PatchSet::new(truth.known.grid());
        for region in regions {
            all.extend(region);
            let known = PatchSet::of(region.grid(), |patch| {
                region.contains(patch) && truth.known.contains(patch)
            });
            self.regions += usize::from(known.count() > 0);
            self.false_regions +=
                usize::from(known.count() > 0 && known.shared(&truth.moving) == 0);
        }
        self.patches.count(&all, truth);
        for moved in group(&truth.moving, 2) {
            self.moved += 1;
            let touched = moved.dynamic.iter().any(|patch| all.contains(*patch));
            self.missed += usize::from(!touched);
        }
    }
}

/// What was shown of some footage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shown {
    /// Error against the truth, where it is known.
    pub score: Score,
    /// Difference from what the network shows of every frame whole at the highest resolution.
    pub against_reference: Score,
    /// Regions of full frames, where features find them.
    pub found: Found,
    /// Frames.
    pub frames: u64,
    /// Sum of the ages of full frames, in camera frames.
    pub full_ages: u64,
    /// Frames of [`whole_beyond`](super::Choices::whole_beyond).
    pub whole: u64,
    /// Cycles, and regions that asked for one.
    pub cycles: u64,
    /// See `cycles`.
    pub asked: u64,
}

impl Shown {
    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        self.score.add(&other.score);
        self.against_reference.add(&other.against_reference);
        self.found.add(&other.found);
        self.frames += other.frames;
        self.full_ages += other.full_ages;
        self.whole += other.whole;
        self.cycles += other.cycles;
        self.asked += other.asked;
    }
}
