//! Writing files of the user's: whole or not at all.

use super::error::{CliResult, io_error};
use std::path::Path;
use vitempo_graph::files::write_whole;

/// Writes beside `path` and moves the file there once it is on the disk; nothing is left behind
/// where that fails.
pub fn write(path: &Path, bytes: &[u8]) -> CliResult {
    write_whole(path, bytes).map_err(|error| io_error("write", path, &error))
}
