//! [`Interval`]: a value and the range it lies in; the one such type of the workspace. Forecasts
//! hold an `Interval<Latency>`, planners' costs are an `Interval<u64>` (nanoseconds, nanojoules,
//! bytes per second: the field's name says which).
//!
//! The ends are in order: `lower <= point <= upper`. The exception is a value without an order,
//! such as NaN, which [`Interval::clamped`] leaves as it is.

use crate::{Latency, Prediction};
use serde::{Deserialize, Serialize};
use std::{fmt, iter::Sum, ops::Add};

/// A value with the interval it lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Spelled<T>", into = "Spelled<T>")]
#[serde(bound(
    serialize = "T: Serialize + Copy + PartialOrd",
    deserialize = "T: Deserialize<'de> + Copy + PartialOrd + fmt::Display"
))]
pub struct Interval<T> {
    point: T,
    lower: T,
    upper: T,
}

/// Which value of an interval a computation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The most likely value.
    #[default]
    Point,
    /// The lower end.
    Lower,
    /// The upper end.
    Upper,
}

/// Three values that are not an interval.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the interval {lower} .. {upper} does not hold its point {point}")]
pub struct IntervalError {
    /// The most likely value.
    pub point: String,
    /// The lower end.
    pub lower: String,
    /// The upper end.
    pub upper: String,
}

impl<T: Copy> Interval<T> {
    /// A value without uncertainty.
    #[must_use]
    pub const fn exact(value: T) -> Self {
        Self { point: value, lower: value, upper: value }
    }

    /// The value at one end.
    #[must_use]
    pub const fn at(self, end: End) -> T {
        match end {
            End::Point => self.point,
            End::Lower => self.lower,
            End::Upper => self.upper,
        }
    }

    /// The most likely value.
    #[must_use]
    pub const fn point(self) -> T {
        self.point
    }

    /// The lower end.
    #[must_use]
    pub const fn lower(self) -> T {
        self.lower
    }

    /// The upper end.
    #[must_use]
    pub const fn upper(self) -> T {
        self.upper
    }
}

impl<T: Copy + PartialOrd> Interval<T> {
    /// A value between two ends; `None` unless `lower <= point <= upper`.
    #[must_use]
    pub fn new(point: T, lower: T, upper: T) -> Option<Self> {
        (lower <= point && point <= upper).then_some(Self { point, lower, upper })
    }

    /// [`Interval::new`] for what a file says.
    ///
    /// # Errors
    /// [`IntervalError`] unless `lower <= point <= upper`.
    pub fn checked(point: T, lower: T, upper: T) -> Result<Self, IntervalError>
    where
        T: fmt::Display,
    {
        Self::new(point, lower, upper).ok_or_else(|| IntervalError {
            point: point.to_string(),
            lower: lower.to_string(),
            upper: upper.to_string(),
        })
    }

    /// A value between two ends; an end on the wrong side of the point is moved to the point.
    #[must_use]
    pub fn clamped(point: T, lower: T, upper: T) -> Self {
        let lower = if lower > point { point } else { lower };
        let upper = if upper < point { point } else { upper };
        Self { point, lower, upper }
    }

    /// All three values through a function that keeps their order: a change of unit, rounding.
    #[must_use]
    pub fn map<U: Copy + PartialOrd>(self, f: impl Fn(T) -> U) -> Interval<U> {
        Interval::clamped(f(self.point), f(self.lower), f(self.upper))
    }

    /// Whether a value lies in the interval, its ends included.
    #[must_use]
    pub fn contains(self, value: T) -> bool {
        self.lower <= value && value <= self.upper
    }
}

impl Interval<u64> {
    /// No cost.
    pub const ZERO: Self = Self::exact(0);

    /// A cost that may be off by this share either way: 0.05 for 5 %.
    #[must_use]
    pub fn within(point: u64, share: f64) -> Self {
        Self::clamped(point, scaled(point, 1.0 - share), scaled(point, 1.0 + share))
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

impl Add for Interval<u64> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            point: self.point.saturating_add(other.point),
            lower: self.lower.saturating_add(other.lower),
            upper: self.upper.saturating_add(other.upper),
        }
    }
}

impl Sum for Interval<u64> {
    fn sum<I: Iterator<Item = Self>>(intervals: I) -> Self {
        intervals.fold(Self::ZERO, Add::add)
    }
}

impl From<&Prediction> for Interval<u64> {
    /// In whole nanoseconds.
    fn from(prediction: &Prediction) -> Self {
        prediction.interval.map(|latency: Latency| latency.ns().round() as u64)
    }
}

/// In files an interval is a number, or an object with its ends.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelled<T> {
    Exact(T),
    Range { point: T, lower: T, upper: T },
}

impl<T: Copy + PartialOrd> From<Interval<T>> for Spelled<T> {
    fn from(interval: Interval<T>) -> Self {
        let Interval { point, lower, upper } = interval;
        if lower == upper { Self::Exact(point) } else { Self::Range { point, lower, upper } }
    }
}

impl<T: Copy + PartialOrd + fmt::Display> TryFrom<Spelled<T>> for Interval<T> {
    type Error = IntervalError;
    fn try_from(spelled: Spelled<T>) -> Result<Self, IntervalError> {
        match spelled {
            Spelled::Exact(value) => Ok(Self::exact(value)),
            Spelled::Range { point, lower, upper } => Interval::checked(point, lower, upper),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_spell_numbers_and_ranges() {
        assert_eq!(serde_json::from_str::<Interval<u64>>("7").ok(), Some(Interval::exact(7)));
        let range = r#"{"point":7,"lower":5,"upper":9}"#;
        assert_eq!(serde_json::from_str::<Interval<u64>>(range).ok(), Interval::new(7, 5, 9));
        assert_eq!(serde_json::to_string(&Interval::new(7, 5, 9)).ok().as_deref(), Some(range));
        let error = serde_json::from_str::<Interval<u64>>(r#"{"point":4,"lower":5,"upper":9}"#)
            .map_err(|e| e.to_string());
        assert!(error.is_err_and(|e| e.contains("5 .. 9 does not hold its point 4")));
    }

    #[test]
    fn sums_and_factors_keep_the_order_of_the_ends() {
        let sum: Interval<u64> =
            [Interval::within(100, 0.1), Interval::exact(50)].into_iter().sum();
        assert_eq!(Some(sum), Interval::new(150, 140, 160));
        assert_eq!(Some(sum.times(2.0)), Interval::new(300, 280, 320));
        assert_eq!(Interval::exact(u64::MAX) + Interval::exact(1), Interval::exact(u64::MAX));
    }

    #[test]
    fn ends_on_the_wrong_side_are_moved_to_the_point() {
        assert_eq!(Some(Interval::clamped(5, 7, 3)), Interval::new(5, 5, 5));
        assert_eq!(Interval::new(5.0, f64::NAN, 6.0), None);
        let unordered = Interval::clamped(f64::NAN, 1.0, 2.0);
        assert!(unordered.point().is_nan() && unordered.lower() == 1.0 && unordered.upper() == 2.0);
        assert!(Interval::clamped(5, 3, 7).contains(3) && !Interval::clamped(5, 3, 7).contains(8));
    }

    #[test]
    fn a_prediction_in_whole_nanoseconds_keeps_its_order() {
        let ends = Interval::clamped(10.4, 9.6, 10.6).map(Latency::from_ns);
        let prediction = Prediction::new(ends, 0.9);
        assert_eq!(Some(Interval::from(&prediction)), Interval::new(10, 10, 11));
    }
}
