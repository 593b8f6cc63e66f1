//! [`Architecture`]: one hybrid vision transformer, as a small value without allocations.

use super::Stages;
use crate::{Activation, Norm, SpaceError};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// One hybrid vision transformer. [`Architecture::encode`] writes it as compact text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Height of the input image, pixels.
    pub height: u16,
    /// Width of the input image, pixels.
    pub width: u16,
    /// Channels of the input image.
    pub input_channels: u16,
    /// Outputs of the classification head.
    pub classes: u32,
    /// Stages of the space merged into the first stage here: k. Its patches are 2^k x 2^k pixels;
    /// those of later stages 2 x 2.
    pub merged_stages: u8,
    /// The stages that are left, first to last.
    pub stages: Stages,
}

/// One stage: patch embedding, then `depth` equal blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Embedding length.
    pub channels: u16,
    /// Number of blocks.
    pub depth: u8,
    /// How a block mixes tokens.
    pub token_mixer: TokenMixer,
    /// Normalisation before the token mixer and before the MLP.
    pub norm: Norm,
    /// Activation inside the MLP and inside a separable convolution.
    pub activation: Activation,
    /// Hidden channels of the MLP / channels.
    pub mlp_ratio: u8,
}

/// The token mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenMixer {
    /// Pointwise convolution, activation, depthwise convolution, pointwise convolution.
    SepConv {
        /// Side of the depthwise kernel.
        kernel: u8,
        /// Channels of the depthwise convolution / channels.
        expansion: u8,
    },
    /// Multi-head self-attention.
    Attention {
        /// Number of heads; divides the channels.
        heads: u8,
        /// Keys and values come from an image this many times smaller in height and in width; 1 is
        /// no reduction.
        reduction: u8,
    },
}

impl Architecture {
    /// Side of the patches that a stage cuts its input into, pixels; `stage` counts from 0 in
    /// [`Architecture::stages`].
    #[must_use]
    pub fn patch(&self, stage: usize) -> usize {
        if stage == 0 { 1 << self.merged_stages.min(16) } else { 2 }
    }

    /// Height and width of the features of a stage: the image's, halved once for each stage of the
    /// space up to this one, rounded down each time.
    #[must_use]
    pub fn resolution(&self, stage: usize) -> (usize, usize) {
        let shift =
            u32::try_from(stage).unwrap_or(u32::MAX).saturating_add(u32::from(self.merged_stages));
        let shrink = |pixels: u16| usize::from(pixels).checked_shr(shift).unwrap_or(0);
        (shrink(self.height), shrink(self.width))
    }

    /// Whether its operators can be built in any space.
    ///
    /// # Errors
    /// [`SpaceError::Unbuildable`] naming what is wrong and what would be right.
    pub fn check(&self) -> Result<(), SpaceError> {
        let refuse = |what: String, value: String, allowed: &str| {
            Err(SpaceError::Unbuildable { what, value, allowed: allowed.to_owned() })
        };
        if self.stages.is_empty() {
            return refuse("the number of stages".to_owned(), "0".to_owned(), "1 to 8");
        }
        if !(1..=15).contains(&self.merged_stages) {
            return refuse("merged_stages".to_owned(), self.merged_stages.to_string(), "1 to 15");
        }
        for (what, value) in
            [("input_channels", u32::from(self.input_channels)), ("classes", self.classes)]
        {
            if value == 0 {
                return refuse(what.to_owned(), "0".to_owned(), "1 or more");
            }
        }
        for (i, stage) in self.stages.iter().enumerate() {
            let (height, width) = self.resolution(i);
            if height == 0 || width == 0 {
                return refuse(
                    format!("the resolution of stage {}", i + 1),
                    format!("{height}x{width}"),
                    "1x1 or more; give a larger image or fewer stages",
                );
            }
            if let Some((what, value, allowed)) = stage.fault(height.min(width)) {
                return refuse(format!("{what} of stage {}", i + 1), value.to_string(), &allowed);
            }
        }
        Ok(())
    }
}

