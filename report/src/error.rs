//! [`ReportError`]: why a report cannot be built.

use std::{io, path::PathBuf};
use vitempo::{datasets::DatasetError, predictors::PredictorError};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A dataset cannot be read, or cannot be split.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The measurements of an environment do not add up to operator rows.
    #[error("{environment}: {source}")]
    Measurements {
        /// Identifier of the environment.
        environment: String,
        /// What the predictors report.
        source: PredictorError,
    },
    /// A bundle for the section on accuracy cannot be trained, evaluated or written.
    #[error(transparent)]
    Bundle(#[from] PredictorError),
    /// The importance of features cannot be computed.
    #[error("importance of features in {environment}: {reason}")]
    Importance {
        /// Identifier of the environment.
        environment: String,
        /// What the predictors report.
        reason: String,
    },
    /// No environment of the folders has usable operator rows.
    #[error("no environment in these folders has usable operator rows")]
    NothingMeasured,
    /// A file of notes that cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    UnreadableNotes {
        /// The file.
        path: PathBuf,
        /// What the system reports.
        source: io::Error,
    },
    /// A file of notes that is not a table of texts.
    #[error("{}: {source}", .path.display())]
    InvalidNotes {
        /// The file.
        path: PathBuf,
        /// What the parser reports.
        source: Box<toml::de::Error>,
    },
    /// A note on a section that the report does not have.
    #[error("{}: the report has no section `{section}`", .path.display())]
    UnknownSection {
        /// The file.
        path: PathBuf,
        /// The section that it names.
        section: String,
    },
    /// The folder for bundles cannot be made.
    #[error("cannot make folder {}: {source}", .path.display())]
    BundleFolder {
        /// The folder.
        path: PathBuf,
        /// What the system reports.
        source: io::Error,
    },
    /// A table that cannot be written as CSV.
    #[error("cannot write a table as CSV: {0}")]
    Csv(String),
    /// Two files of one path, of which the second would replace the first.
    #[error("two files of the report are called {path}")]
    EqualPaths {
        /// The path in the report.
        path: String,
    },
    /// A figure with more models than it has colours.
    #[error("a figure shows at most {most} models; these are {models}")]
    TooManyModels {
        /// Models given.
        models: usize,
        /// Most that are possible.
        most: usize,
    },
}
