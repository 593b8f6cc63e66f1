//! [`BundleError`]: why a bundle cannot be opened.

use super::Location;
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

fn similar(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) }
}
