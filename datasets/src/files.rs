//! The dataset's files: written whole or not at all, see [`vitempo_graph::files`].

use crate::DatasetError;
use std::path::Path;
use vitempo_graph::files;

pub(crate) use vitempo_graph::files::UNFINISHED;

/// Marks a folder that a merge or an import fills.
pub(crate) const UNFINISHED_WRITE: &str = "write.unfinished";

/// Replaces `path` by a file with these bytes; a crash leaves the old file or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
    files::write_whole(path, bytes).map_err(DatasetError::io("write", path))
}

/// Makes renames and removals in the folder of `path` survive a power loss.
pub(crate) fn sync_parent(path: &Path) -> Result<(), DatasetError> {
    files::sync_folder(path).map_err(DatasetError::io("flush the folder of", path))
}
