//! [`BundleError`]: why a bundle cannot be opened.

use super::Location;
use std::{io, path::PathBuf};

/// Why a bundle cannot be opened, with its name or file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum BundleError {
    /// `near`: names that are similar, the most similar first.
    #[error("there is no bundle `{name}`{}", similar(near))]
    Unknown { name: String, near: Vec<String> },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{location}: not a usable bundle: {reason}")]
    Format { location: Location, reason: String },
}

fn similar(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) }
}
