//! Files that are there whole or not at all: written beside their place, flushed to the disk, then
//! renamed.

use crate::DatasetError;
use std::{fs, io::Write, path::Path};

/// Ending of a file that was being written when the process ended.
pub(crate) const UNFINISHED: &str = "unfinished";

/// Replaces `path` by a file with these bytes; a crash leaves the old file or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    let beside = path.with_file_name(name);
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(source) = written {
        // The disk may be full: give the space back; the error that matters is the first.
        let _ = fs::remove_file(&beside);
        return Err(DatasetError::io("write", &beside)(source));
    }
    fs::rename(&beside, path).map_err(DatasetError::io("write", path))?;
    sync_parent(path)
}

/// Makes renames and removals in the folder of `path` survive a power loss.
pub(crate) fn sync_parent(path: &Path) -> Result<(), DatasetError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if cfg!(unix) {
        fs::File::open(parent)
            .and_then(|folder| folder.sync_all())
            .map_err(DatasetError::io("flush", parent))?;
    }
    Ok(())
}
