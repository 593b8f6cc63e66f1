//! The two halves of a split model as graphs of their own: run one after the other, they compute what the whole computes.
//!
//! Values keep their names, so that what the first half provides is what the second asks for. Weights that both halves read are in both.

use std::collections::BTreeSet;
use vitempo_graph::{Graph, GraphError, Node, Value, ValueId, ValueSource};

/// Why a graph has no such halves.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum HalvesError {
    #[error("{sides} sides for the {nodes} nodes of model `{model}`")]
    Length { model: String, sides: usize, nodes: usize },
    #[error("node `{node}` on the device reads `{value}`, which the server provides: nothing may flow back")]
    FlowsBack { node: String, value: String },
    #[error("model `{model}` is not split: all its nodes are on the {side}")]
    NotSplit { model: String, side: &'static str },
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Device half and server half of a graph; `on_device` has one entry per node. Outputs of the device half are the tensors the server needs, then the
/// model's outputs that it provides. Inputs of the server half are those tensors, and the model's inputs it reads itself.
///
/// # Errors
/// [`HalvesError`] when something would flow back, or one half is empty.
pub fn halves(graph: &Graph, on_device: &[bool]) -> Result<(Graph, Graph), HalvesError> {
    let nodes = graph.nodes();
    if on_device.len() != nodes.len() {
        return Err(HalvesError::Length { model: graph.name().to_owned(), sides: on_device.len(), nodes: nodes.len() });
    }
    for (side, here) in [("device", true), ("server", false)] {
        if on_device.iter().all(|&d| d == here) {
            return Err(HalvesError::NotSplit { model: graph.name().to_owned(), side });
        }
    }
    let part = |here: bool| nodes.iter().zip(on_device).filter(move |(_, d)| **d == here).map(|(node, _)| node);
    let provided: BTreeSet<ValueId> = part(true).flat_map(|n| n.outputs.iter().copied()).collect();
    let beyond: BTreeSet<ValueId> = part(false).flat_map(|n| n.outputs.iter().copied()).collect();
    for node in part(true) {
        if let Some(&value) = node.inputs.iter().find(|id| beyond.contains(id)) {
            return Err(HalvesError::FlowsBack { node: node.name.clone(), value: graph.value(value).name.clone() });
        }
    }
    let needed: BTreeSet<ValueId> = part(false).flat_map(|n| n.inputs.iter().copied()).collect();
    let handed: Vec<ValueId> = provided.intersection(&needed).copied().collect();
    let is_result = |id: &&ValueId| provided.contains(id) && !handed.contains(id);
    let device_outputs = handed.iter().chain(graph.outputs().iter().filter(is_result)).copied().collect();
    let read: BTreeSet<ValueId> = part(true).flat_map(|n| n.inputs.iter().copied()).collect();
    let device_inputs = graph.inputs().iter().filter(|id| read.contains(id)).copied().collect();
    let taken = |id: &&ValueId| needed.contains(id) || graph.outputs().contains(id);
    let server_inputs = handed.iter().chain(graph.inputs().iter().filter(taken)).copied().collect();
    let server_outputs = graph.outputs().iter().filter(|id| !provided.contains(id)).copied().collect();
    let device = subgraph(graph, "device", part(true).cloned().collect(), device_inputs, device_outputs)?;
    let server = subgraph(graph, "server", part(false).cloned().collect(), server_inputs, server_outputs)?;
    Ok((device, server))
}

/// These nodes with only the values they touch, numbered anew.
fn subgraph(graph: &Graph, half: &str, mut nodes: Vec<Node>, inputs: Vec<ValueId>, outputs: Vec<ValueId>) -> Result<Graph, GraphError> {
    let touched: BTreeSet<ValueId> = nodes.iter().flat_map(|n| n.inputs.iter().chain(&n.outputs)).chain(&inputs).chain(&outputs).copied().collect();
    let touched: Vec<ValueId> = touched.into_iter().collect();
    let renumber = |id: &ValueId| ValueId(touched.partition_point(|t| t < id) as u32);
    let as_input: BTreeSet<ValueId> = inputs.iter().copied().collect();
    let value = |&id: &ValueId| {
        let value = graph.value(id);
        let source = if as_input.contains(&id) { ValueSource::Input } else { value.source.clone() };
        Value { source, ..value.clone() }
    };
    let values = touched.iter().map(value).collect();
    for node in &mut nodes {
        node.inputs = node.inputs.iter().map(renumber).collect();
        node.outputs = node.outputs.iter().map(renumber).collect();
    }
    let name = format!("{}.{half}", graph.name());
    Graph::new(name, values, nodes, inputs.iter().map(renumber).collect(), outputs.iter().map(renumber).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::onnx::{self, ReadOptions, WriteOptions};
    use vitempo_graph::{Attributes, GraphBuilder, OpKind, TensorSpec};

    /// Two branches from one product; the second output is provided early.
    fn forked() -> Graph {
        let mut builder = GraphBuilder::new("forked");
        let x = builder.input("x", TensorSpec::f32([2, 8]));
        let w = builder.weight("w", TensorSpec::f32([8, 8]));
        let a = builder.op("a", OpKind::Linear, Attributes::new(), &[x, w]).expect("a product");
        let b = builder.op("b", OpKind::Relu, Attributes::new(), &[a]).expect("an activation");
        let c = builder.op("c", OpKind::Linear, Attributes::new(), &[a, w]).expect("a product");
        let d = builder.op("d", OpKind::Add, Attributes::new(), &[b, c]).expect("a sum");
        builder.finish(vec![d, b]).expect("a graph")
    }

    fn names(graph: &Graph, ids: &[ValueId]) -> Vec<String> {
        ids.iter().map(|&id| graph.value(id).name.clone()).collect()
    }

    #[test]
    fn halves_meet_at_the_tensors_between_them() {
        let graph = forked();
        let (device, server) = halves(&graph, &[true, true, false, false]).expect("two halves");
        assert_eq!(names(&device, device.outputs()), ["a_out", "b_out"]);
        assert_eq!(names(&server, server.inputs()), ["a_out", "b_out"]);
        assert_eq!(names(&server, server.outputs()), ["d_out"]);
        let weights = |g: &Graph| g.values().iter().filter(|v| matches!(v.source, ValueSource::Constant(_))).count();
        assert_eq!((weights(&device), weights(&server)), (1, 1));
    }

    #[test]
    fn halves_survive_their_files() {
        let (device, server) = halves(&forked(), &[true, false, false, false]).expect("two halves");
        for half in [device, server] {
            let bytes = onnx::to_bytes(&half, &WriteOptions::seeded(7)).expect("ONNX");
            let read = onnx::read_bytes(half.name(), &bytes, &ReadOptions::default()).expect("a graph");
            assert_eq!(read.architecture(), half.architecture());
            assert_eq!((names(&read, read.inputs()), names(&read, read.outputs())), (names(&half, half.inputs()), names(&half, half.outputs())));
        }
    }

    #[test]
    fn what_flows_back_and_what_is_whole_is_refused() {
        let message = |sides: &[bool]| halves(&forked(), sides).map_or_else(|e| e.to_string(), |_| "accepted".to_owned());
        assert_eq!(message(&[true, false, true, true]), "node `d` on the device reads `b_out`, which the server provides: nothing may flow back");
        assert_eq!(message(&[true; 4]), "model `forked` is not split: all its nodes are on the device");
        assert_eq!(message(&[true]), "1 sides for the 4 nodes of model `forked`");
    }
}
