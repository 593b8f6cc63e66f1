//! [`Objects`]: the files of a lake, in a folder or in a bucket. Names are relative to the lake and
//! have `/` between their parts.

#[cfg(feature = "s3")]
use super::bucket::Bucket;
use super::commits::FOLDER;
use crate::{
    DatasetError,
    files::{UNFINISHED, create_parents, write_new, write_whole},
    tables::table_names,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// How the address of a lake in a bucket begins.
pub(crate) const BUCKETS: &str = "s3://";

/// A file that is there, whether or not a commit names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) changed: SystemTime,
}

/// Where the files are.
#[derive(Clone, Debug)]
pub(crate) enum Objects {
    /// Below a folder.
    Folder(PathBuf),
    /// Below a prefix in a bucket.
    #[cfg(feature = "s3")]
    Bucket(Bucket),
}

impl Objects {
    /// At the path of a lake; reads and makes nothing.
    pub(crate) fn at(path: &Path) -> Result<Self, DatasetError> {
        let Some(address) = path.to_str().and_then(|path| path.strip_prefix(BUCKETS)) else {
            return Ok(Self::Folder(path.to_owned()));
        };
        #[cfg(feature = "s3")]
        return Bucket::open(address).map(Self::Bucket);
        #[cfg(not(feature = "s3"))]
        Err(DatasetError::NotADataset {
            path: PathBuf::from(format!(
                "{BUCKETS}{}",
                address.split('@').next_back().unwrap_or("")
            )),
            reason: "this vitempo was built without buckets (its feature `s3`)".to_owned(),
        })
    }

    /// A folder that holds something else does not become a lake.
    pub(crate) fn refuse_foreign(&self, path: &Path) -> Result<(), DatasetError> {
        #[cfg(feature = "s3")]
        if matches!(self, Self::Bucket(_)) {
            return Ok(());
        }
        let ours = |name: &str| {
            let own = name.split('/').next().unwrap_or(name);
            own == FOLDER || table_names().contains(&own) || is_unfinished(name)
        };
        match self.list("")?.iter().find(|file| !ours(&file.name)) {
            None => Ok(()),
            Some(file) => Err(DatasetError::NotADataset {
                path: path.to_owned(),
                reason: format!("it is no lake but holds `{}`; choose an empty folder", file.name),
            }),
        }
    }

    /// The bytes of a file; [`io::ErrorKind::NotFound`] where there is none.
    pub(crate) fn get(&self, name: &str) -> Result<Vec<u8>, DatasetError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                fs::read(&path).map_err(DatasetError::io("read", &path))
            }
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.get(name),
        }
    }

    /// Stores a file, whole or not at all.
    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), DatasetError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                create_parents(&path)?;
                write_whole(&path, &bytes)
            }
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.put(name, bytes),
        }
    }

    /// Stores a file where there is none of this name; whether it did. Of several writers that do
    /// this at once, one succeeds.
    pub(crate) fn put_new(&self, name: &str, bytes: Vec<u8>) -> Result<bool, DatasetError> {
        let stored = match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                create_parents(&path)?;
                write_new(&path, &bytes)
            }
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.put_new(name, bytes),
        };
        match stored {
            Ok(()) => Ok(true),
            Err(error) if kind_of(&error) == Some(io::ErrorKind::AlreadyExists) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The files below a folder of the lake, or below all of it (``), sorted by name.
    pub(crate) fn list(&self, below: &str) -> Result<Vec<Found>, DatasetError> {
        let mut found = match self {
            Self::Folder(folder) => {
                let mut found = Vec::new();
                list_folder(folder, below, &mut found)?;
                found
            }
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.list(below)?,
        };
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Removes a file; it may be gone already.
    pub(crate) fn remove(&self, name: &str) -> Result<(), DatasetError> {
        let removed = match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                fs::remove_file(&path).map_err(DatasetError::io("remove", &path))
            }
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.remove(name),
        };
        removed.or_else(|error| match kind_of(&error) {
            Some(io::ErrorKind::NotFound) => Ok(()),
            _ => Err(error),
        })
    }
}

/// What kind of error of the system it is, if it is one.
pub(crate) fn kind_of(error: &DatasetError) -> Option<io::ErrorKind> {
    match error {
        DatasetError::Io { source, .. } => Some(source.kind()),
        _ => None,
    }
}

fn list_folder(root: &Path, below: &str, found: &mut Vec<Found>) -> Result<(), DatasetError> {
    let folder = root.join(below);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(DatasetError::io("read", &folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(DatasetError::io("read", &folder))?;
        let own = entry.file_name().to_string_lossy().into_owned();
        let name = if below.is_empty() { own } else { format!("{below}/{own}") };
        let facts = match entry.metadata() {
            // Another process removed it, or gave it its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            facts => facts.map_err(DatasetError::io("read", &entry.path()))?,
        };
        if facts.is_dir() {
            list_folder(root, &name, found)?;
        } else {
            let changed = facts.modified().map_err(DatasetError::io("read", &entry.path()))?;
            found.push(Found { name, changed });
        }
    }
    Ok(())
}

/// Whether this is a file that a writer had not given its name yet.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.ends_with(&format!(".{UNFINISHED}"))
}