impl Hash for Stage {
    /// As one number: sampling hashes every architecture it draws.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [high, low] = self.channels.to_be_bytes();
        let (mixer, first, second) = match self.token_mixer {
            TokenMixer::SepConv { kernel, expansion } => (0, kernel, expansion),
            TokenMixer::Attention { heads, reduction } => (1, heads, reduction),
        };
        let kinds = mixer << 2 | (self.norm as u8) << 1 | self.activation as u8;
        state.write_u64(u64::from_be_bytes([
            high,
            low,
            self.depth,
            self.mlp_ratio,
            first,
            second,
            kinds,
            0,
        ]));
    }
}

impl Stage {
    /// The invalid choice of this stage: its name, its value, and the allowed values.
    fn fault(&self, shorter_side: usize) -> Option<(&'static str, usize, String)> {
        let at_least_one = [
            ("channels", self.channels.into()),
            ("depth", self.depth.into()),
            ("mlp_ratio", self.mlp_ratio.into()),
        ];
        let (mixer, special) = match self.token_mixer {
            TokenMixer::SepConv { kernel, expansion } => {
                let even = (kernel % 2 == 0)
                    .then(|| ("kernel", usize::from(kernel), "odd numbers".to_owned()));
                ([("expansion", usize::from(expansion)), ("kernel", kernel.into())], even)
            }
            TokenMixer::Attention { heads, reduction } => {
                let uneven =
                    (heads != 0 && !self.channels.is_multiple_of(u16::from(heads))).then(|| {
                        (
                            "heads",
                            usize::from(heads),
                            format!("divisors of the {} channels", self.channels),
                        )
                    });
                let coarse = (usize::from(reduction) > shorter_side)
                    .then(|| ("reduction", usize::from(reduction), format!("1 to {shorter_side}")));
                ([("heads", heads.into()), ("reduction", reduction.into())], uneven.or(coarse))
            }
        };
        let zero = at_least_one.into_iter().chain(mixer).find(|&(_, value)| value == 0);
        zero.map(|(what, value)| (what, value, "1 or more".to_owned())).or(special)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_architectures_are_named() {
        let good = Stage {
            channels: 48,
            depth: 1,
            token_mixer: TokenMixer::Attention { heads: 4, reduction: 2 },
            norm: Norm::LayerNorm,
            activation: Activation::Gelu,
            mlp_ratio: 2,
        };
        let with = |stage: Stage| Architecture {
            height: 64,
            width: 32,
            input_channels: 3,
            classes: 10,
            merged_stages: 4,
            stages: Stages::try_from(vec![stage]).unwrap_or_default(),
        };
        assert!(with(good).check().is_ok());
        let attention = |heads, reduction| Stage {
            token_mixer: TokenMixer::Attention { heads, reduction },
            ..good
        };
        let sep_conv = |kernel, expansion| Stage {
            token_mixer: TokenMixer::SepConv { kernel, expansion },
            ..good
        };
        let cases = [
            (with(Stage { channels: 0, ..good }), "channels of stage 1 is 0"),
            (with(Stage { depth: 0, ..good }), "depth of stage 1 is 0"),
            (with(attention(0, 1)), "heads of stage 1 is 0"),
            (with(attention(5, 1)), "divisors of the 48 channels"),
            (with(attention(4, 3)), "allowed: 1 to 2"),
            (with(sep_conv(4, 1)), "odd numbers"),
            (with(sep_conv(3, 0)), "expansion of stage 1 is 0"),
            (Architecture { merged_stages: 6, ..with(good) }, "resolution of stage 1 is 1x0"),
            (Architecture { merged_stages: 200, ..with(good) }, "merged_stages is 200"),
            (Architecture { classes: 0, ..with(good) }, "classes is 0"),
            (Architecture { stages: Stages::new(), ..with(good) }, "number of stages is 0"),
        ];
        for (architecture, part) in cases {
            let message =
                architecture.check().map_or_else(|e| e.to_string(), |()| "accepted".to_owned());
            assert!(message.contains(part), "{message}");
            assert!(architecture.to_graph().is_err());
        }
    }
}
