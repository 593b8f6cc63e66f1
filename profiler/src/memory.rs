//! How much memory a run takes: the most that was resident at once, beyond what was resident before. Bytes.
//!
//! Source on Linux: `VmHWM` and `VmRSS` of `/proc/self/status`; writing 5 to `/proc/self/clear_refs` sets the first back to the second (proc(5)).
//! Where that is not allowed or there is no such file, nothing is told.

use std::fs;

/// Watches the process's resident memory from a moment on.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Resident at the start; `None` where the system does not tell.
    start_bytes: Option<u64>,
}

impl Watch {
    /// Forgets the most that was resident so far.
    #[must_use]
    pub fn start() -> Self {
        let reset = fs::write("/proc/self/clear_refs", "5").is_ok();
        Self { start_bytes: reset.then(|| status("VmRSS")).flatten() }
    }

    /// The most that was resident since the start, beyond what was resident then.
    #[must_use]
    pub fn peak_bytes(&self) -> Option<u64> {
        Some(status("VmHWM")?.saturating_sub(self.start_bytes?))
    }
}

fn status(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_touched_is_seen_even_after_it_was_freed() {
        let watch = Watch::start();
        let Some(before) = watch.peak_bytes() else { return };
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        drop(touched);
        let peak = watch.peak_bytes().unwrap_or_default();
        assert!(peak >= before + (60 << 20), "{before} {peak}");
    }
}
