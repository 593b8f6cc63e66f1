//! From kernels back to operators: a framework runs kernels, each for one or several operators of
//! the file; a plan places operators.
//!
//! A kernel covers the operators between what it reads and what it provides, found by the names of
//! values, which lowering keeps. Its latency counts for the last of them; all of them must stay
//! together. A kernel that lowering put in (a reorder of a layout) counts for the operator whose
//! result it reads, or where it reads an input, for the first operator that has no kernel of its
//! own before it. Operators without a kernel cost nothing.

use super::Interval;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vitempo_graph::{Graph, ValueId, ValueSource};

/// Latencies of a graph's operators, from those of kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribution {
    /// One per operator of the graph, ns; their sum is that of the kernels.
    pub latency_ns: Vec<Interval>,
    /// Operators that one kernel covers, where there are several.
    pub together: Vec<Vec<usize>>,
}

impl Attribution {
    /// Attributes the latencies of `kernels` (a lowered `graph`), one per node, to the operators of
    /// `graph`.
    #[must_use]
    pub fn of(graph: &Graph, kernels: &Graph, latency_ns: &[Interval]) -> Self {
        let mut covered = Cover::new(graph, kernels);
        let mut latency = vec![Interval::ZERO; graph.nodes().len()];
        for (kernel, &ns) in latency_ns.iter().enumerate().take(kernels.nodes().len()) {
            let operator = covered.cover(kernel);
            if let Some(slot) = latency.get_mut(operator) {
                *slot = *slot + ns;
            }
        }
        let together = covered.members.into_values().filter(|group| group.len() > 1).collect();
        Self { latency_ns: latency, together }
    }
}

struct Cover<'a> {
    graph: &'a Graph,
    kernels: &'a Graph,
    /// Values of the graph by name.
    by_name: HashMap<&'a str, ValueId>,
    /// Values that some kernel provides or reads: where one kernel ends and another begins.
    boundary: BTreeSet<ValueId>,
    /// For each operator, the kernel that covers it.
    owner: Vec<Option<usize>>,
    /// For each kernel so far, the operator it counts for.
    last: Vec<usize>,
    members: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Cover<'a> {
    fn new(graph: &'a Graph, kernels: &'a Graph) -> Self {
        let by_name: HashMap<&str, ValueId> = graph
            .values()
            .iter()
            .enumerate()
            .map(|(i, v)| (v.name.as_str(), ValueId(i as u32)))
            .collect();
        let touched = kernels.nodes().iter().flat_map(|k| k.inputs.iter().chain(&k.outputs));
        let boundary = touched
            .filter_map(|&id| by_name.get(kernels.value(id).name.as_str()).copied())
            .collect();
        Self {
            graph,
            kernels,
            by_name,
            boundary,
            owner: vec![None; graph.nodes().len()],
            last: Vec::new(),
            members: BTreeMap::new(),
        }
    }

    /// Finds the operators of one kernel; kernels must come in order. Returns the operator it
    /// counts for.
    fn cover(&mut self, kernel: usize) -> usize {
        let outputs = &self.kernels.nodes()[kernel].outputs;
        let provided = outputs
            .iter()
            .filter_map(|&id| self.by_name.get(self.kernels.value(id).name.as_str()).copied());
        let producers: Vec<usize> = provided
            .filter_map(|id| self.producer(id))
            .filter(|&operator| self.owner[operator].is_none())
            .collect();
        let operator = match producers.iter().max() {
            Some(&last) => {
                self.claim(kernel, producers);
                last
            }
            None => self.beside(kernel),
        };
        self.last.push(operator);
        operator
    }

    fn producer(&self, id: ValueId) -> Option<usize> {
        match self.graph.value(id).source {
            ValueSource::Node(node) => Some(node as usize),
            _ => None,
        }
    }

    /// Takes these operators, and those before them up to what other kernels provide.
    fn claim(&mut self, kernel: usize, mut open: Vec<usize>) {
        while let Some(operator) = open.pop() {
            if self.owner[operator].replace(kernel).is_some() {
                continue;
            }
            self.members.entry(kernel).or_default().push(operator);
            let graph = self.graph;
            for &input in &graph.nodes()[operator].inputs {
                let inner = !self.boundary.contains(&input);
                open.extend(
                    self.producer(input).filter(|&before| inner && self.owner[before].is_none()),
                );
            }
        }
    }

    /// The operator for a kernel that provides nothing the graph knows: the one whose result it
    /// reads.
    fn beside(&self, kernel: usize) -> usize {
        let read = |id: &ValueId| match self.kernels.value(*id).source {
            ValueSource::Node(before) => self.last.get(before as usize).copied(),
            _ => self
                .by_name
                .get(self.kernels.value(*id).name.as_str())
                .and_then(|&id| self.producer(id)),
        };
        let inputs = &self.kernels.nodes()[kernel].inputs;
        let first_free = || self.owner.iter().position(Option::is_none);
        inputs.iter().filter_map(read).max().or_else(first_free).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, GraphBuilder, OpKind, TensorSpec};

    fn graph() -> Graph {
        let mut builder = GraphBuilder::new("m");
        let x = builder.input("x", TensorSpec::f32([2, 8]));
        let w = builder.weight("w", TensorSpec::f32([8, 8]));
        let a = builder.op("a", OpKind::Linear, Attributes::new(), &[x, w]).expect("a product");
        let b = builder.op("b", OpKind::Relu, Attributes::new(), &[a]).expect("an activation");
        let c = builder.op("c", OpKind::Sigmoid, Attributes::new(), &[b]).expect("an activation");
        let d = builder.op("d", OpKind::Add, Attributes::new(), &[b, c]).expect("a sum");
        builder.finish(vec![d]).expect("a graph")
    }

    #[test]
    fn a_graph_that_is_its_own_kernels_keeps_its_latencies() {
        let graph = graph();
        let ns: Vec<Interval> = (1..5).map(Interval::exact).collect();
        assert_eq!(
            Attribution::of(&graph, &graph, &ns),
            Attribution { latency_ns: ns, together: vec![] }
        );
    }

    #[test]
    fn fused_kernels_hold_their_operators_together() {
        // One kernel for a and b, which provides b's result; one for c and d; a reorder between
        // them that the graph does not know.
        let mut builder = GraphBuilder::new("kernels");
        let x = builder.input("x", TensorSpec::f32([2, 8]));
        let w = builder.weight("w", TensorSpec::f32([8, 8]));
        let b = builder.op("b", OpKind::Linear, Attributes::new(), &[x, w]).expect("a product");
        let r =
            builder.op("reorder", OpKind::Identity, Attributes::new(), &[b]).expect("a reorder");
        let d = builder.op("d", OpKind::Sigmoid, Attributes::new(), &[r]).expect("an activation");
        let kernels = builder.finish(vec![d]).expect("kernels");
        let found = Attribution::of(
            &graph(),
            &kernels,
            &[Interval::exact(10), Interval::exact(1), Interval::exact(5)],
        );
        assert_eq!(found.latency_ns.iter().map(|i| i.point()).collect::<Vec<_>>(), [0, 11, 0, 5]);
        let groups: Vec<Vec<usize>> = found
            .together
            .iter()
            .map(|g| {
                let mut g = g.clone();
                g.sort_unstable();
                g
            })
            .collect();
        assert_eq!(groups, [vec![0, 1], vec![2, 3]]);
    }
}
