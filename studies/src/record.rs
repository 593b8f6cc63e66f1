//! Records of studies as JSON files.

use serde::{Serialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};
use vitempo::graph::files::write_whole;

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct RecordError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

/// Reads a record; `None` where the file does not exist.
///
/// # Errors
/// [`RecordError`] naming the file, and the field at fault.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    let refused = |reason: String| RecordError { path: path.to_owned(), reason };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| refused(e.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Writes it, whole or not at all.
///
/// # Errors
/// [`RecordError`] naming the file.
pub fn write<T: Serialize>(record: &T, path: &Path) -> Result<(), RecordError> {
    let refused = |reason: String| RecordError { path: path.to_owned(), reason };
    let text = serde_json::to_string(record).map_err(|error| refused(error.to_string()))?;
    write_whole(path, text.as_bytes()).map_err(|error| refused(error.to_string()))
}
