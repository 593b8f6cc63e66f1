//! Records of studies as JSON files.

use serde::{Serialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};
use vitempo::graph::files::write_whole;

/// Why a record cannot be read, continued or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file.
    #[error("{}: {reason}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It was measured in another way than asked for.
    #[error("{} was measured by another protocol: its {what} differ", .path.display())]
    OtherProtocol {
        /// Its path.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
}

fn refused(path: &Path, error: impl std::fmt::Display) -> RecordError {
    RecordError::File { path: path.to_owned(), reason: error.to_string() }
}

/// Reads a record; `None` where the file does not exist.
///
/// # Errors
/// [`RecordError`] naming the file, and the field at fault.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| refused(path, e)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(path, error)),
    }
}

/// The record to go on with: that of the file, where there is one, else `empty`. `differs` says, of
/// the file's record and of `empty`, which parts of the protocol differ.
///
/// # Errors
/// [`RecordError`] naming the file, and what differs.
pub fn continued<T: DeserializeOwned, const N: usize>(
    path: &Path,
    empty: T,
    differs: impl FnOnce(&T, &T) -> [(&'static str, bool); N],
) -> Result<T, RecordError> {
    let Some(found) = read(path)? else { return Ok(empty) };
    match differs(&found, &empty).into_iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(RecordError::OtherProtocol { path: path.to_owned(), what }),
        None => Ok(found),
    }
}

/// Writes it, whole or not at all.
///
/// # Errors
/// [`RecordError`] naming the file.
pub fn write<T: Serialize>(record: &T, path: &Path) -> Result<(), RecordError> {
    let text = serde_json::to_string(record).map_err(|error| refused(path, error))?;
    write_whole(path, text.as_bytes()).map_err(|error| refused(path, error))
}
