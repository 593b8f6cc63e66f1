//! Writes a [`Graph`] as an ONNX file: opset 20, IR version 9, one operator per node wherever ONNX
//! has that operator. A GroupNorm with a scale per channel needs opset 21 and IR version 10.
//!
//! Reshapes and paddings have the form of the file that they were read from
//! ([`crate::Written`]).
//! Attributes that ONNX takes as inputs (the `starts` of a Slice, the `shape` of a Reshape) are
//! written as small integer initializers. Weights are seeded random numbers, or references to a
//! file `weights.bin` that is not written (floats of 2 to 64 elements are always in the file).
//! The bytes depend on the graph and the seed only; the values of a weight on its name and the seed
//! only.

mod operators;
mod recipe;
mod spelling;
pub(super) mod tensors;

use super::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    ValueInfoProto,
};
use super::weights::{self, fill::Distribution};
use super::{OnnxError, Place};
use crate::{
    Budget, Exceeded, Graph, Limits, MemoryFormat, Node, ValueId, ValueSource, files::write_whole,
};
use prost::Message;
use spelling::{Scales, scales};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

/// Versions of a file: of its operator set, and of the format.
#[derive(Clone, Copy)]
struct Versions {
    opset: i64,
    ir: i64,
}

const USUAL: Versions = Versions { opset: 20, ir: 9 };
/// Where GroupNormalization has a scale per channel, and none per group.
const SCALES_OF_CHANNELS: Versions = Versions { opset: 21, ir: 10 };

/// Key of metadata that says of an initializer, whose name follows, that it has the numbers of
/// another one, whose name is the value.
pub(super) const COPY_OF: &str = "vitempo.copy_of:";

/// What becomes of weights that have no payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightFill {
    /// A reference to external data that is not written: type and shape only.
    /// [`super::materialize`] fills it in.
    #[default]
    Omitted,
    /// Seeded random values in the file.
    Seeded(u64),
}

/// How to write a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// What becomes of weights.
    pub weights: WeightFill,
}

impl WriteOptions {
    /// With seeded random weights in the file.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self { weights: WeightFill::Seeded(seed) }
    }
}

/// The bytes of an ONNX file.
///
/// # Errors
/// [`OnnxError::Unwritable`], naming the node, for what ONNX has no operator for: unsupported and
/// framework-specific operators, fused attributes, memory formats; and when the file would be
/// larger than protobuf's 2 GB.
pub fn to_bytes(graph: &Graph, options: &WriteOptions) -> Result<Vec<u8>, OnnxError> {
    to_bytes_within(graph, options, &Budget::new(Limits::NONE))
}

/// [`to_bytes`] within a budget: a step for each node, edge, and number that is written; the bytes
/// of all constants in the file; the nodes beyond those of the graph.
///
/// # Errors
/// As [`to_bytes`], and [`OnnxError::Budget`] with the place where it ended.
pub fn to_bytes_within(
    graph: &Graph,
    options: &WriteOptions,
    budget: &Budget,
) -> Result<Vec<u8>, OnnxError> {
    let refuse = |reason| OnnxError::Unwritable { model: graph.name().to_owned(), reason };
    spend(graph, options, budget)?;
    let small_seed = match options.weights {
        WeightFill::Omitted => 0,
        WeightFill::Seeded(seed) => seed,
    };
    let written = model(graph, small_seed).map_err(refuse)?;
    let added = written.graph.as_ref().map_or(0, |g| g.node.len()) - graph.nodes().len();
    let last = || graph.nodes().last().map_or(Place::Beginning, |n| Place::Node(n.name.clone()));
    within(graph, last, budget.nodes(added as u64))?;
    let bytes = written.encode_to_vec();
    match options.weights {
        WeightFill::Omitted => Ok(bytes),
        WeightFill::Seeded(seed) => weights::fill_in(&bytes, seed).map_err(refuse),
    }
}

/// Writes an ONNX file, whole or not at all.
///
/// # Errors
/// As [`to_bytes`], and [`OnnxError::Write`].
pub fn write_file(path: &Path, graph: &Graph, options: &WriteOptions) -> Result<(), OnnxError> {
    let bytes = to_bytes(graph, options)?;
    write_whole(path, &bytes).map_err(|source| OnnxError::Write { path: path.to_owned(), source })
}

/// Takes what writing a graph costs, before it is done.
fn spend(graph: &Graph, options: &WriteOptions, budget: &Budget) -> Result<(), OnnxError> {
    for value in graph.values() {
        let ValueSource::Constant(data) = &value.source else { continue };
        let Some(tensor) = &value.tensor else { continue };
        let in_file = data.is_some()
            || tensor.elements() <= tensors::SMALL_ELEMENTS
            || matches!(options.weights, WeightFill::Seeded(_));
        if in_file {
            let steps = budget.steps(1 + tensor.elements());
            let spent = steps.and_then(|()| budget.bytes(tensor.size_bytes()));
            within(graph, || Place::Initializer(value.name.clone()), spent)?;
        }
    }
    for node in graph.nodes() {
        let edges = (node.inputs.len() + node.outputs.len()) as u64;
        within(graph, || Place::Node(node.name.clone()), budget.steps(1 + edges))?;
    }
    Ok(())
}

