//! [`Choice`]: some rows of a table, by what stands in one column. That column is read first; of
//! the others only the groups with a row that is wanted.

use super::{
    columns::{self, File},
    fault::Outcome,
};
use crate::{column::Column, schema::ColumnType};
use std::{collections::HashSet, ops::Range};

/// The rows to read: those whose text in this column is wanted.
pub(crate) type Wanted<'w> = (&'static str, &'w dyn Fn(&str) -> bool);

/// Which rows of a file are wanted.
pub(super) struct Choice {
    keep: Vec<bool>,
}

impl Choice {
    pub(super) fn of(file: &File<'_>, (name, wanted): Wanted<'_>) -> Outcome<Self> {
        let Column::OptionalText(texts) =
            columns::read(file, name, ColumnType::OptionalText, None)?
        else {
            return Ok(Self { keep: Vec::new() });
        };
        let wanted: HashSet<&str> =
            texts.distinct().iter().map(AsRef::as_ref).filter(|text| wanted(text)).collect();
        let keep = texts.iter().map(|text| text.is_some_and(|text| wanted.contains(text)));
        Ok(Self { keep: keep.collect() })
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
