//! Runs work in threads whose output goes to the file descriptor of stdout, where
//! [`crate::backends`] can capture it.

/// Runs `work` in a thread outside Rust's test harness, and waits for it: the output of its threads
/// goes to the descriptor, also inside a test. `None` when the thread does not start or panics.
pub(super) fn without_capture<T: Send, W: FnOnce() -> T + Send>(work: W) -> Option<T> {
    struct Task<T, W> {
        work: Option<W>,
        result: Option<T>,
    }
    extern "C" fn enter<T, W: FnOnce() -> T>(task: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the pointer is the task below, which outlives this thread and which nobody else
        // touches before the join.
        let task = unsafe { &mut *task.cast::<Task<T, W>>() };
        let work = task.work.take();
        task.result =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work.map(|work| work())))
                .ok()
                .flatten();
        std::ptr::null_mut()
    }
    let mut task = Task { work: Some(work), result: None };
    let mut thread = std::mem::MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: `thread` is written before it is read, only when the call succeeded; `task` lives
    // until after the join.
    unsafe {
        if libc::pthread_create(
            thread.as_mut_ptr(),
            std::ptr::null(),
            enter::<T, W>,
            (&raw mut task).cast(),
        ) != 0
        {
            return None;
        }
        libc::pthread_join(thread.assume_init(), std::ptr::null_mut());
    }
    task.result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::capture;

    #[test]
    fn captures_what_threads_print_and_gives_stdout_back() {
        for round in 0..3 {
            let (result, text) = capture::stdout(|| {
                without_capture(|| {
                    std::thread::spawn(move || println!("round {round}")).join().is_ok()
                })
            })
            .unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(result, Some(true));
            assert!(text.contains(&format!("round {round}")), "{text:?}");
        }
        let (_, text) = capture::stdout(|| ()).unwrap_or_else(|e| panic!("{e}"));
        assert!(!text.contains("round"), "{text:?}");
    }

    #[test]
    fn a_panic_inside_is_no_panic_outside() {
        assert_eq!(without_capture(|| -> u8 { panic!("expected in this test") }), None);
    }
}
