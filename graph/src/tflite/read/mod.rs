//! Reads a .tflite file into a [`Graph`].
//!
//! The file stores images N, H, W, C; graphs have them N, C, H, W. A tensor of four dimensions is
//! an image where a window (convolution, pooling, resizing) writes or reads it, or where operators
//! that take any order lead to one (`images`). Where a reshape or a product reads an image, the
//! graph has a transposition, of which [`super::write()`] makes nothing again: the written and the
//! read model have the same operators. Inputs that are images are N, C, H, W in the graph.
//!
//! Weights stay in the file, small constants are read. 8-bit models are refused: their scales are
//! not read.
//!
//! | question | where |
//! |---|---|
//! | how are the tables read? | `binary`, `model` |
//! | which tensors are images? | `images` |
//! | what does an operator become? | `operators`, `windows`, `movement` |
//! | how are values and constants kept? | `reader` |

mod binary;
mod error;
mod images;
mod model;
mod movement;
mod operators;
mod reader;
mod windows;

pub use error::TfliteReadError;

use crate::{Budget, Graph, files::read_limited};
use error::Fault;
use model::Model;
use reader::Reader;
use std::path::Path;

/// The offsets of a flatbuffer have 32 bits with a sign.
const MOST_BYTES: u64 = i32::MAX as u64;

/// Reads a file; the graph is named like it.
///
/// # Errors
/// [`TfliteReadError`] with the file, and the operator where one is at fault.
pub fn read_file(path: &Path, budget: &Budget) -> Result<Graph, TfliteReadError> {
    let bytes = read_limited(path, MOST_BYTES)
        .map_err(|source| TfliteReadError::Io { path: path.to_owned(), source })?;
    let name = path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy());
    read(&name, &bytes, budget).map_err(|fault| fault.of(path.to_owned()))
}

/// Reads a model from memory; `name` becomes the graph's name and is shown as the file in errors.
///
/// # Errors
/// As [`read_file`].
pub fn read_bytes(name: &str, bytes: &[u8], budget: &Budget) -> Result<Graph, TfliteReadError> {
    read(name, bytes, budget).map_err(|fault| fault.of(name.into()))
}

fn read(name: &str, bytes: &[u8], budget: &Budget) -> Result<Graph, Fault> {
    let model = Model::read(bytes, budget)?;
    Reader::new(name, &model, budget).read()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
