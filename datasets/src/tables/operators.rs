//! `operators.parquet`: every distinct operator once, under the digest of its canonical JSON.
//!
//! Work is written for people and other programs; readers compute it again from the operator.

use crate::{
    DatasetError,
    column::{Cell, Table},
    schema::{
        ColumnType::{Integer, Text},
        TableSchema,
    },
};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use vitempo_graph::{OpSpec, Work};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "operators",
    columns: &[
        ("op_id", Text),
        ("kind", Text),
        ("spec_json", Text),
        ("memory_format", Text),
        ("precision", Text),
        ("macs", Integer),
        ("flops", Integer),
        ("bytes_read", Integer),
        ("bytes_written", Integer),
        ("params", Integer),
    ],
    added: &[],
};

/// One row.
#[derive(Debug)]
pub(crate) struct OperatorRow {
    pub(crate) op_id: String,
    pub(crate) op: Arc<OpSpec>,
}

/// Rows in the order of their specifications: what resembles each other stands together and is
/// compressed well.
pub(crate) fn build(folder: &Path, operators: &BTreeMap<&str, &OpSpec>) -> Table {
    let mut table = Table::new(&SCHEMA, folder);
    let mut rows: Vec<(String, &str, &OpSpec)> =
        operators.iter().map(|(op_id, op)| (op.to_json(), *op_id, *op)).collect();
    rows.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    for (spec, op_id, op) in rows {
        let work = Work::of_operator(op);
        table.push([
            Cell::Text(op_id),
            Cell::Text(&String::from(op.kind.clone())),
            Cell::Text(&spec),
            Cell::Text(op.format().name()),
            Cell::Text(op.precision().name()),
            Cell::Integer(work.macs),
            Cell::Integer(work.flops),
            Cell::Integer(work.bytes_read),
            Cell::Integer(work.bytes_written),
            Cell::Integer(work.params),
        ]);
    }
    table
}

pub(crate) fn rows(table: &Table) -> Result<Vec<OperatorRow>, DatasetError> {
    (0..table.rows())
        .map(|row| {
            Ok(OperatorRow {
                op_id: table.text("op_id", row).to_owned(),
                op: Arc::new(table.json("spec_json", row)?),
            })
        })
        .collect()
}
