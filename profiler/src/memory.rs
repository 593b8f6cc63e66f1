//! The memory of a run in bytes: the largest resident memory, less what was resident before it; in
//! all, and after loading alone.
//!
//! Source on Linux: `VmHWM` and `VmRSS` of `/proc/self/status`; writing 5 to
//! `/proc/self/clear_refs` sets the first back to the second (proc(5)). Where that is not allowed
//! or there is no such file, there is no peak, and [`NoPeak`] says why. The C library keeps freed
//! memory and reuses it for the next model, whose peak would then be too low: [`Watch::start`]
//! makes the library return this memory to the system first.

use std::fs;
use vitempo_graph::PeakFault;

/// Why there is no peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPeak {
    /// The file does not exist, or the peak cannot be reset.
    #[error("this system does not report the resident memory of a process")]
    Unreported,
    /// The model ran in memory that was resident before.
    #[error("the model added nothing to the memory that was resident before it was loaded")]
    NothingAdded,
    /// The resident memory is not that of the processor.
    #[error("the memory of the processor is not that of the process")]
    Elsewhere,
    /// There is one, but it cannot be right.
    #[error("{0}")]
    Fault(PeakFault),
}

/// Memory of a model in a process, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// The most while it was loaded and run.
    pub peak_bytes: u64,
    /// The most while it ran.
    pub running_bytes: u64,
}

/// Watches the process's resident memory from a moment on.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Resident at the start; `None` where the system does not report it.
    start_bytes: Option<u64>,
    /// The most that was resident until the model was loaded.
    loading_bytes: u64,
}

impl Watch {
    /// Forgets the most that was resident so far.
    #[must_use]
    pub fn start() -> Self {
        hand_back();
        populate_libraries();
        let start_bytes = reset().then(|| status("VmRSS")).flatten();
        Self { start_bytes, loading_bytes: 0 }
    }

    /// The model is loaded.
    pub fn loaded(&mut self) {
        self.loading_bytes = status("VmHWM").unwrap_or_default();
        if !reset() {
            self.start_bytes = None;
        }
    }

    /// The largest resident memory since the start, and since the model was loaded, less the
    /// resident memory at the start.
    ///
    /// # Errors
    /// [`NoPeak::Unreported`] and [`NoPeak::NothingAdded`].
    pub fn used(&self) -> Result<MemoryUse, NoPeak> {
        let start_bytes = self.start_bytes.ok_or(NoPeak::Unreported)?;
        let running_bytes = status("VmHWM").ok_or(NoPeak::Unreported)?;
        let added = |bytes| added(bytes, start_bytes).ok_or(NoPeak::NothingAdded);
        Ok(MemoryUse {
            peak_bytes: added(running_bytes.max(self.loading_bytes))?,
            running_bytes: added(running_bytes)?,
        })
    }
}

/// Makes all pages of the program and its libraries resident. Otherwise those that a model is the
/// first to use are its own, and how many come with them depends on what the system has cached.
#[cfg(target_os = "linux")]
fn populate_libraries() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, end) in maps.lines().filter_map(file_mapping) {
        let place = start as *mut libc::c_void;
        // SAFETY: the range is a mapping of this process, whose pages are read and not changed;
        // where that is not possible any more, the call fails.
        unsafe { libc::madvise(place, end - start, libc::MADV_POPULATE_READ) };
    }
}

#[cfg(not(target_os = "linux"))]
fn populate_libraries() {}

/// Beginning and end of a readable mapping of a file, of a line of `/proc/self/maps`.
#[cfg(target_os = "linux")]
fn file_mapping(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_readable = words.next()?.starts_with('r');
    let is_file = words.nth(3)?.starts_with('/');
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
        .filter(|(start, end)| is_readable && is_file && start < end)
}

/// Sets the most that was resident back to what is resident now.
fn reset() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The increase over `start_bytes`; `None`: nothing.
fn added(most_bytes: u64, start_bytes: u64) -> Option<u64> {
    most_bytes.checked_sub(start_bytes).filter(|&added| added > 0)
}

/// Resident memory of this process, bytes; `None` where the system does not report it.
pub(crate) fn resident_bytes() -> Option<u64> {
    status("VmRSS")
}

/// Returns memory that was freed to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn hand_back() {
    // SAFETY: it touches nothing but the allocator's own free lists, and may be called at any time
    // from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn hand_back() {}

/// Makes the C library keep freed memory from now on, permanently. By default it may return large
/// blocks to the system, depending on earlier allocations; an engine that allocates every tensor
/// from it then has hundreds of page faults in one operator of some models, and none in others.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep_freed() {
    // SAFETY: these change settings of the allocator, from any thread and at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
    }
}

