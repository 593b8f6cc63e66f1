//! Finds where a model's encoder ends: the part that its tasks share, and the decoders behind it.

use super::multitask::MultiTask;
use crate::cost::{CostError, Costs, Interval};
use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::{Graph, ValueSource};

/// A model as one encoder and decoders that share nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// For every node its part: 0 is the encoder, then come the decoders.
    pub part_of: Vec<usize>,
    /// Names of the parts: `encoder`, then the outputs of the decoders.
    pub names: Vec<String>,
}

/// Why a model has no encoder and decoders.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TasksError {
    /// The outputs do not determine where the encoder ends.
    #[error(
        "model `{model}` has one output: say where its encoder ends, by the beginning of its \
        nodes' names (names begin with {prefixes})"
    )]
    OneOutput {
        /// Name of the model.
        model: String,
        /// Prefixes of its nodes' names.
        prefixes: String,
    },
    /// No node's name has the prefix.
    #[error("model `{model}`: no node's name begins with `{prefix}`; names begin with {prefixes}")]
    NoSuchNode {
        /// Name of the model.
        model: String,
        /// The prefix.
        prefix: String,
        /// Prefixes of its nodes' names.
        prefixes: String,
    },
    /// The encoder is the whole model.
    #[error("model `{model}`: nothing is left for a decoder")]
    NoDecoder {
        /// Name of the model.
        model: String,
    },
    /// No node is common to all outputs.
    #[error("model `{model}`: its outputs share no node, so there is no encoder")]
    NoEncoder {
        /// Name of the model.
        model: String,
    },
}

impl Tasks {
    /// Finds the encoder: the nodes that lead to several outputs; or, with a prefix, the nodes with
    /// that prefix and all nodes that they need. The connected components of the other nodes are
    /// the decoders.
    ///
    /// # Errors
    /// [`TasksError`] when one of the two would be empty.
    pub fn of(graph: &Graph, encoder: Option<&str>) -> Result<Self, TasksError> {
        Self::of_flow(&Flow::of_graph(graph), encoder)
    }

    /// The same for costs, by the names of their nodes.
    ///
    /// # Errors
    /// As [`Tasks::of`].
    pub fn of_costs(costs: &Costs, encoder: Option<&str>) -> Result<Self, TasksError> {
        Self::of_flow(&Flow::of_costs(costs), encoder)
    }

    /// The costs of these parts: the cost of a part is the sum over its nodes, and it runs where
    /// all of them run; a transfer takes the time of the links, for all tensors of the encoder that
    /// decoders read.
    ///
    /// # Errors
    /// [`CostError::Node`] for a node with a constraint that placements of parts cannot satisfy.
    pub fn costs(&self, costs: &Costs) -> Result<MultiTask, CostError> {
        let of_decoder = |node: &usize| self.part_of[*node] > 0;
        let part_of = |node: usize| self.part_of[node];
        if let Some(tensor) = costs.tensors().iter().find(|t| t.confined) {
            let node = tensor.producer.or(tensor.consumers.first().copied()).unwrap_or(0);
            return Err(CostError::Node {
                node: costs.nodes()[node].name.clone(),
                reason: format!(
                    "tensor `{}` is confined, which placements of parts do not keep; leave it out",
                    tensor.name
                ),
            });
        }
        if let Some(processor) = costs.processors().iter().find(|p| p.memory_bytes.is_some()) {
            return Err(CostError::Processor {
                processor: processor.name.clone(),
                reason: "memory_bytes is not kept by placements of parts; leave it out".to_owned(),
            });
        }
        let features = costs.tensors().iter().filter(|t| {
            t.producer.is_some_and(|node| part_of(node) == 0) && t.consumers.iter().any(of_decoder)
        });
        let features: Vec<u64> = features.map(|t| t.size_bytes).collect();
        let mut model = MultiTask::of_parts(costs.model(), &self.names);
        model.features_bytes = features.iter().sum();
        let processors = 0..costs.processors().len();
        for processor in processors.clone() {
            let latency = |part: usize| -> Option<Interval> {
                let nodes = costs.nodes().iter().enumerate();
                let own = nodes.filter(|(node, _)| part_of(*node) == part);
                own.map(|(_, node)| node.latency_ns[processor]).sum()
            };
            let latencies: Vec<Option<Interval>> = (0..self.names.len()).map(latency).collect();
            model.add_processor(&costs.processors()[processor].name, &latencies, None);
        }
        let hand_over = |from: usize, to: usize| -> Option<Interval> {
            if from == to {
                return Some(Interval::ZERO);
            }
            let link = costs.link(from, to)?;
            let sum: Option<Interval> = features.iter().map(|&bytes| link.transfer_ns(bytes)).sum();
            sum.map(|ns| ns + Interval::exact(link.setup_ns))
        };
        model.hand_over_ns = processors
            .clone()
            .map(|from| processors.clone().map(|to| hand_over(from, to)).collect())
            .collect();
        Ok(model)
    }

