//! [`Table`]: the rows of one table in memory, column by column, whatever the file format.

use crate::{
    DatasetError,
    schema::{ColumnType, TableSchema},
    text::Texts,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Lists of integers, end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) ends: Vec<usize>,
    pub(crate) values: Vec<u64>,
}

impl Lists {
    pub(crate) fn push(&mut self, list: &[u64]) {
        self.values.extend_from_slice(list);
        self.ends.push(self.values.len());
    }

    /// Adds an element to the last list, or to a new one.
    pub(crate) fn push_element(&mut self, new: bool, element: u64) {
        self.values.push(element);
        match self.ends.last_mut() {
            Some(end) if !new => *end += 1,
            _ => self.ends.push(self.values.len()),
        }
    }

    pub(crate) fn get(&self, row: usize) -> &[u64] {
        let start = if row == 0 { 0 } else { self.ends.get(row - 1).copied().unwrap_or(0) };
        self.ends.get(row).and_then(|&end| self.values.get(start..end)).unwrap_or(&[])
    }
}

/// The values of one column.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    Text(Texts),
    OptionalText(Texts),
    Integer(Vec<u64>),
    OptionalInteger(Vec<Option<u64>>),
    IntegerList(Lists),
}

/// A cell to be added to a row.
pub(crate) enum Cell<'a> {
    Text(&'a str),
    OptionalText(Option<&'a str>),
    Integer(u64),
    OptionalInteger(Option<u64>),
    IntegerList(&'a [u64]),
}

impl Column {
    /// No cells.
    pub(crate) fn empty(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Text => Self::Text(Texts::default()),
            ColumnType::OptionalText => Self::OptionalText(Texts::default()),
            ColumnType::Integer => Self::Integer(Vec::new()),
            ColumnType::OptionalInteger => Self::OptionalInteger(Vec::new()),
            ColumnType::IntegerList => Self::IntegerList(Lists::default()),
        }
    }

    /// `rows` cells without a value; `None` for a column whose cells must have one.
    pub(crate) fn nulls(kind: ColumnType, rows: usize) -> Option<Self> {
        match kind {
            ColumnType::OptionalText => Some(Self::OptionalText(Texts::nulls(rows))),
            ColumnType::OptionalInteger => Some(Self::OptionalInteger(vec![None; rows])),
            ColumnType::Text | ColumnType::Integer | ColumnType::IntegerList => None,
        }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Self::Text(values), Cell::Text(v)) => values.push(Some(v)),
            (Self::OptionalText(values), Cell::OptionalText(v)) => values.push(*v),
            (Self::Integer(values), Cell::Integer(v)) => values.push(*v),
            (Self::OptionalInteger(values), Cell::OptionalInteger(v)) => values.push(*v),
            (Self::IntegerList(lists), Cell::IntegerList(v)) => lists.push(v),
            _ => debug_assert!(false, "a cell of another type than its column"),
        }
    }

    /// The cell of a row; `None` where the column was not read.
    fn cell(&self, row: usize) -> Option<Cell<'_>> {
        match self {
            Self::Text(v) if row < v.len() => {
                Some(Cell::Text(v.get(row).map_or("", AsRef::as_ref)))
            }
            Self::OptionalText(v) if row < v.len() => {
                Some(Cell::OptionalText(v.get(row).map(AsRef::as_ref)))
            }
            Self::Text(_) | Self::OptionalText(_) => None,
            Self::Integer(v) => v.get(row).copied().map(Cell::Integer),
            Self::OptionalInteger(v) => v.get(row).copied().map(Cell::OptionalInteger),
            Self::IntegerList(v) => (row < v.ends.len()).then(|| Cell::IntegerList(v.get(row))),
        }
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_) | Self::OptionalText(_))
    }

    /// Makes room for so many cells more.
    pub(crate) fn reserve(&mut self, cells: usize) {
        match self {
            Self::Text(v) | Self::OptionalText(v) => v.reserve(cells),
            Self::Integer(v) => v.reserve_exact(cells),
            Self::OptionalInteger(v) => v.reserve_exact(cells),
            Self::IntegerList(v) => v.ends.reserve_exact(cells),
        }
    }

    /// What a cell without text or elements counts for in [`Self::bytes`].
    pub(crate) fn least_cell_bytes(&self) -> u64 {
        match self {
            Self::Integer(_) => 8,
            _ => 16,
        }
    }

    /// What a value of `length` bytes in a cell of the column `name` counts for beyond
    /// [`Self::least_cell_bytes`]. JSON counts four times, for what it is parsed into.
    pub(crate) fn more_bytes(&self, name: &str, length: usize) -> usize {
        match self {
            Self::Text(_) | Self::OptionalText(_) if name.ends_with("_json") => {
                length.saturating_mul(4)
            }
            Self::Text(_) | Self::OptionalText(_) | Self::IntegerList(_) => length,
            Self::Integer(_) | Self::OptionalInteger(_) => 0,
        }
    }

    /// Bytes that the cells of the column `name` take when each is on its own: 8 or 16 each, and
    /// those of its text or of its list.
    pub(crate) fn bytes(&self, name: &str) -> u64 {
        let more = match self {
            Self::Text(v) | Self::OptionalText(v) => v.iter().flatten().map(str::len).sum(),
            Self::IntegerList(v) => v.values.len() * 8,
            Self::Integer(_) | Self::OptionalInteger(_) => 0,
        };
        self.len() as u64 * self.least_cell_bytes() + self.more_bytes(name, more) as u64
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(v) | Self::OptionalText(v) => v.len(),
            Self::Integer(v) => v.len(),
            Self::OptionalInteger(v) => v.len(),
            Self::IntegerList(v) => v.ends.len(),
        }
    }
}

