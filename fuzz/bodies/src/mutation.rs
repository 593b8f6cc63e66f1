//! Inputs from seeds. All choices read the bytes of an [`Unstructured`], which come from a seed and
//! an index in a campaign, and from a seed of libFuzzer's in cargo-fuzz.

use crate::{
    models,
    numbers::{NUMBERS, NUMERALS},
};
use arbitrary::{Result, Unstructured};
use prost::Message;
use vitempo::{graph::onnx::proto::ModelProto, search_space::Generator};

/// How the inputs of a target are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// As bytes.
    Bytes,
    /// As words, numbers and lines, and now and then as bytes.
    Text,
    /// As an ONNX model, field by field, or made anew; now and then as bytes.
    Model,
}

/// No input gets larger, bytes.
const LARGEST: usize = 1 << 18;
/// Random bytes that one input is made of.
const CHOICES: usize = 768;

/// The input that a seed and an index give: always the same one of the same corpus.
#[must_use]
pub fn seeded(kind: Mutation, corpus: &[Vec<u8>], seed: u64, index: u64) -> Vec<u8> {
    let mut generator = Generator::stream(seed, index);
    let choices: Vec<u8> = (0..CHOICES / 8).flat_map(|_| generator.bits().to_le_bytes()).collect();
    input(kind, corpus, &mut Unstructured::new(&choices)).unwrap_or_default()
}

/// An input made of one or two of the corpus.
///
/// # Errors
/// None that matters: an empty [`Unstructured`] gives its first choices.
pub fn input(kind: Mutation, corpus: &[Vec<u8>], u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if corpus.is_empty() {
        return Ok(Vec::new());
    }
    let (one, other) = (u.choose(corpus)?, u.choose(corpus)?);
    let mut bytes = match kind {
        Mutation::Model if u.ratio(1, 4)? => return Ok(models::generate(u)?.encode_to_vec()),
        Mutation::Model if !u.ratio(1, 6)? => match ModelProto::decode(one.as_slice()) {
            Ok(model) => return Ok(models::mutate(model, u)?.encode_to_vec()),
            Err(_) => one.clone(),
        },
        Mutation::Text if !u.ratio(1, 6)? => return text(one, other, u),
        _ => one.clone(),
    };
    for _ in 0..u.int_in_range(1..=4)? {
        byte_step(&mut bytes, other, u)?;
    }
    bytes.truncate(LARGEST);
    Ok(bytes)
}

fn position(length: usize, u: &mut Unstructured<'_>) -> Result<usize> {
    if length == 0 { Ok(0) } else { u.int_in_range(0..=length - 1) }
}

/// A stretch of at most `most` positions.
fn stretch(length: usize, most: usize, u: &mut Unstructured<'_>) -> Result<std::ops::Range<usize>> {
    let start = position(length, u)?;
    Ok(start..(start + u.int_in_range(1..=most)?).min(length))
}

/// One change.
fn byte_step(bytes: &mut Vec<u8>, other: &[u8], u: &mut Unstructured<'_>) -> Result<()> {
    let at = position(bytes.len(), u)?;
    match u.int_in_range(0..=8)? {
        _ if bytes.is_empty() => bytes.push(u.arbitrary()?),
        0 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
        1 => bytes[at] = u.arbitrary()?,
        2 => bytes[at] = *u.choose(&[0, 1, 0x7f, 0x80, 0xff])?,
        3 => bytes.truncate(at),
        4 => bytes.insert(at, u.arbitrary()?),
        5 => drop(bytes.drain(stretch(bytes.len(), 16, u)?)),
        6 => {
            let copied = bytes[stretch(bytes.len(), 64, u)?].to_vec();
            drop(bytes.splice(at..at, copied));
        }
        7 => {
            let taken = other[stretch(other.len(), 256, u)?].to_vec();
            drop(bytes.splice(at..at, taken));
        }
        _ => {
            let number = NUMBERS[position(NUMBERS.len(), u)?].to_le_bytes();
            let width = (*u.choose(&[2, 4, 8])?).min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
    }
    Ok(())
}

/// Words of a text: runs of letters, runs of digits, and every other byte.
fn words(text: &[u8]) -> Vec<&[u8]> {
    let class = |byte: u8| match byte {
        b'0'..=b'9' | b'.' => 1,
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => 2,
        _ => 0,
    };
    text.chunk_by(|&a, &b| class(a) == class(b) && class(a) != 0).collect()
}

/// A text with some words changed.
fn text(one: &[u8], other: &[u8], u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (mut words, others) = (words(one), words(other));
    for _ in 0..u.int_in_range(1..=4)? {
        word_step(&mut words, &others, u)?;
    }
    let mut bytes = words.concat();
    bytes.truncate(LARGEST);
    Ok(bytes)
}

fn word_step<'a>(
    words: &mut Vec<&'a [u8]>,
    others: &[&'a [u8]],
    u: &mut Unstructured<'_>,
) -> Result<()> {
    let at = position(words.len(), u)?;
    let other = others.get(position(others.len(), u)?).copied().unwrap_or(b"0");
    match u.int_in_range(0..=8)? {
        _ if words.is_empty() => words.push(other),
        0..=2 => {
            // The next number of the text.
            let is_number = |word: &&[u8]| word[0].is_ascii_digit();
            let number = words[at..].iter().position(is_number).map_or(at, |next| at + next);
            words[number] = u.choose(NUMERALS)?.as_bytes();
        }
        3 => words[at] = other,
        4 => words.insert(at, other),
        5 => drop(words.drain(stretch(words.len(), 8, u)?)),
        6 => {
            let to = position(words.len(), u)?;
            words.swap(at, to);
        }
        7 => {
            let copied = words[stretch(words.len(), 24, u)?].to_vec();
            drop(words.splice(at..at, copied));
        }
        _ => {
            let taken = others[stretch(others.len(), 24, u)?].to_vec();
            drop(words.splice(at..at, taken));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_give_the_same_input() {
        let corpus = [b"{\"a\": [1, 2.5]}".to_vec(), b"hv1-12".to_vec()];
        for kind in [Mutation::Bytes, Mutation::Text, Mutation::Model] {
            let made: Vec<Vec<u8>> = (0..64u8)
                .map(|n| {
                    let raw: Vec<u8> = (0..200u8).map(|i| i.wrapping_mul(n) ^ n).collect();
                    let once = input(kind, &corpus, &mut Unstructured::new(&raw)).unwrap();
                    assert_eq!(once, input(kind, &corpus, &mut Unstructured::new(&raw)).unwrap());
                    once
                })
                .collect();
            let distinct: std::collections::BTreeSet<_> = made.iter().collect();
            assert!(distinct.len() > 20, "{kind:?}: {}", distinct.len());
        }
    }
}
