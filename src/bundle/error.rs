//! [`BundleError`]: why a bundle cannot be opened.

use super::{Location, near::similar};
use std::{io, path::PathBuf};

/// Why a bundle cannot be opened, with its name or file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// A name that no bundle has.
    #[error("there is no bundle `{name}`{}", similar(near))]
    Unknown {
        /// As it was given.
        name: String,
        /// Similar names, the most similar first.
        near: Vec<String>,
    },
    /// A folder in which bundles are looked up by name is not there, or is no folder.
    #[error("{} of the variable {variable} is not a folder", .folder.display())]
    NoFolder {
        /// The variable that lists it.
        variable: &'static str,
        /// The folder.
        folder: PathBuf,
    },
    /// A glob that no bundle matches.
    #[error("no bundle matches `{pattern}`{}", similar(near))]
    NoMatch {
        /// As it was given.
        pattern: String,
        /// Similar names, the most similar first.
        near: Vec<String>,
    },
    /// A text that is not a glob.
    #[error("`{pattern}` is not a glob: {reason}")]
    Glob {
        /// As it was given.
        pattern: String,
        /// What the parser reports.
        reason: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system reports.
        source: io::Error,
    },
    /// A file that is not a usable bundle.
    #[error("{location}: not a usable bundle: {reason}")]
    Format {
        /// Where it is.
        location: Location,
        /// What does not fit.
        reason: String,
    },
}
