//! Which threads run first: [`RunFirst`] for those that hand tensors and messages on, and
//! [`run_last`] for those that only keep a core awake.
//!
//! A thread that wakes up to pass a message on waits for a core that computes, with the usual
//! policy for up to a time slice of some ms. A thread that runs first interrupts the computation
//! for some microseconds instead. The system may not allow it: it needs the capability to set
//! priorities, or a limit for real-time priorities above 0. What the thread starts has the usual
//! policy.

#[cfg(any(target_os = "android", target_os = "linux"))]
use std::marker::PhantomData;

/// The calling thread runs first until this ends.
#[derive(Debug)]
#[cfg(any(target_os = "android", target_os = "linux"))]
pub struct RunFirst {
    usual: libc::c_int,
    /// It is of this thread.
    _here: PhantomData<*const ()>,
}

#[cfg(any(target_os = "android", target_os = "linux"))]
impl RunFirst {
    /// `None` where the system does not allow it.
    #[must_use]
    pub fn here() -> Option<Self> {
        let usual = policy();
        let is_usual = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&usual);
        (is_usual && set(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1))
            .then_some(Self { usual, _here: PhantomData })
    }

    /// Until the thread ends; whether the system allows it.
    pub fn always() -> bool {
        Self::here().map(std::mem::forget).is_some()
    }
}

#[cfg(any(target_os = "android", target_os = "linux"))]
impl Drop for RunFirst {
    fn drop(&mut self) {
        set(self.usual, 0);
    }
}

/// The calling thread runs only where no other wants to; whether the system allows it.
#[cfg(any(target_os = "android", target_os = "linux"))]
pub fn run_last() -> bool {
    set(libc::SCHED_IDLE, 0)
}

#[cfg(any(target_os = "android", target_os = "linux"))]
fn policy() -> libc::c_int {
    // SAFETY: asks for a number of the calling thread.
    unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
}

#[cfg(any(target_os = "android", target_os = "linux"))]
fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    // SAFETY: a zeroed parameter is a valid one; the call reads it, and changes this thread alone.
    unsafe {
        let mut parameter: libc::sched_param = std::mem::zeroed();
        parameter.sched_priority = priority;
        libc::sched_setscheduler(0, policy, &raw const parameter) == 0
    }
}

/// This system does not let threads run first.
#[derive(Debug)]
#[cfg(not(any(target_os = "android", target_os = "linux")))]
pub struct RunFirst;

#[cfg(not(any(target_os = "android", target_os = "linux")))]
impl RunFirst {
    /// Always `None`.
    #[must_use]
    pub const fn here() -> Option<Self> {
        None
    }

    /// Always false.
    pub const fn always() -> bool {
        false
    }
}

/// Always false: this system does not let threads run last.
#[cfg(not(any(target_os = "android", target_os = "linux")))]
pub const fn run_last() -> bool {
    false
}

#[cfg(all(test, any(target_os = "android", target_os = "linux")))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_first_until_it_need_not_and_what_it_starts_never_does() {
        let usual = policy();
        let Some(first) = RunFirst::here() else {
            assert_eq!(policy(), usual, "not allowed, nothing changed");
            return;
        };
        assert_eq!(policy(), libc::SCHED_RR);
        let inside = std::thread::spawn(policy).join().expect("a thread");
        assert_eq!(inside, libc::SCHED_OTHER);
        assert!(RunFirst::here().is_none(), "it runs first already");
        drop(first);
        assert_eq!(policy(), usual);
    }

    #[test]
    fn a_thread_runs_last() {
        std::thread::spawn(|| assert_eq!((run_last(), policy()), (true, libc::SCHED_IDLE)))
            .join()
            .expect("a thread");
    }
}
