//! Models that the arguments of a study name.

use super::print::Failure;
use vitempo::{
    graph::onnx::ReadOptions,
    models::{self, Model, Models},
};

/// Reads files, folders of them, and globs; one that cannot be read ends the study.
pub fn models(arguments: &[String]) -> Result<Vec<Model>, Failure> {
    let Models { read, unreadable } =
        models::read_all(arguments, &ReadOptions::default()).map_err(Failure::new)?;
    match unreadable.into_iter().next() {
        Some((_, error)) => Err(Failure::new(error)),
        None => Ok(read),
    }
}
