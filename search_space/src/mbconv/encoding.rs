//! A network of inverted residuals as compact text and back:
//! `mb1-224-s16h-c16s1rk3e1-c24s2rk3e4k5e3q`.
//!
//! ```text
//! mb1       inverted residuals, version 1 of this encoding
//! 224       images of 224 x 224 pixels
//! s16h      16 channels behind the first convolution; activation of first and last convolution
//! c24s2r    a stage of 24 channels, stride 2, ReLU
//! k5e3      a block: kernel 5, expansion 3        q   with squeeze and excitation
//! r | c | h | s   ReLU, ReLU6 (clipped), hard swish, SiLU
//! ```

use super::{Activation, Architecture, Block, Blocks, MAX_BLOCKS, MAX_STAGES, Stage, Stages};
use crate::encoding::{Cursor, Wrong, push};

/// Begins every encoding of the family.
pub(super) const PREFIX: &str = "mb1";

/// The letters of activations, in the order of [`Activation::ALL`].
const LETTERS: [u8; 4] = *b"rchs";
const EXPECTED: &str = "here comes `r` (relu), `c` (relu6), `h` (hard_swish) or `s` (silu)";

impl Activation {
    fn letter(self) -> char {
        LETTERS[self as usize].into()
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Wrong> {
        Ok(Self::ALL[cursor.one_of(&LETTERS, EXPECTED)?])
    }
}

impl Architecture {
    /// The compact text of this architecture; [`crate::Space::decode`] reads it.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(20 + 40 * self.stages.len());
        text.push_str(PREFIX);
        push(&mut text, "-", self.image_size.into());
        push(&mut text, "-s", self.stem.into());
        text.push(self.activation.letter());
        for stage in self.stages.iter() {
            push(&mut text, "-c", stage.channels.into());
            push(&mut text, "s", stage.stride.into());
            text.push(stage.activation.letter());
            for block in stage.blocks.iter() {
                push(&mut text, "k", block.kernel().into());
                push(&mut text, "e", block.expansion().into());
                text.push_str(if block.squeeze() { "q" } else { "" });
            }
        }
        text
    }

    /// The text after the prefix; input channels, classes and the channels of the last convolution
    /// are the space's.
    pub(super) fn read(
        cursor: &mut Cursor<'_>,
        (input_channels, classes, head): (u16, u32, u16),
    ) -> Result<Self, Wrong> {
        cursor.part("SIZE")?;
        let image_size = cursor.number("")?;
        cursor.part("sSTEM")?;
        let (stem, activation) = (cursor.number("s")?, Activation::read(cursor)?);
        let mut stages = Stages::new();
        while cursor.peek().is_some() {
            cursor.part("a stage")?;
            let start = cursor.at();
            if !stages.push(Stage::read(cursor)?) {
                return Err(cursor.too_many(start, MAX_STAGES, "stages"));
            }
        }
        Ok(Self { image_size, input_channels, classes, stem, head, activation, stages })
    }
}

impl Stage {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Wrong> {
        let (channels, stride) = (cursor.number("c")?, cursor.number("s")?);
        let activation = Activation::read(cursor)?;
        let mut blocks = Blocks::new();
        while !matches!(cursor.peek(), None | Some(b'-')) {
            let start = cursor.at();
            let (kernel, expansion) = (cursor.number("k")?, cursor.number("e")?);
            let squeeze = cursor.peek() == Some(b'q') && cursor.one_of(b"q", "").is_ok();
            let block = Block::new(kernel, expansion, squeeze)
                .ok_or(Wrong::Letter("kernels are odd, 3 to 15; expansions 1 to 16"))?;
            if !blocks.push(block) {
                return Err(cursor.too_many(start, MAX_BLOCKS, "blocks"));
            }
        }
        Ok(Self { channels, stride, activation, blocks })
    }
}
