//! One file per table: its columns, and the conversion between rows and cells.

pub(crate) mod environments;
pub(crate) mod model_measurements;
pub(crate) mod models;
pub(crate) mod operator_measurements;
pub(crate) mod operators;
pub(crate) mod runs;

use crate::{DatasetError, RunKey, column::Table, schema::TableSchema};
use serde::Serialize;
use vitempo_graph::{Origin, Samples, Status};

/// All tables, in the order in which they are written: a row exists before any row that refers to
/// it.
pub(crate) const TABLES: [&TableSchema; 5] = [
    &environments::SCHEMA,
    &operators::SCHEMA,
    &models::SCHEMA,
    &operator_measurements::SCHEMA,
    &model_measurements::SCHEMA,
];

/// The names of all tables.
#[must_use]
pub fn table_names() -> Vec<&'static str> {
    TABLES.iter().map(|table| table.name).collect()
}

/// The schema of a table.
pub(crate) fn schema_of(table: &str) -> Result<&'static TableSchema, DatasetError> {
    TABLES.into_iter().find(|schema| schema.name == table).ok_or_else(|| {
        DatasetError::NoSuchTable { name: table.to_owned(), known: table_names().join(", ") }
    })
}

/// The text of an origin, as in JSON.
pub(crate) const fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "measured",
        Origin::Imported => "imported",
        Origin::Simulated => "simulated",
    }
}

/// Status as two cells: `ok` or `failed`, and the reason.
pub(crate) fn status_cells(status: &Status) -> (&'static str, Option<&str>) {
    match status {
        Status::Ok => ("ok", None),
        Status::Failed(reason) => ("failed", Some(reason)),
    }
}

/// The status in a row.
pub(crate) fn status_of(table: &Table, row: usize) -> Result<Status, DatasetError> {
    match (table.text("status", row), table.optional_text("reason", row)) {
        ("ok", None) => Ok(Status::Ok),
        ("failed", Some(reason)) => Ok(Status::Failed(reason.to_owned())),
        ("ok", Some(_)) => {
            Err(table.row_error(row, "reason", "a row with status `ok` has a reason for failing"))
        }
        ("failed", None) => Err(table.row_error(row, "reason", "a failed row has no reason")),
        (other, _) => {
            Err(table.row_error(row, "status", format!("`{other}` is neither `ok` nor `failed`")))
        }
    }
}

/// The model run that a row belongs to.
pub(crate) fn key_of(table: &Table, row: usize) -> RunKey {
    RunKey {
        environment_id: table.text("environment_id", row).to_owned(),
        architecture: table.text("architecture", row).to_owned(),
        model: table.text("model", row).to_owned(),
        session: table.text("sitting", row).to_owned(),
        round: table.integer("round", row),
    }
}

pub(crate) fn has_key(table: &Table, row: usize, key: &RunKey) -> bool {
    table.integer("round", row) == key.round
        && table.text("architecture", row) == key.architecture
        && table.text("model", row) == key.model
        && table.text("sitting", row) == key.session
        && table.text("environment_id", row) == key.environment_id
}

fn samples_of(table: &Table, row: usize, wall: &str, cpu: &str) -> Samples {
    Samples { wall_ns: table.list(wall, row).to_vec(), cpu_ns: table.list(cpu, row).to_vec() }
}

/// A value as JSON.
pub(crate) fn to_json<T: Serialize>(what: &str, value: &T) -> Result<String, DatasetError> {
    serde_json::to_string(value)
        .map_err(|e| DatasetError::Unstorable { what: what.to_owned(), reason: e.to_string() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::{ColumnType, SCHEMA_VERSION};
    use std::{fs, path::Path};

    #[test]
    fn the_documentation_has_every_table_and_column() {
        let text = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/dataset-schema.md"),
        )
        .unwrap();
        for table in TABLES {
            let (_, section) = text
                .split_once(&format!("## {}.parquet", table.name))
                .unwrap_or_else(|| panic!("no section on {}", table.name));
            let section = section.split("\n## ").next().unwrap();
            for (column, kind) in table.columns {
                let kind = match kind {
                    ColumnType::Text => "text",
                    ColumnType::OptionalText => "text or null",
                    ColumnType::Integer => "u64",
                    ColumnType::OptionalInteger => "u64 or null",
                    ColumnType::IntegerList => "list of u64",
                };
                assert!(
                    section.contains(&format!("| `{column}` | {kind} |")),
                    "{}: `{column}` | {kind}",
                    table.name
                );
                let line = section
                    .lines()
                    .find(|line| line.starts_with(&format!("| `{column}` |")))
                    .unwrap();
                let reported = line
                    .split_once("since version ")
                    .map_or(1, |(_, version)| version.trim_end_matches(" |").parse().unwrap());
                assert_eq!(reported, table.since(column), "{}: `{column}`", table.name);
            }
            assert!(
                table.added.iter().all(|(new, _)| table
                    .columns
                    .iter()
                    .any(|(name, kind)| name == new
                        && matches!(kind, ColumnType::OptionalText | ColumnType::OptionalInteger))),
                "{}",
                table.name
            );
        }
        assert!(text.contains(&format!("schema version {SCHEMA_VERSION}")));
    }
}
