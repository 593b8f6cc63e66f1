//! [`DatasetError`]: a fault of a dataset, with its file and row, and what to do about it.

use std::{io, path::Path, path::PathBuf};
use vitempo_graph::ModelIdentity;

/// Why a dataset cannot be read, written or divided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder has other contents.
    #[error("{path} is not a dataset: {reason}")]
    NotADataset {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another version of vitempo wrote it.
    #[error(
        "{path} has schema version {found}, this version of vitempo \
         reads version {understood}: {advice}"
    )]
    Version {
        /// The file or folder.
        path: PathBuf,
        /// The version of the dataset.
        found: u64,
        /// The version that this program writes.
        understood: u64,
        /// What to do about it.
        advice: &'static str,
    },
    /// A table is missing.
    #[error("{path} is missing; restore it, or measure again into another folder")]
    MissingTable {
        /// The file or folder.
        path: PathBuf,
    },
    /// Another program wrote a table.
    #[error("{path} is not a table of a vitempo dataset: {reason}")]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The bytes of a table have changed.
    #[error(
        "{path} is damaged: {reason}; restore it from a copy, or measure again into another folder"
    )]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A row contradicts the schema or other rows.
    #[error("{path}, row {row}, column `{column}`: {reason}")]
    Row {
        /// The file or folder.
        path: PathBuf,
        /// Number of the row, from 0.
        row: usize,
        /// Name of the column.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// A line of the journal cannot be read.
    #[error(
        "{path}, line {line}: {reason}; this model run cannot be read, remove the line to go on \
        without it"
    )]
    Journal {
        /// The file or folder.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Another process writes the dataset.
    #[error("{path} is being written by process {pid}; wait for it, or choose another folder")]
    Locked {
        /// The file or folder.
        path: PathBuf,
        /// The process.
        pid: String,
    },
    /// Others commit to a lake all the time.
    #[error("{path}: {attempts} times another writer's commit came first; run it again")]
    Busy {
        /// The lake.
        path: PathBuf,
        /// How often it was tried.
        attempts: usize,
    },
    /// It is stored already with other values.
    #[error("{what} is in {path} already with other values; use another session or round")]
    Conflict {
        /// The file or folder.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// A model is stored already as one of another search space, or of none.
    #[error(
        "{path} has model {model} already, {known}, and not {other}: keep \
         index.csv beside sampled models, or give the file another name"
    )]
    ModelConflict {
        /// The file or folder.
        path: PathBuf,
        /// Name and digest of the model.
        model: String,
        /// Where the stored model is from.
        known: String,
        /// Where this one is from.
        other: String,
    },
    /// The schema cannot represent a value.
    #[error("{what} cannot be stored: {reason}")]
    Unstorable {
        /// What it is.
        what: String,
        /// What is wrong.
        reason: String,
    },
    /// Nothing was measured successfully.
    #[error(
        "{path} has no successful measurement ({failed} failed); run `vitempo profile` into it \
        first"
    )]
    Empty {
        /// The file or folder.
        path: PathBuf,
        /// Number of failed model runs.
        failed: usize,
    },
    /// Memory was measured, and no latency.
    #[error(
        "{path} has no latencies: all of its {runs} successful model runs measured memory alone; \
        run `vitempo profile` into it for latencies"
    )]
    NoLatencies {
        /// The file or folder.
        path: PathBuf,
        /// Number of the model runs.
        runs: usize,
    },
    /// No architecture of the environment has so few rows of operators.
    #[error(
        "{path}: a sample of at most {rows} rows of operators has no architecture; the smallest that \
        has one is of {least} rows"
    )]
    SmallSample {
        /// The file or folder.
        path: PathBuf,
        /// As asked for.
        rows: u64,
        /// With how many rows there is one.
        least: u64,
    },
    /// The dataset cannot be divided.
    #[error("cannot split {path}: {reason}")]
    Split {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A line of a published file cannot be imported.
    #[error("{path}, line {line}, column `{column}`: {reason}")]
    Import {
        /// The file or folder.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// A published file cannot be imported.
    #[error("{path} cannot be imported: {reason}")]
    NotImportable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A published file's name does not give a fact that its table does not hold either.
    #[error("{path}: the file's name does not give {fact}")]
    NotInName {
        /// The file.
        path: PathBuf,
        /// The missing fact, and the words in a file's name that give it.
        fact: &'static str,
    },
    /// Files are chosen by their partition, and a folder has none.
    #[error("{path} is a folder with whole tables; choose rows by environment and kind in a lake")]
    NotALake {
        /// The folder.
        path: PathBuf,
    },
    /// Files of a table are not chosen by this.
    #[error("the files of `{table}` are not divided by {what}; those of {divided} are")]
    NotDivided {
        /// The table.
        table: &'static str,
        /// Environment or kind.
        what: &'static str,
        /// Tables that are.
        divided: &'static str,
    },
    /// A lake has no files of this environment or kind.
    #[error("the lake has no {what} `{name}` in `{table}`; it has {known}")]
    NoSuchPart {
        /// Environment or kind.
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// The table.
        table: &'static str,
        /// The names there are.
        known: String,
    },
    /// There is no table of this name.
    #[error("there is no table `{name}`; the tables are {known}")]
    NoSuchTable {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A table has no column of this name.
    #[error("`{table}` has no column `{name}`; it has {known}")]
    NoSuchColumn {
        /// The table.
        table: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}

impl DatasetError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }

    /// A model that is known in `path` as one of another space.
    pub(crate) fn contradiction(path: &Path, known: &ModelIdentity, other: &ModelIdentity) -> Self {
        let origin = |model: &ModelIdentity| match (&model.space, &model.encoding) {
            (Some(space), Some(encoding)) => format!("sampled from `{space}` as `{encoding}`"),
            (Some(space), None) => format!("sampled from `{space}`"),
            (None, _) => "of no search space".to_owned(),
        };
        Self::ModelConflict {
            path: path.to_owned(),
            model: format!("`{}` ({})", known.name, known.architecture),
            known: origin(known),
            other: origin(other),
        }
    }

    pub(crate) fn foreign(path: &Path, reason: impl Into<String>) -> Self {
        Self::Foreign { path: path.to_owned(), reason: reason.into() }
    }
}
