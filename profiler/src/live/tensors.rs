//! [`Tensors`]: what one piece of work hands to the next. Engines in this process get pointers;
//! engines in processes of their own share a file in memory, which neither end maps: one writes it,
//! the other reads it, and a process that dies in between leaves nothing behind.

use crate::backends::OutputValues;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Shared files in use above which results are copied into this process.
const MOST_SHARED: usize = 64;
/// Values converted at a time.
const BLOCK: usize = 16 << 10;

/// Tensors of a query.
#[derive(Clone, Debug)]
pub enum Tensors {
    /// In this process.
    Here(Vec<Arc<OutputValues>>),
    /// In a file that processes share.
    Shared(Arc<SharedTensors>),
}

impl Default for Tensors {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

impl Tensors {
    /// The values.
    ///
    /// # Errors
    /// When a shared file cannot be read.
    pub fn read(&self) -> io::Result<Vec<Arc<OutputValues>>> {
        match self {
            Self::Here(values) => Ok(values.clone()),
            Self::Shared(shared) => {
                let values = read(shared.file()?.0, &shared.tensors)?;
                Ok(values.into_iter().map(Arc::new).collect())
            }
        }
    }
}

/// Name and shape of a tensor in a shared file. Tensors lie one after the other, as little-endian
/// f32.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedTensor {
    /// Its name in the graph.
    pub name: String,
    /// Extent of each dimension.
    pub shape: Vec<usize>,
}

/// A shared file with its tensors; the file goes back to its pool with this value.
#[derive(Debug)]
pub struct SharedTensors {
    pool: Pool,
    slot: Option<Slot>,
    tensors: Vec<SharedTensor>,
}

impl SharedTensors {
    /// The file, and the path under which other processes open it.
    fn file(&self) -> io::Result<(&File, &Path)> {
        let slot = self.slot.as_ref().ok_or_else(|| io::Error::other("it has no file"))?;
        Ok((&slot.file, &slot.path))
    }

    /// The path under which other processes open it.
    pub(crate) fn path(&self) -> PathBuf {
        self.slot.as_ref().map(|slot| slot.path.clone()).unwrap_or_default()
    }

    pub(crate) fn tensors(&self) -> &[SharedTensor] {
        &self.tensors
    }

    /// Another process has written these.
    pub(crate) fn written(&mut self, tensors: Vec<SharedTensor>) {
        self.tensors = tensors;
    }
}

impl Drop for SharedTensors {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let mut state = self.pool.state();
            state.used = state.used.saturating_sub(1);
            state.free.push(slot);
        }
    }
}

/// Shared files, which are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<PoolState>>);

#[derive(Debug, Default)]
struct PoolState {
    free: Vec<Slot>,
    used: usize,
}

#[derive(Debug)]
struct Slot {
    file: File,
    path: PathBuf,
    /// Deletes a file that has a name.
    _named: Option<tempfile::TempPath>,
}

impl Pool {
    fn state(&self) -> std::sync::MutexGuard<'_, PoolState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file without tensors.
    pub fn take(&self) -> io::Result<SharedTensors> {
        let mut state = self.state();
        let slot = state.free.pop().map_or_else(slot, Ok)?;
        state.used += 1;
        drop(state);
        Ok(SharedTensors { pool: self.clone(), slot: Some(slot), tensors: Vec::new() })
    }

    /// Tensors in a shared file, into which values of this process are copied.
    pub fn shared(&self, tensors: &Tensors) -> io::Result<Arc<SharedTensors>> {
        match tensors {
            Tensors::Shared(shared) => Ok(Arc::clone(shared)),
            Tensors::Here(values) => {
                let mut shared = self.take()?;
                let written = write(shared.file()?.0, values)?;
                shared.written(written);
                Ok(Arc::new(shared))
            }
        }
    }

    /// Results as they are kept: in their file, unless too many files are in use.
    pub fn kept(&self, shared: SharedTensors) -> io::Result<Tensors> {
        let tensors = Tensors::Shared(Arc::new(shared));
        if self.state().used <= MOST_SHARED {
            return Ok(tensors);
        }
        tensors.read().map(Tensors::Here)
    }
}