    fn of_flow(flow: &Flow<'_>, encoder: Option<&str>) -> Result<Self, TasksError> {
        let model = || flow.model.to_owned();
        let shared = match encoder {
            Some(prefix) => needed(flow, prefix),
            None => leading_to_several(flow),
        };
        match (shared.contains(&true), encoder) {
            (true, _) => {}
            (false, Some(prefix)) => {
                return Err(TasksError::NoSuchNode {
                    model: model(),
                    prefix: prefix.to_owned(),
                    prefixes: prefixes(flow),
                });
            }
            (false, None) if flow.outputs.len() < 2 => {
                return Err(TasksError::OneOutput { model: model(), prefixes: prefixes(flow) });
            }
            (false, None) => return Err(TasksError::NoEncoder { model: model() }),
        }
        let roots = components(flow, &shared);
        let order: Vec<usize> =
            (0..roots.len()).filter(|&node| !shared[node] && roots[node] == node).collect();
        if order.is_empty() {
            return Err(TasksError::NoDecoder { model: model() });
        }
        let part = |node: usize| {
            if shared[node] { 0 } else { 1 + order.partition_point(|&root| root < roots[node]) }
        };
        let part_of: Vec<usize> = (0..roots.len()).map(part).collect();
        let names = std::iter::once("encoder".to_owned())
            .chain((1..=order.len()).map(|part| decoder_name(flow, &part_of, part, order.len())));
        Ok(Self { names: names.collect(), part_of })
    }

    /// The names, as [`crate::parts()`] takes them.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}

/// The data flow of a model: its nodes in order, the producers of their inputs, and its outputs.
struct Flow<'a> {
    model: &'a str,
    names: Vec<&'a str>,
    /// For each node the nodes that provide its inputs.
    producers: Vec<Vec<usize>>,
    /// Name and providing node; `None` for an input of the model that is an output as well.
    outputs: Vec<(&'a str, Option<usize>)>,
}

impl<'a> Flow<'a> {
    fn of_graph(graph: &'a Graph) -> Self {
        let source = |id: &vitempo_graph::ValueId| match graph.value(*id).source {
            ValueSource::Node(node) => Some(node as usize),
            _ => None,
        };
        let nodes = graph.nodes();
        Self {
            model: graph.name(),
            names: nodes.iter().map(|node| node.name.as_str()).collect(),
            producers: nodes.iter().map(|n| n.inputs.iter().filter_map(source).collect()).collect(),
            outputs: graph
                .outputs()
                .iter()
                .map(|id| (graph.value(*id).name.as_str(), source(id)))
                .collect(),
        }
    }

