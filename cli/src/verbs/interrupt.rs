//! Ctrl-C: the first one lets long work stop and keep what it has, the second ends the process.

use super::progress;
use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicBool, Ordering},
};

/// Set by Ctrl-C and by SIGTERM.
pub fn interrupted() -> Arc<AtomicBool> {
    static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let handler = move || {
            if seen.swap(true, Ordering::SeqCst) {
                std::process::exit(1);
            }
            progress::say("stopping; what was measured is kept (once more to stop at once)");
        };
        if let Err(e) = ctrlc::set_handler(handler) {
            progress::say(format!("warning: Ctrl-C will not stop gently: {e}"));
        }
        flag
    });
    Arc::clone(&FLAG)
}
