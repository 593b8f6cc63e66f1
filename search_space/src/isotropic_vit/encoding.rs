//! An isotropic vision transformer as compact text and back: `iv1-224p16-c192h3m4lgx12-t`.
//!
//! ```text
//! iv1      isotropic vision transformer, version 1 of this encoding
//! 224p16   images of 224 x 224 pixels in patches of 16 x 16
//! c192h3   192 channels, 3 heads       m4     MLP ratio
//! b | l    batch or layer norm         g | s  GELU or SiLU      x12  12 blocks
//! t | a    class token or average of all tokens
//! ```

use super::{Architecture, Pooling};
use crate::encoding::{Cursor, Wrong, push};

/// Begins every encoding of the family.
pub(super) const PREFIX: &str = "iv1";

impl Architecture {
    /// The compact text of this architecture; [`crate::Space::decode`] reads it.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(40);
        text.push_str(PREFIX);
        push(&mut text, "-", self.image_size.into());
        push(&mut text, "p", self.patch_size.into());
        push(&mut text, "-c", self.channels.into());
        push(&mut text, "h", self.heads.into());
        push(&mut text, "m", self.mlp_ratio.into());
        text.push(self.norm.letter());
        text.push(self.activation.letter());
        push(&mut text, "x", self.depth.into());
        text.push_str(if self.pooling == Pooling::ClassToken { "-t" } else { "-a" });
        text
    }

    /// The text after the prefix; input channels and classes are the space's.
    pub(super) fn read(
        cursor: &mut Cursor<'_>,
        input_channels: u16,
        classes: u32,
    ) -> Result<Self, Wrong> {
        cursor.part("SIZEpPATCH")?;
        let (image_size, patch_size) = (cursor.number("")?, cursor.number("p")?);
        cursor.part("cCHANNELShHEADS...")?;
        let (channels, heads) = (cursor.number("c")?, cursor.number("h")?);
        let mlp_ratio = cursor.number("m")?;
        let (norm, activation) = (cursor.norm()?, cursor.activation()?);
        let depth = cursor.number("x")?;
        cursor.part("`t` (class_token) or `a` (average)")?;
        let class_token =
            cursor.letter(b't', b'a', "here comes `t` (class_token) or `a` (average)")?;
        cursor.end()?;
        let pooling = if class_token { Pooling::ClassToken } else { Pooling::Average };
        Ok(Self {
            image_size,
            input_channels,
            classes,
            patch_size,
            channels,
            heads,
            depth,
            mlp_ratio,
            norm,
            activation,
            pooling,
        })
    }
}
