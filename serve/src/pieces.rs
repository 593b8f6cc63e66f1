//! [`Pieces`]: an answer in memory that is counted before it is made, and given back piece by piece
//! while the client reads.

use super::{
    memory::{Memory, Share},
    problem::Problem,
};
use axum::http::StatusCode;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// Bytes of a piece; the first one of an answer does not count as memory.
pub const PIECE: usize = super::memory::FREE;

/// Some bytes of an answer, and the memory they take until they are sent.
#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    _share: Option<Share>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer of at most so many bytes.
#[derive(Debug)]
pub struct Pieces {
    memory: Memory,
    most: usize,
    pieces: VecDeque<Piece>,
    length: usize,
    refusal: Option<Problem>,
}

impl Pieces {
    /// Nothing yet.
    pub fn new(memory: Memory, most: usize) -> Self {
        Self { memory, most, pieces: VecDeque::new(), length: 0, refusal: None }
    }

    /// Why a write failed: 413 for an answer that would be too large, 503 where there is no memory.
    pub fn refusal(&mut self) -> Problem {
        self.refusal.take().unwrap_or_else(|| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written")
        })
    }

    fn append(&mut self, mut data: &[u8]) -> Result<(), Problem> {
        let length = self.length.saturating_add(data.len());
        if length > self.most {
            let detail = format!("the answer would be larger than {} bytes", self.most);
            return Err(too_much(detail)
                .hint("ask in several requests, for fewer bundles, or without the breakdown"));
        }
        while !data.is_empty() {
            let piece = match self.pieces.back_mut() {
                Some(piece) if piece.bytes.len() < PIECE => piece,
                last => {
                    let is_first = last.is_none();
                    self.pieces.push_back(self.piece(is_first)?);
                    continue;
                }
            };
            let (now, later) = data.split_at(data.len().min(PIECE - piece.bytes.len()));
            piece.bytes.extend_from_slice(now);
            data = later;
        }
        self.length = length;
        Ok(())
    }

    fn piece(&self, is_first: bool) -> Result<Piece, Problem> {
        if is_first {
            return Ok(Piece { bytes: Vec::new(), _share: None });
        }
        let mut share = self.memory.share();
        share.grow(PIECE)?;
        Ok(Piece { bytes: Vec::with_capacity(PIECE), _share: Some(share) })
    }
}

/// More is asked for than one answer may hold.
pub fn too_much(detail: String) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
        .hint("ask in several requests, or for fewer bundles")
}

impl io::Write for Pieces {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self.append(data) {
            Ok(()) => Ok(data.len()),
            Err(problem) => {
                self.refusal = Some(problem);
                Err(io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.pieces.pop_front();
        self.length -= next.as_ref().map_or(0, |piece| piece.bytes.len());
        Poll::Ready(next.map(|piece| Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, task::Waker};

    fn next(pieces: &mut Pieces) -> Option<Bytes> {
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(pieces).poll_frame(&mut cx) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
            _ => None,
        }
    }

    #[test]
    fn memory_is_given_back_when_a_piece_was_sent() {
        let memory = Memory::new(8 * PIECE);
        let mut pieces = Pieces::new(memory.clone(), 1 << 30);
        let written: Vec<u8> = (0..3 * PIECE + 5).map(|i| (i % 253) as u8).collect();
        for part in written.chunks(1000) {
            assert!(pieces.write_all(part).is_ok());
        }
        assert_eq!(
            (memory.used(), pieces.size_hint().exact()),
            (3 * PIECE, Some(written.len() as u64))
        );
        let (first, second) = (next(&mut pieces), next(&mut pieces));
        assert_eq!(memory.used(), 3 * PIECE, "the second piece waits to be sent");
        let mut read = [first.unwrap_or_default(), second.unwrap_or_default()].concat();
        assert_eq!(memory.used(), 2 * PIECE);
        while let Some(bytes) = next(&mut pieces) {
            read.extend_from_slice(&bytes);
        }
        assert!(read == written && pieces.is_end_stream());
        assert_eq!((memory.used(), pieces.length), (0, 0));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_not_made() {
        let memory = Memory::new(2 * PIECE);
        let mut pieces = Pieces::new(memory.clone(), 1 << 30);
        assert!(pieces.write_all(&vec![0; 3 * PIECE]).is_ok());
        assert!(pieces.write_all(&[0]).is_err());
        assert!(pieces.refusal().detail().contains("memory"));
        let mut others = Pieces::new(memory.clone(), 2 * PIECE);
        assert!(others.write_all(&vec![0; PIECE]).is_ok(), "a small answer needs none");
        assert!(others.write_all(&vec![0; PIECE + 1]).is_err());
        assert!(others.refusal().detail().contains("larger than"));
        drop(pieces);
        assert_eq!(memory.used(), 0);
    }
}
