//! What is printed to stdout, as text: the file descriptor itself points at a temporary file meanwhile.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::{Mutex, PoisonError},
};

/// stdout belongs to the process: one capture at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const STDOUT: i32 = 1;

/// stdout as it was; points the descriptor back when dropped.
struct Original(OwnedFd);

impl Drop for Original {
    fn drop(&mut self) {
        let _ = io::stdout().flush();
        // SAFETY: both descriptors are open; dup2 touches no memory.
        unsafe { libc::dup2(self.0.as_raw_fd(), STDOUT) };
    }
}

/// Runs `work` and returns what was printed meanwhile, by any thread of the process.
///
/// # Errors
/// When there is no place for a temporary file, or stdout is closed.
pub(super) fn captured<T>(work: impl FnOnce() -> T) -> io::Result<(T, String)> {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = tempfile::tempfile()?;
    let original = redirect(&file)?;
    let result = work();
    drop(original);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok((result, String::from_utf8_lossy(&bytes).into_owned()))
}

fn redirect(file: &File) -> io::Result<Original> {
    io::stdout().flush()?;
    // SAFETY: dup makes a new descriptor, which the returned value owns, and touches no memory.
    let copy = unsafe { libc::dup(STDOUT) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `copy` is open and owned by nobody else.
    let original = Original(unsafe { OwnedFd::from_raw_fd(copy) });
    // SAFETY: both descriptors are open; dup2 touches no memory.
    if unsafe { libc::dup2(file.as_raw_fd(), STDOUT) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(original)
}

/// Runs `work` in a thread that Rust's test harness knows nothing of, and waits for it: what the threads started there print goes to
/// the descriptor, also inside a test. `None` when the thread does not start or panics.
pub(super) fn without_capture<T: Send, W: FnOnce() -> T + Send>(work: W) -> Option<T> {
    struct Task<T, W> {
        work: Option<W>,
        result: Option<T>,
    }
    extern "C" fn enter<T, W: FnOnce() -> T>(task: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the pointer is the task below, which outlives this thread and which nobody else touches before the join.
        let task = unsafe { &mut *task.cast::<Task<T, W>>() };
        let work = task.work.take();
        task.result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.map(|work| work()))).ok().flatten();
        std::ptr::null_mut()
    }
    let mut task = Task { work: Some(work), result: None };
    let mut thread = std::mem::MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: `thread` is written before it is read, only when the call succeeded; `task` lives until after the join.
    unsafe {
        if libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), enter::<T, W>, (&raw mut task).cast()) != 0 {
            return None;
        }
        libc::pthread_join(thread.assume_init(), std::ptr::null_mut());
    }
    task.result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_what_threads_print_and_gives_stdout_back() {
        for round in 0..3 {
            let (result, text) =
                captured(|| without_capture(|| std::thread::spawn(move || println!("round {round}")).join().is_ok())).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(result, Some(true));
            assert!(text.contains(&format!("round {round}")), "{text:?}");
        }
        let (_, text) = captured(|| ()).unwrap_or_else(|e| panic!("{e}"));
        assert!(!text.contains("round"), "{text:?}");
    }

    #[test]
    fn a_panic_inside_is_no_panic_outside() {
        assert_eq!(without_capture(|| -> u8 { panic!("expected in this test") }), None);
    }
}
