//! Frames: the data on a connection after the greetings.
//!
//! | field | bytes |
//! |---|---|
//! | length of the payload, little-endian | 4 |
//! | kind: 0 a message in JSON, 1 a piece of a model, 2 tensors of a split model | 1 |
//! | payload | length |
//! | checksum: BLAKE3 of the frame's number (8 bytes), kind and payload | 32 |
//!
//! The checksum detects damaged, lost and repeated frames, and programs on the way that print
//! something of their own. It does not authenticate: ssh and adb do.

use std::io::{self, Read, Write};

const CHECKSUM: usize = blake3::OUT_LEN;
const HEAD: usize = 5;

/// The kind of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message = 0,
    Piece = 1,
    Tensors = 2,
}

/// Bytes of a frame without its payload.
pub(crate) const OVERHEAD: usize = HEAD + CHECKSUM;

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub kind: Kind,
    pub payload: Vec<u8>,
}

/// Why no further frame can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the connection was closed")]
    Closed,
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("a message of {size} bytes; at most {limit} are taken")]
    TooLarge { size: usize, limit: usize },
    #[error("a message is damaged: its checksum differs")]
    Checksum,
}

fn checksum(number: u64, kind: u8, payload: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes()).update(&[kind]).update(payload);
    hasher.finalize()
}

/// Frames of one direction, written.
#[derive(Debug)]
pub(crate) struct FrameWriter<W> {
    inner: W,
    number: u64,
}

impl<W: Write> FrameWriter<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, number: 0 }
    }

    /// The writer.
    pub fn inner_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// The writer.
    pub fn into_inner(self) -> W {
        self.inner
    }

    pub fn write(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len())
            .map_err(|_| io::Error::other("a message of more than 4 GiB"))?;
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4] = kind as u8;
        self.inner.write_all(&head)?;
        self.inner.write_all(payload)?;
        self.inner.write_all(checksum(self.number, kind as u8, payload).as_bytes())?;
        self.number += 1;
        self.inner.flush()
    }
}

/// Reads the frame that is number `number` of its direction; a payload above the limit is refused
/// before it is read.
pub(super) fn read(inner: &mut impl Read, number: u64, limit: usize) -> Result<Frame, FrameError> {
    let mut head = [0; HEAD];
    if inner.read(&mut head[..1])? == 0 {
        return Err(FrameError::Closed);
    }
    exact(inner, &mut head[1..])?;
    let size = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if size > limit {
        return Err(FrameError::TooLarge { size, limit });
    }
    // Memory grows with the received bytes, not with the announced size.
    let mut payload = Vec::new();
    if inner.take(size as u64).read_to_end(&mut payload)? < size {
        return Err(FrameError::Closed);
    }
    let mut sent = [0; CHECKSUM];
    exact(inner, &mut sent)?;
    let kind = [Kind::Message, Kind::Piece, Kind::Tensors]
        .into_iter()
        .find(|&kind| kind as u8 == head[4])
        .ok_or(FrameError::Checksum)?;
    if checksum(number, head[4], &payload) == blake3::Hash::from_bytes(sent) {
        Ok(Frame { kind, payload })
    } else {
        Err(FrameError::Checksum)
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

    fn written(frames: &[(Kind, &[u8])]) -> Vec<u8> {
        let mut writer = FrameWriter::new(Vec::new());
        frames.iter().for_each(|(kind, payload)| writer.write(*kind, payload).unwrap());
        writer.inner
    }

    #[test]
    fn frames_come_back_in_order_only() {
        let bytes = written(&[(Kind::Message, b"{}"), (Kind::Piece, b"abc")]);
        let mut rest = bytes.as_slice();
        assert_eq!(
            read(&mut rest, 0, 9).unwrap(),
            Frame { kind: Kind::Message, payload: b"{}".to_vec() }
        );
        let second = rest;
        assert_eq!(
            read(&mut rest, 1, 9).unwrap(),
            Frame { kind: Kind::Piece, payload: b"abc".to_vec() }
        );
        assert!(matches!(read(&mut rest, 2, 9), Err(FrameError::Closed)));
        assert!(
            matches!(read(&mut &*second, 0, 9), Err(FrameError::Checksum)),
            "a frame out of its place"
        );
        assert!(matches!(
            read(&mut &*second, 1, 2),
            Err(FrameError::TooLarge { size: 3, limit: 2 })
        ));
    }

    #[test]
    fn every_damaged_bit_and_every_cut_is_seen() {
        let bytes = written(&[(Kind::Message, b"measure")]);
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&mut damaged.as_slice(), 0, 64).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(
                matches!(read(&mut &bytes[..length], 0, 64), Err(FrameError::Closed)),
                "{length}"
            );
        }
    }
}
