//! Handles Ctrl-C: the first one stops long work, which keeps its results; the second ends the
//! process.

use super::progress;
use std::sync::{
    Arc, LazyLock, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// What the work that runs now keeps.
static KEPT: Mutex<&str> = Mutex::new("");

/// Set by Ctrl-C and by SIGTERM, of work that keeps measurements.
pub fn interrupted() -> Arc<AtomicBool> {
    interrupted_keeping("finished measurements are kept")
}

/// The same, of work that keeps something else, as a sentence.
pub fn interrupted_keeping(kept: &'static str) -> Arc<AtomicBool> {
    static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let handler = move || {
            if seen.swap(true, Ordering::SeqCst) {
                std::process::exit(1);
            }
            let kept = *KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            progress::say(format!("stopping; {kept} (Ctrl-C again stops at once)"));
        };
        if let Err(e) = ctrlc::set_handler(handler) {
            progress::say(format!("warning: Ctrl-C will stop at once: {e}"));
        }
        flag
    });
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    Arc::clone(&FLAG)
}
