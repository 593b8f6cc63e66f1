//! Text files, gzipped or not, and tables of numbers in them.

use crate::DatasetError;
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// No file unpacks to more.
const LARGEST: u64 = 1 << 29;

/// The text of a file; what ends in `gz` is unpacked.
pub(super) fn read(path: &Path) -> Result<String, DatasetError> {
    let file = File::open(path).map_err(DatasetError::io("read", path))?;
    let mut text = String::new();
    let read = if path.extension().is_some_and(|e| e == "gz") {
        flate2::read::GzDecoder::new(file).take(LARGEST + 1).read_to_string(&mut text)
    } else {
        file.take(LARGEST + 1).read_to_string(&mut text)
    };
    if read.map_err(DatasetError::io("read", path))? as u64 > LARGEST {
        return Err(DatasetError::NotImportable {
            path: path.to_owned(),
            reason: format!("it holds more than {} MiB", LARGEST >> 20),
        });
    }
    Ok(text)
}

/// A table with headings.
pub(super) struct Table {
    pub path: PathBuf,
    pub headings: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn read(path: &Path) -> Result<Self, DatasetError> {
        let text = read(path)?;
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let wrong = |e: csv::Error| DatasetError::NotImportable {
            path: path.to_owned(),
            reason: e.to_string(),
        };
        let headings = reader.headers().map_err(wrong)?.iter().map(str::to_owned).collect();
        let rows: Result<Vec<Vec<String>>, csv::Error> =
            reader.records().map(|r| r.map(|r| r.iter().map(str::to_owned).collect())).collect();
        Ok(Self { path: path.to_owned(), headings, rows: rows.map_err(wrong)? })
    }

    /// Where the column of that heading is.
    pub fn column(&self, heading: &str) -> Result<usize, DatasetError> {
        let missing = || DatasetError::NotImportable {
            path: self.path.clone(),
            reason: format!("it has no column `{heading}`"),
        };
        self.headings.iter().position(|h| h == heading).ok_or_else(missing)
    }

    /// A cell's text; empty where the row is short.
    pub fn text(&self, row: usize, column: usize) -> &str {
        self.rows.get(row).and_then(|r| r.get(column)).map_or("", String::as_str)
    }

    /// A cell's number; `None` where it is empty.
    pub fn number(&self, row: usize, column: usize) -> Result<Option<f64>, DatasetError> {
        let text = self.text(row, column).trim();
        if text.is_empty() {
            return Ok(None);
        }
        let heading = self.headings.get(column).cloned().unwrap_or_default();
        let wrong = |reason: String| DatasetError::Import {
            path: self.path.clone(),
            line: row as u64 + 2,
            column: heading.clone(),
            reason,
        };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
            Ok(_) => Err(wrong(format!("`{text}` is not a latency"))),
            Err(e) => Err(wrong(format!("`{text}`: {e}"))),
        }
    }

    /// A cell's positive latency in ns, the cell being in units of so many ns.
    pub fn latency(
        &self,
        row: usize,
        column: usize,
        unit_ns: f64,
    ) -> Result<Option<f64>, DatasetError> {
        Ok(self.number(row, column)?.filter(|v| *v > 0.0).map(|v| v * unit_ns))
    }
}

/// The JSON values of a file with one in each line.
pub(super) fn json_lines(path: &Path) -> Result<Vec<serde_json::Value>, DatasetError> {
    let text = read(path)?;
    let parse = |(line, json): (usize, &str)| {
        let wrong = |e: serde_json::Error| DatasetError::Import {
            path: path.to_owned(),
            line: line as u64 + 1,
            column: "json".to_owned(),
            reason: e.to_string(),
        };
        serde_json::from_str(json).map_err(wrong)
    };
    text.lines().enumerate().map(parse).collect()
}
