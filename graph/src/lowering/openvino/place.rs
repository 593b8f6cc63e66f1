//! Operators that take no time: reshapes, and slices and concatenations whose parts lie in place in
//! memory.

use crate::{
    Graph, GraphError, MemoryFormat, Node, OpKind, ValueId, ValueSource,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::{HashMap, HashMapExt};

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

/// The graph without views: kernels read what the views show, in the shape they see it in.
pub(super) fn without_views(graph: Graph) -> Result<Graph, GraphError> {
    let (name, values, given, inputs, outputs) = graph.into_parts();
    let computed = |v: &ValueId| matches!(values[v.0 as usize].source, ValueSource::Node(_));
    let mut behind: HashMap<ValueId, ValueId> = HashMap::new();
    let mut nodes = Vec::with_capacity(given.len());
    for mut node in given {
        for input in &mut node.inputs {
            *input = *behind.get(input).unwrap_or(input);
        }
        if !is_view(&node) {
            nodes.push(node);
            continue;
        }
        let source = node.inputs.iter().copied().find(computed).or(node.inputs.first().copied());
        let Some(source) = source else { continue };
        for output in &node.outputs {
            behind.insert(*output, source);
        }
    }
    let outputs = outputs.iter().map(|v| *behind.get(v).unwrap_or(v)).collect();
    Graph::new(name, values, nodes, inputs, outputs)
}
