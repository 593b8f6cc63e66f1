//! Writes the user's files, whole or not at all, with an error that says what to do.

use super::error::{CliError, CliResult, io_error};
use std::path::Path;

/// Refuses a file whose folder does not exist, before long work for it begins.
pub fn check_folder(path: &Path) -> CliResult {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(CliError::user(format!("{}: the folder does not exist", path.display()))
                .hint("make it, or write to another folder"))
        }
        _ => Ok(()),
    }
}

/// Writes a file, or leaves none on failure.
pub fn write(path: &Path, bytes: &[u8]) -> CliResult {
    vitempo::graph::files::write_whole(path, bytes).map_err(|error| io_error("write", path, &error))
}
