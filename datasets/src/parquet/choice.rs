//! [`Choice`]: some rows of a table, chosen by the values of one column. That column is read first;
//! of the others only the range from the first to the last chosen row.

use crate::DatasetError;
use polars::prelude as pl;
use polars::prelude::SerReader as _;
use std::{io::Cursor, path::Path};

/// The rows to read: those whose text in this column is wanted.
pub(crate) type Wanted<'w> = (&'static str, &'w dyn Fn(&str) -> bool);

/// Which rows of a file are wanted, from the first wanted one to the last.
pub(super) struct Choice {
    first: usize,
    keep: Vec<bool>,
}

impl Choice {
    pub(super) fn of(
        path: &Path,
        bytes: &[u8],
        (column, wanted): Wanted<'_>,
    ) -> Result<Self, DatasetError> {
        let broken = |e: pl::PolarsError| DatasetError::damaged(path, e.to_string());
        let reader =
            pl::ParquetReader::new(Cursor::new(bytes)).with_columns(Some(vec![column.to_owned()]));
        let frame = reader.set_rechunk(true).finish().map_err(broken)?;
        let texts =
            frame.column(column).map_err(broken)?.as_materialized_series().str().map_err(broken)?;
        let mut last: Option<(&str, bool)> = None;
        let mut keep: Vec<bool> = Vec::with_capacity(texts.len());
        for text in texts.iter() {
            let known = last.filter(|(known, _)| Some(*known) == text);
            last = known.or_else(|| text.map(|text| (text, wanted(text))));
            keep.push(last.is_some_and(|(_, wanted)| wanted) && text.is_some());
        }
        let first = keep.iter().position(|&k| k).unwrap_or(keep.len());
        keep.truncate(keep.iter().rposition(|&k| k).map_or(0, |last| last + 1));
        keep.drain(..first.min(keep.len()));
        Ok(Self { first, keep })
    }

    /// Where the first row stands, and how many there are from it to the last.
    pub(super) fn span(&self) -> (usize, usize) {
        (self.first, self.keep.len())
    }

    /// Whether a row is wanted, counted from the first.
    pub(super) fn keeps(&self, row: usize) -> bool {
        self.keep.get(row) == Some(&true)
    }

    /// Positions of the wanted rows.
    pub(super) fn rows(&self) -> Vec<usize> {
        self.keep
            .iter()
            .enumerate()
            .filter(|(_, keep)| **keep)
            .map(|(row, _)| self.first + row)
            .collect()
    }
}
