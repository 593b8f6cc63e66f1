//! [`Lake`]: a dataset that grows, in a folder or in a bucket, as Parquet files by environment and
//! kind of operator.
//!
//! | file | holds |
//! |---|---|
//! | `model_measurements/environment=ID/DIGEST.parquet` | runs of models |
//! | `operator_measurements/environment=ID/kind=KIND/DIGEST.parquet` | their operators |
//! | `environments/`, `operators/`, `models/` | what these refer to, each once |
//! | `_commits/NUMBER.json` | which files are the lake |
//!
//! Files have the tables and columns of a dataset folder. Rows are added by [`Lake::append`]: files
//! first, then the commit that names them. Until then nobody reads them, and a writer that was
//! killed leaves files that are not part of the lake. Any number of writers can append at once;
//! model runs that are there already count once. [`Lake::compact`] joins small files.
//!
//! [`Lake::scan`] reads rows file by file, of those that a [`Filter`] leaves. Everything that takes
//! a dataset folder takes the path of a lake (`crate::source`).

#[cfg(feature = "write")]
mod append;
#[cfg(feature = "s3")]
mod bucket;
mod commits;
#[cfg(feature = "write")]
mod compact;
#[cfg(feature = "write")]
mod index;
mod objects;
mod partition;
mod read;
mod scan;

#[cfg(feature = "write")]
pub use append::Appended;
pub use commits::Part;
#[cfg(feature = "write")]
pub use compact::LakeCompaction;
pub use scan::{Filter, Scan};

pub(crate) use commits::{Contents, State, number_of, path_in};
pub(crate) use objects::is_unfinished;

use crate::{
    DatasetError,
    schema::{FORMAT, Manifest, SCHEMA_VERSION},
    tables::TABLES,
};
use objects::{BUCKETS, Objects};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// A lake as of one commit: what others append later is not seen.
#[derive(Clone, Debug)]
pub struct Lake {
    path: PathBuf,
    objects: Objects,
    state: State,
    #[cfg(feature = "write")]
    index: index::Index,
}

/// Whether a lake is at this path, or can be: a bucket, or a folder that has commits. Makes no
/// request to a bucket.
#[must_use]
pub fn is_at(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with(BUCKETS))
        || path.join(commits::FOLDER).is_dir()
}

impl Lake {
    /// Opens the lake in a folder, or at `s3://BUCKET/PREFIX` with the credentials of the
    /// environment.
    ///
    /// # Errors
    /// [`DatasetError`]: there is no lake, a commit is damaged or of a newer vitempo, or the folder
    /// or bucket cannot be read.
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        let lake = Self::open_or_create(path)?;
        if lake.state.number == 0 {
            return Err(DatasetError::NotADataset {
                path: path.to_owned(),
                reason: "no lake is there; `vitempo dataset append` makes one".to_owned(),
            });
        }
        Ok(lake)
    }

    /// The same; where there is none, the first [`Lake::append`] makes it.
    ///
    /// # Errors
    /// As [`Lake::open`]; [`DatasetError::NotADataset`] where the folder holds something else.
    pub fn open_or_create(path: &Path) -> Result<Self, DatasetError> {
        let objects = Objects::at(path)?;
        let state = State::latest(&objects, path)?;
        if state.number == 0 {
            objects.refuse_foreign(path)?;
        }
        Ok(Self {
            path: path.to_owned(),
            objects,
            state,
            #[cfg(feature = "write")]
            index: index::Index::default(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the commit that it is read as of.
    #[must_use]
    pub const fn commit(&self) -> u64 {
        self.state.number
    }

    /// The environments that have model runs, with the number of them.
    #[must_use]
    pub fn environments(&self) -> BTreeMap<String, usize> {
        let mut environments = BTreeMap::new();
        for batch in &self.state.contents.batches {
            let runs: &mut usize = environments.entry(batch.environment.clone()).or_default();
            *runs = runs.saturating_add(batch.runs.rows);
        }
        environments
    }

    /// Whether a file is missing because the lake was compacted since it was opened.
    pub(crate) fn is_outdated(&self, error: &DatasetError) -> Result<bool, DatasetError> {
        Ok(objects::kind_of(error) == Some(io::ErrorKind::NotFound)
            && State::latest(&self.objects, &self.path)?.number > self.state.number)
    }

    pub(crate) fn manifest(&self) -> Manifest {
        Manifest {
            format: FORMAT.to_owned(),
            schema_version: SCHEMA_VERSION,
            written_by: self.state.written_by.clone(),
        }
    }

    /// Bytes of the files of each table.
    pub(crate) fn sizes(&self) -> BTreeMap<String, u64> {
        let size = |table| {
            let files = self.state.contents.of_table(table);
            files.iter().map(|file| file.part.bytes).fold(0, u64::saturating_add)
        };
        TABLES.iter().map(|schema| (schema.name.to_owned(), size(schema.name))).collect()
    }

    pub(crate) const fn contents(&self) -> &Contents {
        &self.state.contents
    }

    /// The same lake with some of its files only.
    pub(crate) fn only(&self, contents: Contents) -> Self {
        let state = State { contents, ..self.state.clone() };
        Self { state, ..self.clone() }
    }

    /// The names of all files, whether or not they are part of the lake.
    pub(crate) fn stored(&self) -> Result<Vec<objects::Found>, DatasetError> {
        self.objects.list("")
    }
}
