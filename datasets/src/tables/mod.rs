//! One file per table: its columns, how rows become cells, and how cells become rows again.

pub(crate) mod environments;
pub(crate) mod model_measurements;
pub(crate) mod models;
pub(crate) mod operator_measurements;
pub(crate) mod operators;
pub(crate) mod visits;

use crate::{DatasetError, VisitKey, column::Table};
use serde::Serialize;
use vitempo_graph::{Origin, Samples, Status};

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

fn status_of(table: &Table, row: usize) -> Result<Status, DatasetError> {
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

fn key_of(table: &Table, row: usize) -> VisitKey {
    VisitKey {
        environment_id: table.text("environment_id", row).to_owned(),
        architecture: table.text("architecture", row).to_owned(),
        model: table.text("model", row).to_owned(),
        sitting: table.text("sitting", row).to_owned(),
        round: table.integer("round", row),
    }
}

fn has_key(table: &Table, row: usize, key: &VisitKey) -> bool {
    table.integer("round", row) == key.round
        && table.text("architecture", row) == key.architecture
        && table.text("model", row) == key.model
        && table.text("sitting", row) == key.sitting
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
