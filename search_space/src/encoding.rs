//! An architecture as compact text and back: `hv1-288x224-k2-s48k5e4m3bg-a112h4r1m6ls-...`, fit for
//! file names.
//!
//! ```text
//! hv1       hybrid vision transformer, version 1 of this encoding
//! 288x224   height x width
//! k2        stages merged into the first
//! s48k5e4   sep_conv, 48 channels, kernel 5, expansion 4      a112h4r2  attention, 112 channels, 4 heads, reduction 2
//! m3        MLP ratio        b | l  batch or layer norm       g | s  GELU or SiLU        x2  two blocks (one: nothing)
//! ```
//! Input channels and classes are the space's. Each architecture has one encoding.

use crate::{Activation, Architecture, Norm, Space, SpaceError, Stage, Stages, TokenMixer};
use std::fmt;

const PREFIX: &str = "hv1";

impl fmt::Display for Architecture {
    /// [`Architecture::encode`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.encode())
    }
}

impl Architecture {
    /// The compact text of this architecture; [`Space::decode`] reads it.
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
            text.push(if stage.norm == Norm::BatchNorm { 'b' } else { 'l' });
            text.push(if stage.activation == Activation::Gelu { 'g' } else { 's' });
            if stage.depth != 1 {
                push(&mut text, "x", stage.depth.into());
            }
        }
        text
    }
}

