//! The parts of a divided model as graphs of their own: run in their order, they compute what the
//! whole computes.
//!
//! Values keep their names, so that the outputs of one part are the inputs of another by name.
//! Weights that several parts read are in each of them.

use std::collections::BTreeSet;
use vitempo_graph::{Graph, GraphError, ValueId, ValueSource};

/// Why a graph cannot be divided like this.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartsError {
    /// Not one part for each node.
    #[error("{given} places for the {nodes} nodes of model `{model}`")]
    Length {
        /// Name of the model.
        model: String,
        /// How many parts were given.
        given: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// All nodes are in one part.
    #[error("model `{model}` is not divided: all its nodes are in the part `{part}`")]
    NotDivided {
        /// Name of the model.
        model: String,
        /// Name of the part.
        part: String,
    },
    /// A part without nodes.
    #[error("model `{model}`: no node is in the part `{part}`")]
    Empty {
        /// Name of the model.
        model: String,
        /// Name of the part.
        part: String,
    },
    /// A part reads what a later one provides.
    #[error(
        "node `{node}` of the part `{part}` reads `{value}`, which the later part `{later}` \
        provides: nothing may flow back"
    )]
    FlowsBack {
        /// The node that reads.
        node: String,
        /// Its part.
        part: String,
        /// The value that it reads.
        value: String,
        /// The part that provides it.
        later: String,
    },
    /// A node of a part that does not exist.
    #[error("model `{model}`: a node is in part {part}, but there are {count}")]
    Unknown {
        /// Name of the model.
        model: String,
        /// Index of the part.
        part: usize,
        /// How many parts there are.
        count: usize,
    },
    /// A part is not a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Returns one graph per name; `part_of` has the index of its part for every node. Outputs of a
/// part are the values that other parts read, then results of the model; its inputs are the values
/// that earlier parts provide, then inputs of the model. Inputs that are results as well pass
/// through the last part.
///
/// # Errors
/// [`PartsError`] when a part reads a value of a later part, or a part is empty.
pub fn parts(graph: &Graph, part_of: &[usize], names: &[&str]) -> Result<Vec<Graph>, PartsError> {
    check(graph, part_of, names)?;
    (0..names.len()).map(|part| one(graph, part_of, names, part)).collect()
}

fn check(graph: &Graph, part_of: &[usize], names: &[&str]) -> Result<(), PartsError> {
    let model = || graph.name().to_owned();
    let nodes = graph.nodes();
    if part_of.len() != nodes.len() {
        return Err(PartsError::Length {
            model: model(),
            given: part_of.len(),
            nodes: nodes.len(),
        });
    }
    if let Some(&part) = part_of.iter().find(|&&part| part >= names.len()) {
        return Err(PartsError::Unknown { model: model(), part, count: names.len() });
    }
    if let Some(only) = names
        .iter()
        .enumerate()
        .find(|(part, _)| names.len() > 1 && part_of.iter().all(|p| p == part))
    {
        return Err(PartsError::NotDivided { model: model(), part: (*only.1).to_owned() });
    }
    if let Some((_, name)) = names.iter().enumerate().find(|(part, _)| !part_of.contains(part)) {
        return Err(PartsError::Empty { model: model(), part: (*name).to_owned() });
    }
    for (node, &part) in nodes.iter().zip(part_of) {
        for &id in &node.inputs {
            if let Some(later) = provider(graph, part_of, id).filter(|&provider| provider > part) {
                let (part, later) = (names[part].to_owned(), names[later].to_owned());
                return Err(PartsError::FlowsBack {
                    node: node.name.clone(),
                    part,
                    value: graph.value(id).name.clone(),
                    later,
                });
            }
        }
    }
    Ok(())
}

/// The part that computes a value.
fn provider(graph: &Graph, part_of: &[usize], id: ValueId) -> Option<usize> {
    match graph.value(id).source {
        ValueSource::Node(node) => part_of.get(node as usize).copied(),
        _ => None,
    }
}

