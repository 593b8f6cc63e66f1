//! `models.parquet`: what was measured, with its graph, so that a forecast needs no model file.
//!
//! The graph is JSON in a text column; Parquet's zstd pages compress it across models.

use super::to_json;
use crate::{
    DatasetError,
    column::{Cell, Table},
    schema::{
        ColumnType::{Integer, OptionalText, Text},
        TableSchema,
    },
};
use std::{collections::BTreeMap, path::Path};
use vitempo_graph::{Graph, ModelIdentity, ValueId, ValueSource, Work};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "models",
    columns: &[
        ("architecture", Text),
        ("model", Text),
        ("space", OptionalText),
        ("encoding", OptionalText),
        ("operators", Integer),
        ("macs", Integer),
        ("flops", Integer),
        ("bytes_read", Integer),
        ("bytes_written", Integer),
        ("params", Integer),
        ("graph_json", OptionalText),
    ],
    added: &[],
};

/// One row.
#[derive(Debug)]
pub(crate) struct ModelRow {
    pub(crate) identity: ModelIdentity,
    pub(crate) graph: Option<Graph>,
}

pub(crate) fn build(
    folder: &Path,
    models: &[ModelIdentity],
    graphs: &BTreeMap<String, Graph>,
) -> Result<Table, DatasetError> {
    let mut table = Table::new(&SCHEMA, folder);
    for identity in models {
        let graph = graphs.get(&identity.architecture);
        let json = graph.map(|graph| to_json(&identity.name, graph)).transpose()?;
        let work = graph.map(Work::of_graph).unwrap_or_default();
        table.push([
            Cell::Text(&identity.architecture),
            Cell::Text(&identity.name),
            Cell::OptionalText(identity.space.as_deref()),
            Cell::OptionalText(identity.encoding.as_deref()),
            Cell::Integer(graph.map_or(0, |graph| graph.nodes().len() as u64)),
            Cell::Integer(work.macs),
            Cell::Integer(work.flops),
            Cell::Integer(work.bytes_read),
            Cell::Integer(work.bytes_written),
            Cell::Integer(work.params),
            Cell::OptionalText(json.as_deref()),
        ]);
    }
    Ok(table)
}

pub(crate) fn rows(table: &Table) -> Result<Vec<ModelRow>, DatasetError> {
    (0..table.rows()).map(|row| read_row(table, row)).collect()
}

/// The model of a row, without its graph.
pub(crate) fn identity(table: &Table, row: usize) -> ModelIdentity {
    ModelIdentity {
        name: table.text("model", row).to_owned(),
        architecture: table.text("architecture", row).to_owned(),
        space: table.optional_text("space", row).map(str::to_owned),
        encoding: table.optional_text("encoding", row).map(str::to_owned),
    }
}

fn read_row(table: &Table, row: usize) -> Result<ModelRow, DatasetError> {
    let identity = identity(table, row);
    let graph = match table.optional_text("graph_json", row) {
        Some(json) => {
            Some(parse_graph(json).map_err(|reason| table.row_error(row, "graph_json", reason))?)
        }
        None => None,
    };
    Ok(ModelRow { identity, graph })
}

/// A graph from JSON, with every index in it checked: the methods of [`Graph`] rely on them.
pub(crate) fn parse_graph(json: &str) -> Result<Graph, String> {
    let graph: Graph = serde_json::from_str(json).map_err(|e| e.to_string())?;
    check_graph(&graph)?;
    Ok(graph)
}

pub(crate) fn check_graph(graph: &Graph) -> Result<(), String> {
    let known = |id: &ValueId| (id.0 as usize) < graph.values().len();
    let ends_known = graph.inputs().iter().chain(graph.outputs()).all(known);
    let nodes_known =
        graph.nodes().iter().all(|node| node.inputs.iter().chain(&node.outputs).all(known));
    let sources_known = graph.values().iter().all(|value| match value.source {
        ValueSource::Node(node) => (node as usize) < graph.nodes().len(),
        _ => true,
    });
    if ends_known && nodes_known && sources_known {
        Ok(())
    } else {
        Err("the graph points to a value or a node that it does not have".to_owned())
    }
}
