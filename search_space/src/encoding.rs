//! An architecture as compact text and back: `hv1-288x224-k2-s48k5e4m3bg-a112h4r1m6ls-...`, fit for file names.
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
                TokenMixer::SepConv { kernel, expansion } => (("-s", "k", kernel), ("e", expansion)),
                TokenMixer::Attention { heads, reduction } => (("-a", "h", heads), ("r", reduction)),
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

/// Appends `prefix` and a number; several times faster than formatting, and a search encodes millions.
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
    /// [`SpaceError::Encoding`] naming the part that cannot be read, [`SpaceError::Outside`] when it reads but is not in this space.
    pub fn decode(&self, text: &str) -> Result<Architecture, SpaceError> {
        let fail = |(at, reason): (String, String)| SpaceError::Encoding { text: shorten(text), at: shorten(&at), reason };
        let (mut architecture, plain) = parse(text).map_err(fail)?;
        architecture.input_channels = self.family.input_channels;
        architecture.classes = self.family.classes;
        if !plain {
            return Err(fail((text.to_owned(), format!("write `{}`", architecture.encode()))));
        }
        self.contains(&architecture).map(|()| architecture)
    }
}

/// The part that cannot be read, and why.
type Fault = (String, String);

/// The architecture, and whether it is written the one way that it is encoded.
fn parse(text: &str) -> Result<(Architecture, bool), Fault> {
    let mut parts = text.split('-');
    if parts.next() != Some(PREFIX) {
        return Err((text.to_owned(), format!("it must begin with `{PREFIX}-`")));
    }
    let mut next = |what: &str| parts.next().ok_or_else(|| (text.to_owned(), format!("{what} is missing")));
    let mut size = Part::new(next("HEIGHTxWIDTH")?);
    let (height, width) = (size.number("")?, size.number("x")?);
    let mut plain = size.end()?;
    let mut merged = Part::new(next("kNUMBER")?);
    let merged_stages = merged.number("k")?;
    plain &= merged.end()?;
    let mut stages = Stages::new();
    for part in parts {
        let (stage, as_encoded) = parse_stage(part)?;
        plain &= as_encoded;
        if !stages.push(stage) {
            return Err((part.to_owned(), format!("there are more than {} stages", crate::hybrid_vit::MAX_STAGES)));
        }
    }
    Ok((Architecture { height, width, input_channels: 0, classes: 0, merged_stages, stages }, plain))
}

fn parse_stage(text: &str) -> Result<(Stage, bool), Fault> {
    let mut part = Part::new(text);
    let sep_conv = part.letter('s', 'a', "a stage begins with `s` (sep_conv) or `a` (attention)")?;
    let channels = part.number("")?;
    let token_mixer = match sep_conv {
        true => TokenMixer::SepConv { kernel: part.number("k")?, expansion: part.number("e")? },
        false => TokenMixer::Attention { heads: part.number("h")?, reduction: part.number("r")? },
    };
    let mlp_ratio = part.number("m")?;
    let batch = part.letter('b', 'l', "here comes `b` (batch_norm) or `l` (layer_norm)")?;
    let gelu = part.letter('g', 's', "here comes `g` (gelu) or `s` (silu)")?;
    let single = part.rest.is_empty();
    let depth = if single { 1 } else { part.number("x")? };
    let plain = part.end()? && single == (depth == 1);
    let norm = if batch { Norm::BatchNorm } else { Norm::LayerNorm };
    let activation = if gelu { Activation::Gelu } else { Activation::Silu };
    Ok((Stage { channels, depth, token_mixer, norm, activation, mlp_ratio }, plain))
}

/// What is left to read of one part between two `-`.
struct Part<'a> {
    whole: &'a str,
    rest: &'a str,
    /// Whether no number so far began with a needless zero.
    plain: bool,
}

impl<'a> Part<'a> {
    fn new(whole: &'a str) -> Self {
        Self { whole, rest: whole, plain: true }
    }

    fn fault(&self, reason: String) -> Fault {
        (self.whole.to_owned(), reason)
    }

    /// `prefix`, then a number.
    fn number<T: TryFrom<u32>>(&mut self, prefix: &str) -> Result<T, Fault> {
        let digits = self.rest.strip_prefix(prefix).ok_or_else(|| self.fault(format!("`{prefix}` and a number are missing")))?;
        let (mut value, mut end) = (0u64, 0);
        for byte in digits.bytes().take_while(u8::is_ascii_digit) {
            value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
            end += 1;
        }
        let number = u32::try_from(value).ok().filter(|_| end > 0).and_then(|n| T::try_from(n).ok());
        self.rest = &digits[end..];
        self.plain &= end == 1 || !digits.starts_with('0');
        number.ok_or_else(|| self.fault(format!("`{prefix}{}` is no number that fits", &digits[..end])))
    }

    /// One of two letters: whether it is the first.
    fn letter(&mut self, yes: char, no: char, expected: &str) -> Result<bool, Fault> {
        for (letter, answer) in [(yes, true), (no, false)] {
            if let Some(rest) = self.rest.strip_prefix(letter) {
                self.rest = rest;
                return Ok(answer);
            }
        }
        Err(self.fault(expected.to_owned()))
    }

    /// Nothing may follow; whether what was read is [`Part::plain`].
    fn end(&self) -> Result<bool, Fault> {
        match self.rest {
            "" => Ok(self.plain),
            rest => Err(self.fault(format!("`{}` is too much", shorten(rest)))),
        }
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
