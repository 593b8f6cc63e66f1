//! [`Block`]: one inverted residual, as one byte.

use crate::inline::{Inline, Item};
use serde::{Deserialize, Serialize};

/// Most blocks of a stage.
pub const MAX_BLOCKS: usize = 7;
/// Largest kernel.
pub(super) const MAX_KERNEL: u8 = 15;
/// Largest expansion.
pub(super) const MAX_EXPANSION: u8 = 16;

/// An inverted residual: pointwise convolution that widens (none at expansion 1), depthwise
/// convolution, squeeze and excitation where there is one, pointwise convolution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "Parts", try_from = "Parts")]
pub struct Block(u8);

/// The choices of a block, as serialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Side of the depthwise kernel: 3, 5, ... 15.
    pub kernel: u8,
    /// Channels of the depthwise convolution / channels read, 1 to 16.
    pub expansion: u8,
    /// Whether there is a squeeze-and-excitation module.
    pub squeeze: bool,
}

/// The blocks of a stage.
pub type Blocks = Inline<Block, MAX_BLOCKS>;

impl Block {
    /// Of its choices; `None` for a kernel that is not an odd number of 3 to 15, and for an
    /// expansion that is not 1 to 16.
    #[must_use]
    pub const fn new(kernel: u8, expansion: u8, squeeze: bool) -> Option<Self> {
        let odd = kernel >= 3 && kernel <= MAX_KERNEL && kernel % 2 == 1;
        if !odd || expansion == 0 || expansion > MAX_EXPANSION {
            return None;
        }
        Some(Self((squeeze as u8) << 7 | (expansion - 1) << 3 | (kernel / 2)))
    }

    /// Side of the depthwise kernel.
    #[must_use]
    pub const fn kernel(self) -> u8 {
        (self.0 & 7) * 2 + 1
    }

    /// Channels of the depthwise convolution / channels read.
    #[must_use]
    pub const fn expansion(self) -> u8 {
        (self.0 >> 3 & 15) + 1
    }

    /// Whether there is a squeeze-and-excitation module.
    #[must_use]
    pub const fn squeeze(self) -> bool {
        self.0 >> 7 == 1
    }
}

impl Item for Block {
    const BLANK: Self = Self(0);
    const PLURAL: &'static str = "blocks";
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Parts::from(*self).fmt(f)
    }
}

impl From<Block> for Parts {
    fn from(block: Block) -> Self {
        Self { kernel: block.kernel(), expansion: block.expansion(), squeeze: block.squeeze() }
    }
}

impl TryFrom<Parts> for Block {
    type Error = String;

    fn try_from(parts: Parts) -> Result<Self, String> {
        let Parts { kernel, expansion, squeeze } = parts;
        Self::new(kernel, expansion, squeeze).ok_or_else(|| {
            format!(
                "kernel {kernel} and expansion {expansion}: kernels are odd, 3 to {MAX_KERNEL}, \
                expansions 1 to {MAX_EXPANSION}"
            )
        })
    }
}

/// Channels between the two convolutions of a squeeze-and-excitation module on so many: a quarter,
/// rounded to a multiple of 8, but not by more than a tenth down (MobileNetV3, section 5.3).
#[must_use]
pub fn squeezed(channels: usize) -> usize {
    let quarter = channels / 4;
    let rounded = ((quarter + 4) / 8 * 8).max(8);
    if rounded * 10 < quarter * 9 { rounded + 8 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_comes_back() {
        for kernel in [3, 5, 7, 9, 11, 13, 15] {
            for expansion in 1..=MAX_EXPANSION {
                for squeeze in [false, true] {
                    let block = Block::new(kernel, expansion, squeeze).expect("a block");
                    assert_ne!(block, Block::BLANK);
                    let parts = Parts::from(block);
                    assert_eq!(parts, Parts { kernel, expansion, squeeze });
                    assert_eq!(Block::try_from(parts), Ok(block));
                }
            }
        }
        for (kernel, expansion) in [(1, 1), (4, 1), (17, 1), (3, 0), (3, 17)] {
            assert_eq!(Block::new(kernel, expansion, false), None);
        }
    }

    #[test]
    fn squeezed_channels_are_those_of_published_models() {
        let known = [(16, 8), (64, 16), (72, 24), (120, 32), (480, 120), (672, 168), (960, 240)];
        assert_eq!(known.map(|(channels, _)| (channels, squeezed(channels))), known);
    }
}
