//! A hybrid vision transformer as compact text and back: `hv1-288x224-k2-s48k5e4m3bg-...`.
//!
//! ```text
//! hv1       hybrid vision transformer, version 1 of this encoding
//! 288x224   height x width
//! k2        stages merged into the first
//! s48k5e4   sep_conv, 48 channels, kernel 5, expansion 4
//! a112h4r2  attention, 112 channels, 4 heads, reduction 2
//! m3        MLP ratio
//! b | l     batch or layer norm      g | s  GELU or SiLU      x2  two blocks (one: nothing)
//! ```

use super::{Architecture, MAX_STAGES, Stage, Stages, TokenMixer};
use crate::encoding::{Cursor, Wrong, push};

/// Begins every encoding of the family.
pub(super) const PREFIX: &str = "hv1";

impl Architecture {
    /// The compact text of this architecture; [`crate::Space::decode`] reads it.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(20 + 24 * self.stages.len());
        text.push_str(PREFIX);
        push(&mut text, "-", self.height.into());
        push(&mut text, "x", self.width.into());
        push(&mut text, "-k", self.merged_stages.into());
        for stage in self.stages.iter() {
            let (first, second) = match stage.token_mixer {
                TokenMixer::SepConv { kernel, expansion } => {
                    (("-s", "k", kernel), ("e", expansion))
                }
                TokenMixer::Attention { heads, reduction } => {
                    (("-a", "h", heads), ("r", reduction))
                }
            };
            push(&mut text, first.0, stage.channels.into());
            push(&mut text, first.1, first.2.into());
            push(&mut text, second.0, second.1.into());
            push(&mut text, "m", stage.mlp_ratio.into());
            text.push(stage.norm.letter());
            text.push(stage.activation.letter());
            if stage.depth != 1 {
                push(&mut text, "x", stage.depth.into());
            }
        }
        text
    }

    /// The text after the prefix; input channels and classes are the space's.
    pub(super) fn read(
        cursor: &mut Cursor<'_>,
        input_channels: u16,
        classes: u32,
    ) -> Result<Self, Wrong> {
        cursor.part("HEIGHTxWIDTH")?;
        let (height, width) = (cursor.number("")?, cursor.number("x")?);
        cursor.part("kNUMBER")?;
        let merged_stages = cursor.number("k")?;
        let mut stages = Stages::new();
        while cursor.peek().is_some() {
            cursor.part("a stage")?;
            let start = cursor.at();
            if !stages.push(Stage::read(cursor)?) {
                return Err(cursor.too_many(start, MAX_STAGES, "stages"));
            }
        }
        Ok(Self { height, width, input_channels, classes, merged_stages, stages })
    }
}

impl Stage {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Wrong> {
        let sep_conv =
            cursor.letter(b's', b'a', "a stage begins with `s` (sep_conv) or `a` (attention)")?;
        let channels = cursor.number("")?;
        let (first, second) = if sep_conv { ("k", "e") } else { ("h", "r") };
        let (first, second) = (cursor.number(first)?, cursor.number(second)?);
        let token_mixer = match sep_conv {
            true => TokenMixer::SepConv { kernel: first, expansion: second },
            false => TokenMixer::Attention { heads: first, reduction: second },
        };
        let mlp_ratio = cursor.number("m")?;
        let (norm, activation) = (cursor.norm()?, cursor.activation()?);
        let single = matches!(cursor.peek(), None | Some(b'-'));
        let depth = if single { 1 } else { cursor.number("x")? };
        cursor.plainly(single == (depth == 1));
        Ok(Self { channels, depth, token_mixer, norm, activation, mlp_ratio })
    }
}