/// One table. Columns are in the order of the schema and have equal lengths, except those that were
/// not read, which are empty.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) schema: &'static TableSchema,
    pub(crate) path: PathBuf,
    pub(crate) columns: Vec<Column>,
    /// Positions of its rows in the file, if only some of them were read.
    pub(crate) chosen: Option<Vec<usize>>,
    /// Bytes that its file could hold beyond its rows, see `parquet`.
    pub(crate) spare_bytes: u64,
}

impl Table {
    /// No rows; `folder` is only for messages and for writing.
    pub(crate) fn new(schema: &'static TableSchema, folder: &Path) -> Self {
        let columns = schema.columns.iter().map(|(_, kind)| Column::empty(*kind)).collect();
        Self {
            schema,
            path: folder.join(schema.file_name()),
            columns,
            chosen: None,
            spare_bytes: 0,
        }
    }

    /// Adds a row; one cell per column, in the schema's order.
    pub(crate) fn push<const N: usize>(&mut self, cells: [Cell<'_>; N]) {
        debug_assert_eq!(N, self.columns.len(), "a row of `{}` with {N} cells", self.schema.name);
        for (column, cell) in self.columns.iter_mut().zip(&cells) {
            column.push(cell);
        }
    }

    /// Adds a row of another table of the same schema.
    pub(crate) fn push_row(&mut self, other: &Self, row: usize) {
        for (column, other) in self.columns.iter_mut().zip(&other.columns) {
            if let Some(cell) = other.cell(row) {
                column.push(&cell);
            }
        }
    }

    /// The same; its number is that of the other table after these.
    pub(crate) fn push_numbered(&mut self, other: &Self, row: usize, before: usize) {
        self.push_row(other, row);
        self.chosen.get_or_insert_default().push(other.number(row).saturating_add(before));
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.columns = self.schema.columns.iter().map(|(_, kind)| Column::empty(*kind)).collect();
    }

    /// Bytes of its rows: [`Column::bytes`] of all columns.
    pub(crate) fn bytes(&self) -> u64 {
        let columns = self.schema.columns.iter().zip(&self.columns);
        columns.map(|((name, _), column)| column.bytes(name)).sum()
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns.iter().map(Column::len).max().unwrap_or(0)
    }

    /// The position of a row in the file.
    pub(crate) fn number(&self, row: usize) -> usize {
        self.chosen.as_ref().and_then(|chosen| chosen.get(row)).copied().unwrap_or(row)
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.schema.position(name).and_then(|i| self.columns.get(i))
    }

    pub(crate) fn text(&self, name: &str, row: usize) -> &str {
        match self.column(name) {
            Some(Column::Text(values)) => values.get(row).map_or("", AsRef::as_ref),
            _ => "",
        }
    }

    /// Every text that the column has somewhere.
    pub(crate) fn distinct(&self, name: &str) -> &[Arc<str>] {
        match self.column(name) {
            Some(Column::Text(values) | Column::OptionalText(values)) => values.distinct(),
            _ => &[],
        }
    }

    pub(crate) fn optional_text(&self, name: &str, row: usize) -> Option<&str> {
        match self.column(name) {
            Some(Column::OptionalText(values)) => values.get(row).map(AsRef::as_ref),
            _ => None,
        }
    }

    pub(crate) fn integer(&self, name: &str, row: usize) -> u64 {
        match self.column(name) {
            Some(Column::Integer(values)) => values.get(row).copied().unwrap_or(0),
            _ => 0,
        }
    }

    pub(crate) fn optional_integer(&self, name: &str, row: usize) -> Option<u64> {
        match self.column(name) {
            Some(Column::OptionalInteger(values)) => values.get(row).copied().flatten(),
            _ => None,
        }
    }

    pub(crate) fn list(&self, name: &str, row: usize) -> &[u64] {
        match self.column(name) {
            Some(Column::IntegerList(lists)) => lists.get(row),
            _ => &[],
        }
    }

    /// An error about one cell.
    pub(crate) fn row_error(
        &self,
        row: usize,
        column: &str,
        reason: impl Into<String>,
    ) -> DatasetError {
        DatasetError::Row {
            path: self.path.clone(),
            row: self.number(row),
            column: column.to_owned(),
            reason: reason.into(),
        }
    }

    /// A cell that holds JSON.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        row: usize,
    ) -> Result<T, DatasetError> {
        serde_json::from_str(self.text(name, row))
            .map_err(|e| self.row_error(row, name, e.to_string()))
    }

