//! [`table_rows`]: the columns of one table, journal included, for other programs in memory. For
//! files there is [`crate::export`].

use crate::{
    DatasetError,
    column::{Column, Table},
    parquet::Asked,
    schema::TableSchema,
    source::Source,
    tables::{runs::whole_table, schema_of},
};
use std::{path::Path, sync::Arc};

/// Columns of one table, of one length.
#[derive(Clone, Debug)]
pub struct TableRows {
    /// Name of the table.
    pub name: &'static str,
    /// Number of rows.
    pub rows: usize,
    /// Names and cells, in the order of the schema.
    pub columns: Vec<(&'static str, ColumnRows)>,
}

/// The cells of a column, by row.
#[derive(Clone, Debug)]
pub enum ColumnRows {
    /// Texts.
    Texts {
        /// Each text once.
        distinct: Vec<Arc<str>>,
        /// Index of the row's text; `None` where there is none.
        rows: Vec<Option<u32>>,
    },
    /// Integers.
    Integers(Vec<u64>),
    /// Integers, or none.
    OptionalIntegers(Vec<Option<u64>>),
    /// Lists of integers, end to end.
    IntegerLists {
        /// Where each row's list ends.
        ends: Vec<usize>,
        /// The integers of all lists.
        values: Vec<u64>,
    },
}

/// Reads a table; of it `columns`, or all where they are not given.
///
/// # Errors
/// [`DatasetError::NoSuchTable`] and [`DatasetError::NoSuchColumn`] for unknown names; otherwise as
/// [`crate::Dataset::load`].
pub fn table_rows(
    folder: &Path,
    table: &str,
    columns: Option<&[&str]>,
) -> Result<TableRows, DatasetError> {
    let schema = schema_of(table)?;
    let wanted = wanted(schema, columns)?;
    let source = Source::open(folder)?;
    let found = if source.journal()?.entries.is_empty() {
        source.read(schema, Asked::columns(&wanted))?
    } else {
        whole_table(schema, folder)?
    };
    Ok(TableRows::of(found, &wanted))
}

impl TableRows {
    /// Columns of a table.
    pub(crate) fn of(table: Table, wanted: &[&str]) -> Self {
        let (name, rows) = (table.schema.name, table.rows());
        let each = table.schema.columns.iter().zip(table.columns);
        let columns = each
            .filter(|((name, _), _)| wanted.contains(name))
            .map(|((name, _), column)| (*name, column.into()))
            .collect();
        Self { name, rows, columns }
    }
}

/// The names asked for, or all.
pub(crate) fn wanted(
    schema: &'static TableSchema,
    columns: Option<&[&str]>,
) -> Result<Vec<&'static str>, DatasetError> {
    let all = || schema.columns.iter().map(|(name, _)| *name);
    let Some(asked) = columns else { return Ok(all().collect()) };
    let known = |name: &&str| {
        all().find(|known| known == name).ok_or_else(|| DatasetError::NoSuchColumn {
            table: schema.name,
            name: (*name).to_owned(),
            known: all().collect::<Vec<_>>().join(", "),
        })
    };
    asked.iter().map(known).collect()
}

impl From<Column> for ColumnRows {
    fn from(column: Column) -> Self {
        match column {
            Column::Text(texts) | Column::OptionalText(texts) => {
                let (distinct, rows) = texts.into_parts();
                Self::Texts { distinct, rows }
            }
            Column::Integer(values) => Self::Integers(values),
            Column::OptionalInteger(values) => Self::OptionalIntegers(values),
            Column::IntegerList(lists) => {
                Self::IntegerLists { ends: lists.ends, values: lists.values }
            }
        }
    }
}

#[cfg(all(test, feature = "write"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Store, simulated::stored, tables::table_names};

    /// Every cell as text, row by row.
    fn cells(of: &TableRows) -> Vec<Vec<String>> {
        let cell = |column: &ColumnRows, row: usize| match column {
            ColumnRows::Texts { distinct, rows } => {
                rows[row].map_or_else(|| "-".to_owned(), |text| distinct[text as usize].to_string())
            }
            ColumnRows::Integers(values) => values[row].to_string(),
            ColumnRows::OptionalIntegers(values) => format!("{:?}", values[row]),
            ColumnRows::IntegerLists { ends, values } => {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                format!("{:?}", &values[start..ends[row]])
            }
        };
        let row = |row| of.columns.iter().map(|(_, column)| cell(column, row)).collect();
        (0..of.rows).map(row).collect()
    }

    #[test]
    fn tables_have_the_same_rows_in_the_journal_and_folded_in() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, _) = stored(folder.path(), 4);
        let read = |table: &str| table_rows(folder.path(), table, None).unwrap();
        let before: Vec<_> = table_names().into_iter().map(read).collect();
        Store::open_or_create(folder.path()).unwrap().compact().unwrap();
        for before in before {
            let after = read(before.name);
            assert!(after.rows > 0, "{}", after.name);
            assert_eq!(cells(&before), cells(&after), "{}", after.name);
        }
        let runs = read("model_measurements");
        assert_eq!(runs.rows, profiles.len());
        let (_, samples) = runs.columns.iter().find(|(name, _)| *name == "e2e_wall_ns").unwrap();
        let ColumnRows::IntegerLists { ends, values } = samples else { panic!("{samples:?}") };
        assert_eq!(values[..ends[0]], profiles[0].e2e.wall_ns);
    }

    #[test]
    fn columns_are_chosen_by_name() {
        let folder = tempfile::tempdir().unwrap();
        stored(folder.path(), 2);
        let some = table_rows(folder.path(), "models", Some(&["architecture"])).unwrap();
        assert_eq!(some.columns.len(), 1);
        let error = table_rows(folder.path(), "models", Some(&["weight"])).unwrap_err();
        assert!(error.to_string().contains("`models` has no column `weight`"), "{error}");
        let error = table_rows(folder.path(), "nodes", None).unwrap_err();
        assert!(error.to_string().contains("there is no table `nodes`"), "{error}");
        let nowhere = folder.path().join("nowhere");
        assert!(matches!(
            table_rows(&nowhere, "models", None),
            Err(DatasetError::NotADataset { .. })
        ));
    }
}
