//! Writes the user's files, whole or not at all, with an error that says what to do.

use super::error::{CliResult, io_error};
use std::path::Path;

/// Writes a file, or leaves none on failure.
pub fn write(path: &Path, bytes: &[u8]) -> CliResult {
    vitempo::graph::files::write_whole(path, bytes).map_err(|error| io_error("write", path, &error))
}
