//! The dataset's files: written whole or not at all, see [`vitempo_graph::files`].

use crate::DatasetError;
use std::{fs, io, path::Path};
use vitempo_graph::files;

pub(crate) use vitempo_graph::files::UNFINISHED;

/// Marks a folder that a merge or an import fills.
pub(crate) const UNFINISHED_WRITE: &str = "write.unfinished";

/// Replaces `path` by a file with these bytes; a crash leaves the old file or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
    files::write_whole(path, bytes).map_err(DatasetError::io("write", path))
}

/// Writes a file where there is none yet; of several processes that do it at once, one succeeds.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
    files::write_new(path, bytes).map_err(DatasetError::io("write", path))
}

/// Makes the folder of a file, so that it survives a power loss.
pub(crate) fn create_parents(path: &Path) -> Result<(), DatasetError> {
    let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.is_dir();
    let Some(folder) = path.parent().filter(missing) else { return Ok(()) };
    create_parents(folder)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(DatasetError::io("create", folder)(error))
        }
        _ => sync_parent(folder),
    }
}

/// Makes renames and removals in the folder of `path` survive a power loss.
pub(crate) fn sync_parent(path: &Path) -> Result<(), DatasetError> {
    files::sync_folder(path).map_err(DatasetError::io("flush the folder of", path))
}
