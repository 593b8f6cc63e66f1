//! Quantities with units on the command line, in the units planners take.

use std::time::Duration;
use vitempo::{
    quantity::{self, BYTE_UNITS},
    training::LEVELS,
};

/// More than any processor has.
const MOST_THREADS: usize = 1024;

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

/// Bytes: `40MB`, `64MiB`; a plain number is bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let units: Vec<(&str, f64)> = BYTE_UNITS.into_iter().chain([("", 1.0)]).collect();
    counted(text, &units, "40MB")
}

/// A percentage from 0 to 100, as a share: `15%`.
pub fn share(text: &str) -> Result<f64, String> {
    quantity::percent(text).map(|percent| percent / 100.0).map_err(|e| e.to_string())
}

/// An accuracy in percent: `75.5%`, `75.5`.
pub fn accuracy(text: &str) -> Result<f64, String> {
    quantity::accuracy(text).map_err(|e| format!("an accuracy of {e}"))
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

/// A number of threads that a processor may have.
pub fn threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
    threads.ok_or_else(|| format!("expected a whole number from 1 to {MOST_THREADS}"))
}

/// The number of a logical core.
pub fn core(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected numbers of cores, e.g. 1,2".to_owned())
}

/// The level of an interval, as a share.
pub fn level(text: &str) -> Result<f64, String> {
    let level = text.parse().ok().filter(|level| LEVELS.contains(level));
    let (least, most) = (LEVELS.start(), LEVELS.end());
    level.ok_or_else(|| format!("expected a level from {least} to {most}, e.g. 0.9 for 90 %"))
}

/// A number above zero, without a unit.
pub fn above_zero(text: &str) -> Result<f64, String> {
    let number = finite(text).filter(|number| *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// A number of zero or more, without a unit.
pub fn zero_or_more(text: &str) -> Result<f64, String> {
    let number = finite(text).filter(|number| *number >= 0.0);
    number.ok_or_else(|| "expected a number of 0 or more".to_owned())
}

fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

fn counted(text: &str, units: &[(&str, f64)], example: &'static str) -> Result<u64, String> {
    quantity::counted(text, units, example).map_err(|e| e.to_string())
}

fn scaled(text: &str, units: &[(&str, f64)], example: &'static str) -> Result<f64, String> {
    quantity::scaled(text, units, example).map_err(|e| e.to_string())
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
        assert_eq!((share("15%"), accuracy("75.5")), (Ok(0.15), Ok(75.5)));
        assert!(share("15").is_err_and(|e| e.contains("15%")));
        assert!(accuracy("190%").is_err_and(|e| e.contains("between 0 and 100")));
        assert!(time_ns("99999999999s").is_err_and(|e| e.contains("too large")));
    }

    #[test]
    fn levels_and_threads_have_bounds() {
        assert_eq!((level("0.9"), level("0.9999"), level("0.01")), (Ok(0.9), Ok(0.9999), Ok(0.01)));
        for text in ["0.999999999999", "1e-300", "1", "0", "-1", "90", "nan", "high"] {
            assert!(level(text).is_err_and(|e| e.contains("0.01 to 0.9999")), "{text}");
        }
        assert_eq!((threads("8"), threads("1024")), (Ok(8), Ok(1024)));
        assert_eq!(core("0"), Ok(0));
        assert!(core("0-1").is_err_and(|e| e.contains("1,2")));
        for text in ["0", "1025", "18446744073709551615", "99999999999999999999", "two"] {
            assert!(threads(text).is_err_and(|e| e.contains("1 to 1024")), "{text}");
        }
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