    fn of_costs(costs: &'a Costs) -> Self {
        let mut producers = vec![Vec::new(); costs.nodes().len()];
        for tensor in costs.tensors() {
            let Some(producer) = tensor.producer else { continue };
            tensor.consumers.iter().for_each(|&node| producers[node].push(producer));
        }
        let outputs = costs.tensors().iter().filter(|t| t.output);
        Self {
            model: costs.model(),
            names: costs.nodes().iter().map(|node| node.name.as_str()).collect(),
            producers,
            outputs: outputs.map(|t| (t.name.as_str(), t.producer)).collect(),
        }
    }
}

/// The name of a decoder: where there are several, the first output that it provides.
fn decoder_name(flow: &Flow<'_>, part_of: &[usize], part: usize, count: usize) -> String {
    let provides = |(_, node): &&(&str, Option<usize>)| {
        node.is_some_and(|node| part_of.get(node) == Some(&part))
    };
    let output = flow.outputs.iter().find(provides).filter(|_| count > 1);
    output.map_or_else(
        || if count > 1 { format!("decoder {part}") } else { "decoder".to_owned() },
        |(name, _)| (*name).to_owned(),
    )
}

/// For each node, whether a node whose name begins with the prefix needs it, or is it.
fn needed(flow: &Flow<'_>, prefix: &str) -> Vec<bool> {
    let mut needed: Vec<bool> = flow.names.iter().map(|name| name.starts_with(prefix)).collect();
    for node in (0..needed.len()).rev() {
        if needed[node] {
            flow.producers[node].iter().for_each(|&producer| needed[producer] = true);
        }
    }
    needed
}

/// For each node, whether it leads to more than one output of the model.
fn leading_to_several(flow: &Flow<'_>) -> Vec<bool> {
    let mut reached: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); flow.names.len()];
    for (output, (_, node)) in flow.outputs.iter().enumerate() {
        if let Some(node) = node {
            reached[*node].insert(output);
        }
    }
    for index in (0..reached.len()).rev() {
        let own = reached[index].clone();
        // Two outputs are enough.
        for &producer in &flow.producers[index] {
            let more = own.iter().copied().filter(|_| own.len() > 1 || reached[producer].len() < 2);
            let more: Vec<usize> = more.take(2).collect();
            reached[producer].extend(more);
        }
    }
    reached.iter().map(|outputs| outputs.len() > 1).collect()
}

/// For each node outside the encoder, the first node of its connected component outside the
/// encoder.
fn components(flow: &Flow<'_>, shared: &[bool]) -> Vec<usize> {
    fn root(parents: &[usize], mut node: usize) -> usize {
        while parents[node] != node {
            node = parents[node];
        }
        node
    }
    let mut parents: Vec<usize> = (0..shared.len()).collect();
    for node in (0..shared.len()).filter(|&node| !shared[node]) {
        for &producer in flow.producers[node].iter().filter(|&&producer| !shared[producer]) {
            let (a, b) = (root(&parents, node), root(&parents, producer));
            parents[a.max(b)] = a.min(b);
        }
    }
    (0..shared.len()).map(|node| root(&parents, node)).collect()
}

