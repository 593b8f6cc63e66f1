//! Frames: what goes over a line after its greetings.
//!
//! | field | bytes |
//! |---|---|
//! | length of the payload, little-endian | 4 |
//! | kind: 0 a message in JSON, 1 a piece of a model | 1 |
//! | payload | length |
//! | tag: keyed BLAKE3 of number of the frame (8 bytes), kind and payload | 32 |
//!
//! The tag tells a frame of an end that has the secret, whole and in its place, from everything
//! else. Tags are compared in constant time.

use super::secret::Key;
use std::io::{self, Read, Write};

const TAG: usize = blake3::OUT_LEN;
const HEAD: usize = 5;

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message = 0,
    Piece = 1,
}

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub kind: Kind,
    pub payload: Vec<u8>,
}

/// Why no further frame can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the line was closed")]
    Closed,
    #[error("the line broke: {0}")]
    Io(#[from] io::Error),
    #[error("a message of {size} bytes; at most {limit} are taken")]
    TooLarge { size: usize, limit: usize },
    #[error("a message was damaged, or comes from somebody with another secret")]
    Tag,
}

fn tag(key: &Key, number: u64, kind: u8, payload: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&number.to_le_bytes()).update(&[kind]).update(payload);
    hasher.finalize()
}

/// Frames of one direction, written.
#[derive(Debug)]
pub(super) struct FrameWriter<W> {
    inner: W,
    key: Key,
    number: u64,
}

impl<W: Write> FrameWriter<W> {
    pub fn new(inner: W, key: Key) -> Self {
        Self { inner, key, number: 0 }
    }

    pub fn write(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len())
            .map_err(|_| io::Error::other("a message of more than 4 GiB"))?;
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4] = kind as u8;
        self.inner.write_all(&head)?;
        self.inner.write_all(payload)?;
        self.inner.write_all(tag(&self.key, self.number, kind as u8, payload).as_bytes())?;
        self.number += 1;
        self.inner.flush()
    }
}

/// Reads the frame that is number `number` of its direction; a payload above the limit, asked for
/// when the frame has begun to come, is refused before it is read.
pub(super) fn read(
    inner: &mut impl Read,
    key: &Key,
    number: u64,
    limit: impl FnOnce() -> usize,
) -> Result<Frame, FrameError> {
    let mut head = [0; HEAD];
    if inner.read(&mut head[..1])? == 0 {
        return Err(FrameError::Closed);
    }
    exact(inner, &mut head[1..])?;
    let size = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let limit = limit();
    if size > limit {
        return Err(FrameError::TooLarge { size, limit });
    }
    // Memory grows with what arrives, not with what was announced.
    let mut payload = Vec::new();
    if inner.take(size as u64).read_to_end(&mut payload)? < size {
        return Err(FrameError::Closed);
    }
    let mut sent = [0; TAG];
    exact(inner, &mut sent)?;
    let kind = [Kind::Message, Kind::Piece]
        .into_iter()
        .find(|&kind| kind as u8 == head[4])
        .ok_or(FrameError::Tag)?;
    if tag(key, number, head[4], &payload) == blake3::Hash::from_bytes(sent) {
        Ok(Frame { kind, payload })
    } else {
        Err(FrameError::Tag)
    }
}

fn exact(inner: &mut impl Read, bytes: &mut [u8]) -> Result<(), FrameError> {
    inner.read_exact(bytes).map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof { FrameError::Closed } else { error.into() }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const KEY: Key = [7; 32];

    fn written(frames: &[(Kind, &[u8])]) -> Vec<u8> {
        let mut writer = FrameWriter::new(Vec::new(), KEY);
        frames.iter().for_each(|(kind, payload)| writer.write(*kind, payload).unwrap());
        writer.inner
    }

    #[test]
    fn frames_come_back_in_order_only() {
        let bytes = written(&[(Kind::Message, b"{}"), (Kind::Piece, b"abc")]);
        let mut rest = bytes.as_slice();
        assert_eq!(
            read(&mut rest, &KEY, 0, || 9).unwrap(),
            Frame { kind: Kind::Message, payload: b"{}".to_vec() }
        );
        let second = rest;
        assert_eq!(
            read(&mut rest, &KEY, 1, || 9).unwrap(),
            Frame { kind: Kind::Piece, payload: b"abc".to_vec() }
        );
        assert!(matches!(read(&mut rest, &KEY, 2, || 9), Err(FrameError::Closed)));
        assert!(
            matches!(read(&mut &*second, &KEY, 0, || 9), Err(FrameError::Tag)),
            "a frame out of its place"
        );
        assert!(
            matches!(read(&mut &*second, &[8; 32], 1, || 9), Err(FrameError::Tag)),
            "another secret"
        );
        assert!(matches!(
            read(&mut &*second, &KEY, 1, || 2),
            Err(FrameError::TooLarge { size: 3, limit: 2 })
        ));
    }

    #[test]
    fn every_damaged_bit_and_every_cut_is_seen() {
        let bytes = written(&[(Kind::Message, b"measure")]);
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&mut damaged.as_slice(), &KEY, 0, || 64).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(
                matches!(read(&mut &bytes[..length], &KEY, 0, || 64), Err(FrameError::Closed)),
                "{length}"
            );
        }
    }
}