    /// The same of a cell that may be null.
    pub(crate) fn optional_json<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        row: usize,
    ) -> Result<Option<T>, DatasetError> {
        let parse =
            |text| serde_json::from_str(text).map_err(|e| self.row_error(row, name, e.to_string()));
        self.optional_text(name, row).map(parse).transpose()
    }

    /// A cell that holds one of serde's plain names, e.g. `measured`.
    pub(crate) fn name<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        row: usize,
    ) -> Result<T, DatasetError> {
        self.named(name, row, self.text(name, row))
    }

    /// The same of a cell that may be null.
    pub(crate) fn optional_name<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        row: usize,
    ) -> Result<Option<T>, DatasetError> {
        self.optional_text(name, row).map(|text| self.named(name, row, text)).transpose()
    }

    /// The names in a cell, separated by commas; null: none.
    pub(crate) fn names<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        row: usize,
    ) -> Result<Vec<T>, DatasetError> {
        let names = self.optional_text(name, row).into_iter().flat_map(|text| text.split(','));
        names.map(|text| self.named(name, row, text)).collect()
    }

    fn named<T: serde::de::DeserializeOwned>(
        &self,
        column: &str,
        row: usize,
        text: &str,
    ) -> Result<T, DatasetError> {
        serde_json::from_value(serde_json::Value::String(text.to_owned()))
            .map_err(|e| self.row_error(row, column, e.to_string()))
    }
}