fn within(
    graph: &Graph,
    place: impl FnOnce() -> Place,
    spent: Result<(), Exceeded>,
) -> Result<(), OnnxError> {
    spent.map_err(|source| OnnxError::Budget { path: graph.name().into(), place: place(), source })
}

fn model(graph: &Graph, seed: u64) -> Result<ModelProto, String> {
    let mut emitter = operators::Emitter::default();
    for node in graph.nodes() {
        check_formats(node)?;
        emitter
            .emit(graph, node)
            .map_err(|reason| format!("node `{}` ({}): {reason}", node.name, node.op.kind))?;
    }
    let mut initializer = weights_of(graph, &emitter.nodes, seed)?;
    initializer.append(&mut emitter.constants);
    let inputs = graph.inputs();
    let proto = GraphProto {
        name: graph.name().to_owned(),
        input: infos(graph, inputs),
        output: infos(graph, graph.outputs()),
        value_info: infos(graph, &between(graph)),
        node: emitter.nodes,
        initializer,
        ..GraphProto::default()
    };
    check_names(&proto)?;
    let versions = versions(graph)?;
    Ok(ModelProto {
        ir_version: versions.ir,
        producer_name: "vitempo".to_owned(),
        graph: Some(proto),
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: versions.opset }],
        metadata_props: copies(graph),
        ..ModelProto::default()
    })
}

/// Which constants have the numbers of another one: a reader counts these once.
fn copies(graph: &Graph) -> Vec<StringStringEntryProto> {
    let name = |id: ValueId| &graph.value(id).name;
    let entry = |&(copy, of): &(ValueId, ValueId)| StringStringEntryProto {
        key: format!("{COPY_OF}{}", name(copy)),
        value: name(of).clone(),
    };
    graph.copies().iter().map(entry).collect()
}

fn versions(graph: &Graph) -> Result<Versions, String> {
    let of = |wanted: Scales| graph.nodes().iter().find(|n| scales(&n.op) == Some(wanted));
    match (of(Scales::Channels), of(Scales::Groups)) {
        (Some(channels), Some(groups)) => Err(format!(
            "node `{}` has a scale per channel and node `{}` one per group; no operator set has \
            both",
            channels.name, groups.name
        )),
        (Some(_), None) => Ok(SCALES_OF_CHANNELS),
        _ => Ok(USUAL),
    }
}

fn check_formats(node: &Node) -> Result<(), String> {
    let tensors = node.op.inputs.iter().map(|i| &i.tensor).chain(&node.op.outputs);
    match tensors.map(|t| t.format).find(|&format| format != MemoryFormat::ChannelsFirst) {
        Some(format) => Err(format!("node `{}`: ONNX has no memory format {format}", node.name)),
        None => Ok(()),
    }
}

/// Checks that every name exists and is computed once, because engines refuse such a file with a
/// vaguer error.
fn check_names(graph: &GraphProto) -> Result<(), String> {
    let provided = graph
        .input
        .iter()
        .map(|v| &v.name)
        .chain(graph.initializer.iter().map(|t| &t.name))
        .chain(graph.node.iter().flat_map(|n| &n.output));
    let mut seen = BTreeSet::new();
    for name in provided {
        if name.is_empty() {
            return Err("a value has no name".to_owned());
        }
        if !seen.insert(name) {
            return Err(format!("two values are called `{name}`"));
        }
    }
    Ok(())
}

/// Initializers for the constants that are read, in the order of the graph's values.
fn weights_of(graph: &Graph, nodes: &[NodeProto], seed: u64) -> Result<Vec<TensorProto>, String> {
    let mut distributions: BTreeMap<&str, Distribution> = BTreeMap::new();
    for node in nodes {
        for (index, input) in node.input.iter().enumerate() {
            let asked = Distribution::of_input(&node.op_type, index);
            let slot = distributions.entry(input).or_insert(asked);
            *slot = asked.max(*slot);
        }
    }
    let outputs: HashSet<&str> =
        graph.outputs().iter().map(|&id| graph.value(id).name.as_str()).collect();
    let mut offset = 0u64;
    let mut tensors = Vec::new();
    for value in graph.values() {
        let ValueSource::Constant(payload) = &value.source else { continue };
        let distribution = distributions.get(value.name.as_str()).copied();
        if distribution.is_none() && !outputs.contains(value.name.as_str()) {
            continue;
        }
        let distribution = distribution.unwrap_or(Distribution::Small);
        tensors.push(tensors::weight(value, payload.as_ref(), distribution, seed, &mut offset)?);
    }
    Ok(tensors)
}

fn infos(graph: &Graph, ids: &[ValueId]) -> Vec<ValueInfoProto> {
    ids.iter().map(|&id| tensors::info(graph.value(id))).collect()
}

/// Known tensors that nodes provide and that are no outputs of the model.
fn between(graph: &Graph) -> Vec<ValueId> {
    let outputs: BTreeSet<_> = graph.outputs().iter().collect();
    let provided = graph.nodes().iter().flat_map(|n| &n.outputs);
    provided
        .filter(|id| !outputs.contains(id) && graph.value(**id).tensor.is_some())
        .copied()
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
