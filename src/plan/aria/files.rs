//! Reads costs and devices from JSON files: alone, or within the output of `vitempo plan aria`.

use serde::de::DeserializeOwned;
use std::{
    io,
    path::{Path, PathBuf},
};
use vitempo_planners::aria::{AriaCosts, AriaDevice};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AriaFileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not JSON of the expected form.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The expected content: `costs`, `device` or `flow`.
        part: &'static str,
        /// The line and the field.
        source: serde_json::Error,
    },
    /// A trained flow has numbers that cannot be used.
    #[error("{}: {reason}", path.display())]
    Flow {
        /// The file.
        path: PathBuf,
        /// The field, and what is wrong with it.
        reason: String,
    },
    /// It cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Reads costs: the whole file, or its field `costs`.
///
/// # Errors
/// [`AriaFileError`] naming the file, line and field.
pub fn read_costs(path: &Path) -> Result<AriaCosts, AriaFileError> {
    read(path, "costs")
}

/// Reads a device: the whole file, or its field `device`.
///
/// # Errors
/// [`AriaFileError`] naming the file, line and field.
pub fn read_device(path: &Path) -> Result<AriaDevice, AriaFileError> {
    read(path, "device")
}

/// Reads a value: the whole file, or its field `part`.
pub(super) fn read<T: DeserializeOwned>(
    path: &Path,
    part: &'static str,
) -> Result<T, AriaFileError> {
    let text = vitempo_graph::files::read_text(path)
        .map_err(|source| AriaFileError::Read { path: path.to_owned(), source })?;
    let wrong = |source| AriaFileError::Format { path: path.to_owned(), part, source };
    let mut value: serde_json::Value = serde_json::from_str(&text).map_err(wrong)?;
    if let Some(found) = value.get_mut(part) {
        value = found.take();
    }
    serde_json::from_value(value).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn costs_stand_alone_or_under_their_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let (costs, device) = AriaCosts::paper_phone().expect("what ships");
        let both = file("both.json", json!({"costs": costs, "device": device}).to_string());
        let alone = file("alone.json", json!(costs).to_string());
        assert_eq!(read_costs(&both).ok(), Some(costs.clone()));
        assert_eq!(read_costs(&alone).ok(), Some(costs));
        assert_eq!(read_device(&both).ok(), Some(device));
        let refused = read_device(&alone).map_err(|e| e.to_string());
        assert!(refused.as_ref().is_err_and(|e| e.contains("alone.json")), "{refused:?}");
        assert!(matches!(read_costs(&folder.path().join("none")), Err(AriaFileError::Read { .. })));
    }
}
