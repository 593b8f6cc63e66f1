//! One column of a table: to polars, which writes it, and out of the pages of a file.

use super::{
    choice::Choice,
    fault::{Allowance, Fault, Outcome, damaged},
    footer::{Footer, Group},
    values::{Content, Layout, read_chunk},
};
use crate::{column::Column, schema::ColumnType};
#[cfg(feature = "write")]
use polars::prelude::{self as pl, IntoSeries as _, ListBuilderTrait as _};
use std::ops::Range;

#[cfg(feature = "write")]
pub(super) fn to_polars(name: &str, column: &Column) -> pl::Column {
    use pl::NamedFrom as _;
    let series = match column {
        Column::Text(values) | Column::OptionalText(values) => {
            pl::Series::new(name.into(), values.iter().collect::<Vec<Option<&str>>>())
        }
        Column::Integer(values) => pl::Series::new(name.into(), values),
        Column::OptionalInteger(values) => pl::Series::new(name.into(), values),
        Column::IntegerList(lists) => {
            let rows = lists.ends.len();
            let mut builder = pl::ListPrimitiveChunkedBuilder::<pl::UInt64Type>::new(
                name.into(),
                rows,
                lists.values.len(),
                pl::DataType::UInt64,
            );
            for row in 0..rows {
                builder.append_slice(lists.get(row));
            }
            builder.finish().into_series()
        }
    };
    series.into()
}

/// A file whose digest was verified.
pub(super) struct File<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) footer: Footer<'b>,
    pub(super) allowance: &'b Allowance,
}

/// Reads a column: all rows, or those of `choice`.
pub(super) fn read(
    file: &File<'_>,
    name: &'static str,
    kind: ColumnType,
    choice: Option<&Choice>,
) -> Outcome<Column> {
    let leaf = file.footer.leaf(name, kind)?;
    let layout = match kind {
        ColumnType::Text | ColumnType::OptionalText => Layout::Texts,
        _ => Layout::Integers,
    };
    let mut cells = Cells { file, name, column: Column::empty(kind), choice, rows: 0..0 };
    for group in &file.footer.groups {
        if !cells.enter(group)? {
            continue;
        }
        let chunk = group.chunk(name)?;
        let each = |begins_row, content: Content<'_>| cells.add(begins_row, content);
        read_chunk(file.bytes, chunk, leaf, layout, file.allowance, each)
            .map_err(|fault| fault.in_column(name))?;
        cells.leave().map_err(|fault| fault.in_column(name))?;
    }
    Ok(cells.column)
}

/// A column in the making.
struct Cells<'f> {
    file: &'f File<'f>,
    name: &'static str,
    column: Column,
    choice: Option<&'f Choice>,
    /// Rows of the group that were not met yet.
    rows: Range<usize>,
}

impl Cells<'_> {
    /// Begins a group; whether one of its rows is wanted.
    fn enter(&mut self, group: &Group<'_>) -> Outcome<bool> {
        self.rows = self.rows.end..self.rows.end.saturating_add(group.rows);
        let wanted = match self.choice {
            Some(choice) => choice.count(self.rows.clone()),
            None => group.rows,
        };
        self.file.allowance.spend(wanted, self.column.least_cell_bytes())?;
        self.column.reserve(wanted);
        Ok(wanted > 0)
    }

    /// Ends a group.
    fn leave(&self) -> Outcome<()> {
        if self.rows.is_empty() { Ok(()) } else { damaged("it has fewer rows than its group") }
    }

    fn fault<T>(&self, row: usize, reason: &str) -> Outcome<T> {
        Err(Fault::Row { row, column: self.name, reason: reason.to_owned() })
    }

    fn add(&mut self, begins_row: bool, content: Content<'_>) -> Outcome<()> {
        if begins_row && self.rows.next().is_none() {
            return damaged("it has more rows than its group");
        }
        let Some(row) = self.rows.start.checked_sub(1) else {
            return damaged("it does not begin with a row");
        };
        if self.choice.is_some_and(|choice| !choice.keeps(row)) {
            return Ok(());
        }
        if let Content::Value(value) = content {
            self.file.allowance.spend(self.column.more_bytes(self.name, value.len()), 1)?;
        }
        let content = match content {
            Content::Value(value) if self.column.is_text() => match std::str::from_utf8(value) {
                Ok(text) => Cell::Text(text),
                Err(_) => return self.fault(row, "it is not UTF-8"),
            },
            Content::Value(value) => match value.first_chunk::<8>() {
                Some(bytes) => Cell::Integer(u64::from_le_bytes(*bytes)),
                None => return self.fault(row, "it is no integer"),
            },
            Content::Null => Cell::Null,
            Content::Empty => Cell::Empty,
            Content::NullElement => return self.fault(row, "a value of its list is missing"),
        };
        match (&mut self.column, content) {
            (Column::Text(texts) | Column::OptionalText(texts), Cell::Text(text)) => {
                texts.push(Some(text));
            }
            (Column::OptionalText(texts), Cell::Null) => texts.push(None),
            (Column::Integer(values), Cell::Integer(value)) => values.push(value),
            (Column::OptionalInteger(values), Cell::Integer(value)) => values.push(Some(value)),
            (Column::OptionalInteger(values), Cell::Null) => values.push(None),
            (Column::IntegerList(lists), Cell::Integer(value)) => {
                lists.push_element(begins_row, value);
            }
            (Column::IntegerList(lists), Cell::Empty) if begins_row => lists.push(&[]),
            (_, Cell::Null) => return self.fault(row, "there is no value"),
            _ => return damaged(BAD_LEVELS),
        }
        Ok(())
    }
}

const BAD_LEVELS: &str = "a page has levels that contradict each other";

/// The content of a cell, or of an element of a list.
enum Cell<'v> {
    Null,
    Empty,
    Text(&'v str),
    Integer(u64),
}
