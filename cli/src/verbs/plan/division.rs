//! A model divided as a plan says: its parts as graphs, with the model's own weights where it has
//! them.

use super::super::{
    error::{CliError, CliResult},
    models::{Model, ModelArgs},
};
use std::collections::HashMap;
use vitempo::graph::{Graph, onnx};
use vitempo::planners::parts;

/// A model and its parts. Weights that the file lacks are seeded by name when a graph is written or
/// loaded, so that they are the same in both.
pub struct Divided {
    pub whole: Graph,
    pub parts: Vec<Graph>,
}

/// Divides a model; `part_of` has the part of every node of the graph that was planned.
pub fn divide(
    model: &Model,
    args: &ModelArgs,
    part_of: &[usize],
    names: &[&str],
) -> CliResult<Divided> {
    let whole = weighted(model, args)?;
    let planned: HashMap<&str, usize> = model
        .graph
        .nodes()
        .iter()
        .zip(part_of)
        .map(|(node, &part)| (node.name.as_str(), part))
        .collect();
    let last = names.len().saturating_sub(1);
    let again: Vec<usize> = whole
        .nodes()
        .iter()
        .map(|node| planned.get(node.name.as_str()).copied().unwrap_or(last))
        .collect();
    let parts = parts(&whole, &again, names).map_err(CliError::user)?;
    Ok(Divided { whole, parts })
}

fn weighted(model: &Model, args: &ModelArgs) -> CliResult<Graph> {
    if !onnx::weights_present(&model.path)? {
        return Ok(model.graph.clone());
    }
    let bytes = onnx::materialize(&model.path, 0)?;
    Ok(onnx::read_weights(&model.identity.name, &bytes, &args.read_options())?)
}
