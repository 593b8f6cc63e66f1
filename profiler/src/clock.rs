//! The clock: wall-clock and CPU time of one run, in nanoseconds.
//!
//! Wall time is `CLOCK_MONOTONIC`. CPU time is `CLOCK_PROCESS_CPUTIME_ID`: the sum over all threads
//! of the process, so that with n busy threads it grows n times as fast as wall time. A worker
//! process does nothing else during a run, so both measure the same work; where wall time is much
//! more than CPU time / threads, another program used the core. The two wall readings lie inside
//! the two CPU readings, so the clock's own cost does not enter wall time; it adds well under a
//! microsecond to CPU time.

use std::time::{Duration, Instant};
use vitempo_graph::Samples;

/// Time of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTime {
    /// Wall-clock time, ns.
    pub wall_ns: u64,
    /// CPU time of all threads of the process, ns; `None` where the system does not report it.
    pub cpu_ns: Option<u64>,
}

impl RunTime {
    /// Adds this run to the samples.
    pub fn append_to(self, samples: &mut Samples) {
        samples.wall_ns.push(self.wall_ns);
        samples.cpu_ns.extend(self.cpu_ns);
    }
}

/// A clock that was started.
#[derive(Debug)]
pub struct Stopwatch {
    cpu: Option<Duration>,
    wall: Instant,
}

impl Stopwatch {
    /// Starts.
    #[must_use]
    pub fn start() -> Self {
        let cpu = process_cpu_time();
        Self { cpu, wall: Instant::now() }
    }

    /// Stops: the time since the start.
    #[must_use]
    pub fn stop(self) -> RunTime {
        let wall = self.wall.elapsed();
        let cpu = self.cpu.zip(process_cpu_time()).map(|(from, to)| to.saturating_sub(from));
        RunTime { wall_ns: nanoseconds(wall), cpu_ns: cpu.map(nanoseconds) }
    }
}

/// CPU time of this process so far, ns; `None` where the system does not report it.
pub(crate) fn process_cpu_ns() -> Option<u64> {
    process_cpu_time().map(nanoseconds)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Wall-clock time since a moment that all processes of this system share, ns; `None` where there
/// is no such clock.
pub(crate) fn monotonic_ns() -> Option<u64> {
    monotonic_time().map(nanoseconds)
}

#[cfg(unix)]
fn process_cpu_time() -> Option<Duration> {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[cfg(unix)]
fn monotonic_time() -> Option<Duration> {
    time_of(libc::CLOCK_MONOTONIC)
}

#[cfg(unix)]
fn time_of(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the call to write to, and is not kept.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    (status == 0).then(|| Duration::new(seconds, nanos))
}

#[cfg(not(unix))]
fn process_cpu_time() -> Option<Duration> {
    None
}

#[cfg(not(unix))]
fn monotonic_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time_and_sleep_does_not() {
        let watch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(20));
        let time = watch.stop();
        assert!(time.wall_ns >= 20_000_000);
        let mut samples = Samples::default();
        time.append_to(&mut samples);
        assert_eq!(samples.wall_ns, [time.wall_ns]);
        assert_eq!(samples.cpu_ns.len(), usize::from(cfg!(unix)));
    }
}
