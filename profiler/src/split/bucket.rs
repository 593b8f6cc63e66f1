//! [`TokenBucket`]: the rate of a shaped link. It reads no clock: callers give the time, ns.
//!
//! Tokens come at the link's rate; a byte that is sent takes one. A message begins with an empty
//! bucket, so that n bytes take n / rate whatever happened before. While a message is sent, tokens
//! collect up to what the link carries in [`DEPTH_NS`]: a sender that wakes up late catches up, and
//! the rate stays the declared one.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What a sender that is late may catch up with, ns of the link's rate.
pub const DEPTH_NS: u64 = 20_000_000;

/// Bytes that go at once: what the link carries in this time.
const QUANTUM_NS: u64 = 2_000_000;
/// Bounds of that, bytes.
const QUANTA: std::ops::RangeInclusive<u64> = 512..=65536;

/// One direction of a shaped link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Rate, bytes per second; at least 1.
    pub bytes_per_s: u64,
    /// Time before the first byte of each inference, ns.
    pub setup_ns: u64,
}

impl Shape {
    /// Time to send so many bytes, without `setup_ns`, ns; rounded up.
    #[must_use]
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        nanoseconds(bytes, self.bytes_per_s)
    }

    /// How many bytes go at once.
    pub(crate) fn quantum(&self) -> usize {
        let bytes = u128::from(self.bytes_per_s) * u128::from(QUANTUM_NS) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).clamp(*QUANTA.start(), *QUANTA.end()) as usize
    }
}

/// Time of so many bytes at a rate, ns, rounded up.
fn nanoseconds(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Tokens of one direction of a link.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    bytes_per_s: u64,
    /// When it was empty, ns.
    since_ns: u64,
    /// Bytes taken since then.
    taken: u64,
}

impl TokenBucket {
    /// An empty bucket at time 0, into which so many tokens come per second; at least 1.
    #[must_use]
    pub fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), since_ns: 0, taken: 0 }
    }

    /// A message begins: what has collected is lost. What earlier messages still owe remains.
    pub fn begin(&mut self, now_ns: u64) {
        (self.since_ns, self.taken) = (self.free_at_ns().max(now_ns), 0);
    }

    /// Takes a token per byte, and returns when the last of them has come.
    pub fn take(&mut self, now_ns: u64, bytes: u64) -> u64 {
        if now_ns > self.free_at_ns().saturating_add(DEPTH_NS) {
            (self.since_ns, self.taken) = (now_ns - DEPTH_NS, 0);
        }
        self.taken = self.taken.saturating_add(bytes);
        self.free_at_ns()
    }

    /// When everything that was taken has come.
    #[must_use]
    pub fn free_at_ns(&self) -> u64 {
        self.since_ns.saturating_add(nanoseconds(self.taken, self.bytes_per_s))
    }
}

/// The time, and waiting for it.
pub(crate) trait Clock: Send {
    /// Since the clock began, ns.
    fn now_ns(&self) -> u64;
    /// Returns at this time or later.
    fn wait_until(&self, ns: u64);
}

/// The monotonic clock of the system.
pub(crate) struct WallClock(Instant);

impl WallClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for WallClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn wait_until(&self, ns: u64) {
        loop {
            let left = ns.saturating_sub(self.now_ns());
            if left == 0 {
                return;
            }
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 125_000;

    #[test]
    fn a_message_takes_its_bytes_over_the_rate() {
        for (rate, bytes, ns) in [
            (MBIT, 125_000, 1_000_000_000),
            (5 * MBIT, 125_000, 200_000_000),
            (20 * MBIT, 1, 400),
            (100 * MBIT, 12_500_000, 1_000_000_000),
            (3, 1, 333_333_334),
        ] {
            let mut bucket = TokenBucket::new(rate);
            bucket.begin(7);
            assert_eq!(bucket.take(7, bytes), 7 + ns);
            assert_eq!(Shape { bytes_per_s: rate, setup_ns: 9 }.transfer_ns(bytes), ns);
        }
    }

    #[test]
    fn pieces_take_as_long_as_the_whole_and_late_ones_catch_up() {
        let mut bucket = TokenBucket::new(1_000_000);
        bucket.begin(0);
        // Each piece of 1 ms is asked for 0.3 ms after the last one was allowed.
        let mut allowed = 0;
        for piece in 1..=10 {
            allowed = bucket.take(allowed + 300_000, 1000);
            assert_eq!(allowed, piece * 1_000_000, "no token is lost");
        }
    }

    #[test]
    fn no_more_than_the_depth_is_caught_up_with() {
        let mut bucket = TokenBucket::new(1_000_000);
        bucket.begin(0);
        let _ = bucket.take(0, 1000);
        let late = 1_000_000 + 3 * DEPTH_NS;
        assert_eq!(bucket.take(late, 30_000), late + 30_000_000 - DEPTH_NS);
    }

    #[test]
    fn a_pause_before_a_message_gives_no_tokens_and_debts_remain() {
        let mut bucket = TokenBucket::new(1_000_000);
        bucket.begin(0);
        assert_eq!(bucket.take(0, 5000), 5_000_000);
        bucket.begin(2_000_000);
        assert_eq!(bucket.take(2_000_000, 1000), 6_000_000, "the first message goes on");
        bucket.begin(9_000_000);
        assert_eq!(bucket.take(9_000_000, 1000), 10_000_000, "nothing was saved up");
    }

    #[test]
    fn a_rate_of_nothing_and_sizes_beyond_all_do_not_overflow() {
        let mut bucket = TokenBucket::new(0);
        bucket.begin(u64::MAX - 1);
        assert_eq!(bucket.take(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(Shape { bytes_per_s: 1, setup_ns: 0 }.quantum(), 512);
        assert_eq!(Shape { bytes_per_s: u64::MAX, setup_ns: 0 }.quantum(), 65536);
    }
}
