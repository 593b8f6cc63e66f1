//! [`Interval`]: a value and the range it lies in; the one such type of the workspace. Forecasts
//! hold an `Interval<Latency>`, planners' costs are an `Interval<u64>` (nanoseconds, nanojoules,
//! bytes per second: the field's name says which).
//!
//! The ends are in order: `lower <= point <= upper`. The exception is a value without an order,
//! such as NaN, which [`Interval::clamped`] leaves as it is.

use crate::{Latency, Prediction};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor},
};
use std::{fmt, iter::Sum, marker::PhantomData, ops::Add};

/// A value with the interval it lies in. Written as an object with these three fields; read from
/// such an object, or from a number, which is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
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

impl Interval<Latency> {
    /// Width of the interval as a share of its point.
    #[must_use]
    pub fn relative_width(self) -> f64 {
        (self.upper.ns() - self.lower.ns()) / self.point.ns().max(f64::MIN_POSITIVE)
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

impl<'de, T> Deserialize<'de> for Interval<T>
where
    T: Deserialize<'de> + Copy + PartialOrd + fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrRange(PhantomData))
    }
}

struct NumberOrRange<T>(PhantomData<T>);

impl<'de, T> NumberOrRange<T>
where
    T: Deserialize<'de> + Copy,
{
    fn exact<E: Error>(number: impl IntoDeserializer<'de, E>) -> Result<Interval<T>, E> {
        T::deserialize(number.into_deserializer()).map(Interval::exact)
    }
}

impl<'de, T> Visitor<'de> for NumberOrRange<T>
where
    T: Deserialize<'de> + Copy + PartialOrd + fmt::Display,
{
    type Value = Interval<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or an object with `point`, `lower` and `upper`")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Interval<T>, E> {
        Self::exact(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Interval<T>, E> {
        Self::exact(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Interval<T>, E> {
        Self::exact(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Interval<T>, A::Error> {
        const FIELDS: [&str; 3] = ["point", "lower", "upper"];
        let mut values = [None; 3];
        while let Some(key) = map.next_key::<String>()? {
            let Some(index) = FIELDS.iter().position(|field| *field == key) else {
                map.next_value::<IgnoredAny>()?;
                return Err(A::Error::unknown_field(&key, &FIELDS));
            };
            if values[index].replace(map.next_value::<T>()?).is_some() {
                return Err(A::Error::duplicate_field(FIELDS[index]));
            }
        }
        let value =
            |index: usize| values[index].ok_or_else(|| A::Error::missing_field(FIELDS[index]));
        Interval::checked(value(0)?, value(1)?, value(2)?).map_err(A::Error::custom)
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
        let exact = r#"{"point":7,"lower":7,"upper":7}"#;
        assert_eq!(serde_json::to_string(&Interval::exact(7)).ok().as_deref(), Some(exact));
        assert_eq!(serde_json::from_str::<Interval<f64>>("7.5").ok(), Some(Interval::exact(7.5)));
        for (text, reason) in [
            (r#"{"point":4,"lower":5,"upper":9}"#, "5 .. 9 does not hold its point 4"),
            (r#"{"point":4,"lower":3}"#, "missing field `upper`"),
            (r#"{"point":4,"lower":3,"upper":5,"level":1}"#, "unknown field `level`"),
            (r#"{"point":4,"point":4,"lower":3,"upper":5}"#, "duplicate field `point`"),
            ("-3", "integer `-3`, expected u64"),
            ("1.5", "floating point `1.5`, expected u64"),
            (r#""fast""#, "string \"fast\", expected a number, or an object with `point`"),
        ] {
            let error = serde_json::from_str::<Interval<u64>>(text).map_err(|e| e.to_string());
            assert!(error.as_ref().is_err_and(|e| e.contains(reason)), "{text}: {error:?}");
        }
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
