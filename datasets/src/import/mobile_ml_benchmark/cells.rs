//! One cell of a CSV file: a latency in microseconds, and its position for error messages.

use crate::DatasetError;
use std::path::{Path, PathBuf};

/// No latency; no real one lasts 584 years.
pub(super) const NOT_MEASURED: u64 = u64::MAX;

/// Where a cell stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
    /// Line in the file, from 1.
    pub(super) line: u64,
    pub(super) column: &'a str,
}

impl Place<'_> {
    pub(super) fn error(self, reason: impl Into<String>) -> DatasetError {
        DatasetError::Import {
            path: PathBuf::from(self.path),
            line: self.line,
            column: self.column.to_owned(),
            reason: reason.into(),
        }
    }

    /// A latency in whole nanoseconds; [`NOT_MEASURED`] where there is none.
    pub(super) fn nanoseconds(self, text: &str) -> Result<u64, DatasetError> {
        let text = text.trim();
        if text.is_empty()
            || text == "-"
            || text.eq_ignore_ascii_case("nan")
            || text.eq_ignore_ascii_case("n/a")
        {
            return Ok(NOT_MEASURED);
        }
        let microseconds: f64 = text
            .parse()
            .map_err(|_| self.error(format!("`{text}` is not a number of microseconds")))?;
        let nanoseconds = (microseconds * 1e3).round();
        // Ten years and more are no latency.
        if nanoseconds.is_finite() && (0.0..3e17).contains(&nanoseconds) {
            Ok(nanoseconds as u64)
        } else {
            Err(self.error(format!("{text} microseconds are not a latency")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_become_nanoseconds() {
        let place = Place { path: Path::new("ops.csv"), line: 3, column: "pixel4|gpu|float" };
        let read = |text: &str| place.nanoseconds(text).map_err(|e| e.to_string());
        assert_eq!(
            (read("320.4096"), read(" 1e3 "), read("0")),
            (Ok(320_410), Ok(1_000_000), Ok(0))
        );
        assert_eq!(
            (read(""), read("nan"), read("-")),
            (Ok(NOT_MEASURED), Ok(NOT_MEASURED), Ok(NOT_MEASURED))
        );
        for wrong in ["-1", "inf", "1e300", "fast", "1,5"] {
            let named = |e: &String| e.contains("ops.csv, line 3, column `pixel4|gpu|float`");
            assert!(read(wrong).as_ref().is_err_and(named), "{wrong}: {:?}", read(wrong));
        }
    }
}
