//! [`Architecture`]: one isotropic vision transformer, as a small value without allocations.

use crate::{Activation, Norm, SpaceError};
use serde::{Deserialize, Serialize};

/// One isotropic vision transformer. [`Architecture::encode`] writes it as compact text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Height and width of the input image, pixels.
    pub image_size: u16,
    /// Channels of the input image.
    pub input_channels: u16,
    /// Outputs of the classification head.
    pub classes: u32,
    /// Height and width of a patch, pixels; divides the image.
    pub patch_size: u8,
    /// Embedding length.
    pub channels: u16,
    /// Number of heads; divides the channels.
    pub heads: u8,
    /// Number of blocks.
    pub depth: u8,
    /// Hidden channels of the MLP / channels.
    pub mlp_ratio: u8,
    /// Normalisation before attention, before the MLP and before the head.
    pub norm: Norm,
    /// Activation inside the MLP.
    pub activation: Activation,
    /// The input of the head.
    pub pooling: Pooling,
}

/// What becomes of tokens before the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// A class token comes before those of the image, and the head reads it after the norm.
    ClassToken,
    /// The head reads the mean over all tokens, normalised.
    Average,
}

impl Architecture {
    /// Height and width of the image in patches.
    #[must_use]
    pub fn grid(&self) -> u16 {
        self.image_size.checked_div(u16::from(self.patch_size)).unwrap_or(0)
    }

    /// Number of tokens, a class token included.
    #[must_use]
    pub fn tokens(&self) -> usize {
        usize::from(self.grid()).pow(2) + usize::from(self.pooling == Pooling::ClassToken)
    }

    /// Whether its operators can be built in any space.
    ///
    /// # Errors
    /// [`SpaceError::Unbuildable`] naming what is wrong and what would be right.
    pub fn check(&self) -> Result<(), SpaceError> {
        let refuse = |what: &str, value: u32, allowed: String| {
            Err(SpaceError::Unbuildable {
                what: what.to_owned(),
                value: value.to_string(),
                allowed,
            })
        };
        let numbers = [
            ("image_size", u32::from(self.image_size)),
            ("input_channels", self.input_channels.into()),
            ("classes", self.classes),
            ("patch_size", self.patch_size.into()),
            ("channels", self.channels.into()),
            ("heads", self.heads.into()),
            ("depth", self.depth.into()),
            ("mlp_ratio", self.mlp_ratio.into()),
        ];
        if let Some((what, value)) = numbers.into_iter().find(|(_, value)| *value == 0) {
            return refuse(what, value, "1 or more".to_owned());
        }
        if !self.image_size.is_multiple_of(self.patch_size.into()) {
            let allowed = format!("divisors of the image's {} pixels", self.image_size);
            return refuse("patch_size", self.patch_size.into(), allowed);
        }
        if !self.channels.is_multiple_of(self.heads.into()) {
            let allowed = format!("divisors of the {} channels", self.channels);
            return refuse("heads", self.heads.into(), allowed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_architectures_are_named() {
        let good = Architecture {
            image_size: 32,
            input_channels: 3,
            classes: 10,
            patch_size: 8,
            channels: 48,
            heads: 4,
            depth: 2,
            mlp_ratio: 2,
            norm: Norm::LayerNorm,
            activation: Activation::Gelu,
            pooling: Pooling::ClassToken,
        };
        assert!(good.check().is_ok());
        assert_eq!((good.grid(), good.tokens()), (4, 17));
        let cases = [
            (Architecture { image_size: 0, ..good }, "image_size is 0"),
            (Architecture { input_channels: 0, ..good }, "input_channels is 0"),
            (Architecture { classes: 0, ..good }, "classes is 0"),
            (Architecture { patch_size: 0, ..good }, "patch_size is 0"),
            (Architecture { patch_size: 5, ..good }, "divisors of the image's 32 pixels"),
            (Architecture { channels: 0, ..good }, "channels is 0"),
            (Architecture { heads: 0, ..good }, "heads is 0"),
            (Architecture { heads: 5, ..good }, "divisors of the 48 channels"),
            (Architecture { depth: 0, ..good }, "depth is 0"),
            (Architecture { mlp_ratio: 0, ..good }, "mlp_ratio is 0"),
        ];
        for (architecture, part) in cases {
            let message =
                architecture.check().map_or_else(|e| e.to_string(), |()| "accepted".to_owned());
            assert!(message.contains(part), "{message}");
            assert!(architecture.to_graph().is_err());
        }
    }
}
