//! [`DatasetError`]: what can be wrong with a dataset, in which file and row, and what to do about
//! it.

use std::{io, path::Path, path::PathBuf};

/// Why a dataset cannot be read, written or divided.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DatasetError {
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is not a dataset: {reason}")]
    NotADataset { path: PathBuf, reason: String },
    #[error(
        "{path} has schema version {found}, this vitempo understands version {understood}: {advice}"
    )]
    Version { path: PathBuf, found: u64, understood: u64, advice: &'static str },
    #[error("{path} is missing; restore it, or measure again into another folder")]
    MissingTable { path: PathBuf },
    #[error("{path} is not a table of a vitempo dataset: {reason}")]
    Foreign { path: PathBuf, reason: String },
    #[error(
        "{path} is damaged: {reason}; restore it from a copy, or measure again into another folder"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error("{path}, row {row}, column `{column}`: {reason}")]
    Row { path: PathBuf, row: usize, column: String, reason: String },
    #[error(
        "{path}, line {line}: {reason}; this visit cannot be read, remove the line to go on \
        without it"
    )]
    Journal { path: PathBuf, line: usize, reason: String },
    #[error("{path} is being written by process {pid}; wait for it, or choose another folder")]
    Locked { path: PathBuf, pid: String },
    #[error("{what} is in {path} already with other values; use another sitting or round")]
    Conflict { path: PathBuf, what: String },
    #[error("{what} cannot be stored: {reason}")]
    Unstorable { what: String, reason: String },
    #[error(
        "{path} has no successful measurement ({failed} failed); run `vitempo profile` into it \
        first"
    )]
    Empty { path: PathBuf, failed: usize },
    #[error("cannot split {path}: {reason}")]
    Split { path: PathBuf, reason: String },
    #[error("{path}, line {line}, column `{column}`: {reason}")]
    Import { path: PathBuf, line: u64, column: String, reason: String },
    #[error("{path} cannot be imported: {reason}")]
    NotImportable { path: PathBuf, reason: String },
    #[error("there is no table `{name}`; the tables are {known}")]
    NoSuchTable { name: String, known: String },
}

impl DatasetError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn foreign(path: &Path, reason: impl Into<String>) -> Self {
        Self::Foreign { path: path.to_owned(), reason: reason.into() }
    }
}
