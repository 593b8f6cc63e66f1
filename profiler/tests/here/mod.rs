//! The engines that are here. One that is not is skipped, with a notice.

use vitempo_profiler::{Availability, Backend, Capabilities, RunOptions};

/// What an engine offers with these options; `None`, and a notice, where it is not here.
pub fn offered(backend: &dyn Backend, options: &RunOptions) -> Option<Capabilities> {
    match backend.probe(options) {
        Availability::Available(capabilities) => Some(capabilities),
        Availability::Unavailable { reason, hint } => {
            eprintln!("skipped: {} is not available: {reason}; {hint}", backend.name());
            assert!(
                !reason.is_empty() && !hint.is_empty(),
                "{} does not say why, or what to do",
                backend.name()
            );
            None
        }
    }
}
