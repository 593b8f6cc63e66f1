//! Attributes kernels to operators: a framework runs kernels, each for one or several operators of
//! the file, but a plan places operators.
//!
//! Each kernel counts for one operator, so that the sum over operators is the sum over kernels. The
//! operator is found by, in this order:
//!
//! 1. the values that the kernel provides, which keep their names, there or where they are
//!    reordered to the file's memory format: the kernel covers the operators between the values
//!    that kernels before it provide and the values that it provides; all of these stay together,
//!    and the kernel counts for the last of them;
//! 2. the operator of the kernel's name, where the kernel is of its kind, or where kernels are a
//!    list without connections;
//! 3. the values that the kernel reads: a kernel that lowering inserted (a reorder of a layout)
//!    counts for the operator whose result it reads, or that reads the same input of the model;
//! 4. the kernel that runs before it.
//!
//! Operators without a kernel cost nothing.

use super::Interval;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use vitempo_graph::{Graph, Node, OpKind, ValueId, ValueSource};

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
    /// Operators of the graph by name.
    operators: HashMap<&'a str, usize>,
    /// For each value of the graph, the operators that read it.
    consumers: Vec<Vec<usize>>,
    /// Values of the kernels in the original memory format, by the same ones in another.
    reordered: HashMap<ValueId, ValueId>,
    /// Whether kernels read what others provide.
    connected: bool,
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
        let operators =
            graph.nodes().iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        let mut read = kernels.nodes().iter().flat_map(|k| &k.inputs);
        Self {
            graph,
            kernels,
            by_name,
            operators,
            consumers: graph.consumers(),
            reordered: kernels.nodes().iter().filter_map(reorder_back).collect(),
            connected: read.any(|&id| kernels.producer(id).is_some()),
            boundary,
            owner: vec![None; graph.nodes().len()],
            last: Vec::new(),
            members: BTreeMap::new(),
        }
    }

    /// Finds the operators of one kernel; kernels must come in order. Returns the operator it
    /// counts for.
    fn cover(&mut self, kernel: usize) -> usize {
        let mut ends = self.provided(kernel);
        if ends.is_empty() {
            ends.extend(self.namesake(kernel));
        }
        let operator = ends.iter().max().copied().unwrap_or_else(|| self.beside(kernel));
        self.claim(kernel, ends);
        self.last.push(operator);
        operator
    }

    /// The operators whose results the kernel provides, in the graph's memory format or another.
    fn provided(&self, kernel: usize) -> Vec<usize> {
        let outputs = self.kernels.nodes()[kernel].outputs.iter();
        outputs.filter_map(|&id| self.producer(self.in_the_graph(id)?)).collect()
    }

    /// The graph's value that a value of the kernels is, itself or once reordered.
    fn in_the_graph(&self, id: ValueId) -> Option<ValueId> {
        let reordered = || self.reordered.get(&id).and_then(|&id| self.of_the_graph(id));
        self.of_the_graph(id).or_else(reordered)
    }

    /// The operator of the kernel's name. Kernels that lowering inserts have arbitrary names, but
    /// they are connected, and rarely of the operator's kind.
    fn namesake(&self, kernel: usize) -> Option<usize> {
        let kernel = &self.kernels.nodes()[kernel];
        let operator = *self.operators.get(kernel.name.as_str())?;
        let same_kind = self.graph.nodes()[operator].op.kind == kernel.op.kind;
        (same_kind || !self.connected).then_some(operator)
    }

    /// The graph's value with the name of a value of the kernels.
    fn of_the_graph(&self, id: ValueId) -> Option<ValueId> {
        self.by_name.get(self.kernels.value(id).name.as_str()).copied()
    }

    fn producer(&self, id: ValueId) -> Option<usize> {
        match self.graph.value(id).source {
            ValueSource::Node(node) => Some(node as usize),
            _ => None,
        }
    }

    /// Assigns these operators to the kernel, and those before them up to the values that other
    /// kernels provide.
    fn claim(&mut self, kernel: usize, mut open: Vec<usize>) {
        while let Some(operator) = open.pop() {
            if self.owner[operator].is_some() {
                continue;
            }
            self.owner[operator] = Some(kernel);
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

    /// The operator for a kernel that covers none: the one whose result it reads, else one that
    /// reads the same value, else that of the kernel before.
    fn beside(&self, kernel: usize) -> usize {
        let Node { name, inputs, .. } = &self.kernels.nodes()[kernel];
        let before = |id: &ValueId| match self.kernels.value(*id).source {
            ValueSource::Node(before) => self.last.get(before as usize).copied(),
            _ => self.of_the_graph(*id).and_then(|id| self.producer(id)),
        };
        let reader = |id: ValueId| self.consumers[id.0 as usize].first().copied();
        let beside_value = |id| self.producer(id).or_else(|| reader(id));
        let same_input = || inputs.iter().filter_map(|&id| reader(self.of_the_graph(id)?)).min();
        // A conversion in a list of kernels has the name of the value that it converts.
        let converted = || self.by_name.get(name.as_str()).and_then(|&id| beside_value(id));
        let previous = || self.last.last().copied();
        inputs
            .iter()
            .filter_map(before)
            .max()
            .or_else(same_input)
            .or_else(converted)
            .or_else(previous)
            .unwrap_or(0)
    }
}

/// What a reorder reads and provides; `None` where it moves dimensions, as a transpose does.
fn reorder_back(kernel: &Node) -> Option<(ValueId, ValueId)> {
    let is_reorder = kernel.op.kind == OpKind::Reorder;
    let keeps_dimensions = !kernel.op.attributes.has("channels_last");
    let (&from, &to) = (kernel.inputs.first()?, kernel.outputs.first()?);
    (is_reorder && keeps_dimensions).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, GraphBuilder, TensorSpec};

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
        // them that is not in the graph.
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

    fn points(found: &Attribution) -> Vec<u64> {
        found.latency_ns.iter().map(|ns| ns.point()).collect()
    }

    #[test]
    fn kernels_in_a_list_are_found_by_the_names_of_operators_and_values() {
        // The form in which a delegate lists its kernels: they are not connected, and their values
        // do not have the graph's names; a conversion has the name of the value that it converts.
        let mut builder = GraphBuilder::new("kernels");
        let names = ["x", "a", "c", "nobody", "d", "d_out"];
        let run = |name| {
            let x = builder.input(format!("{name}/in"), TensorSpec::f32([2, 8]));
            builder.op(name, OpKind::Softmax, Attributes::new(), &[x]).expect("a kernel")
        };
        let outputs = names.map(run).to_vec();
        let kernels = builder.finish(outputs).expect("kernels");
        let ns = [1, 10, 100, 1_000, 10_000, 100_000].map(Interval::exact);
        let found = Attribution::of(&graph(), &kernels, &ns);
        assert_eq!(points(&found), [11, 0, 1_100, 110_000]);
        assert_eq!(found.together, [vec![2, 1]]);
    }

    #[test]
    fn kernels_without_any_known_name_count_where_they_run() {
        // A reorder of the input, then kernels that provide values under new names: an operator of
        // the graph under its own name, and one that cannot be matched.
        let mut builder = GraphBuilder::new("kernels");
        let x = builder.input("x", TensorSpec::f32([2, 8]));
        let w = builder.weight("w", TensorSpec::f32([8, 8]));
        let mut op = |name, kind, inputs: &[ValueId]| {
            builder.op(name, kind, Attributes::new(), inputs).expect("a kernel")
        };
        let r = op("reorder", OpKind::Identity, &[x]);
        let p = op("product", OpKind::Linear, &[r, w]);
        let s = op("c", OpKind::Sigmoid, &[p]);
        let t = op("b", OpKind::Identity, &[s]);
        let kernels = builder.finish(vec![t]).expect("kernels");
        let mut renamed = kernels.values().to_vec();
        renamed.iter_mut().for_each(|v| v.name = format!("{}#", v.name));
        renamed[x.0 as usize].name = "x".to_owned();
        let kernels = Graph::new(
            "kernels",
            renamed,
            kernels.nodes().to_vec(),
            kernels.inputs().to_vec(),
            kernels.outputs().to_vec(),
        );
        let ns = [1, 10, 100, 1_000].map(Interval::exact);
        let found = Attribution::of(&graph(), &kernels.expect("kernels"), &ns);
        assert_eq!(points(&found), [11, 0, 1_100, 0]);
    }
}