fn one(graph: &Graph, part_of: &[usize], names: &[&str], part: usize) -> Result<Graph, PartsError> {
    let nodes = |wanted: &dyn Fn(usize) -> bool| {
        graph
            .nodes()
            .iter()
            .zip(part_of)
            .filter(|(_, p)| wanted(**p))
            .map(|(node, _)| node)
            .collect::<Vec<_>>()
    };
    let own = nodes(&|p| p == part);
    let read: BTreeSet<ValueId> = own.iter().flat_map(|n| n.inputs.iter().copied()).collect();
    let provided = |id: &ValueId| provider(graph, part_of, *id) == Some(part);
    let needed: BTreeSet<ValueId> = nodes(&|p| p != part)
        .iter()
        .flat_map(|n| n.inputs.iter().copied())
        .filter(provided)
        .collect();
    let last = part + 1 == names.len();
    let passes = |id: &ValueId| last && graph.inputs().contains(id);
    let results = graph
        .outputs()
        .iter()
        .filter(|&&id| (provided(&id) && !needed.contains(&id)) || passes(&id))
        .copied();
    let outputs = needed.iter().copied().chain(results).collect();
    let received =
        read.iter().filter(|&&id| provider(graph, part_of, id).is_some_and(|p| p != part)).copied();
    let given = graph
        .inputs()
        .iter()
        .filter(|&&id| read.contains(&id) || (last && graph.outputs().contains(&id)))
        .copied();
    let inputs = received.chain(given).collect();
    let name = format!("{}.{}", graph.name(), names[part]);
    Ok(graph.subgraph(name, own.into_iter().cloned().collect(), inputs, outputs)?)
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
    fn two_parts_meet_at_the_tensors_between_them() {
        let divided = parts(&forked(), &[0, 0, 1, 1], &["device", "server"]).expect("two parts");
        let [device, server] = &divided[..] else { panic!("{} parts", divided.len()) };
        assert_eq!(names(device, device.outputs()), ["a_out", "b_out"]);
        assert_eq!(names(server, server.inputs()), ["a_out", "b_out"]);
        assert_eq!(names(server, server.outputs()), ["d_out"]);
        let weights = |g: &Graph| {
            g.values().iter().filter(|v| matches!(v.source, ValueSource::Constant(_))).count()
        };
        assert_eq!((weights(device), weights(server)), (1, 1));
    }

    #[test]
    fn values_reach_parts_beyond_the_next() {
        let divided = parts(&forked(), &[0, 1, 2, 3], &["p", "q", "r", "s"]).expect("four parts");
        let ends: Vec<_> = divided
            .iter()
            .map(|g| (names(g, g.inputs()).join(" "), names(g, g.outputs()).join(" ")))
            .collect();
        let expected =
            [("x", "a_out"), ("a_out", "b_out"), ("a_out", "c_out"), ("b_out c_out", "d_out")];
        assert_eq!(ends, expected.map(|(i, o)| (i.to_owned(), o.to_owned())));
    }

    #[test]
    fn parts_survive_their_files() {
        for part in parts(&forked(), &[0, 1, 1, 1], &["device", "server"]).expect("two parts") {
            let bytes = onnx::to_bytes(&part, &WriteOptions::seeded(7)).expect("ONNX");
            let read =
                onnx::read_bytes(part.name(), &bytes, &ReadOptions::default()).expect("a graph");
            assert_eq!(read.architecture(), part.architecture());
            assert_eq!(
                (names(&read, read.inputs()), names(&read, read.outputs())),
                (names(&part, part.inputs()), names(&part, part.outputs()))
            );
        }
    }

    #[test]
    fn what_flows_back_and_what_is_whole_is_refused() {
        let message = |part_of: &[usize]| {
            parts(&forked(), part_of, &["device", "server"])
                .map_or_else(|e| e.to_string(), |_| "accepted".to_owned())
        };
        let back = "node `d` of the part `device` reads `b_out`, which the later part `server` \
            provides: nothing may flow back";
        assert_eq!(message(&[0, 1, 0, 0]), back);
        assert_eq!(
            message(&[0; 4]),
            "model `forked` is not divided: all its nodes are in the part `device`"
        );
        assert_eq!(message(&[0]), "1 places for the 4 nodes of model `forked`");
        assert_eq!(message(&[0, 0, 1, 7]), "model `forked`: a node is in part 7, but there are 2");
        let empty = parts(&forked(), &[0, 0, 1, 1], &["p", "q", "r"])
            .map_or_else(|e| e.to_string(), |_| String::new());
        assert_eq!(empty, "model `forked`: no node is in the part `r`");
    }
}
