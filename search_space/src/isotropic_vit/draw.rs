//! Draws from an isotropic space: one member at random, one that differs from a given one in a
//! single respect, and one with parts of two.
//!
//! Pairs of image and patch sizes are uniform over those that divide; all other choices over their
//! values, heads over those that the channels allow.

use super::{Architecture, IsotropicVit};
use crate::Generator;
use crate::generator::one_of;

impl IsotropicVit {
    /// One member at random.
    pub(super) fn draw_any(&self, generator: &mut Generator) -> Architecture {
        let (image_size, patch_size) = one_of(&self.grids, generator);
        let channel = generator.below(self.channels.len() as u64) as usize;
        Architecture {
            image_size,
            input_channels: self.input_channels,
            classes: self.classes,
            patch_size,
            channels: self.channels[channel],
            heads: one_of(&self.heads[channel], generator),
            depth: one_of(&self.depths, generator),
            mlp_ratio: one_of(&self.mlp_ratios, generator),
            norm: one_of(&self.norms, generator),
            activation: one_of(&self.activations, generator),
            pooling: one_of(&self.poolings, generator),
        }
    }

    /// `parent` with one choice drawn again; patches may then not divide the image. New channels
    /// keep the number of heads where it still divides them.
    pub(super) fn changed(&self, parent: &Architecture, generator: &mut Generator) -> Architecture {
        let mut child = *parent;
        match generator.below(9) {
            0 => child.image_size = one_of(&self.sizes, generator),
            1 => child.patch_size = one_of(&self.patch_sizes, generator),
            2 => {
                let channel = generator.below(self.channels.len() as u64) as usize;
                child.channels = self.channels[channel];
                if !self.heads[channel].include(child.heads) {
                    child.heads = one_of(&self.heads[channel], generator);
                }
            }
            3 => {
                let channel = self.channels.position(parent.channels).unwrap_or(0);
                child.heads = one_of(&self.heads[channel], generator);
            }
            4 => child.depth = one_of(&self.depths, generator),
            5 => child.mlp_ratio = one_of(&self.mlp_ratios, generator),
            6 => child.norm = one_of(&self.norms, generator),
            7 => child.activation = one_of(&self.activations, generator),
            _ => child.pooling = one_of(&self.poolings, generator),
        }
        child
    }
}

impl Architecture {
    /// Each respect from either parent; image and patches together, channels and heads together.
    pub(super) fn crossed(&self, other: &Self, generator: &mut Generator) -> Self {
        let mut parent = || if generator.below(2) == 0 { self } else { other };
        let (grid, width) = (parent(), parent());
        Self {
            image_size: grid.image_size,
            patch_size: grid.patch_size,
            channels: width.channels,
            heads: width.heads,
            depth: parent().depth,
            mlp_ratio: parent().mlp_ratio,
            norm: parent().norm,
            activation: parent().activation,
            pooling: parent().pooling,
            ..*self
        }
    }
}
