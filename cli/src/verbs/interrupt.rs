//! Handles Ctrl-C: the first one stops long work, which keeps its results; the second ends the
//! process.

use super::{
    error::{CliError, CliResult},
    progress,
};
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
            progress::say("stopping; finished measurements are kept (Ctrl-C again stops at once)");
        };
        if let Err(e) = ctrlc::set_handler(handler) {
            progress::say(format!("warning: Ctrl-C will stop at once: {e}"));
        }
        flag
    });
    Arc::clone(&FLAG)
}

/// An error after [`interrupted`].
pub fn go_on() -> CliResult<()> {
    if interrupted().load(Ordering::Relaxed) { Err(CliError::user("interrupted")) } else { Ok(()) }
}
