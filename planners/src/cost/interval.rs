//! [`Interval`]: a cost and how far it may be off, in whole units (nanoseconds, nanojoules: the
//! field's name says which).

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, IgnoredAny, MapAccess, Unexpected, Visitor},
};
use std::{fmt, iter::Sum, ops::Add};
use vitempo_graph::{Latency, Prediction};

/// A cost with the interval it lies in; `lower <= point <= upper`. Written as an object with these
/// three; read from such an object or from a number, which is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
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

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrRange)
    }
}

struct NumberOrRange;

impl<'de> Visitor<'de> for NumberOrRange {
    type Value = Interval;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, 0 or more, or an object with `point`, `lower` and `upper`")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Interval, E> {
        Ok(Interval::exact(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Interval, E> {
        let refuse = |_| E::invalid_value(Unexpected::Signed(value), &self);
        u64::try_from(value).map(Interval::exact).map_err(refuse)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Interval, A::Error> {
        const FIELDS: [&str; 3] = ["point", "lower", "upper"];
        let mut values = [None; 3];
        while let Some(key) = map.next_key::<String>()? {
            let Some(index) = FIELDS.iter().position(|field| *field == key) else {
                map.next_value::<IgnoredAny>()?;
                return Err(A::Error::unknown_field(&key, &FIELDS));
            };
            if values[index].replace(map.next_value::<u64>()?).is_some() {
                return Err(A::Error::duplicate_field(FIELDS[index]));
            }
        }
        let value =
            |index: usize| values[index].ok_or_else(|| A::Error::missing_field(FIELDS[index]));
        let (point, lower, upper) = (value(0)?, value(1)?, value(2)?);
        Interval::new(point, lower, upper).ok_or_else(|| {
            let reason = format!("the interval {lower} .. {upper} does not hold its point {point}");
            A::Error::custom(reason)
        })
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
        let exact = r#"{"point":7,"lower":7,"upper":7}"#;
        assert_eq!(serde_json::to_string(&Interval::exact(7)).ok().as_deref(), Some(exact));
        for (text, reason) in [
            (r#"{"point":4,"lower":5,"upper":9}"#, "5 .. 9 does not hold its point 4"),
            (r#"{"point":4,"lower":3}"#, "missing field `upper`"),
            (r#"{"point":4,"lower":3,"upper":5,"level":1}"#, "unknown field `level`"),
            (r#"{"point":4,"point":4,"lower":3,"upper":5}"#, "duplicate field `point`"),
            ("-3", "integer `-3`, expected a whole number, 0 or more"),
            ("1.5", "floating point `1.5`, expected a whole number"),
            (r#""fast""#, "string \"fast\", expected a whole number"),
        ] {
            let error = serde_json::from_str::<Interval>(text).map_err(|e| e.to_string());
            assert!(error.as_ref().is_err_and(|e| e.contains(reason)), "{text}: {error:?}");
        }
    }

    #[test]
    fn sums_and_factors_keep_the_order_of_the_ends() {
        let sum: Interval = [Interval::within(100, 0.1), Interval::exact(50)].into_iter().sum();
        assert_eq!(Some(sum), Interval::new(150, 140, 160));
        assert_eq!(Some(sum.times(2.0)), Interval::new(300, 280, 320));
        assert_eq!(Interval::exact(u64::MAX) + Interval::exact(1), Interval::exact(u64::MAX));
    }
}