/// Appends `prefix` and a number; several times faster than formatting, and a search encodes
/// millions.
fn push(text: &mut String, prefix: &str, number: u32) {
    let (mut digits, mut first, mut rest) = ([0; 10], 10, number);
    while rest > 0 || first == 10 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text.push_str(prefix);
    text.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

impl Space {
    /// The architecture of this space that `text` stands for.
    ///
    /// # Errors
    /// [`SpaceError::Encoding`] naming the part that cannot be read, [`SpaceError::Outside`] when
    /// it reads but is not in this space.
    pub fn decode(&self, text: &str) -> Result<Architecture, SpaceError> {
        let mut cursor = Cursor { text: text.as_bytes(), at: 0, plain: true };
        let mut architecture = cursor.architecture().map_err(|wrong| cursor.fault(wrong, text))?;
        architecture.input_channels = self.family.input_channels;
        architecture.classes = self.family.classes;
        if !cursor.plain {
            return Err(fault(text, text, format!("write `{}`", architecture.encode())));
        }
        // Whether is asked by the million, why only of what is outside.
        if self.includes(&architecture) {
            Ok(architecture)
        } else {
            self.contains(&architecture).map(|()| architecture)
        }
    }
}

fn fault(text: &str, at: &str, reason: String) -> SpaceError {
    SpaceError::Encoding { text: shorten(text), at: shorten(at), reason }
}

/// Why reading stopped; the cursor tells where. Costs nothing until it is put into words.
#[derive(Clone, Copy)]
enum Wrong {
    /// Not this encoding.
    Prefix,
    /// A part that must come here does not.
    Part(&'static str),
    /// Neither this in front of a number nor a number.
    Number(&'static str),
    /// A number of so many digits behind this does not fit.
    Large(&'static str, usize),
    /// None of the letters that may come here.
    Letter(&'static str),
    /// The part should end here.
    End,
    /// One stage more than there is room for.
    Stages,
}

/// Reads a text from front to back.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether everything so far is written the one way in which it is encoded.
    plain: bool,
}

impl Cursor<'_> {
    fn architecture(&mut self) -> Result<Architecture, Wrong> {
        if !self.eat(PREFIX.as_bytes()) || !matches!(self.peek(), None | Some(b'-')) {
            self.at = 0;
            return Err(Wrong::Prefix);
        }
        self.part("HEIGHTxWIDTH")?;
        let (height, width) = (self.number("")?, self.number("x")?);
        self.part("kNUMBER")?;
        let merged_stages = self.number("k")?;
        let mut stages = Stages::new();
        while self.peek().is_some() {
            self.part("a stage")?;
            let start = self.at;
            let stage = self.stage()?;
            if !stages.push(stage) {
                self.at = start;
                return Err(Wrong::Stages);
            }
        }
        Ok(Architecture { height, width, input_channels: 0, classes: 0, merged_stages, stages })
    }

    fn stage(&mut self) -> Result<Stage, Wrong> {
        let sep_conv =
            self.letter(b's', b'a', "a stage begins with `s` (sep_conv) or `a` (attention)")?;
        let channels = self.number("")?;
        let (first, second) = if sep_conv { ("k", "e") } else { ("h", "r") };
        let (first, second) = (self.number(first)?, self.number(second)?);
        let token_mixer = match sep_conv {
            true => TokenMixer::SepConv { kernel: first, expansion: second },
            false => TokenMixer::Attention { heads: first, reduction: second },
        };
        let mlp_ratio = self.number("m")?;
        let batch = self.letter(b'b', b'l', "here comes `b` (batch_norm) or `l` (layer_norm)")?;
        let gelu = self.letter(b'g', b's', "here comes `g` (gelu) or `s` (silu)")?;
        let single = matches!(self.peek(), None | Some(b'-'));
        let depth = if single { 1 } else { self.number("x")? };
        self.plain &= single == (depth == 1);
        let norm = if batch { Norm::BatchNorm } else { Norm::LayerNorm };
        let activation = if gelu { Activation::Gelu } else { Activation::Silu };
        Ok(Stage { channels, depth, token_mixer, norm, activation, mlp_ratio })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, expected: &[u8]) -> bool {
        let there = self.text[self.at..].starts_with(expected);
        self.at += if there { expected.len() } else { 0 };
        there
    }

    /// The `-` before a part.
    fn part(&mut self, what: &'static str) -> Result<(), Wrong> {
        match self.peek() {
            Some(b'-') => self.at += 1,
            None => return Err(Wrong::Part(what)),
            Some(_) => return Err(Wrong::End),
        }
        Ok(())
    }

    /// `prefix`, then a number.
    #[inline]
    fn number<T: TryFrom<u32>>(&mut self, prefix: &'static str) -> Result<T, Wrong> {
        if !self.eat(prefix.as_bytes()) {
            return Err(Wrong::Number(prefix));
        }
        let (start, mut value) = (self.at, 0u32);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
            self.at += 1;
        }
        let digits = self.at - start;
        self.plain &= digits == 1 || self.text.get(start) != Some(&b'0');
        match T::try_from(value) {
            Ok(number) if digits > 0 => Ok(number),
            Ok(_) => Err(Wrong::Number(prefix)),
            Err(_) => Err(Wrong::Large(prefix, digits)),
        }
    }

    /// One of two letters: whether it is the first.
    fn letter(&mut self, yes: u8, no: u8, expected: &'static str) -> Result<bool, Wrong> {
        let letter = self
            .peek()
            .filter(|letter| *letter == yes || *letter == no)
            .ok_or(Wrong::Letter(expected))?;
        self.at += 1;
        Ok(letter == yes)
    }

    /// In words, with the part between two `-` in which it is wrong.
    fn fault(&self, wrong: Wrong, text: &str) -> SpaceError {
        let between = |from: usize, to: usize| {
            String::from_utf8_lossy(self.text.get(from..to).unwrap_or_default())
        };
        let start =
            self.text[..self.at].iter().rposition(|byte| *byte == b'-').map_or(0, |dash| dash + 1);
        let end = self.text[start..]
            .iter()
            .position(|byte| *byte == b'-')
            .map_or(self.text.len(), |length| start + length);
        let part = between(start, end);
        let reason = match wrong {
            Wrong::Prefix => format!("it must begin with `{PREFIX}-`"),
            Wrong::Part(what) => format!("{what} is missing"),
            Wrong::Number("") => "a number is missing".to_owned(),
            Wrong::Number(prefix) => format!("`{prefix}` and a number are missing"),
            Wrong::Large(prefix, digits) => format!(
                "`{}` is no number that fits",
                shorten(&between(self.at - digits - prefix.len(), self.at))
            ),
            Wrong::Letter(expected) => expected.to_owned(),
            Wrong::End => format!("`{}` is too much", shorten(&between(self.at, end))),
            Wrong::Stages => {
                format!("there are more than {} stages", crate::hybrid_vit::MAX_STAGES)
            }
        };
        let whole = matches!(wrong, Wrong::Prefix | Wrong::Part(_));
        fault(text, if whole { text } else { &part }, reason)
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
