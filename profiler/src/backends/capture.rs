//! Captures output to stdout or stderr as text: the file descriptor is redirected to a temporary
//! file, so that the output of native engines is captured too.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::{Mutex, PoisonError},
};

/// The descriptors belong to the process: one capture at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `work` and returns what was printed to stdout meanwhile, by any thread of the process.
///
/// # Errors
/// When there is no place for a temporary file, or stdout is closed.
#[cfg(feature = "rten")]
pub(super) fn stdout<T>(work: impl FnOnce() -> T) -> io::Result<(T, String)> {
    captured(libc::STDOUT_FILENO, work)
}

/// The same for stderr.
///
/// # Errors
/// As for stdout.
#[cfg(any(feature = "litert", feature = "torch"))]
pub(super) fn stderr<T>(work: impl FnOnce() -> T) -> io::Result<(T, String)> {
    captured(libc::STDERR_FILENO, work)
}

/// A saved descriptor, which is restored when this is dropped.
struct Original {
    copy: OwnedFd,
    descriptor: i32,
}

impl Drop for Original {
    fn drop(&mut self) {
        let _ = io::stdout().flush();
        // SAFETY: both descriptors are open; dup2 touches no memory.
        unsafe { libc::dup2(self.copy.as_raw_fd(), self.descriptor) };
    }
}

fn captured<T>(descriptor: i32, work: impl FnOnce() -> T) -> io::Result<(T, String)> {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = tempfile::tempfile()?;
    let original = redirect(descriptor, &file)?;
    let result = work();
    drop(original);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok((result, String::from_utf8_lossy(&bytes).into_owned()))
}

fn redirect(descriptor: i32, file: &File) -> io::Result<Original> {
    io::stdout().flush()?;
    // SAFETY: dup makes a new descriptor, which the returned value owns, and touches no memory.
    let copy = unsafe { libc::dup(descriptor) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `copy` is open and owned by nobody else.
    let original = Original { copy: unsafe { OwnedFd::from_raw_fd(copy) }, descriptor };
    // SAFETY: both descriptors are open; dup2 touches no memory.
    if unsafe { libc::dup2(file.as_raw_fd(), descriptor) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(original)
}

#[cfg(all(test, feature = "litert"))]
mod tests {
    use super::*;

    #[test]
    fn stderr_is_caught_and_given_back() {
        let print = || {
            // SAFETY: the text lives until the call returns.
            unsafe { libc::write(libc::STDERR_FILENO, c"from an engine".as_ptr().cast(), 14) }
        };
        let (written, text) = stderr(print).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(written, 14);
        assert!(text.contains("from an engine"), "{text:?}");
        let (_, text) = stderr(|| ()).unwrap_or_else(|e| panic!("{e}"));
        assert!(!text.contains("from an engine"), "{text:?}");
    }
}