/// Ends [`keep_freed`]: glibc's settings in a process that once freed a block of 32 MiB, the
/// highest to which it moves its own thresholds (it moves them no more afterwards).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn return_freed() {
    const HIGHEST_MMAP_THRESHOLD: libc::c_int = 32 << 20;
    // SAFETY: as in `keep_freed`.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 65_536);
        libc::mallopt(libc::M_MMAP_THRESHOLD, HIGHEST_MMAP_THRESHOLD);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * HIGHEST_MMAP_THRESHOLD);
    }
    // What is free now would serve large blocks too.
    hand_back();
}

/// On other systems, allocators have other settings.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_freed() {}

/// As [`keep_freed`].
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_freed() {}

fn status(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// 0 where nothing was added so far; `None` where the system does not report it.
    fn peak(watch: &Watch) -> Option<u64> {
        match watch.used() {
            Err(NoPeak::Unreported) => None,
            used => Some(used.map(|used| used.peak_bytes).unwrap_or_default()),
        }
    }

    #[test]
    fn a_peak_at_or_below_the_start_is_none() {
        for (most, start, added) in [(5, 3, Some(2)), (3, 3, None), (2, 3, None)] {
            assert_eq!(super::added(most, start), added, "{most} {start}");
        }
        let unwatched = Watch { start_bytes: None, loading_bytes: 0 };
        assert_eq!(unwatched.used(), Err(NoPeak::Unreported));
        let above_all = Watch { start_bytes: Some(u64::MAX), loading_bytes: 0 };
        assert_eq!(above_all.used(), Err(NoPeak::NothingAdded));
    }

    #[test]
    fn mappings_of_files_are_found() {
        for (line, found) in [
            (
                "7f0010-7f0020 r-xp 00001000 08:01 1234    /usr/lib/libm.so.6",
                Some((0x7f_0010, 0x7f_0020)),
            ),
            ("7f0010-7f0020 ---p 00001000 08:01 1234    /usr/lib/libm.so.6", None),
            ("7f0010-7f0020 rw-p 00000000 00:00 0 ", None),
            ("7f0010-7f0020 rw-p 00000000 00:00 0    [heap]", None),
            ("nothing", None),
        ] {
            assert_eq!(file_mapping(line), found, "{line}");
        }
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_is_kept_needs_no_pages_again() {
        let faults = || {
            // SAFETY: a structure of plain numbers, for which zeros are valid.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: the call fills the structure, which outlives it.
            unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
            usage.ru_minflt
        };
        keep_freed();
        let touch = || drop(std::hint::black_box(vec![1u8; 48 << 20]));
        touch();
        let before = faults();
        (0..4).for_each(|_| touch());
        assert!(
            faults() - before < 4 * (48 << 20) / 4096 / 10,
            "{} page faults",
            faults() - before
        );
    }

    /// Tests beside this one free memory too, which can hide what is added: one of several attempts
    /// has to see it. `None` where the system reports no peaks.
    fn is_seen(attempt: impl Fn(&Watch, u64) -> Option<bool>) -> Option<bool> {
        for _ in 0..20 {
            let watch = Watch::start();
            if attempt(&watch, peak(&watch)?)? {
                return Some(true);
            }
        }
        Some(false)
    }

    #[test]
    fn what_was_touched_is_seen_even_after_it_was_freed() {
        let seen = is_seen(|watch, before| {
            drop(std::hint::black_box(vec![1u8; 64 << 20]));
            Some(peak(watch)? >= before + (60 << 20))
        });
        assert_ne!(seen, Some(false));
    }

    #[test]
    fn what_loading_took_alone_is_no_memory_of_running() {
        let seen = is_seen(|watch, _| {
            let mut watch = *watch;
            drop(std::hint::black_box(vec![1u8; 64 << 20]));
            watch.loaded();
            let _kept = std::hint::black_box(vec![1u8; 16 << 20]);
            let used = watch.used().ok()?;
            Some(used.peak_bytes >= 60 << 20 && (12 << 20..40 << 20).contains(&used.running_bytes))
        });
        assert_ne!(seen, Some(false));
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn what_an_earlier_model_left_behind_is_not_taken_for_free() {
        let blocks = |count: usize| {
            (0..count).map(|_| std::hint::black_box(vec![1u8; 16 << 10])).collect::<Vec<_>>()
        };
        let mut earlier = blocks(4096);
        let last = earlier.pop();
        drop(earlier);
        let seen = is_seen(|watch, before| {
            let _later = blocks(2048);
            Some(peak(watch)? >= before + (30 << 20))
        });
        assert_ne!(seen, Some(false));
        drop(last);
    }
}
