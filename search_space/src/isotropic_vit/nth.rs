//! The member of an isotropic space with a given number.

use super::Architecture;
use super::definition::IsotropicVit;
use crate::rank::Rank;

impl IsotropicVit {
    /// The member with this number, below the size of the space.
    pub(super) fn nth_member(&self, mut rank: Rank) -> Option<Architecture> {
        let pooling = rank.one_of(&self.poolings);
        let activation = rank.one_of(&self.activations);
        let norm = rank.one_of(&self.norms);
        let mlp_ratio = rank.one_of(&self.mlp_ratios);
        let depth = rank.one_of(&self.depths);
        let widths: usize = self.heads.iter().map(|heads| heads.len()).sum();
        let mut within = Rank(rank.digit(widths as u128));
        let channel = within.group(self.heads.iter().map(|heads| heads.len() as u128))?;
        let (image_size, patch_size) = rank.one_of(&self.grids);
        Some(Architecture {
            image_size,
            input_channels: self.input_channels,
            classes: self.classes,
            patch_size,
            channels: self.channels[channel],
            heads: within.one_of(&self.heads[channel]),
            depth,
            mlp_ratio,
            norm,
            activation,
            pooling,
        })
    }
}
