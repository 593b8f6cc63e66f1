//! Pins a process to logical cores, so that the scheduler does not move it to a core with cold
//! caches during a measurement.

use std::collections::BTreeSet;

/// Most threads for each processor of the machine.
const MOST_THREADS_PER_PROCESSOR: usize = 8;

/// Why a process could not be pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinningError {
    /// A core is not in the affinity mask.
    #[error("core {core} is not in this process's CPU affinity mask {usable:?}")]
    NoSuchCore {
        /// Number of the core.
        core: usize,
        /// Cores in the process's affinity mask.
        usable: Vec<usize>,
    },
    /// There are fewer cores than threads.
    #[error("{threads} threads need {threads} cores; {cores:?} are {}", cores.len())]
    TooFew {
        /// Threads that were asked for.
        threads: usize,
        /// Cores that were asked for.
        cores: Vec<usize>,
    },
    /// There are far more threads than processors.
    #[error(
        "{threads} threads on {processors} processors; at most {} are allowed",
        processors * MOST_THREADS_PER_PROCESSOR
    )]
    TooMany {
        /// Threads that were asked for.
        threads: usize,
        /// Processors of the machine.
        processors: usize,
    },
    /// The system refused.
    #[error("the system refused to pin the process to cores {cores:?}: {reason}")]
    Refused {
        /// Cores that were asked for.
        cores: Vec<usize>,
        /// What is wrong.
        reason: String,
    },
}

/// The cores to pin to: the requested ones, or the last `threads` of the usable ones (the first
/// ones serve interrupts more often). Empty, which means not pinned, if the system cannot pin or
/// has fewer cores than threads.
///
/// # Errors
/// [`PinningError`] when a core that was asked for is not usable, there are fewer of them than
/// threads, or far fewer processors than threads.
pub fn choose(asked: &[usize], threads: usize) -> Result<Vec<usize>, PinningError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if threads > processors * MOST_THREADS_PER_PROCESSOR {
        return Err(PinningError::TooMany { threads, processors });
    }
    choose_from(&usable(), asked, threads)
}

pub(crate) fn choose_from(
    usable: &[usize],
    asked: &[usize],
    threads: usize,
) -> Result<Vec<usize>, PinningError> {
    if asked.is_empty() {
        let first = usable.len().checked_sub(threads);
        return Ok(first.map(|f| usable[f..].to_vec()).unwrap_or_default());
    }
    let cores: Vec<usize> = asked.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    if let Some(&core) = cores.iter().find(|core| !usable.contains(core)) {
        return Err(PinningError::NoSuchCore { core, usable: usable.to_vec() });
    }
    if cores.len() < threads {
        return Err(PinningError::TooFew { threads, cores });
    }
    Ok(cores)
}

/// Logical cores this process may use, in order; empty where the system does not report it.
#[cfg(any(target_os = "android", target_os = "linux"))]
#[must_use]
pub fn usable() -> Vec<usize> {
    // SAFETY: a zeroed set is a valid, empty set; the call writes at most its size.
    let (set, status) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let status = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        (set, status)
    };
    let limit = if status == 0 { size_of::<libc::cpu_set_t>() * 8 } else { 0 };
    // SAFETY: `core` is below the number of bits of the set.
    (0..limit).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect()
}

/// Pins the calling thread and all it starts from now on; nothing happens for an empty list.
///
/// # Errors
/// [`PinningError::Refused`].
#[cfg(any(target_os = "android", target_os = "linux"))]
pub fn pin(cores: &[usize]) -> Result<(), PinningError> {
    if cores.is_empty() {
        return Ok(());
    }
    let limit = size_of::<libc::cpu_set_t>() * 8;
    if let Some(&core) = cores.iter().find(|&&core| core >= limit) {
        return Err(PinningError::NoSuchCore { core, usable: usable() });
    }
    // SAFETY: a zeroed set is a valid, empty set; every core is below its number of bits; the call
    // only reads it.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &core in cores {
            libc::CPU_SET(core, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if status == 0 {
        Ok(())
    } else {
        Err(PinningError::Refused {
            cores: cores.to_vec(),
            reason: std::io::Error::last_os_error().to_string(),
        })
    }
}

/// Logical cores this process may use; this system does not report them.
#[cfg(not(any(target_os = "android", target_os = "linux")))]
#[must_use]
pub fn usable() -> Vec<usize> {
    Vec::new()
}

/// This system does not pin.
///
/// # Errors
/// [`PinningError::Refused`] unless the list is empty.
#[cfg(not(any(target_os = "android", target_os = "linux")))]
pub fn pin(cores: &[usize]) -> Result<(), PinningError> {
    if cores.is_empty() {
        Ok(())
    } else {
        Err(PinningError::Refused {
            cores: cores.to_vec(),
            reason: "pinning needs Linux".to_owned(),
        })
    }
}

/// The calling thread on some cores, and where it was before when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Pinned {
    before: Vec<usize>,
}

impl Pinned {
    /// Pins the calling thread and all it starts meanwhile.
    ///
    /// # Errors
    /// As [`pin`].
    pub fn on(cores: &[usize]) -> Result<Self, PinningError> {
        let before = usable();
        pin(cores).map(|()| Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed to run there.
        let _ = pin(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_of_cores() {
        let usable = [0, 1, 4, 5];
        assert_eq!(choose_from(&usable, &[], 1), Ok(vec![5]));
        assert_eq!(choose_from(&usable, &[], 3), Ok(vec![1, 4, 5]));
        assert_eq!(choose_from(&usable, &[], 9), Ok(vec![]));
        assert_eq!(choose_from(&usable, &[4, 0, 4], 2), Ok(vec![0, 4]));
        assert_eq!(
            choose_from(&usable, &[2], 1),
            Err(PinningError::NoSuchCore { core: 2, usable: usable.to_vec() })
        );
        assert_eq!(
            choose_from(&usable, &[1], 2),
            Err(PinningError::TooFew { threads: 2, cores: vec![1] })
        );
    }

    #[cfg(any(target_os = "android", target_os = "linux"))]
    #[test]
    fn a_pinned_thread_may_use_its_core_only() {
        let before = usable();
        let last = before[before.len() - 1];
        let after = std::thread::spawn(move || pin(&[last]).map(|()| usable())).join();
        assert_eq!(after.ok(), Some(Ok(vec![last])));
        let for_a_while = move || {
            let pinned = Pinned::on(&[last]).map(|_pinned| usable());
            (pinned, usable())
        };
        let seen = std::thread::spawn(for_a_while).join();
        assert_eq!(seen.ok(), Some((Ok(vec![last]), before)));
        assert!(matches!(pin(&[1 << 20]), Err(PinningError::NoSuchCore { .. })));
    }
}
