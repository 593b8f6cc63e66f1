//! The member of a space of inverted residuals with a given number.

use super::definition::{MbConv, StageRange};
use super::{Architecture, Block, Blocks, Stage, Stages};
use crate::rank::Rank;

impl MbConv {
    /// The member with this number, below the size of the space.
    pub(super) fn nth_member(&self, mut rank: Rank) -> Option<Architecture> {
        let mut chosen = Vec::with_capacity(self.stages.len());
        for range in self.stages.iter().rev() {
            chosen.push(range.nth(&mut rank)?);
        }
        let mut stages = Stages::new();
        for stage in chosen.into_iter().rev() {
            stages.push(stage);
        }
        Some(Architecture {
            activation: rank.one_of(&self.activations),
            stem: rank.one_of(&self.stems),
            image_size: rank.one_of(&self.sizes),
            input_channels: self.input_channels,
            classes: self.classes,
            head: self.head,
            stages,
        })
    }
}

impl StageRange {
    fn nth(&self, rank: &mut Rank) -> Option<Stage> {
        let mut blocks = Blocks::new();
        let of_depth: Vec<u128> =
            self.depths.iter().map(|depth| self.block_lists(*depth)).collect();
        let mut within = Rank(rank.digit(of_depth.iter().sum()));
        let depth = self.depths[within.group(of_depth)?];
        for _ in 0..depth {
            let squeeze = within.one_of(&self.squeezes);
            let expansion = within.one_of(&self.expansions);
            blocks.push(Block::new(within.one_of(&self.kernels), expansion, squeeze)?);
        }
        Some(Stage {
            activation: rank.one_of(&self.activations),
            channels: rank.one_of(&self.channels),
            stride: self.stride,
            blocks,
        })
    }
}
