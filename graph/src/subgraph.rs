//! [`Graph::subgraph`]: some nodes of a graph as a graph of their own.

use crate::{Graph, GraphError, Node, Value, ValueId, ValueSource};
use std::collections::BTreeSet;

impl Graph {
    /// These nodes of the graph with only the values that they read or provide, renumbered. What
    /// other nodes provide has to be among `inputs`.
    ///
    /// # Errors
    /// [`GraphError`] where a value that is read has no provider.
    pub fn subgraph(
        &self,
        name: impl Into<String>,
        mut nodes: Vec<Node>,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) -> Result<Self, GraphError> {
        let touched: BTreeSet<ValueId> = nodes
            .iter()
            .flat_map(|n| n.inputs.iter().chain(&n.outputs))
            .chain(&inputs)
            .chain(&outputs)
            .copied()
            .collect();
        let touched: Vec<ValueId> = touched.into_iter().collect();
        let renumber = |id: &ValueId| ValueId(touched.partition_point(|t| t < id) as u32);
        let as_input: BTreeSet<ValueId> = inputs.iter().copied().collect();
        let value = |&id: &ValueId| {
            let value = self.value(id);
            let source =
                if as_input.contains(&id) { ValueSource::Input } else { value.source.clone() };
            Value { source, ..value.clone() }
        };
        let values = touched.iter().map(value).collect();
        for node in &mut nodes {
            node.inputs = node.inputs.iter().map(renumber).collect();
            node.outputs = node.outputs.iter().map(renumber).collect();
        }
        let all = |ids: Vec<ValueId>| ids.iter().map(renumber).collect();
        Self::new(name, values, nodes, all(inputs), all(outputs))
    }
}
