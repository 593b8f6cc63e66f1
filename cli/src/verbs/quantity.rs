//! Quantities with units on the command line, in the units planners take.

use std::time::Duration;
use vitempo::quantity;

/// A time with its unit: `90s`, `33.3ms`, `1h30m`.
pub fn duration(text: &str, example: &str) -> Result<Duration, String> {
    quantity::duration(text, example).map_err(|e| e.to_string())
}

/// `90s`, `30m`, `1.5h`, `1h30m`; a plain number is seconds. At most 136 years: the end of a longer
/// time cannot be represented.
pub fn duration_or_seconds(text: &str) -> Result<Duration, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let time = if plain {
        let seconds: f64 = text.parse().map_err(|_| "write e.g. 90s, 30m or 2h".to_owned())?;
        Duration::try_from_secs_f64(seconds).map_err(|_| "too long".to_owned())?
    } else {
        duration(text, "90s, 30m or 2h")?
    };
    if time.as_secs() > u64::from(u32::MAX) { Err("too long".to_owned()) } else { Ok(time) }
}

/// Nanoseconds: `33.3ms`, `500us`, `2s`.
pub fn time_ns(text: &str) -> Result<u64, String> {
    quantity::time_ns(text).map_err(|e| e.to_string())
}

/// Nanojoules: `120mJ`, `2J`.
pub fn energy_nj(text: &str) -> Result<u64, String> {
    counted(text, &[("nJ", 1.0), ("uJ", 1e3), ("mJ", 1e6), ("J", 1e9)], "120mJ")
}

/// Bytes: `40MB`, `64MiB`, `512k`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("", 1.0),
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    counted(text, &units, "40MB")
}

/// Bytes per second: `20Mbit/s`, `3MB/s`.
pub fn bandwidth(text: &str) -> Result<u64, String> {
    let units = [
        ("kbit/s", 125.0),
        ("Mbit/s", 125e3),
        ("Gbit/s", 125e6),
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
    ];
    match counted(text, &units, "20Mbit/s")? {
        0 => Err(format!("a bandwidth of `{text}` sends nothing")),
        bytes_per_s => Ok(bytes_per_s),
    }
}

/// Seconds: `100ms`, `10s`, `2min`.
pub fn seconds(text: &str) -> Result<f64, String> {
    duration(text, "10s").map(|time| time.as_secs_f64())
}

/// Joules: `5J`, `800mJ`.
pub fn joules(text: &str) -> Result<f64, String> {
    scaled(text, &[("mJ", 1e-3), ("J", 1.0)], "5J")
}

/// Watts: `3.5W`, `800mW`.
pub fn power_w(text: &str) -> Result<f64, String> {
    scaled(text, &[("W", 1.0), ("mW", 1e-3)], "3.5W")
}

/// A whole number above zero.
pub fn positive(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| "expected a whole number above zero".to_owned())
}

/// A number above zero, without a unit.
pub fn above_zero(text: &str) -> Result<f64, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value > 0.0)
        .ok_or_else(|| "expected a number above 0".to_owned())
}

/// Quantities are smaller: a float holds all of them exactly.
const LARGEST: u64 = 9_000_000_000_000_000;

fn counted(text: &str, units: &[(&str, f64)], example: &str) -> Result<u64, String> {
    let value = scaled(text, units, example)?.round();
    if value < LARGEST as f64 { Ok(value as u64) } else { Err(format!("`{text}` is too large")) }
}

fn scaled(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end]
        .parse()
        .map_err(|_| format!("`{text}` does not begin with a number; write e.g. {example}"))?;
    let known = || {
        units
            .iter()
            .map(|(unit, _)| *unit)
            .filter(|unit| !unit.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = units.iter().find(|(unit, _)| *unit == text[end..].trim());
    found.map(|(_, scale)| number * scale).ok_or_else(|| {
        format!("`{}` is not a unit here; write e.g. {example} (units: {})", &text[end..], known())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_scale_and_unknown_ones_are_refused() {
        assert_eq!((time_ns("33.3ms"), time_ns("0us")), (Ok(33_300_000), Ok(0)));
        assert!(time_ns("5").is_err() && time_ns("-5ms").is_err());
        assert_eq!(bandwidth("20Mbit/s"), Ok(2_500_000));
        assert_eq!((bytes("64MiB"), bytes("12")), (Ok(67_108_864), Ok(12)));
        assert_eq!((energy_nj("1.5J"), power_w("800mW")), (Ok(1_500_000_000), Ok(0.8)));
        assert_eq!((seconds("0.5min"), joules("250mJ")), (Ok(30.0), Ok(0.25)));
        assert!(
            time_ns("3 weeks").is_err_and(|e| e.contains("not a time") && e.contains("33.3ms"))
        );
        assert!(bytes("many").is_err_and(|e| e.contains("number")));
        assert!(time_ns("99999999999s").is_err_and(|e| e.contains("too large")));
    }

    #[test]
    fn durations_are_read_with_units() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("30m", 1800.0),
            ("30min", 1800.0),
            ("2h", 7200.0),
            ("1.5h", 5400.0),
            ("1h30m", 5400.0),
            ("1.5", 1.5),
            ("0.1s", 0.1),
            ("250ms", 0.25),
            ("2.5ms", 0.0025),
        ] {
            assert_eq!(duration_or_seconds(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "h", "3 parsecs", "1e999h", "-3s", "9999999999999999999s"] {
            assert!(duration_or_seconds(text).is_err(), "{text}");
        }
    }
}
