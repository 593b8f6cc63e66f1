//! [`Fault`]: what is wrong with a table's file, before its path is added. [`Allowance`]: how much
//! a table may hold, given the length of its file.

use crate::DatasetError;
use std::{cell::Cell, path::Path};

/// What is wrong with a file.
#[derive(Debug)]
pub(super) enum Fault {
    /// Its bytes contradict each other or the format.
    Damaged(String),
    /// It uses a part of the format that vitempo does not write.
    Foreign(String),
    /// A cell is not of its column's type.
    Row { row: usize, column: &'static str, reason: String },
}

pub(super) type Outcome<T> = Result<T, Fault>;

pub(super) fn damaged<T>(reason: &str) -> Outcome<T> {
    Err(Fault::Damaged(reason.to_owned()))
}

pub(super) fn foreign<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(Fault::Foreign(reason.into()))
}

impl Fault {
    pub(super) fn of_file(self, path: &Path) -> DatasetError {
        match self {
            Self::Damaged(reason) => DatasetError::damaged(path, reason),
            Self::Foreign(reason) => DatasetError::foreign(path, reason),
            Self::Row { row, column, reason } => {
                DatasetError::Row { path: path.to_owned(), row, column: column.to_owned(), reason }
            }
        }
    }

    /// The same, found in this column.
    pub(super) fn in_column(self, column: &'static str) -> Self {
        match self {
            Self::Damaged(reason) => Self::Damaged(format!("column `{column}`: {reason}")),
            Self::Foreign(reason) => Self::Foreign(format!("column `{column}`: {reason}")),
            row @ Self::Row { .. } => row,
        }
    }
}

/// Bytes that the rows of a table may take, for each byte of its file. Those of measured tables
/// take up to 100 times as much as their compressed file.
pub(crate) const EXPANSION: u64 = 256;
/// Bytes that the rows of every table may take, however small its file is.
pub(crate) const ALWAYS: u64 = 1 << 20;

/// How much a table may still hold. Decompressed pages and cells
/// ([`Column::bytes`](crate::column::Column::bytes)) are counted, before memory is allocated for
/// them.
#[derive(Debug)]
pub(crate) struct Allowance {
    limit: u64,
    spent: Cell<u64>,
}

impl Allowance {
    /// That of a file with so many bytes.
    pub(crate) const fn of_file(length: usize) -> Self {
        let limit = ALWAYS + EXPANSION.saturating_mul(length as u64);
        Self { limit, spent: Cell::new(0) }
    }

    /// Bytes that are left.
    pub(super) const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.spent.get())
    }

    /// Spends `count` times so many bytes.
    pub(super) fn spend(&self, count: usize, bytes: u64) -> Outcome<()> {
        let bytes = (count as u64).saturating_mul(bytes);
        if bytes > self.left() {
            return Err(Fault::Damaged(format!(
                "its rows take more than {} bytes, which is more than vitempo writes into a file \
                 of this size",
                self.limit
            )));
        }
        self.spent.set(self.spent.get() + bytes);
        Ok(())
    }
}
