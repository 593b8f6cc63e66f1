//! The data flow of a model, and what of it is encoder, decoders and postprocessing.

use super::TasksError;
use crate::cost::Costs;
use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::{Graph, ValueSource};

/// The data flow of a model: its nodes in order, the producers of their inputs, and its outputs.
pub(super) struct Flow<'a> {
    pub model: &'a str,
    names: Vec<&'a str>,
    /// For each node the nodes that provide its inputs.
    producers: Vec<Vec<usize>>,
    /// Name and providing node; `None` for an input of the model that is an output as well.
    outputs: Vec<(&'a str, Option<usize>)>,
}

impl<'a> Flow<'a> {
    pub fn of_graph(graph: &'a Graph) -> Self {
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

    pub fn of_costs(costs: &'a Costs) -> Self {
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

    fn no_such_node(&self, prefix: &str) -> TasksError {
        TasksError::NoSuchNode {
            model: self.model.to_owned(),
            prefix: prefix.to_owned(),
            prefixes: prefixes(self),
        }
    }
}

/// For each node whether it belongs to the encoder; at least one does.
pub(super) fn encoder(flow: &Flow<'_>, prefix: Option<&str>) -> Result<Vec<bool>, TasksError> {
    let shared = match prefix {
        Some(prefix) => needed(flow, prefix),
        None => leading_to_several(flow),
    };
    let model = flow.model.to_owned();
    match (shared.contains(&true), prefix) {
        (true, _) => Ok(shared),
        (false, Some(prefix)) => Err(flow.no_such_node(prefix)),
        (false, None) if flow.outputs.len() < 2 => {
            Err(TasksError::OneOutput { model, prefixes: prefixes(flow) })
        }
        (false, None) => Err(TasksError::NoEncoder { model }),
    }
}

/// For each node whether it is postprocessing: its name begins with the prefix, or it reads such a
/// node.
pub(super) fn postprocessing(
    flow: &Flow<'_>,
    shared: &[bool],
    prefix: Option<&str>,
) -> Result<Vec<bool>, TasksError> {
    let Some(prefix) = prefix else { return Ok(vec![false; shared.len()]) };
    let mut after: Vec<bool> = flow.names.iter().map(|name| name.starts_with(prefix)).collect();
    if !after.contains(&true) {
        return Err(flow.no_such_node(prefix));
    }
    for node in 0..after.len() {
        let read = &flow.producers[node];
        after[node] = after[node] || read.iter().any(|&producer| after[producer]);
        let reason = match (after[node], shared[node]) {
            (false, _) => continue,
            (true, true) => "the encoder needs it",
            (true, false) if read.iter().any(|&producer| shared[producer]) => "reads the encoder",
            (true, false) if read.is_empty() => "reads no decoder",
            (true, false) => continue,
        };
        let (model, node) = (flow.model.to_owned(), flow.names[node].to_owned());
        return Err(TasksError::Postprocessing { model, node, reason });
    }
    Ok(after)
}

/// The name of a task: where there are several, the first output of its nodes.
pub(super) fn task_name(
    flow: &Flow<'_>,
    own: impl Fn(usize) -> bool,
    decoder: usize,
    count: usize,
) -> String {
    let provides = |(_, node): &&(&str, Option<usize>)| node.is_some_and(&own);
    let output = flow.outputs.iter().find(provides).filter(|_| count > 1);
    output.map_or_else(
        || if count > 1 { format!("decoder {}", decoder + 1) } else { "decoder".to_owned() },
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
pub(super) fn components(flow: &Flow<'_>, shared: &[bool]) -> Vec<usize> {
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
