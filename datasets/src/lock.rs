//! [`Lock`]: one writer per dataset. The operating system holds the lock and releases it when the
//! process ends.

use crate::DatasetError;
use std::{
    fs::{self, File, TryLockError},
    io::{Read, Seek, Write},
    path::Path,
};

/// Name of the lock file; it stays in the folder, locked or not.
pub(crate) const LOCK_FILE: &str = "lock";

/// Held as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a dataset folder.
    pub(crate) fn take(folder: &Path) -> Result<Self, DatasetError> {
        let path = folder.join(LOCK_FILE);
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(DatasetError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DatasetError::Locked {
                    path: folder.to_owned(),
                    pid: holder(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(DatasetError::Io { action: "lock", path, source });
            }
        }
        let note = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        note.map_err(DatasetError::io("write", &path))?;
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_a_dead_one_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(LOCK_FILE), "4194999\n").unwrap();
        let first = Lock::take(folder.path()).unwrap();
        let refused = Lock::take(folder.path()).unwrap_err();
        assert!(
            matches!(&refused, DatasetError::Locked { pid, .. } if *pid == std::process::id().to_string()),
            "{refused}"
        );
        drop(first);
        Lock::take(folder.path()).unwrap();
    }
}
