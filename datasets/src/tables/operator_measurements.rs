//! `operator_measurements.parquet`: one row per operator that ran in a visit, in execution order. Times in ns.
//!
//! Rows of one visit stand together; `position` counts them from 0. Operators are referred to by `op_id`.

use super::{has_key, key_of, origin_name, samples_of, status_cells, status_of};
use crate::{
    DatasetError, VisitKey,
    column::{Cell, Table},
    schema::{
        ColumnType::{Integer, IntegerList, OptionalInteger, OptionalText, Text},
        TableSchema,
    },
};
use std::{collections::HashMap, path::Path};
use vitempo_graph::{Measurement, ModelProfile, OpSpec, Origin, Samples, Status};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "operator_measurements",
    columns: &[
        ("op_id", Text),
        ("environment_id", Text),
        ("architecture", Text),
        ("model", Text),
        ("sitting", Text),
        ("round", Integer),
        ("position", Integer),
        ("node", Text),
        ("kernel", Text),
        ("origin", Text),
        ("status", Text),
        ("reason", OptionalText),
        ("wall_ns", IntegerList),
        ("cpu_ns", IntegerList),
        ("memory_bytes", OptionalInteger),
    ],
    since_2: &["memory_bytes"],
};

/// One row.
#[derive(Debug)]
pub(crate) struct OperatorMeasurementRow {
    pub(crate) op_id: String,
    pub(crate) position: u64,
    pub(crate) node: String,
    pub(crate) kernel: String,
    pub(crate) origin: Origin,
    pub(crate) status: Status,
    pub(crate) samples: Samples,
    pub(crate) memory_bytes: Option<u64>,
}

/// Rows that follow each other and belong to one visit; `first` is the number of the first.
#[derive(Debug)]
pub(crate) struct VisitOperators {
    pub(crate) key: VisitKey,
    pub(crate) first: usize,
    pub(crate) rows: Vec<OperatorMeasurementRow>,
}

impl OperatorMeasurementRow {
    /// The measurement, once its operator is known.
    pub(crate) fn into_measurement(self, op: OpSpec) -> Measurement {
        Measurement { op, node: self.node, kernel: self.kernel, samples: self.samples, memory_bytes: self.memory_bytes, status: self.status }
    }
}

/// Operators and their identifiers: the digest of each distinct operator is computed once.
pub(crate) type OperatorIds<'a> = HashMap<&'a OpSpec, String>;

pub(crate) fn build(folder: &Path, profiles: &[ModelProfile], ids: &OperatorIds<'_>) -> Table {
    let mut table = Table::new(&SCHEMA, folder);
    for profile in profiles {
        let key = VisitKey::from(profile);
        for (position, measurement) in profile.operators.iter().enumerate() {
            let (status, reason) = status_cells(&measurement.status);
            table.push([
                Cell::Text(ids.get(&measurement.op).map_or("", String::as_str)),
                Cell::Text(&key.environment_id),
                Cell::Text(&key.architecture),
                Cell::Text(&key.model),
                Cell::Text(&key.sitting),
                Cell::Integer(key.round),
                Cell::Integer(position as u64),
                Cell::Text(&measurement.node),
                Cell::Text(&measurement.kernel),
                Cell::Text(origin_name(profile.origin)),
                Cell::Text(status),
                Cell::OptionalText(reason),
                Cell::IntegerList(&measurement.samples.wall_ns),
                Cell::IntegerList(&measurement.samples.cpu_ns),
                Cell::OptionalInteger(measurement.memory_bytes),
            ]);
        }
    }
    table
}

pub(crate) fn visits(table: &Table) -> Result<Vec<VisitOperators>, DatasetError> {
    let mut visits: Vec<VisitOperators> = Vec::new();
    for number in 0..table.rows() {
        let row = read_row(table, number)?;
        match visits.last_mut().filter(|visit| has_key(table, number, &visit.key)) {
            Some(visit) => visit.rows.push(row),
            None => visits.push(VisitOperators { key: key_of(table, number), first: number, rows: vec![row] }),
        }
    }
    Ok(visits)
}

fn read_row(table: &Table, row: usize) -> Result<OperatorMeasurementRow, DatasetError> {
    Ok(OperatorMeasurementRow {
        op_id: table.text("op_id", row).to_owned(),
        position: table.integer("position", row),
        node: table.text("node", row).to_owned(),
        kernel: table.text("kernel", row).to_owned(),
        origin: table.name("origin", row)?,
        status: status_of(table, row)?,
        samples: samples_of(table, row, "wall_ns", "cpu_ns"),
        memory_bytes: table.optional_integer("memory_bytes", row),
    })
}
