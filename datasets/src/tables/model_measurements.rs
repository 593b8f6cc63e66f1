//! `model_measurements.parquet`: one row per run of a model, failed ones included. Times in ns.

use super::{key_of, origin_name, samples_of, status_cells, status_of, to_json};
use crate::{
    DatasetError, RunKey,
    column::{Cell, Table},
    schema::{
        ColumnType::{Integer, IntegerList, OptionalInteger, OptionalText, Text},
        TableSchema,
    },
};
use vitempo_graph::{Executed, LoadRecord, ModelProfile, Origin, Protocol, Samples, Status};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "model_measurements",
    columns: &[
        ("environment_id", Text),
        ("environment_variant", Text),
        ("architecture", Text),
        ("model", Text),
        ("sitting", Text),
        ("round", Integer),
        ("started_unix_ms", Integer),
        ("origin", Text),
        ("status", Text),
        ("reason", OptionalText),
        ("protocol_json", Text),
        ("operators", Integer),
        ("e2e_wall_ns", IntegerList),
        ("e2e_cpu_ns", IntegerList),
        ("e2e_profiled_wall_ns", IntegerList),
        ("e2e_profiled_cpu_ns", IntegerList),
        ("reference_wall_ns", IntegerList),
        ("reference_cpu_ns", IntegerList),
        ("executed_precision", OptionalText),
        ("executed_memory_format", OptionalText),
        ("peak_memory_bytes", OptionalInteger),
        ("source", OptionalText),
        ("energy_per_inference_uj", OptionalInteger),
        ("load_json", OptionalText),
        ("running_memory_bytes", OptionalInteger),
    ],
    added: &[
        ("executed_precision", 2),
        ("executed_memory_format", 2),
        ("peak_memory_bytes", 2),
        ("source", 3),
        ("energy_per_inference_uj", 4),
        ("load_json", 5),
        ("running_memory_bytes", 8),
    ],
};

/// One row: a model run without its operators.
#[derive(Debug)]
pub(crate) struct RunRow {
    /// Its position in the file.
    pub(crate) number: usize,
    pub(crate) key: RunKey,
    pub(crate) environment_variant: String,
    pub(crate) started_unix_ms: u64,
    pub(crate) origin: Origin,
    pub(crate) status: Status,
    pub(crate) protocol: Protocol,
    /// How many rows of `operator_measurements.parquet` belong to it.
    pub(crate) operators: u64,
    pub(crate) e2e: Samples,
    pub(crate) e2e_profiled: Samples,
    pub(crate) reference: Samples,
    pub(crate) executed: Option<Executed>,
    pub(crate) peak_memory_bytes: Option<u64>,
    pub(crate) source: Option<String>,
    pub(crate) energy_per_inference_uj: Option<u64>,
    pub(crate) load: Option<LoadRecord>,
    pub(crate) running_memory_bytes: Option<u64>,
}

/// Adds the row of one model run.
pub(crate) fn push(
    table: &mut Table,
    profile: &ModelProfile,
    key: &RunKey,
    environment_variant: &str,
) -> Result<(), DatasetError> {
    let (status, reason) = status_cells(&profile.status);
    let load = profile.load.as_ref().map(|load| to_json(&profile.model.name, load)).transpose()?;
    table.push([
        Cell::Text(&key.environment_id),
        Cell::Text(environment_variant),
        Cell::Text(&key.architecture),
        Cell::Text(&key.model),
        Cell::Text(&key.session),
        Cell::Integer(key.round),
        Cell::Integer(profile.started_unix_ms),
        Cell::Text(origin_name(profile.origin)),
        Cell::Text(status),
        Cell::OptionalText(reason),
        Cell::Text(&to_json(&profile.model.name, &profile.protocol)?),
        Cell::Integer(profile.operators.len() as u64),
        Cell::IntegerList(&profile.e2e.wall_ns),
        Cell::IntegerList(&profile.e2e.cpu_ns),
        Cell::IntegerList(&profile.e2e_profiled.wall_ns),
        Cell::IntegerList(&profile.e2e_profiled.cpu_ns),
        Cell::IntegerList(&profile.reference.wall_ns),
        Cell::IntegerList(&profile.reference.cpu_ns),
        Cell::OptionalText(profile.executed.map(|e| e.precision.name())),
        Cell::OptionalText(profile.executed.map(|e| e.memory_format.name())),
        Cell::OptionalInteger(profile.peak_memory_bytes),
        Cell::OptionalText(profile.source.as_deref()),
        Cell::OptionalInteger(profile.energy_per_inference_uj),
        Cell::OptionalText(load.as_deref()),
        Cell::OptionalInteger(profile.running_memory_bytes),
    ]);
    Ok(())
}

pub(crate) fn rows(table: &Table) -> Result<Vec<RunRow>, DatasetError> {
    (0..table.rows()).map(|row| read_row(table, row)).collect()
}

fn read_row(table: &Table, row: usize) -> Result<RunRow, DatasetError> {
    Ok(RunRow {
        number: table.number(row),
        key: key_of(table, row),
        environment_variant: table.text("environment_variant", row).to_owned(),
        started_unix_ms: table.integer("started_unix_ms", row),
        origin: table.name("origin", row)?,
        status: status_of(table, row)?,
        protocol: table.json("protocol_json", row)?,
        operators: table.integer("operators", row),
        e2e: samples_of(table, row, "e2e_wall_ns", "e2e_cpu_ns"),
        e2e_profiled: samples_of(table, row, "e2e_profiled_wall_ns", "e2e_profiled_cpu_ns"),
        reference: samples_of(table, row, "reference_wall_ns", "reference_cpu_ns"),
        executed: executed_of(table, row)?,
        peak_memory_bytes: table.optional_integer("peak_memory_bytes", row),
        energy_per_inference_uj: table.optional_integer("energy_per_inference_uj", row),
        source: table.optional_text("source", row).map(str::to_owned),
        load: table.optional_json("load_json", row)?,
        running_memory_bytes: table.optional_integer("running_memory_bytes", row),
    })
}

/// Executed precision and memory format: both are present, or neither.
fn executed_of(table: &Table, row: usize) -> Result<Option<Executed>, DatasetError> {
    match (
        table.optional_name("executed_precision", row)?,
        table.optional_name("executed_memory_format", row)?,
    ) {
        (Some(precision), Some(memory_format)) => Ok(Some(Executed { precision, memory_format })),
        (None, None) => Ok(None),
        _ => Err(table.row_error(
            row,
            "executed_precision",
            "only one of executed_precision and executed_memory_format is there",
        )),
    }
}
