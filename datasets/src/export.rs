//! [`export`]: one table, journal included, as CSV or JSON for other programs. Lists are separated
//! by spaces in CSV and are arrays in JSON.

use crate::{
    DatasetError,
    column::{Column, Table},
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

/// Writes one table to `out`.
///
/// # Errors
/// [`DatasetError::NoSuchTable`]; as [`crate::Dataset::load`]; [`DatasetError::Io`] when `out`
/// cannot be written.
pub fn export(
    folder: &Path,
    table: &str,
    format: ExportFormat,
    out: &mut dyn Write,
) -> Result<(), DatasetError> {
    let schema = schema_of(table)?;
    let found = whole_table(schema, folder)?;
    let written = match format {
        ExportFormat::Csv => write_csv(&found, out),
        ExportFormat::Json => write_json(&found, out),
    };
    written.map_err(DatasetError::io("export", &found.path))
}

fn write_csv(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> = table.schema.columns.iter().map(|(name, _)| *name).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in 0..table.rows() {
        let fields: Vec<String> =
            table.columns.iter().map(|column| csv_field(column, row)).collect();
        writeln!(out, "{}", fields.join(","))?;
    }
    Ok(())
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

fn write_json(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"[")?;
    for row in 0..table.rows() {
        let cells = table.schema.columns.iter().zip(&table.columns);
        let object: Map<String, Value> = cells
            .map(|((name, _), column)| ((*name).to_owned(), json_value(column, row)))
            .collect();
        out.write_all(if row == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &object)?;
    }
    out.write_all(b"\n]\n")
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
        export(folder, table, format, &mut out).unwrap();
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
        let error = export(folder.path(), "nodes", ExportFormat::Csv, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("operator_measurements"), "{error}");
    }
}
