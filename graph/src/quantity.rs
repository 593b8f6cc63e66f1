//! Numbers with units, as files and command lines have them: `64MiB`, `15%`, `3.5W`.

/// Units of sizes, larger ones first, each with its bytes.
pub const BYTE_UNITS: [(&str, f64); 7] = [
    ("GiB", 1_073_741_824.0),
    ("GB", 1e9),
    ("MiB", 1_048_576.0),
    ("MB", 1e6),
    ("KiB", 1024.0),
    ("kB", 1e3),
    ("B", 1.0),
];

/// Counts are smaller: a float represents all of them exactly.
pub const LARGEST: u64 = 9_000_000_000_000_000;

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// No number at the beginning.
    #[error("`{text}` does not begin with a number; write e.g. {example}")]
    Number {
        /// As it was given.
        text: String,
        /// What is one.
        example: &'static str,
    },
    /// Another unit than the known ones.
    #[error("`{unit}` is not a unit here; write e.g. {example} (units: {known})")]
    Unit {
        /// The unit that was given; empty where there is none.
        unit: String,
        /// What is one.
        example: &'static str,
        /// The known units.
        known: String,
    },
    /// A count beyond [`LARGEST`].
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// Not a number with `%`.
    #[error("`{0}` is not a percentage; write e.g. 15%")]
    Percent(String),
    /// A percentage below 0 % or above 100 %.
    #[error("`{0}` is not between 0 and 100 %")]
    Range(String),
}

/// A number with a unit, times the factor of that unit. Digits and a point are read, no sign and no
/// exponent; the unit may be `""`.
///
/// # Errors
/// [`QuantityError::Number`] and [`QuantityError::Unit`].
pub fn scaled(
    text: &str,
    units: &[(&str, f64)],
    example: &'static str,
) -> Result<f64, QuantityError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (text[..end].parse::<f64>(), text[end..].trim());
    let number = number.map_err(|_| QuantityError::Number { text: text.to_owned(), example })?;
    let found = units.iter().find(|(known, _)| *known == unit);
    found.map(|(_, factor)| number * factor).ok_or_else(|| {
        let known = units.iter().map(|(unit, _)| *unit).filter(|unit| !unit.is_empty());
        let known = known.collect::<Vec<_>>().join(", ");
        QuantityError::Unit { unit: unit.to_owned(), example, known }
    })
}

/// The same, rounded to a whole number.
///
/// # Errors
/// As [`scaled`], and [`QuantityError::TooLarge`] from [`LARGEST`] on.
pub fn counted(
    text: &str,
    units: &[(&str, f64)],
    example: &'static str,
) -> Result<u64, QuantityError> {
    let value = scaled(text, units, example)?.round();
    match value < LARGEST as f64 {
        true => Ok(value as u64),
        false => Err(QuantityError::TooLarge(text.to_owned())),
    }
}

/// Bytes with a unit: `40MB`, `64MiB`.
///
/// # Errors
/// As [`counted`].
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    counted(text, &BYTE_UNITS, "40MB")
}

/// A percentage from 0 to 100: `15%`, `12.5 %`.
///
/// # Errors
/// [`QuantityError::Percent`] and [`QuantityError::Range`].
pub fn percent(text: &str) -> Result<f64, QuantityError> {
    let number = text.trim().strip_suffix('%');
    in_percent(text, number.ok_or_else(|| QuantityError::Percent(text.to_owned()))?)
}

/// An accuracy in percent, whose sign may be left out: `75.5%`, `75.5`.
///
/// # Errors
/// As [`percent`].
pub fn accuracy(text: &str) -> Result<f64, QuantityError> {
    let number = text.trim();
    in_percent(text, number.strip_suffix('%').unwrap_or(number))
}

fn in_percent(text: &str, number: &str) -> Result<f64, QuantityError> {
    let number = number.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    match number {
        None => Err(QuantityError::Percent(text.to_owned())),
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        Some(_) => Err(QuantityError::Range(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_an_end() {
        assert_eq!(
            (bytes("64MiB"), bytes("1.5 kB"), bytes("0B")),
            (Ok(67_108_864), Ok(1500), Ok(0))
        );
        for (text, expected) in [
            ("many", "`many` does not begin with a number; write e.g. 40MB"),
            ("-2GB", "does not begin with a number"),
            ("12", "`` is not a unit here"),
            ("3 weeks", "`weeks` is not a unit here; write e.g. 40MB (units: GiB, GB,"),
            ("1e3B", "`e3B` is not a unit here"),
            ("99999999GB", "`99999999GB` is too large"),
        ] {
            assert!(bytes(text).is_err_and(|e| e.to_string().contains(expected)), "{text}");
        }
    }

    #[test]
    fn percentages_are_between_0_and_100() {
        assert_eq!(
            (percent("15%"), percent(" 12.5 % "), percent("0%")),
            (Ok(15.0), Ok(12.5), Ok(0.0))
        );
        assert_eq!((accuracy("75.5"), accuracy("75.5 %")), (Ok(75.5), Ok(75.5)));
        let range = |text: &str| Err(QuantityError::Range(text.to_owned()));
        assert_eq!((percent("150%"), percent("-1%")), (range("150%"), range("-1%")));
        assert_eq!(accuracy("750"), range("750"));
        for text in ["15", "%", "x%", "nan%", "inf%", ""] {
            assert_eq!(percent(text), Err(QuantityError::Percent(text.to_owned())), "{text}");
        }
    }
}