/// A file in memory that no folder has; others open it through this process.
#[cfg(target_os = "linux")]
fn slot() -> io::Result<Slot> {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: the name ends with a zero; the call keeps no pointer.
    let descriptor = unsafe { libc::memfd_create(c"vitempo-tensors".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else has it.
    let file = unsafe { File::from_raw_fd(descriptor) };
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
    Ok(Slot { file, path, _named: None })
}

#[cfg(not(target_os = "linux"))]
fn slot() -> io::Result<Slot> {
    let (file, named) = tempfile::NamedTempFile::with_prefix("vitempo-tensors")?.into_parts();
    Ok(Slot { file, path: named.to_path_buf(), _named: Some(named) })
}

/// Writes values from the start of a file.
pub(crate) fn write(
    mut file: &File,
    values: &[Arc<OutputValues>],
) -> io::Result<Vec<SharedTensor>> {
    file.rewind()?;
    let mut bytes = vec![0; 4 * BLOCK];
    let mut tensors = Vec::with_capacity(values.len());
    for value in values {
        for block in value.values.chunks(BLOCK) {
            let bytes = &mut bytes[..4 * block.len()];
            for (to, value) in bytes.chunks_exact_mut(4).zip(block) {
                to.copy_from_slice(&value.to_le_bytes());
            }
            file.write_all(bytes)?;
        }
        tensors.push(SharedTensor { name: value.name.clone(), shape: value.shape.clone() });
    }
    Ok(tensors)
}

/// Reads values from the start of a file.
pub(crate) fn read(mut file: &File, tensors: &[SharedTensor]) -> io::Result<Vec<OutputValues>> {
    let elements = |tensor: &SharedTensor| {
        tensor.shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent))
    };
    let counts: Option<Vec<usize>> = tensors.iter().map(elements).collect();
    let size = counts.as_ref().and_then(|counts| {
        counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(4 * count as u64))
    });
    let counts =
        counts.filter(|_| size.is_some_and(|size| file.metadata().is_ok_and(|m| size <= m.len())));
    let counts = counts.ok_or_else(|| io::Error::other("the file is shorter than its tensors"))?;
    file.rewind()?;
    let mut bytes = vec![0; 4 * BLOCK];
    let mut read = Vec::with_capacity(tensors.len());
    for (tensor, mut left) in tensors.iter().zip(counts) {
        let mut values = Vec::with_capacity(left);
        while left > 0 {
            let bytes = &mut bytes[..4 * left.min(BLOCK)];
            file.read_exact(bytes)?;
            let (quads, _) = bytes.as_chunks::<4>();
            values.extend(quads.iter().map(|quad| f32::from_le_bytes(*quad)));
            left -= quads.len();
        }
        let SharedTensor { name, shape } = tensor.clone();
        read.push(OutputValues { name, shape, values });
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, elements: usize) -> Arc<OutputValues> {
        let values = (0..elements).map(|i| i as f32 - 0.5).collect();
        Arc::new(OutputValues { name: name.to_owned(), shape: vec![1, elements], values })
    }

    #[test]
    fn tensors_are_read_as_they_were_written_also_through_the_path() {
        let pool = Pool::default();
        let values = vec![value("a", 3 * BLOCK / 2), value("none", 0), value("b", 7)];
        let shared = pool.shared(&Tensors::Here(values.clone())).expect("a file");
        let tensors = Tensors::Shared(Arc::clone(&shared));
        assert_eq!(tensors.read().expect("values"), values);
        let opened = File::options().read(true).write(true).open(shared.path()).expect("the file");
        let found = read(&opened, shared.tensors()).expect("values");
        assert_eq!(
            found.iter().collect::<Vec<_>>(),
            values.iter().map(AsRef::as_ref).collect::<Vec<_>>()
        );
        let written = write(&opened, &values[2..]).expect("room");
        assert_eq!(
            read(shared.file().expect("a file").0, &written).expect("values"),
            [(*values[2]).clone()]
        );
        let long = SharedTensor { name: "long".to_owned(), shape: vec![usize::MAX, 3] };
        assert!(read(&opened, &[long]).is_err());
        let long = SharedTensor { name: "long".to_owned(), shape: vec![1 << 40] };
        assert!(read(&opened, &[long]).is_err());
    }

    #[test]
    fn files_are_used_again_and_not_too_many_are_kept() {
        let pool = Pool::default();
        let first = pool.take().expect("a file").path();
        assert_eq!(pool.take().expect("a file").path(), first, "it was given back");
        let results = || {
            let mut shared = pool.take().expect("a file");
            let written = write(shared.file().expect("a file").0, &[value("a", 2)]);
            shared.written(written.expect("room"));
            pool.kept(shared).expect("results")
        };
        let kept: Vec<Tensors> = (0..MOST_SHARED + 2).map(|_| results()).collect();
        let here = kept.iter().filter(|tensors| matches!(tensors, Tensors::Here(_))).count();
        assert_eq!(here, 2);
        assert!(
            kept.iter().all(|tensors| tensors.read().is_ok_and(|values| values == [value("a", 2)]))
        );
    }
}
