//! Snippets tokenization: connected elementwise operators become one kernel, as long as nothing
//! outside lies between them.

use super::pattern::is_elementwise;
use crate::{
    Attribute, Attributes, OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Most tensors a kernel reads and writes, and buffers it needs: the pointers its code has
/// registers for.
const MOST_POINTERS: usize = 11;
/// Most dimensions of a tensor in such a kernel.
const MOST_DIMENSIONS: usize = 6;

/// Whether snippets have code for it.
fn is_supported(graph: &Rewriter, index: NodeIndex) -> bool {
    use OpKind as K;
    let Some(node) = graph.node(index) else { return false };
    let known = is_elementwise(&node.op.kind)
        && !matches!(
            node.op.kind,
            K::Softplus
                | K::HardSigmoid
                | K::Log
                | K::Sin
                | K::Cos
                | K::Mod
                | K::PRelu
                | K::LeakyRelu
        );
    known
        && node.inputs.iter().chain(&node.outputs).all(|&v| {
            graph.tensor(v).is_some_and(|t| t.precision.is_float() && t.rank() <= MOST_DIMENSIONS)
        })
}

/// Replaces elementwise operators by kernels: groups where snippets make them, single ones
/// otherwise.
pub(super) fn tokenize(graph: &mut Rewriter) {
    let groups = groups(graph);
    for members in groups {
        collapse(graph, &members);
    }
    for index in graph.order() {
        if graph.node(index).is_some_and(|n| is_elementwise(&n.op.kind)) {
            collapse(graph, &[index]);
        }
    }
}

/// Groups of operators, each in topological order.
fn groups(graph: &Rewriter) -> Vec<Vec<NodeIndex>> {
    let order = graph.order();
    let mut group_of: HashMap<NodeIndex, usize> = HashMap::new();
    let mut groups: Vec<BTreeSet<NodeIndex>> = Vec::new();
    for &index in &order {
        if !is_supported(graph, index) {
            continue;
        }
        let mut own = BTreeSet::from([index]);
        let inputs = graph.node(index).map(|n| n.inputs.clone()).unwrap_or_default();
        for before in inputs.iter().filter_map(|&v| graph.producer(v)) {
            let Some(&group) = group_of.get(&before) else { continue };
            if own.contains(&before) {
                continue;
            }
            let joined: BTreeSet<NodeIndex> = own.union(&groups[group]).copied().collect();
            if !encloses_others(graph, &joined) && pointers(graph, &joined) <= MOST_POINTERS {
                own = joined;
            }
        }
        let number = groups.len();
        for member in &own {
            if let Some(old) = group_of.insert(*member, number) {
                groups[old].clear();
            }
        }
        groups.push(own);
    }
    let position: HashMap<NodeIndex, usize> =
        order.iter().enumerate().map(|(p, &i)| (i, p)).collect();
    let sorted = |group: BTreeSet<NodeIndex>| {
        let mut members: Vec<NodeIndex> = group.into_iter().collect();
        members.sort_by_key(|m| position.get(m).copied());
        members
    };
    groups.into_iter().filter(|g| !g.is_empty()).map(sorted).collect()
}

/// Whether something outside of the group depends on it and is needed by it.
fn encloses_others(graph: &Rewriter, group: &BTreeSet<NodeIndex>) -> bool {
    let mut open: Vec<NodeIndex> = Vec::new();
    for &member in group {
        let inputs = graph.node(member).map(|n| n.inputs.as_slice()).unwrap_or_default();
        open.extend(
            inputs.iter().filter_map(|&v| graph.producer(v)).filter(|p| !group.contains(p)),
        );
    }
    let mut seen = HashSet::new();
    while let Some(index) = open.pop() {
        if group.contains(&index) {
            return true;
        }
        if seen.insert(index) {
            let inputs = graph.node(index).map(|n| n.inputs.as_slice()).unwrap_or_default();
            open.extend(inputs.iter().filter_map(|&v| graph.producer(v)));
        }
    }
    false
}

/// What a group reads, single numbers left out, and what others read of it.
fn border(graph: &Rewriter, members: &[NodeIndex]) -> (Vec<ValueId>, Vec<ValueId>) {
    let inside: HashSet<NodeIndex> = members.iter().copied().collect();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for &member in members {
        let Some(node) = graph.node(member) else { continue };
        for &input in &node.inputs {
            let internal = graph.producer(input).is_some_and(|p| inside.contains(&p));
            let number =
                graph.is_constant(input) && graph.shape(input).iter().product::<usize>() == 1;
            if !internal && !number && !reads.contains(&input) {
                reads.push(input);
            }
        }
        writes.extend(node.outputs.iter().copied().filter(|&o| {
            graph.is_output(o) || graph.consumers(o).iter().any(|r| !inside.contains(r))
        }));
    }
    (reads, writes)
}

fn pointers(graph: &Rewriter, group: &BTreeSet<NodeIndex>) -> usize {
    let members: Vec<NodeIndex> = group.iter().copied().collect();
    let (reads, writes) = border(graph, &members);
    reads.len() + writes.len()
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
