//! [`Architecture`]: one convolutional network of inverted residuals, as a small value without
//! allocations.

use super::{Blocks, MAX_BLOCKS};
use crate::SpaceError;
use crate::inline::{Inline, Item};
use serde::{Deserialize, Serialize};

/// Most stages an architecture has.
pub const MAX_STAGES: usize = 7;

/// One network of inverted residuals. [`Architecture::encode`] writes it as compact text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Height and width of the input image, pixels.
    pub image_size: u16,
    /// Channels of the input image.
    pub input_channels: u16,
    /// Outputs of the classification head.
    pub classes: u32,
    /// Channels of the first convolution, which halves height and width.
    pub stem: u16,
    /// Channels of the last convolution, before the mean over the image.
    pub head: u16,
    /// Activation of the first and of the last convolution.
    pub activation: Activation,
    /// First to last.
    pub stages: Stages,
}

/// Blocks with the same output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Channels that every block writes.
    pub channels: u16,
    /// By how much the first block divides height and width: 1 or 2.
    pub stride: u8,
    /// Activation inside of the blocks.
    pub activation: Activation,
    /// First to last.
    pub blocks: Blocks,
}

/// The stages of an architecture.
pub type Stages = Inline<Stage, MAX_STAGES>;

/// Kind of activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Rectified linear unit.
    Relu,
    /// The same, at most 6.
    Relu6,
    /// x times a hard sigmoid.
    HardSwish,
    /// x times a sigmoid.
    Silu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Relu, Self::Relu6, Self::HardSwish, Self::Silu];

    /// Its name in TOML.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Relu6 => "relu6",
            Self::HardSwish => "hard_swish",
            Self::Silu => "silu",
        }
    }
}

impl Item for Stage {
    const BLANK: Self =
        Self { channels: 0, stride: 0, activation: Activation::Relu, blocks: Blocks::new() };
    const PLURAL: &'static str = "stages";
}

/// One block in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Channels that it reads.
    pub channels_in: u16,
    /// Height and width of what it reads.
    pub size_in: u16,
    /// Channels that it writes.
    pub channels: u16,
    /// Height and width of what it writes.
    pub size: u16,
    /// By how much it divides height and width.
    pub stride: u8,
    /// Its activation.
    pub activation: Activation,
    /// Its other choices.
    pub block: super::Block,
}

impl Placed {
    /// Whether what it reads is added to what it writes.
    #[must_use]
    pub fn is_residual(&self) -> bool {
        self.stride == 1 && self.channels_in == self.channels
    }
}

impl Architecture {
    /// Height and width behind the first convolution.
    #[must_use]
    pub fn stem_size(&self) -> u16 {
        self.image_size.div_ceil(2)
    }

    /// Every block of every stage, with the number of its stage.
    pub fn placed(&self) -> impl Iterator<Item = (usize, Placed)> + '_ {
        let (mut channels_in, mut size_in) = (self.stem, self.stem_size());
        self.stages
            .iter()
            .enumerate()
            .flat_map(|(number, stage)| {
                stage.blocks.iter().enumerate().map(move |block| (number, stage, block))
            })
            .map(move |(number, stage, (position, block))| {
                let stride = if position == 0 { stage.stride } else { 1 };
                let size = size_in.div_ceil(u16::from(stride.max(1)));
                let placed = Placed {
                    channels_in,
                    size_in,
                    channels: stage.channels,
                    size,
                    stride,
                    activation: stage.activation,
                    block: *block,
                };
                (channels_in, size_in) = (stage.channels, size);
                (number, placed)
            })
    }

    /// Whether its operators can be built in any space. One without stages can: a stem and a head.
    ///
    /// # Errors
    /// [`SpaceError::Unbuildable`] naming what is wrong and what would be right.
    pub fn check(&self) -> Result<(), SpaceError> {
        let refuse = |what: String, value: u32, allowed: &str| {
            Err(SpaceError::Unbuildable {
                what,
                value: value.to_string(),
                allowed: allowed.to_owned(),
            })
        };
        let numbers = [
            ("image_size", u32::from(self.image_size)),
            ("input_channels", self.input_channels.into()),
            ("classes", self.classes),
            ("stem", self.stem.into()),
            ("head", self.head.into()),
        ];
        if let Some((what, value)) = numbers.into_iter().find(|(_, value)| *value == 0) {
            return refuse(what.to_owned(), value, "1 or more");
        }
        for (number, stage) in self.stages.iter().enumerate() {
            let of = |what: &str| format!("{what} of stage {}", number + 1);
            if stage.channels == 0 {
                return refuse(of("channels"), 0, "1 or more");
            }
            if !(1..=2).contains(&stage.stride) {
                return refuse(of("stride"), stage.stride.into(), "1 or 2");
            }
            if stage.blocks.is_empty() {
                return refuse(of("the number of blocks"), 0, &format!("1 to {MAX_BLOCKS}"));
            }
        }
        Ok(())
    }
}
