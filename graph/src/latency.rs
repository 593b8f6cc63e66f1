//! [`Latency`]: the type of every latency in a public function.

use serde::{Deserialize, Serialize};
use std::{fmt, iter::Sum, ops::Add, time::Duration};

/// A time span in nanoseconds; fractions matter for sums over many small operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latency(f64);

impl Latency {
    /// No time at all.
    pub const ZERO: Self = Self(0.0);

    /// The upper end of an interval that has none. Printed as `-`; JSON has `null`.
    pub const UNBOUNDED: Self = Self(f64::INFINITY);

    /// From nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: f64) -> Self {
        Self(ns)
    }

    /// From milliseconds.
    #[must_use]
    pub const fn from_ms(ms: f64) -> Self {
        Self(ms * 1e6)
    }

    /// In nanoseconds.
    #[must_use]
    pub const fn ns(self) -> f64 {
        self.0
    }

    /// Whether it is a time, and not [`Latency::UNBOUNDED`].
    #[must_use]
    pub const fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// In milliseconds.
    #[must_use]
    pub const fn ms(self) -> f64 {
        self.0 / 1e6
    }
}

impl From<Duration> for Latency {
    fn from(duration: Duration) -> Self {
        Self(duration.as_nanos() as f64)
    }
}

impl Add for Latency {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sum for Latency {
    fn sum<I: Iterator<Item = Self>>(latencies: I) -> Self {
        latencies.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Latency {
    /// Three significant digits in the unit that reads best: `68.4 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_finite() {
            return f.pad("-");
        }
        let (value, unit) = match self.0.abs() {
            ns if ns < 1e3 => (self.0, "ns"),
            ns if ns < 1e6 => (self.0 / 1e3, "us"),
            ns if ns < 1e9 => (self.0 / 1e6, "ms"),
            _ => (self.0 / 1e9, "s"),
        };
        let decimals = match value.abs() {
            v if v < 10.0 => 2,
            v if v < 100.0 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_well_in_every_unit() {
        for (ns, text) in [
            (0.0, "0.00 ns"),
            (512.0, "512 ns"),
            (1_530.0, "1.53 us"),
            (68_400_000.0, "68.4 ms"),
            (2.5e9, "2.50 s"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(Latency::from_ns(ns).to_string(), text);
        }
    }
}
