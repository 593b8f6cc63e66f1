//! Fills absent weights: reads any ONNX file, and writes one self-contained file.
//!
//! Works on protobuf's wire format: everything except the external tensors is copied byte for byte,
//! so that no field is lost. External data that exists beside the model is read; absent data
//! becomes seeded random values that keep every operator's result finite:
//!
//! | weight | values |
//! |---|---|
//! | floating point | normal, mean 0, standard deviation 0.02 |
//! | scale of a normalisation | normal, mean 1, standard deviation 0.02 |
//! | variance; divisor; operands of Sqrt, Log, Reciprocal, Pow | uniform in 0.5 to 1.5 |
//! | integers and booleans | 0, which is a valid index and a valid mask |
//!
//! A weight that the file lists as an input becomes an initializer.

pub(super) mod fill;
mod tensors;

use super::{OnnxError, wire};
use crate::{Precision, files::read_limited};
use fill::Distribution;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use tensors::{Message, Reader};

/// The largest message protobuf's readers take.
pub(super) const MOST_BYTES: u64 = i32::MAX as u64;

/// A model's bytes with all its weights inside; `seed` decides those that are absent.
///
/// # Errors
/// [`OnnxError`] when the file cannot be read, is not ONNX, names data outside its folder, or would
/// be larger than protobuf's 2 GB.
pub fn materialize(path: &Path, seed: u64) -> Result<Vec<u8>, OnnxError> {
    let file = read(path)?;
    let plan = plan(path, &file)?;
    plan.run(path, &file, seed)
}

/// Whether the data of every weight exists, in the file or beside it.
///
/// # Errors
/// [`OnnxError`] as [`materialize`].
pub fn weights_present(path: &Path) -> Result<bool, OnnxError> {
    let file = read(path)?;
    Ok(!plan(path, &file)?.pieces.iter().any(|piece| matches!(piece, Piece::Random { .. })))
}

/// A model's bytes to be sent elsewhere: the file itself, if no data lies beside it; otherwise all
/// its weights inside, as from [`materialize`].
///
/// # Errors
/// [`OnnxError`] as [`materialize`].
pub fn self_contained(path: &Path, seed: u64) -> Result<Vec<u8>, OnnxError> {
    let file = read(path)?;
    let plan = plan(path, &file)?;
    if plan.pieces.iter().any(|piece| matches!(piece, Piece::Stored { .. })) {
        plan.run(path, &file, seed)
    } else {
        Ok(file)
    }
}

/// A model, in memory but as if at `path`, with the external data inside that lies beside it;
/// references to absent data stay. `None` where there is nothing to put inside.
pub(super) fn with_stored(path: &Path, model: &[u8]) -> Result<Option<Vec<u8>>, OnnxError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let plan = Plan::keeping_absent(folder, model)
        .map_err(|reason| OnnxError::Format { path: path.to_owned(), reason })?;
    let stored = plan.pieces.iter().any(|piece| matches!(piece, Piece::Stored { .. }));
    stored.then(|| plan.run(path, model, 0)).transpose()
}

/// Fills all external tensors of a model in memory with random values; nothing is read from the
/// disk.
pub(super) fn fill_in(model: &[u8], seed: u64) -> Result<Vec<u8>, String> {
    let plan = Plan::of(None, model)?;
    plan.run(Path::new(""), model, seed).map_err(|error| match error {
        OnnxError::Format { reason, .. } => reason,
        other => other.to_string(),
    })
}

fn plan(path: &Path, file: &[u8]) -> Result<Plan, OnnxError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    Plan::of(Some(folder), file)
        .map_err(|reason| OnnxError::Format { path: path.to_owned(), reason })
}

/// The bytes of a model's file, which protobuf's readers take.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, OnnxError> {
    read_limited(path, MOST_BYTES).map_err(|source| OnnxError::Io { path: path.to_owned(), source })
}

/// A stretch of the file to write.
enum Piece {
    Copy(Range<usize>),
    Owned(Vec<u8>),
    Stored { path: PathBuf, offset: u64, length: u64 },
    Random { name: String, elements: usize, precision: Precision, distribution: Distribution },
}

/// The pieces of the self-contained file.
struct Plan {
    pieces: Vec<Piece>,
    length: u64,
}

impl Plan {
    fn of(folder: Option<&Path>, file: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::new(file, folder);
        if folder.is_some() {
            reader.weight_inputs();
        }
        reader.consumers(Message::Model, 0..file.len(), 0)?;
        reader.rewrite(Message::Model, 0..file.len(), 0)
    }

    /// A plan that leaves absent data absent.
    fn keeping_absent(folder: &Path, file: &[u8]) -> Result<Self, String> {
        Reader::keeping_absent(file, folder).rewrite(Message::Model, 0..file.len(), 0)
    }

    fn run(&self, path: &Path, file: &[u8], seed: u64) -> Result<Vec<u8>, OnnxError> {
        let refuse = |reason: String| OnnxError::Format { path: path.to_owned(), reason };
        if self.length > MOST_BYTES {
            return Err(refuse(too_large(self.length)));
        }
        let length = self.length as usize;
        let mut out = Vec::new();
        out.try_reserve_exact(length)
            .map_err(|_| refuse(format!("not enough memory for {length} bytes of weights")))?;
        for piece in &self.pieces {
            match piece {
                Piece::Copy(range) => out.extend_from_slice(&file[range.clone()]),
                Piece::Owned(bytes) => out.extend_from_slice(bytes),
                Piece::Stored { path, offset, length } => {
                    append_stored(&mut out, path, *offset, *length)
                        .map_err(|source| OnnxError::Io { path: path.clone(), source })?;
                }
                Piece::Random { name, elements, precision, distribution } => {
                    fill::append(&mut out, *elements, *precision, *distribution, seed, name);
                }
            }
        }
        Ok(out)
    }
}

pub(super) fn too_large(bytes: u64) -> String {
    format!(
        "with its weights the model has {bytes} bytes; one ONNX file holds at most {MOST_BYTES}"
    )
}

fn append_stored(out: &mut Vec<u8>, path: &Path, offset: u64, length: u64) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let read = file.take(length).read_to_end(out)?;
    if read as u64 == length { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

impl Plan {
    fn push(&mut self, piece: Piece, bytes: u64) {
        self.length = self.length.saturating_add(bytes);
        self.pieces.push(piece);
    }

    fn copy(&mut self, range: Range<usize>) {
        let bytes = range.len() as u64;
        if let Some(Piece::Copy(last)) = self.pieces.last_mut()
            && last.end == range.start
        {
            last.end = range.end;
            self.length += bytes;
            return;
        }
        self.push(Piece::Copy(range), bytes);
    }

    fn own(&mut self, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        self.push(Piece::Owned(bytes), length);
    }

    fn nest(&mut self, number: u64, inner: Self) {
        self.own(wire::header(number, inner.length));
        self.length = self.length.saturating_add(inner.length);
        self.pieces.extend(inner.pieces);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
