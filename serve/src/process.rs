//! [`Process`]: what the system says about this process, for the page of metrics.

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};
use std::fs;

/// Memory, descriptors and time of this process; `None` where the system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// Memory that is not swapped out, bytes (Linux only).
    pub resident_bytes: Option<u64>,
    /// Open files and connections.
    pub open_files: Option<u64>,
    /// How many may be open.
    pub most_files: Option<u64>,
    /// Time on processors, s.
    pub cpu_s: f64,
}

impl Process {
    /// As it is now.
    pub fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").ok();
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            resident_bytes: status.as_deref().and_then(resident_bytes),
            open_files: open_files(),
            most_files: getrlimit(Resource::Nofile).current,
            cpu_s: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
        }
    }
}

/// From the text of `/proc/PID/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn open_files() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").or_else(|_| fs::read_dir("/dev/fd")).ok()?;
    // Reading the folder is one of them.
    Some((entries.flatten().count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status() {
        let status = "Name:\tvitempo\nVmPeak:\t   90000 kB\nVmRSS:\t   12345 kB\nThreads:\t4\n";
        assert_eq!(resident_bytes(status), Some(12345 * 1024));
        assert_eq!(resident_bytes("Name:\tvitempo\n"), None);
        assert_eq!(resident_bytes("VmRSS:\tmany kB\n"), None);
    }

    #[test]
    fn open_files_are_counted() {
        let before = Process::now();
        let files: Vec<_> = (0..50).map(|_| fs::File::open(".")).collect();
        let after = Process::now();
        assert!(files.iter().all(Result::is_ok) && after.cpu_s >= before.cpu_s);
        // Other tests open and close files meanwhile.
        assert!(after.open_files > before.open_files.map(|open| open + 25), "{before:?} {after:?}");
        assert!(after.open_files <= after.most_files);
    }
}
