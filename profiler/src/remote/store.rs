//! The agent's folder: models that clients sent, each under the digest of its bytes, and the lock
//! for measuring, which one process holds at a time.
//!
//! A model lies in a folder of its own, so that a file that refers to data beside it finds no other
//! file. If a new model does not fit, the least recently requested models are deleted.

use super::message::Digest;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};
use tempfile::NamedTempFile;

const MODELS: &str = "models";
const MODEL: &str = "model.onnx";
const PARTIAL: &str = ".partial-";

/// The folder of an agent.
#[derive(Debug)]
pub(super) struct Store {
    models: PathBuf,
    most_bytes: u64,
    /// Held by the process that measures; the system lets go of it however the process ends.
    _lease: File,
}

/// Takes the right to measure; `None`: another process, or another client of this one, has it.
pub(super) fn lease(folder: &Path, most_bytes: u64) -> io::Result<Option<Store>> {
    let models = folder.join(MODELS);
    fs::create_dir_all(&models)?;
    let lease =
        File::options().create(true).truncate(false).write(true).open(folder.join("lock"))?;
    if !try_lock(&lease)? {
        return Ok(None);
    }
    let store = Store { models, most_bytes, _lease: lease };
    store.sweep_up()?;
    Ok(Some(store))
}

/// Locks the file; `false`: another process has locked it. The standard library does not lock on
/// Android, which has the same call.
#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open; the call touches no memory.
    if unsafe { libc::flock(std::os::fd::AsRawFd::as_raw_fd(file), libc::LOCK_EX | libc::LOCK_NB) }
        == 0
    {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

#[cfg(not(unix))]
fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Why a model is not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error(
        "a model of {size} bytes does not fit into the agent's cache of {most} bytes; start the \
        agent with a larger cache"
    )]
    TooLarge { size: u64, most: u64 },
    #[error("the model arrived damaged")]
    Damaged,
    #[error("the agent cannot keep the model: {0}")]
    Io(#[from] io::Error),
}

impl Store {
    /// The file with these bytes, if it is here.
    pub fn find(&self, digest: &Digest) -> Option<PathBuf> {
        let file = self.place(digest);
        let opened = File::options().append(true).open(&file).ok()?;
        // Updates the time of its last request; if that fails, the model is deleted sooner.
        let _ = opened.set_modified(SystemTime::now());
        Some(file)
    }

    fn place(&self, digest: &Digest) -> PathBuf {
        self.models.join(digest.to_string()).join(MODEL)
    }

    /// Begins to receive a model; the least recently requested models are deleted to make room.
    pub fn take_in(&self, digest: Digest, size: u64) -> Result<Incoming<'_>, StoreError> {
        if size > self.most_bytes {
            return Err(StoreError::TooLarge { size, most: self.most_bytes });
        }
        self.make_room(self.most_bytes - size)?;
        let file = tempfile::Builder::new().prefix(PARTIAL).tempfile_in(&self.models)?;
        Ok(Incoming { store: self, digest, size, file, taken: 0, hasher: blake3::Hasher::new() })
    }

    fn make_room(&self, most_bytes: u64) -> io::Result<()> {
        let mut models = Vec::new();
        for entry in fs::read_dir(&self.models)? {
            let folder = entry?.path();
            if let Ok(data) = fs::metadata(folder.join(MODEL)) {
                models.push((data.modified()?, data.len(), folder));
            }
        }
        models.sort();
        let mut bytes: u64 = models.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, freed, folder) in models {
            if bytes <= most_bytes {
                break;
            }
            fs::remove_dir_all(folder)?;
            bytes -= freed;
        }
        Ok(())
    }

    /// Removes partial models of an agent that ended while it received them.
    fn sweep_up(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.models)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// A model on its way in; nothing of it stays unless it is [`finished`](Self::finish).
pub(super) struct Incoming<'a> {
    store: &'a Store,
    digest: Digest,
    size: u64,
    file: NamedTempFile,
    taken: u64,
    hasher: blake3::Hasher,
}

impl Incoming<'_> {
    pub fn append(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        self.taken += piece.len() as u64;
        if self.taken > self.size {
            return Err(StoreError::Damaged);
        }
        self.hasher.update(piece);
        Ok(self.file.write_all(piece)?)
    }

    /// Stores it, if it has the announced digest.
    pub fn finish(self) -> Result<(), StoreError> {
        if self.taken != self.size || Digest::finished(&self.hasher) != self.digest {
            return Err(StoreError::Damaged);
        }
        self.file.as_file().sync_all()?;
        let place = self.store.place(&self.digest);
        place.parent().map_or(Ok(()), fs::create_dir_all)?;
        self.file.persist(place).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn keep(store: &Store, bytes: &[u8]) -> Result<(), StoreError> {
        let mut incoming = store.take_in(Digest::of(bytes), bytes.len() as u64)?;
        bytes.chunks(3).try_for_each(|piece| incoming.append(piece))?;
        incoming.finish()
    }

    #[test]
    fn models_are_kept_by_digest_and_the_longest_unasked_go() {
        let folder = tempfile::tempdir().unwrap();
        let store = lease(folder.path(), 10).unwrap().unwrap();
        assert!(lease(folder.path(), 10).unwrap().is_none(), "two at a time");
        keep(&store, b"abcd").unwrap();
        keep(&store, b"efgh").unwrap();
        let found = store.find(&Digest::of(b"abcd")).unwrap();
        assert_eq!(fs::read(&found).unwrap(), b"abcd");
        let old =
            File::options().append(true).open(store.find(&Digest::of(b"efgh")).unwrap()).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        keep(&store, b"ijkl").unwrap();
        assert!(
            store.find(&Digest::of(b"efgh")).is_none()
                && store.find(&Digest::of(b"abcd")).is_some()
                && store.find(&Digest::of(b"ijkl")).is_some()
        );
        assert!(matches!(
            keep(&store, b"more than ten"),
            Err(StoreError::TooLarge { size: 13, most: 10 })
        ));
        drop(store);
        assert!(lease(folder.path(), 10).unwrap().unwrap().find(&Digest::of(b"ijkl")).is_some());
    }

    #[test]
    fn what_is_not_what_was_announced_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = lease(folder.path(), 100).unwrap().unwrap();
        let (digest, take) = (Digest::of(b"model"), |bytes: &[u8]| {
            let mut incoming = store.take_in(Digest::of(b"model"), 5).unwrap();
            incoming.append(bytes).and_then(|()| incoming.finish())
        });
        for wrong in [b"mode".as_slice(), b"modem", b"models", b""] {
            assert!(matches!(take(wrong), Err(StoreError::Damaged)));
        }
        assert!(store.find(&digest).is_none());
        assert_eq!(fs::read_dir(folder.path().join(MODELS)).unwrap().count(), 0);
        take(b"model").unwrap();
        fs::write(folder.path().join(MODELS).join(".partial-x"), b"half").unwrap();
        drop(store);
        let store = lease(folder.path(), 100).unwrap().unwrap();
        assert!(store.find(&digest).is_some());
        assert_eq!(fs::read_dir(folder.path().join(MODELS)).unwrap().count(), 1);
    }
}
