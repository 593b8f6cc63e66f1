//! [`Interval`]: a cost and how far it may be off, in whole units (nanoseconds, nanojoules: the
//! field's name says which).

use serde::{Deserialize, Serialize};
use std::{iter::Sum, ops::Add};
use vitempo_graph::{Latency, Prediction};

/// A cost with the interval it lies in; `lower <= point <= upper`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Spelled", into = "Spelled")]
pub struct Interval {
    point: u64,
    lower: u64,
    upper: u64,
}

/// Which value of an interval a computation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum End {
    #[default]
    Point,
    Lower,
    Upper,
}

impl Interval {
    /// No cost.
    pub const ZERO: Self = Self::exact(0);

    /// A cost without uncertainty.
    #[must_use]
    pub const fn exact(value: u64) -> Self {
        Self { point: value, lower: value, upper: value }
    }

    /// A cost between two ends; `None` unless `lower <= point <= upper`.
    #[must_use]
    pub const fn new(point: u64, lower: u64, upper: u64) -> Option<Self> {
        if lower <= point && point <= upper { Some(Self { point, lower, upper }) } else { None }
    }

    /// A cost that may be off by this share either way: 0.05 for 5 %.
    #[must_use]
    pub fn within(point: u64, share: f64) -> Self {
        Self {
            point,
            lower: scaled(point, 1.0 - share).min(point),
            upper: scaled(point, 1.0 + share).max(point),
        }
    }

    /// The value at one end.
    #[must_use]
    pub const fn at(self, end: End) -> u64 {
        match end {
            End::Point => self.point,
            End::Lower => self.lower,
            End::Upper => self.upper,
        }
    }

    /// The most likely value.
    #[must_use]
    pub const fn point(self) -> u64 {
        self.point
    }

    /// The same cost times a factor of at least 0: power times time, a slowdown.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            point: scaled(self.point, factor),
            lower: scaled(self.lower, factor),
            upper: scaled(self.upper, factor),
        }
    }

    /// End by end, the larger of two costs.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            point: self.point.max(other.point),
            lower: self.lower.max(other.lower),
            upper: self.upper.max(other.upper),
        }
    }
}

fn scaled(value: u64, factor: f64) -> u64 {
    // A cast from f64 saturates; NaN becomes 0.
    (value as f64 * factor).round() as u64
}

impl Add for Interval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            point: self.point.saturating_add(other.point),
            lower: self.lower.saturating_add(other.lower),
            upper: self.upper.saturating_add(other.upper),
        }
    }
}

impl Sum for Interval {
    fn sum<I: Iterator<Item = Self>>(intervals: I) -> Self {
        intervals.fold(Self::ZERO, Add::add)
    }
}

impl From<&Prediction> for Interval {
    fn from(prediction: &Prediction) -> Self {
        let ns = |latency: Latency| latency.ns().round() as u64;
        let point = ns(prediction.point);
        Self {
            point,
            lower: ns(prediction.lower).min(point),
            upper: ns(prediction.upper).max(point),
        }
    }
}

/// In files an interval is a number, or an object with its ends.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelled {
    Exact(u64),
    Range { point: u64, lower: u64, upper: u64 },
}

impl From<Interval> for Spelled {
    fn from(interval: Interval) -> Self {
        let Interval { point, lower, upper } = interval;
        if lower == upper { Self::Exact(point) } else { Self::Range { point, lower, upper } }
    }
}

impl TryFrom<Spelled> for Interval {
    type Error = String;
    fn try_from(spelled: Spelled) -> Result<Self, String> {
        match spelled {
            Spelled::Exact(value) => Ok(Self::exact(value)),
            Spelled::Range { point, lower, upper } => {
                Self::new(point, lower, upper).ok_or_else(|| {
                    format!("the interval {lower} .. {upper} does not hold its point {point}")
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_spell_numbers_and_ranges() {
        assert_eq!(serde_json::from_str::<Interval>("7").ok(), Some(Interval::exact(7)));
        let range = r#"{"point":7,"lower":5,"upper":9}"#;
        assert_eq!(serde_json::from_str::<Interval>(range).ok(), Interval::new(7, 5, 9));
        assert_eq!(serde_json::to_string(&Interval::new(7, 5, 9)).ok().as_deref(), Some(range));
        let error = serde_json::from_str::<Interval>(r#"{"point":4,"lower":5,"upper":9}"#)
            .map_err(|e| e.to_string());
        assert!(error.is_err_and(|e| e.contains("5 .. 9 does not hold its point 4")));
    }

    #[test]
    fn sums_and_factors_keep_the_order_of_the_ends() {
        let sum: Interval = [Interval::within(100, 0.1), Interval::exact(50)].into_iter().sum();
        assert_eq!(Some(sum), Interval::new(150, 140, 160));
        assert_eq!(Some(sum.times(2.0)), Interval::new(300, 280, 320));
        assert_eq!(Interval::exact(u64::MAX) + Interval::exact(1), Interval::exact(u64::MAX));
    }
}
