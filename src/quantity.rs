//! Times with their units, as files and command lines have them; and other quantities
//! ([`vitempo_graph::quantity`]).

use jiff::SignedDuration;
use std::time::Duration;
pub use vitempo_graph::quantity::{
    BYTE_UNITS, LARGEST, QuantityError, accuracy, bytes, counted, percent, scaled,
};

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// Not a number with a unit of time.
    #[error("`{text}` is not a time with a unit; write e.g. {example}")]
    Unit {
        /// As it was given.
        text: String,
        /// What is one.
        example: String,
    },
    /// A time larger than the range of computation.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

/// A time with its unit: `90s`, `33.3ms`, `1h30m`. The example is for the error.
///
/// # Errors
/// [`TimeError::Unit`] for anything else.
pub fn duration(text: &str, example: &str) -> Result<Duration, TimeError> {
    text.parse::<SignedDuration>()
        .ok()
        .and_then(|time| Duration::try_from(time).ok())
        .ok_or_else(|| TimeError::Unit { text: text.to_owned(), example: example.to_owned() })
}

/// Nanoseconds: `33.3ms`, `500us`, `2s`.
///
/// # Errors
/// As [`duration`], and [`TimeError::TooLarge`] from about 104 days on.
pub fn time_ns(text: &str) -> Result<u64, TimeError> {
    let time = duration(text, "33.3ms")?;
    u64::try_from(time.as_nanos())
        .ok()
        .filter(|ns| *ns < LARGEST)
        .ok_or_else(|| TimeError::TooLarge(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_an_end() {
        assert_eq!((time_ns("33.3ms"), time_ns("0us")), (Ok(33_300_000), Ok(0)));
        assert_eq!(duration("1h30m", "2h"), Ok(Duration::from_secs(5400)));
        for (text, expected) in [
            ("5", "`5` is not a time with a unit; write e.g. 33.3ms"),
            ("-5ms", "not a time with a unit"),
            ("99999999999s", "`99999999999s` is too large"),
        ] {
            assert!(time_ns(text).is_err_and(|e| e.to_string().contains(expected)), "{text}");
        }
    }
}
