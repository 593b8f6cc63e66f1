//! `environments.parquet`: where measurements were taken.
//!
//! [`Environment::id`] leaves out fields that do not change latencies (the kernel's release, which
//! of the equal cores, the record of the machine); rows that differ only in these share an id and
//! are distinguished by `variant`, the digest of all fields.

use crate::{
    DatasetError,
    column::{Cell, Table},
    schema::{
        ColumnType::{Integer, OptionalText, Text},
        TableSchema,
    },
    tables::to_json,
};
use std::path::Path;
use vitempo_graph::{Environment, MemoryFormat};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "environments",
    columns: &[
        ("environment_id", Text),
        ("variant", Text),
        ("device", Text),
        ("processor", Text),
        ("cores_available", Integer),
        ("cores", crate::schema::ColumnType::IntegerList),
        ("framework", Text),
        ("framework_version", Text),
        ("threads", Integer),
        ("precision", Text),
        ("memory_format", OptionalText),
        ("power_mode", OptionalText),
        ("isa", Text),
        ("os", Text),
        ("beside", OptionalText),
        ("settings", OptionalText),
        ("host_json", OptionalText),
    ],
    added: &[("memory_format", 2), ("beside", 5), ("host_json", 6), ("settings", 7)],
};

/// One row.
#[derive(Debug)]
pub(crate) struct EnvironmentRow {
    pub(crate) id: String,
    pub(crate) variant: String,
    pub(crate) environment: Environment,
}

/// Digest of all fields: 8 hexadecimal digits.
pub(crate) fn variant(environment: &Environment) -> String {
    let all = serde_json::to_string(environment).unwrap_or_default();
    blake3::hash(all.as_bytes()).to_hex()[..8].to_owned()
}

pub(crate) fn build<'a>(
    folder: &Path,
    environments: impl Iterator<Item = &'a Environment>,
) -> Result<Table, DatasetError> {
    let mut table = Table::new(&SCHEMA, folder);
    for e in environments {
        let host = e.host.as_ref().map(|host| to_json("the record of a host", host)).transpose()?;
        let settings: Vec<&str> = e.settings.iter().map(|s| s.name()).collect();
        let settings = Some(settings.join(",")).filter(|names| !names.is_empty());
        let cores: Vec<u64> = e.cores.iter().map(|&core| core as u64).collect();
        table.push([
            Cell::Text(&e.id()),
            Cell::Text(&variant(e)),
            Cell::Text(&e.device),
            Cell::Text(&e.processor.to_string()),
            Cell::Integer(e.cores_available as u64),
            Cell::IntegerList(&cores),
            Cell::Text(&e.framework),
            Cell::Text(&e.framework_version),
            Cell::Integer(e.threads as u64),
            Cell::Text(e.precision.name()),
            Cell::OptionalText(e.memory_format.map(MemoryFormat::name)),
            Cell::OptionalText(e.power_mode.as_deref()),
            Cell::Text(&e.isa),
            Cell::Text(&e.os),
            Cell::OptionalText(e.beside.as_deref()),
            Cell::OptionalText(settings.as_deref()),
            Cell::OptionalText(host.as_deref()),
        ]);
    }
    Ok(table)
}

pub(crate) fn rows(table: &Table) -> Result<Vec<EnvironmentRow>, DatasetError> {
    (0..table.rows()).map(|row| read_row(table, row)).collect()
}

fn read_row(table: &Table, row: usize) -> Result<EnvironmentRow, DatasetError> {
    let environment = Environment {
        device: table.text("device", row).to_owned(),
        processor: table.name("processor", row)?,
        cores_available: table.integer("cores_available", row) as usize,
        cores: table.list("cores", row).iter().map(|&core| core as usize).collect(),
        framework: table.text("framework", row).to_owned(),
        framework_version: table.text("framework_version", row).to_owned(),
        threads: table.integer("threads", row) as usize,
        precision: table.name("precision", row)?,
        memory_format: table.optional_name("memory_format", row)?,
        power_mode: table.optional_text("power_mode", row).map(str::to_owned),
        isa: table.text("isa", row).to_owned(),
        os: table.text("os", row).to_owned(),
        beside: table.optional_text("beside", row).map(str::to_owned),
        settings: table.names("settings", row)?,
        host: table.optional_json("host_json", row)?,
    };
    Ok(EnvironmentRow {
        id: table.text("environment_id", row).to_owned(),
        variant: table.text("variant", row).to_owned(),
        environment,
    })
}
