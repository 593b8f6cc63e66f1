//! An architecture as compact text and back, fit for file names: the reader and writer that every
//! family's encoding uses.
//!
//! An encoding is a prefix that names family and version, then parts behind `-`. Parts are letters,
//! which say what follows, and numbers. Input channels and classes are the space's. Each
//! architecture has one encoding.

use crate::{Activation, Norm, SpaceError};

/// Appends `prefix` and a number; several times faster than formatting, and a search encodes
/// millions.
pub(crate) fn push(text: &mut String, prefix: &str, number: u32) {
    let (mut digits, mut first, mut rest) = ([0; 10], 10, number);
    while rest > 0 || first == 10 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text.push_str(prefix);
    text.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

/// What is said of a `text` that can be read, but is written as `plain`.
pub(crate) fn not_plain(text: &str, plain: &str) -> SpaceError {
    fault(text, text, format!("write `{plain}`"))
}

fn fault(text: &str, at: &str, reason: String) -> SpaceError {
    SpaceError::Encoding { text: shorten(text), at: shorten(at), reason }
}

/// Why reading stopped; the cursor has the position. Costs nothing until it is put into words.
#[derive(Clone, Copy)]
pub(crate) enum Wrong {
    /// Not this encoding.
    Prefix,
    /// A part that must come here does not.
    Part(&'static str),
    /// Neither this in front of a number nor a number.
    Number(&'static str),
    /// Numbers with more digits than this do not fit.
    Large(&'static str, usize),
    /// None of the letters that may come here.
    Letter(&'static str),
    /// The part should end here.
    End,
    /// More of these than there is room for.
    TooMany(usize, &'static str),
}

/// Reads a text from front to back.
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether everything so far is written the one way in which it is encoded.
    plain: bool,
}

impl<'a> Cursor<'a> {
    /// At the beginning of `text`.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0, plain: true }
    }

    /// What every encoding of a family begins with.
    pub(crate) fn prefix(&mut self, prefix: &'static str) -> Result<(), Wrong> {
        if self.eat(prefix.as_bytes()) && matches!(self.peek(), None | Some(b'-')) {
            return Ok(());
        }
        self.at = 0;
        Err(Wrong::Prefix)
    }

    /// The next byte.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn eat(&mut self, expected: &[u8]) -> bool {
        let there = self.text[self.at..].starts_with(expected);
        self.at += if there { expected.len() } else { 0 };
        there
    }

    /// The `-` before a part.
    #[inline]
    pub(crate) fn part(&mut self, what: &'static str) -> Result<(), Wrong> {
        match self.peek() {
            Some(b'-') => self.at += 1,
            None => return Err(Wrong::Part(what)),
            Some(_) => return Err(Wrong::End),
        }
        Ok(())
    }

    /// `prefix`, then a number.
    #[inline]
    pub(crate) fn number<T: TryFrom<u32>>(&mut self, prefix: &'static str) -> Result<T, Wrong> {
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
    #[inline]
    pub(crate) fn letter(
        &mut self,
        yes: u8,
        no: u8,
        expected: &'static str,
    ) -> Result<bool, Wrong> {
        let letter = self
            .peek()
            .filter(|letter| *letter == yes || *letter == no)
            .ok_or(Wrong::Letter(expected))?;
        self.at += 1;
        Ok(letter == yes)
    }

    /// One of several letters: its place among them.
    #[inline]
    pub(crate) fn one_of(
        &mut self,
        letters: &[u8],
        expected: &'static str,
    ) -> Result<usize, Wrong> {
        let place = self.peek().and_then(|next| letters.iter().position(|letter| *letter == next));
        let place = place.ok_or(Wrong::Letter(expected))?;
        self.at += 1;
        Ok(place)
    }

    /// A kind of normalisation.
    #[inline]
    pub(crate) fn norm(&mut self) -> Result<Norm, Wrong> {
        let batch = self.letter(b'b', b'l', "here comes `b` (batch_norm) or `l` (layer_norm)")?;
        Ok(if batch { Norm::BatchNorm } else { Norm::LayerNorm })
    }

    /// A kind of activation.
    #[inline]
    pub(crate) fn activation(&mut self) -> Result<Activation, Wrong> {
        let gelu = self.letter(b'g', b's', "here comes `g` (gelu) or `s` (silu)")?;
        Ok(if gelu { Activation::Gelu } else { Activation::Silu })
    }

    /// Whether everything so far is written as encodings are.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Where it is.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Whether the text is the canonical encoding of its architecture.
    pub(crate) fn plainly(&mut self, plain: bool) {
        self.plain &= plain;
    }

    /// What begins at `start` is one more than there is room for.
    pub(crate) fn too_many(&mut self, start: usize, most: usize, what: &'static str) -> Wrong {
        self.at = start;
        Wrong::TooMany(most, what)
    }

    /// The end of the text.
    pub(crate) fn end(&mut self) -> Result<(), Wrong> {
        match self.peek() {
            None => Ok(()),
            Some(next) => {
                self.at += usize::from(next == b'-');
                Err(Wrong::End)
            }
        }
    }

    /// Why `text` cannot be read, with the invalid part between two `-`. `prefix` is what it must
    /// begin with, `family` the one whose encodings begin as it does.
    pub(crate) fn fault(
        &self,
        wrong: Wrong,
        text: &str,
        prefix: &str,
        family: Option<&str>,
    ) -> SpaceError {
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
            Wrong::Prefix => match family {
                Some(other) => {
                    format!("it must begin with `{prefix}-`; this one is of the family {other}")
                }
                None => format!("it must begin with `{prefix}-`"),
            },
            Wrong::Part(what) => format!("{what} is missing"),
            Wrong::Number("") => "a number is missing".to_owned(),
            Wrong::Number(prefix) => format!("`{prefix}` and a number are missing"),
            Wrong::Large(prefix, digits) => format!(
                "`{}` is not a valid number here",
                shorten(&between(self.at - digits - prefix.len(), self.at))
            ),
            Wrong::Letter(expected) => expected.to_owned(),
            Wrong::End => format!("`{}` is too much", shorten(&between(self.at, end))),
            Wrong::TooMany(most, what) => format!("there are more than {most} {what}"),
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

impl Norm {
    /// How encodings write it.
    pub(crate) fn letter(self) -> char {
        if self == Self::BatchNorm { 'b' } else { 'l' }
    }
}

impl Activation {
    /// How encodings write it.
    pub(crate) fn letter(self) -> char {
        if self == Self::Gelu { 'g' } else { 's' }
    }
}
