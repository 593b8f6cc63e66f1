//! Topological order of a file's nodes, for files that are not in order.

use super::view::GraphView;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Indices of the nodes so that each comes after those it reads from; the given order is kept where
/// possible. The reader reports names that no node computes.
///
/// # Errors
/// The index of a node on a cycle.
pub(super) fn topological(graph: &GraphView<'_>) -> Result<Vec<usize>, usize> {
    let outputs = graph
        .node
        .iter()
        .enumerate()
        .flat_map(|(i, n)| n.output.iter().filter(|o| !o.is_empty()).map(move |&o| (o, i)));
    let producer: HashMap<&str, usize> = outputs.collect();
    let mut waits = vec![0usize; graph.node.len()];
    let mut readers = vec![Vec::new(); graph.node.len()];
    for (index, node) in graph.node.iter().enumerate() {
        for &from in node.reads().filter_map(|name| producer.get(name)) {
            waits[index] += 1;
            readers[from].push(index);
        }
    }
    let mut ready: BinaryHeap<_> =
        (0..waits.len()).filter(|&i| waits[i] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    match (0..waits.len()).find(|&i| waits[i] > 0) {
        Some(stuck) => Err(stuck),
        None => Ok(order),
    }
}
