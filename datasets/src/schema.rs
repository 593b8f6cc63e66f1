//! The schema of a dataset: its version, its tables, and the columns of a table with their types.
//!
//! The version rises whenever a column is added, removed, or changes its meaning. Versions from
//! [`OLDEST_VERSION`] on are read: a column that a table of an older version lacks is null. Only
//! [`SCHEMA_VERSION`] is written.

use crate::{DatasetError, files::write_whole};
use serde::{Deserialize, Serialize};
use std::{fs, io, path::Path};

/// The name that `schema.json` and every table carry.
pub const FORMAT: &str = "vitempo-dataset";
/// The version this crate writes.
pub const SCHEMA_VERSION: u64 = 8;
/// The oldest version this crate reads.
pub const OLDEST_VERSION: u64 = 1;
/// Name of the file that makes a folder a dataset.
pub const SCHEMA_FILE: &str = "schema.json";

/// The type of a column. Integers are unsigned and 64 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Text,
    OptionalText,
    Integer,
    OptionalInteger,
    IntegerList,
}

/// A table: the stem of its file, and its columns.
#[derive(Debug)]
pub(crate) struct TableSchema {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, ColumnType)],
    /// Those of them that came after version 1, and with which version.
    pub(crate) added: &'static [(&'static str, u64)],
}

impl TableSchema {
    pub(crate) fn file_name(&self) -> String {
        format!("{}.parquet", self.name)
    }

    /// The version with which a column came.
    pub(crate) fn since(&self, column: &str) -> u64 {
        self.added.iter().find(|(name, _)| *name == column).map_or(1, |(_, version)| *version)
    }

    /// Whether a table of this version has the column.
    pub(crate) fn has(&self, column: &str, version: u64) -> bool {
        self.since(column) <= version
    }

    pub(crate) fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|(name, _)| *name == column)
    }
}

/// What `schema.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: String,
    pub(crate) schema_version: u64,
    pub(crate) written_by: String,
}

impl Manifest {
    pub(crate) fn current() -> Self {
        Self {
            format: FORMAT.to_owned(),
            schema_version: SCHEMA_VERSION,
            written_by: concat!("vitempo ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), DatasetError> {
        let json = serde_json::to_string_pretty(self).map_err(|e| DatasetError::Unstorable {
            what: SCHEMA_FILE.to_owned(),
            reason: e.to_string(),
        })?;
        write_whole(&folder.join(SCHEMA_FILE), format!("{json}\n").as_bytes())
    }

    /// Reads and checks `schema.json`.
    pub(crate) fn read(folder: &Path) -> Result<Self, DatasetError> {
        let path = folder.join(SCHEMA_FILE);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound if folder.is_dir() => {
                not_a_dataset(folder, "it has no schema.json")
            }
            io::ErrorKind::NotFound => not_a_dataset(folder, "there is no such folder"),
            io::ErrorKind::NotADirectory => not_a_dataset(folder, "it is a file, not a folder"),
            _ => DatasetError::Io { action: "read", path: path.clone(), source },
        })?;
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|e| not_a_dataset(folder, &format!("its schema.json is not JSON ({e})")))?;
        if value["format"] != FORMAT {
            return Err(not_a_dataset(
                folder,
                &format!("its schema.json does not say `\"format\": \"{FORMAT}\"`"),
            ));
        }
        let found = value["schema_version"]
            .as_u64()
            .ok_or_else(|| not_a_dataset(folder, "its schema.json has no schema_version"))?;
        check_version(&path, found)?;
        serde_json::from_value(value)
            .map_err(|e| not_a_dataset(folder, &format!("its schema.json is incomplete ({e})")))
    }
}

fn not_a_dataset(folder: &Path, reason: &str) -> DatasetError {
    DatasetError::NotADataset { path: folder.to_owned(), reason: reason.to_owned() }
}

/// Refuses versions that cannot be read.
pub(crate) fn check_version(path: &Path, found: u64) -> Result<(), DatasetError> {
    if (OLDEST_VERSION..=SCHEMA_VERSION).contains(&found) {
        return Ok(());
    }
    let advice = if found > SCHEMA_VERSION {
        "a newer vitempo wrote it, use that one"
    } else {
        "an older vitempo wrote it, export it with that one or measure again"
    };
    Err(DatasetError::Version { path: path.to_owned(), found, understood: SCHEMA_VERSION, advice })
}

#[cfg(all(test, feature = "write"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Dataset;

    #[test]
    fn refuses_what_is_not_a_dataset_or_has_another_version() {
        let folder = tempfile::tempdir().unwrap();
        let error = |text: &str| {
            fs::write(folder.path().join(SCHEMA_FILE), text).unwrap();
            Dataset::load(folder.path()).unwrap_err().to_string()
        };
        for (text, says) in [
            ("", "not JSON"),
            ("{\"format\": \"other\"}", "does not say"),
            ("{\"format\": \"vitempo-dataset\"}", "no schema_version"),
            (
                "{\"format\": \"vitempo-dataset\", \"schema_version\": 9}",
                "has schema version 9, this version of vitempo reads version 8: a newer vitempo \
                wrote it",
            ),
            (
                "{\"format\": \"vitempo-dataset\", \"schema_version\": 0}",
                "an older vitempo wrote it",
            ),
            ("{\"format\": \"vitempo-dataset\", \"schema_version\": 1}", "incomplete"),
        ] {
            assert!(error(text).contains(says), "{}", error(text));
        }
        fs::remove_file(folder.path().join(SCHEMA_FILE)).unwrap();
        assert!(
            Dataset::load(folder.path()).unwrap_err().to_string().contains("has no schema.json")
        );
        assert!(
            Dataset::load(&folder.path().join("nowhere"))
                .unwrap_err()
                .to_string()
                .contains("no such folder")
        );
    }

    #[test]
    fn a_dataset_of_an_older_version_grows_into_the_current_one() {
        let folder = tempfile::tempdir().unwrap();
        let shipped =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("measured/epyc-onnxruntime-f32-1t");
        for entry in fs::read_dir(&shipped).unwrap().flatten() {
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        assert_eq!(Manifest::read(folder.path()).unwrap().schema_version, 1);
        let before = Dataset::load(folder.path()).unwrap();
        let (profiles, graphs) = crate::simulated::sweep(2, 6, 5);
        let mut store = crate::Store::open_or_create(folder.path()).unwrap();
        crate::simulated::append_all(&mut store, &profiles, &graphs);
        assert_eq!(Manifest::read(folder.path()).unwrap().schema_version, SCHEMA_VERSION);
        let mixed = Dataset::load(folder.path()).unwrap().profiles;
        store.compact().unwrap();
        assert_eq!(Dataset::load(folder.path()).unwrap().profiles, mixed);
        assert_eq!(mixed, [before.profiles, profiles].concat());
    }
}
