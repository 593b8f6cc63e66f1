//! [`Source`]: where the tables of a dataset are, a folder or a lake. Readers ask it for tables and
//! need not know which it is.

use crate::{
    DatasetError, Lake, Warning,
    column::Table,
    journal::{self, Journal},
    lake,
    parquet::{self, Asked},
    schema::{Manifest, TableSchema},
};
use std::path::{Path, PathBuf};

/// The tables of one dataset.
pub(crate) enum Source {
    /// A file for each table, and a journal.
    Folder(PathBuf),
    /// Files by environment and kind of operator.
    Lake(Box<Lake>),
}

impl From<Lake> for Source {
    fn from(lake: Lake) -> Self {
        Self::Lake(Box::new(lake))
    }
}

impl Source {
    /// Of the dataset at a path: a folder, the folder of a lake, or `s3://BUCKET/PREFIX`.
    pub(crate) fn open(path: &Path) -> Result<Self, DatasetError> {
        if lake::is_at(path) {
            return Lake::open(path).map(Self::from);
        }
        Manifest::read(path)?;
        Ok(Self::Folder(path.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder,
            Self::Lake(lake) => lake.path(),
        }
    }

    /// Its schema version, and what wrote it.
    pub(crate) fn manifest(&self) -> Result<Manifest, DatasetError> {
        match self {
            Self::Folder(folder) => Manifest::read(folder),
            Self::Lake(lake) => Ok(lake.manifest()),
        }
    }

    /// Model runs that are not in the tables; a lake has none.
    pub(crate) fn journal(&self) -> Result<Journal, DatasetError> {
        match self {
            Self::Folder(folder) => journal::read(folder),
            Self::Lake(_) => Ok(Journal::default()),
        }
    }

    /// Reads what is asked for of a table. Rows of a lake have numbers that [`Self::placed`] turns
    /// into file and row.
    pub(crate) fn read(
        &self,
        schema: &'static TableSchema,
        asked: Asked<'_>,
    ) -> Result<Table, DatasetError> {
        match self {
            Self::Folder(folder) => parquet::read_some(schema, folder, asked),
            Self::Lake(lake) => lake.read(schema, asked),
        }
    }

    /// Whether a file is missing because a lake was compacted since it was opened.
    pub(crate) fn is_outdated(&self, error: &DatasetError) -> Result<bool, DatasetError> {
        match self {
            Self::Folder(_) => Ok(false),
            Self::Lake(lake) => lake.is_outdated(error),
        }
    }

    /// The same error, with the file of a lake that has the row.
    pub(crate) fn placed(&self, error: DatasetError) -> DatasetError {
        match (self, error) {
            (Self::Lake(lake), DatasetError::Row { path, row, column, reason }) => {
                let (path, row) = lake.place_of(&path, row);
                DatasetError::Row { path, row, column, reason }
            }
            (_, error) => error,
        }
    }

    /// The same of a warning.
    pub(crate) fn placed_warning(&self, warning: Warning) -> Warning {
        match (self, warning) {
            (Self::Lake(lake), Warning::Orphans { path, row, rows }) => {
                let (path, row) = lake.place_of(&path, row);
                Warning::Orphans { path, row, rows }
            }
            (_, warning) => warning,
        }
    }
}
