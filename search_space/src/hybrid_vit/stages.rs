//! [`Stages`]: the stages of an architecture, stored inline, so that an architecture is `Copy`.

use super::{Stage, TokenMixer};
use crate::inline::{Inline, Item};
use crate::{Activation, Norm};

/// Most stages an architecture has.
pub const MAX_STAGES: usize = 8;

impl Item for Stage {
    const BLANK: Self = Self {
        channels: 0,
        depth: 0,
        token_mixer: TokenMixer::SepConv { kernel: 0, expansion: 0 },
        norm: Norm::BatchNorm,
        activation: Activation::Gelu,
        mlp_ratio: 0,
    };
    const PLURAL: &'static str = "stages";
}

/// Up to [`MAX_STAGES`] stages, held in place; reads and writes like a slice.
pub type Stages = Inline<Stage, MAX_STAGES>;
