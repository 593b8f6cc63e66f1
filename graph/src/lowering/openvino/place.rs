//! Operators that take no time: reshapes, and slices and concatenations whose parts lie in place in
//! memory.

use crate::{
    Graph, GraphError, MemoryFormat, Node, OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use std::collections::HashMap;

/// Marks a node that is no kernel.
const VIEW: &str = "view";

/// Lets a node be no kernel.
pub(super) fn forget(graph: &mut Rewriter, index: NodeIndex) {
    if let Some(attributes) = graph.attributes_mut(index) {
        attributes.set(VIEW, crate::Attribute::Int(1));
    }
}

/// Finds the cuts and joins that are done in place.
pub(super) fn in_place(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let Some(&axis) = node.op.attributes.int("axis").as_ref() else { continue };
        let whole = match node.op.kind {
            OpKind::Split => node.inputs.first(),
            OpKind::Gather if node.op.attributes.has("index") => node.inputs.first(),
            OpKind::Concat => node.outputs.first(),
            _ => continue,
        };
        let Some(&whole) = whole else { continue };
        let first = graph.tensor(whole).is_some_and(|t| t.format == MemoryFormat::ChannelsFirst);
        let outermost = usize::try_from(axis)
            .ok()
            .and_then(|a| graph.shape(whole).get(..a))
            .is_some_and(|s| s.iter().all(|&d| d == 1));
        let given = node.op.kind == OpKind::Concat
            && node.inputs.iter().any(|&v| graph.is_constant(v) || graph.producer(v).is_none());
        if first && outermost && !given {
            forget(graph, index);
        }
    }
}

/// Whether a node is no kernel.
pub(super) fn is_view(node: &Node) -> bool {
    node.op.kind == OpKind::Reshape || node.op.attributes.has(VIEW)
}

/// The graph without views: kernels read the tensors behind the views, in the views' shapes.
pub(super) fn without_views(graph: &Graph) -> Result<Graph, GraphError> {
    let mut behind: HashMap<ValueId, ValueId> = HashMap::new();
    let mut nodes = Vec::new();
    for node in graph.nodes() {
        let resolve = |v: &ValueId| *behind.get(v).unwrap_or(v);
        let inputs: Vec<ValueId> = node.inputs.iter().map(resolve).collect();
        if !is_view(node) {
            nodes.push(Node { inputs, ..node.clone() });
            continue;
        }
        let Some(&source) =
            inputs.iter().find(|&&v| graph.producer(v).is_some()).or(inputs.first())
        else {
            continue;
        };
        for output in &node.outputs {
            behind.insert(*output, source);
        }
    }
    let resolve = |v: &ValueId| *behind.get(v).unwrap_or(v);
    let outputs = graph.outputs().iter().map(resolve).collect();
    Graph::new(graph.name(), graph.values().to_vec(), nodes, graph.inputs().to_vec(), outputs)
}