/// Prefixes of the nodes' names: the first words between slashes or dots, the most frequent first.
fn prefixes(flow: &Flow<'_>) -> String {
    let first = |name: &str| {
        let from = usize::from(name.starts_with(['/', '.']));
        name[from..]
            .find(['/', '.'])
            .map_or_else(|| name.to_owned(), |end| name[..from + end].to_owned())
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    flow.names.iter().for_each(|name| *counts.entry(first(name)).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.iter().take(8).map(|(prefix, _)| format!("`{prefix}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{GraphBuilder, OpKind, TensorSpec};

    /// x -> /encoder/a -> /encoder/b -> (/left/c -> /left/d), (/right/e); `b` is an output as well
    /// if it is in `outputs`.
    fn graph(outputs: &[&str]) -> Graph {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 4]));
        let mut ids = BTreeMap::from([("x", x)]);
        for (name, input) in [
            ("/encoder/a", "x"),
            ("/encoder/b", "/encoder/a"),
            ("/left/c", "/encoder/b"),
            ("/right/e", "/encoder/b"),
            ("/left/d", "/left/c"),
        ] {
            let id = b.unary(name, OpKind::Relu, ids[input]).expect("an activation");
            ids.insert(name, id);
        }
        b.finish(outputs.iter().map(|name| ids[name]).collect()).expect("a graph")
    }

    #[test]
    fn what_outputs_share_is_the_encoder() {
        let tasks = Tasks::of(&graph(&["/left/d", "/right/e"]), None).expect("tasks");
        assert_eq!(tasks.part_of, [0, 0, 1, 2, 1]);
        assert_eq!(tasks.names(), ["encoder", "/left/d_out", "/right/e_out"]);
        let early = Tasks::of(&graph(&["/left/d", "/encoder/a"]), None).expect("tasks");
        assert_eq!((early.part_of, early.names.len()), (vec![0, 1, 1, 1, 1], 2));
    }

    #[test]
    fn a_prefix_says_where_the_encoder_ends() {
        let one = graph(&["/left/d"]);
        let tasks = Tasks::of(&one, Some("/encoder")).expect("tasks");
        assert_eq!(
            (tasks.part_of, tasks.names),
            (
                vec![0, 0, 1, 2, 1],
                vec!["encoder".to_owned(), "/left/d_out".to_owned(), "decoder 2".to_owned()]
            )
        );
        let deep = Tasks::of(&one, Some("/left/c")).expect("tasks");
        assert_eq!(deep.part_of, [0, 0, 0, 1, 2]);
    }

    #[test]
    fn costs_are_divided_as_graphs_are_and_add_up() {
        let graph = graph(&["/left/d", "/right/e"]);
        let processors = ["a", "b"].map(crate::cost::ProcessorCosts::named).to_vec();
        let link = crate::cost::Link { setup_ns: 3, ..crate::cost::Link::of_bandwidth(1 << 30) };
        let links = BTreeMap::from([((0, 1), link)]);
        let latency =
            |node: usize, p: usize| Some(Interval::exact((node as u64 + 1) * 10u64.pow(p as u32)));
        let costs = Costs::of_graph(&graph, processors, links, latency, Vec::new()).expect("costs");
        let tasks = Tasks::of_costs(&costs, None).expect("tasks");
        assert_eq!(tasks, Tasks::of(&graph, None).expect("tasks"));
        let model = tasks.costs(&costs).expect("costs of parts");
        let ns = |part: &super::super::multitask::Part| -> Vec<u64> {
            part.latency_ns.iter().flatten().map(|ns| ns.point()).collect()
        };
        assert_eq!(ns(&model.encoder), [1 + 2, 10 + 20]);
        assert_eq!(model.decoders.iter().map(ns).collect::<Vec<_>>(), [[3 + 5, 80], [4, 40]]);
        assert_eq!(model.features_bytes, 16);
        let there = model.hand_over_ns[0][1].map(|ns| ns.point());
        assert_eq!((there, model.hand_over_ns[1][0]), (Some(15 + 3), None));
        let confined = crate::cost::CostsFile::from(&costs);
        let confined = crate::cost::CostsFile {
            tensors: confined
                .tensors
                .into_iter()
                .map(|t| crate::cost::TensorEntry { confined: t.name == "x", ..t })
                .collect(),
            ..confined
        };
        let refused = tasks.costs(&confined.check().expect("costs")).map_err(|e| e.to_string());
        assert!(refused.is_err_and(|e| e.contains("tensor `x` is confined")));
    }

    #[test]
    fn what_has_no_encoder_is_told_how_names_begin() {
        let message = |graph: &Graph, prefix| {
            Tasks::of(graph, prefix).map_or_else(|e| e.to_string(), |_| "divided".to_owned())
        };
        let one = graph(&["/left/d"]);
        assert!(
            message(&one, None).contains("has one output")
                && message(&one, None).contains("`/encoder`, `/left`, `/right`")
        );
        assert!(
            message(&one, Some("/middle"))
                .contains("no node's name begins with `/middle`; names begin with `/encoder`")
        );
        assert_eq!(message(&one, Some("/")), "model `m`: nothing is left for a decoder");
    }
}
