//! [`Link`]: the cost of a transfer from one processor to another.
//!
//! time = `message` + bytes / bandwidth + bytes / conversion rate; the radio or bus draws
//! `transmit_w` during the transfer. `setup` is added once per inference that uses the link: a
//! round trip, a wake-up of the radio. 1 W for 1 ns is 1 nJ.

use super::{End, Interval};
use serde::{Deserialize, Serialize};

/// A one-way connection between two processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Payload rate, bytes per second; an interval where it is uncertain. Zero: the link is down.
    pub bandwidth_bytes_per_s: Interval,
    /// Time added once per inference that uses the link, ns.
    #[serde(default)]
    pub setup_ns: u64,
    /// Time added once per tensor, ns.
    #[serde(default)]
    pub message_ns: u64,
    /// Rate at which element types or layouts are converted on the way, bytes per second; `None`:
    /// nothing is converted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversion_bytes_per_s: Option<u64>,
    /// Power the sender draws while sending, W.
    #[serde(default)]
    pub transmit_w: f64,
}

impl Link {
    /// A link with a bandwidth and no other costs.
    #[must_use]
    pub const fn of_bandwidth(bytes_per_s: u64) -> Self {
        Self {
            bandwidth_bytes_per_s: Interval::exact(bytes_per_s),
            setup_ns: 0,
            message_ns: 0,
            conversion_bytes_per_s: None,
            transmit_w: 0.0,
        }
    }

    /// Time to transfer one tensor, ns, without `setup`; `None` over a link that is down.
    #[must_use]
    pub fn transfer_ns(&self, bytes: u64) -> Option<Interval> {
        let at = |end| nanoseconds(bytes, self.bandwidth_bytes_per_s.at(end));
        // A higher bandwidth gives a shorter transfer. Without a lower bound on the bandwidth there
        // is no upper bound on the time.
        let is_up = self.bandwidth_bytes_per_s.point() > 0;
        let point = at(End::Point).filter(|_| is_up)?;
        let moving = Interval::new(point, at(End::Upper)?, at(End::Lower).unwrap_or(u64::MAX))?;
        Some(moving + Interval::exact(self.fixed_ns(bytes)))
    }

    /// Time to transfer one tensor at a given bandwidth, ns, without `setup`; `None` at bandwidth 0.
    #[must_use]
    pub fn transfer_at_ns(&self, bytes: u64, bytes_per_s: u64) -> Option<u64> {
        let moving = nanoseconds(bytes, bytes_per_s).filter(|_| bytes_per_s > 0)?;
        Some(moving.saturating_add(self.fixed_ns(bytes)))
    }

    /// The part of a transfer that does not depend on the bandwidth, ns.
    #[must_use]
    pub fn fixed_ns(&self, bytes: u64) -> u64 {
        let converting =
            self.conversion_bytes_per_s.and_then(|rate| nanoseconds(bytes, rate)).unwrap_or(0);
        self.message_ns.saturating_add(converting)
    }
}

/// Time for a number of bytes at a rate, ns, rounded up; `None` at rate 0 unless the number is 0.
fn nanoseconds(bytes: u64, bytes_per_s: u64) -> Option<u64> {
    if bytes == 0 {
        return Some(0);
    }
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s).max(1));
    (bytes_per_s > 0).then(|| u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_message_bandwidth_and_conversion() {
        let mut link = Link::of_bandwidth(1_000_000);
        assert_eq!(link.transfer_ns(1500), Some(Interval::exact(1_500_000)));
        link.message_ns = 20;
        link.conversion_bytes_per_s = Some(1_000_000_000);
        assert_eq!(link.transfer_ns(1500), Some(Interval::exact(1_500_000 + 20 + 1500)));
    }

    #[test]
    fn a_better_bandwidth_is_a_shorter_transfer() {
        let mut link = Link::of_bandwidth(1_000);
        link.bandwidth_bytes_per_s = Interval::within(1_000, 0.5);
        let transfer = link.transfer_ns(3).map(|t| (t.at(End::Lower), t.point(), t.at(End::Upper)));
        assert_eq!(transfer, Some((2_000_000, 3_000_000, 6_000_000)));
        for bytes in [0, 3] {
            let down = Link::of_bandwidth(0);
            assert_eq!((down.transfer_ns(bytes), down.transfer_at_ns(bytes, 0)), (None, None));
        }
    }
}
