//! [`export`]: one table, journal included, as CSV or JSON for other programs. Lists are separated
//! by spaces in CSV and are arrays in JSON.

use crate::{
    DatasetError, Filter,
    column::{Column, Table},
    schema::TableSchema,
    source::Source,
    tables::{runs::whole_table, schema_of},
};
use serde_json::{Map, Value};
use std::{
    io::{self, Write},
    path::Path,
};

/// The format to export to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// RFC 4180 with a header; an absent value is an empty field.
    Csv,
    /// An array of objects.
    Json,
}

/// Writes one table to `out`: of a lake the files that `filter` takes, one after the other.
///
/// # Errors
/// [`DatasetError::NoSuchTable`]; as [`crate::Dataset::load`] and
/// [`Lake::check`](crate::Lake::check); [`DatasetError::NotALake`] for a filter of a folder;
/// [`DatasetError::Io`] when `out` cannot be written.
pub fn export(
    folder: &Path,
    table: &str,
    filter: &Filter,
    format: ExportFormat,
    out: &mut dyn Write,
) -> Result<(), DatasetError> {
    let schema = schema_of(table)?;
    let source = Source::open(folder)?;
    let mut writer = Rows { out, format, written: 0 };
    let failed = |error| DatasetError::io("export", &folder.join(schema.file_name()))(error);
    writer.begin(schema).map_err(failed)?;
    match source {
        Source::Lake(lake) => {
            lake.check(table, filter)?;
            let mut scan = lake.scan(table, filter, None)?;
            while let Some(found) = scan.next_table() {
                writer.add(&found?).map_err(failed)?;
            }
        }
        Source::Folder(folder) if *filter != Filter::default() => {
            return Err(DatasetError::NotALake { path: folder });
        }
        Source::Folder(folder) => writer.add(&whole_table(schema, &folder)?).map_err(failed)?,
    }
    writer.end().map_err(failed)
}

/// Writes the rows of tables of one schema.
struct Rows<'o> {
    out: &'o mut dyn Write,
    format: ExportFormat,
    written: usize,
}

impl Rows<'_> {
    fn begin(&mut self, schema: &TableSchema) -> io::Result<()> {
        match self.format {
            ExportFormat::Csv => {
                let names: Vec<&str> = schema.columns.iter().map(|(name, _)| *name).collect();
                writeln!(self.out, "{}", names.join(","))
            }
            ExportFormat::Json => self.out.write_all(b"["),
        }
    }

    fn add(&mut self, table: &Table) -> io::Result<()> {
        for row in 0..table.rows() {
            match self.format {
                ExportFormat::Csv => self.add_csv(table, row)?,
                ExportFormat::Json => self.add_json(table, row)?,
            }
            self.written += 1;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        match self.format {
            ExportFormat::Csv => Ok(()),
            ExportFormat::Json => self.out.write_all(b"\n]\n"),
        }
    }

    fn add_csv(&mut self, table: &Table, row: usize) -> io::Result<()> {
        let fields = table.columns.iter().map(|column| csv_field(column, row));
        writeln!(self.out, "{}", fields.collect::<Vec<String>>().join(","))
    }

    fn add_json(&mut self, table: &Table, row: usize) -> io::Result<()> {
        let cells = table.schema.columns.iter().zip(&table.columns);
        let object: Map<String, Value> = cells
            .map(|((name, _), column)| ((*name).to_owned(), json_value(column, row)))
            .collect();
        self.out.write_all(if self.written == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *self.out, &object)?;
        Ok(())
    }
}

fn csv_field(column: &Column, row: usize) -> String {
    let text = match column {
        Column::Text(values) | Column::OptionalText(values) => {
            values.get(row).map(|text| text.to_string()).unwrap_or_default()
        }
        Column::Integer(values) => values[row].to_string(),
        Column::OptionalInteger(values) => values[row].map(|v| v.to_string()).unwrap_or_default(),
        Column::IntegerList(lists) => {
            lists.get(row).iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
        }
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

fn json_value(column: &Column, row: usize) -> Value {
    match column {
        Column::Text(values) | Column::OptionalText(values) => {
            values.get(row).map(|text| text.to_string()).into()
        }
        Column::Integer(values) => values[row].into(),
        Column::OptionalInteger(values) => values[row].into(),
        Column::IntegerList(lists) => lists.get(row).to_vec().into(),
    }
}

#[cfg(all(test, feature = "write"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{simulated::stored, tables::table_names};

    fn exported(folder: &Path, table: &str, format: ExportFormat) -> String {
        let mut out = Vec::new();
        export(folder, table, &Filter::default(), format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_and_json_hold_every_row() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, _) = stored(folder.path(), 3);
        for table in table_names() {
            let rows: Vec<Map<String, Value>> =
                serde_json::from_str(&exported(folder.path(), table, ExportFormat::Json)).unwrap();
            let csv = exported(folder.path(), table, ExportFormat::Csv);
            assert_eq!(csv.lines().count(), rows.len() + 1, "{table}");
            assert!(!rows.is_empty(), "{table}");
        }
        let runs: Vec<Map<String, Value>> = serde_json::from_str(&exported(
            folder.path(),
            "model_measurements",
            ExportFormat::Json,
        ))
        .unwrap();
        assert_eq!(runs[1]["e2e_wall_ns"], serde_json::json!(profiles[1].e2e.wall_ns));
        let csv = exported(folder.path(), "operators", ExportFormat::Csv);
        assert!(csv.contains("\"{\"\"kind\"\":\"\"gelu\"\""), "{csv}");
        let filter = Filter::default();
        let error = export(folder.path(), "nodes", &filter, ExportFormat::Csv, &mut Vec::new())
            .unwrap_err();
        assert!(error.to_string().contains("operator_measurements"), "{error}");
    }
}
