//! Snippets tokenization: connected elementwise operators become one kernel, unless another
//! operator lies between them.

use super::{
    groups::{self, is_number},
    pattern::is_elementwise,
};
use crate::{
    Attribute, Attributes, OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::{HashSet, HashSetExt};

/// Replaces elementwise operators by kernels: groups where snippets make them, single ones
/// otherwise.
pub(super) fn tokenize(graph: &mut Rewriter) {
    for members in groups::groups(graph) {
        collapse(graph, &members);
    }
    for index in graph.order() {
        if graph.node(index).is_some_and(|n| is_elementwise(&n.op.kind)) {
            collapse(graph, &[index]);
        }
    }
}

/// The inputs of a group, without single numbers, and its outputs with other readers.
fn border(graph: &Rewriter, members: &[NodeIndex]) -> (Vec<ValueId>, Vec<ValueId>) {
    let inside: HashSet<NodeIndex> = members.iter().copied().collect();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for &member in members {
        let Some(node) = graph.node(member) else { continue };
        for &input in &node.inputs {
            let internal = graph.producer(input).is_some_and(|p| inside.contains(&p));
            if !internal && !is_number(graph, input) && seen.insert(input) {
                reads.push(input);
            }
        }
        writes.extend(
            node.outputs.iter().copied().filter(|&o| {
                graph.is_output(o) || graph.consumers(o).any(|r| !inside.contains(&r))
            }),
        );
    }
    (reads, writes)
}

/// One kernel instead of the members.
fn collapse(graph: &mut Rewriter, members: &[NodeIndex]) {
    let (reads, writes) = border(graph, members);
    let nodes: Vec<_> = members.iter().filter_map(|&m| graph.remove(m)).collect();
    let Some(last) = nodes.last() else { return };
    let ops: Vec<&str> = nodes.iter().map(|n| n.op.kind.name()).collect();
    let attributes = Attributes::new().with("ops", Attribute::Text(ops.join("+")));
    graph.add(&last.name, OpKind::Elementwise, attributes, reads, writes);
}
