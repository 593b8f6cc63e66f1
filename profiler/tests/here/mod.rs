//! The engines of this machine. Absent ones are skipped, with one notice per test program.

use std::{collections::BTreeSet, io::Write, sync::Mutex};
use vitempo_profiler::{Availability, Backend, Capabilities, RunOptions};

/// What an engine offers with these options; `None`, and a notice, where it is not here.
pub fn offered(backend: &dyn Backend, options: &RunOptions) -> Option<Capabilities> {
    match backend.probe(options) {
        Availability::Available(capabilities) => Some(capabilities),
        Availability::Unavailable { reason, hint } => {
            notice(&format!("skipped: {} is not available: {reason}; {hint}", backend.name()));
            assert!(
                !reason.is_empty() && !hint.is_empty(),
                "{} does not say why, or what to do",
                backend.name()
            );
            None
        }
    }
}

/// Prints a notice once, also where the test passes: what `eprintln!` prints is shown of failed
/// tests alone.
pub fn notice(text: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let new = PRINTED.lock().is_ok_and(|mut printed| printed.insert(text.to_owned()));
    if new {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}
