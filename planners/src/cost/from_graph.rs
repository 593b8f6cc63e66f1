//! Costs of a [`Graph`]: its operators and the tensors between them, with latencies from the
//! caller.

use super::{CostError, Costs, Interval, Link, NodeCosts, ProcessorCosts, TensorCosts};
use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::{Graph, ValueId, ValueSource};

impl Costs {
    /// Costs of a graph's operators. `latency_ns` returns the latency of a node (by index) on a
    /// processor (by index); the memory of a node is that of the constants that no node before it
    /// reads. Nodes and tensors keep the graph's order, so that node `i` of the costs is node `i`
    /// of the graph.
    ///
    /// # Errors
    /// [`CostError::UnknownSize`] for a tensor whose shape is unknown; as [`Costs::new`].
    pub fn of_graph(
        graph: &Graph,
        processors: Vec<ProcessorCosts>,
        links: BTreeMap<(usize, usize), Link>,
        latency_ns: impl Fn(usize, usize) -> Option<Interval>,
        together: Vec<Vec<usize>>,
    ) -> Result<Self, CostError> {
        let mut loaded = BTreeSet::new();
        let nodes = graph.nodes().iter().enumerate().map(|(index, node)| NodeCosts {
            name: node.name.clone(),
            latency_ns: (0..processors.len())
                .map(|processor| latency_ns(index, processor))
                .collect(),
            energy_nj: vec![None; processors.len()],
            memory_bytes: node
                .inputs
                .iter()
                .filter(|&&id| loaded.insert(id))
                .map(|&id| weight_bytes(graph, id))
                .sum(),
        });
        let nodes = nodes.collect();
        let tensors = tensors(graph)?;
        Self::new(graph.name(), processors, links, nodes, tensors, together)
    }
}

fn weight_bytes(graph: &Graph, id: ValueId) -> u64 {
    let value = graph.value(id);
    let bytes = value.tensor.as_ref().map_or(0, vitempo_graph::TensorSpec::size_bytes);
    if matches!(value.source, ValueSource::Constant(_)) { bytes } else { 0 }
}

/// The tensors that may be transferred: inputs and results of operators that another operator reads
/// or that are outputs of the model.
fn tensors(graph: &Graph) -> Result<Vec<TensorCosts>, CostError> {
    let outputs: BTreeSet<ValueId> = graph.outputs().iter().copied().collect();
    let mut tensors = Vec::new();
    for (index, (value, mut consumers)) in graph.values().iter().zip(graph.consumers()).enumerate()
    {
        let output = outputs.contains(&ValueId(index as u32));
        let producer = match value.source {
            ValueSource::Input => None,
            ValueSource::Node(node) => Some(node as usize),
            ValueSource::Constant(_) => continue,
        };
        consumers.dedup();
        if consumers.is_empty() && !output {
            continue;
        }
        let Some(tensor) = &value.tensor else {
            return Err(CostError::UnknownSize {
                model: graph.name().to_owned(),
                tensor: value.name.clone(),
            });
        };
        let size_bytes = tensor.size_bytes();
        tensors.push(TensorCosts {
            name: value.name.clone(),
            size_bytes,
            producer,
            consumers,
            output,
            confined: false,
        });
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, GraphBuilder, OpKind, TensorSpec};

    #[test]
    fn weights_are_memory_and_values_are_tensors() {
        let mut builder = GraphBuilder::new("m");
        let x = builder.input("x", TensorSpec::f32([1, 8]));
        let w = builder.weight("w", TensorSpec::f32([8, 4]));
        let y =
            builder.op("product", OpKind::Linear, Attributes::new(), &[x, w]).expect("a product");
        let z =
            builder.op("activation", OpKind::Relu, Attributes::new(), &[y]).expect("an activation");
        let graph = builder.finish(vec![z]).expect("a graph");
        let costs = Costs::of_graph(
            &graph,
            vec![ProcessorCosts::named("cpu")],
            BTreeMap::new(),
            |node, _| Some(Interval::exact(node as u64)),
            vec![],
        );
        let costs = costs.expect("costs");
        assert_eq!(
            costs.nodes().iter().map(|n| n.memory_bytes).collect::<Vec<_>>(),
            [8 * 4 * 4, 0]
        );
        let sizes: Vec<(&str, u64, bool)> =
            costs.tensors().iter().map(|t| (t.name.as_str(), t.size_bytes, t.output)).collect();
        assert_eq!(
            sizes,
            [("x", 32, false), ("product_out", 16, false), ("activation_out", 16, true)]
        );
    }
}
