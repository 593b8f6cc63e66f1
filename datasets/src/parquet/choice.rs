//! [`Choice`]: some rows of a table, by what stands in one column. That column is read first; of
//! the others only the groups with a row that is wanted.

use crate::column::Column;
use std::{collections::HashSet, ops::Range};

/// The rows to read: those whose text in this column is wanted.
pub(crate) type Wanted<'w> = (&'static str, &'w dyn Fn(&str) -> bool);

/// Which rows of a file are wanted.
pub(super) struct Choice {
    keep: Vec<bool>,
}

impl Choice {
    /// By the texts of all rows; none is wanted of a column without texts.
    pub(super) fn of(column: &Column, wanted: &dyn Fn(&str) -> bool) -> Self {
        let Column::OptionalText(texts) = column else {
            return Self { keep: Vec::new() };
        };
        let wanted: HashSet<&str> =
            texts.distinct().iter().map(AsRef::as_ref).filter(|text| wanted(text)).collect();
        let keep = texts.iter().map(|text| text.is_some_and(|text| wanted.contains(text)));
        Self { keep: keep.collect() }
    }

    /// Whether a row is wanted.
    pub(super) fn keeps(&self, row: usize) -> bool {
        self.keep.get(row) == Some(&true)
    }

    /// How many of these rows are wanted.
    pub(super) fn count(&self, rows: Range<usize>) -> usize {
        self.keep.get(rows).unwrap_or_default().iter().filter(|&&keep| keep).count()
    }

    /// Where the wanted rows stand.
    pub(super) fn rows(&self) -> Vec<usize> {
        self.keep.iter().enumerate().filter(|(_, keep)| **keep).map(|(row, _)| row).collect()
    }
}
