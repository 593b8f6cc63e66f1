//! The piece of a model around a kernel, in which the engine runs the same kernel.
//!
//! It starts at the nodes of the model's file that provide the kernel's results, by the names of
//! values, which most lowering keeps, or at the node after which the kernel is named; those before
//! and behind are added until the engine, by its rules, runs the kernel in the piece as it does in
//! the model.

use std::collections::{BTreeSet, HashMap};
use vitempo_graph::{Graph, LatencyModel, OpSpec, ValueId, ValueSource};
use vitempo_predictors::PredictorBundle;
use vitempo_profiler::single;

/// How many nodes before and behind the first ones a piece has, smallest pieces first. A producer
/// brings what is read into the caches and the engine's own format.
const REACH: [(usize, usize); 5] = [(1, 1), (2, 2), (4, 2), (7, 4), (12, 6)];

/// Finds pieces of one model.
pub(super) struct Windows<'a> {
    bundle: &'a PredictorBundle,
    graph: &'a Graph,
    consumers: Vec<Vec<usize>>,
    by_name: HashMap<&'a str, ValueId>,
}

impl<'a> Windows<'a> {
    pub(super) fn new(bundle: &'a PredictorBundle, graph: &'a Graph) -> Self {
        let values = graph.values().iter().enumerate();
        let by_name = values.map(|(i, v)| (v.name.as_str(), ValueId(i as u32))).collect();
        Self { bundle, graph, consumers: graph.consumers(), by_name }
    }

    /// A network in which the engine runs the kernel at `index` of `kernels`, called `name`: a piece
    /// of the model, else the operator alone.
    pub(super) fn around(&self, kernels: &Graph, index: usize, name: &str) -> Option<Graph> {
        let op = &kernels.nodes().get(index)?.op;
        let first = self.first(kernels, index);
        let pieces = REACH.iter().filter(|_| !first.is_empty());
        pieces
            .filter_map(|&(before, behind)| self.piece(&self.reached(&first, before, behind), name))
            .chain(single::graph_of(op).ok().map(|graph| graph.with_name(name)))
            .find(|piece| self.runs(piece, op))
    }

    fn runs(&self, piece: &Graph, op: &OpSpec) -> bool {
        self.bundle.lowered(piece).is_ok_and(|kernels| kernels.nodes().iter().any(|n| n.op == *op))
    }

    /// Nodes that provide the kernel's results; else those that read what it reads; else that of
    /// its name.
    fn first(&self, kernels: &Graph, index: usize) -> BTreeSet<usize> {
        let Some(node) = kernels.nodes().get(index) else { return BTreeSet::new() };
        let named = |ids: &[ValueId]| -> Vec<ValueId> {
            let names = ids.iter().map(|&id| kernels.value(id).name.as_str());
            names.filter_map(|name| self.by_name.get(name).copied()).collect()
        };
        let provided: BTreeSet<usize> =
            named(&node.outputs).into_iter().filter_map(|id| self.provider(id)).collect();
        if !provided.is_empty() {
            return provided;
        }
        let read = named(&node.inputs);
        let readers: BTreeSet<usize> =
            read.into_iter().flat_map(|id| self.consumers[id.0 as usize].iter().copied()).collect();
        if readers.is_empty() { self.called(&node.name).into_iter().collect() } else { readers }
    }

    /// The node of this name, or else that which provides the value of this name: kernels of LiteRT
    /// have no values of the model.
    fn called(&self, name: &str) -> Option<usize> {
        let node = self.graph.nodes().iter().position(|node| node.name == name);
        node.or_else(|| self.by_name.get(name).and_then(|id| self.provider(*id)))
    }

    fn provider(&self, id: ValueId) -> Option<usize> {
        match self.graph.value(id).source {
            ValueSource::Node(node) => Some(node as usize),
            _ => None,
        }
    }

    fn reached(&self, first: &BTreeSet<usize>, before: usize, behind: usize) -> BTreeSet<usize> {
        let mut reached = first.clone();
        for _ in 0..before {
            let inputs = reached.iter().flat_map(|&n| &self.graph.nodes()[n].inputs);
            let providers: Vec<usize> = inputs.filter_map(|&id| self.provider(id)).collect();
            reached.extend(providers);
        }
        let mut last = first.clone();
        for _ in 0..behind {
            let outputs = last.iter().flat_map(|&n| &self.graph.nodes()[n].outputs);
            last = outputs.flat_map(|id| self.consumers[id.0 as usize].iter().copied()).collect();
            reached.extend(&last);
        }
        reached
    }

    /// These nodes as a network; `None` where one of its inputs is no float: random integers would
    /// be other indices than the model's.
    fn piece(&self, nodes: &BTreeSet<usize>, name: &str) -> Option<Graph> {
        let graph = self.graph;
        let inside = |id: &ValueId| self.provider(*id).is_some_and(|n| nodes.contains(&n));
        let is_constant =
            |id: &ValueId| matches!(graph.value(*id).source, ValueSource::Constant(_));
        let read: BTreeSet<ValueId> =
            nodes.iter().flat_map(|&n| graph.nodes()[n].inputs.iter().copied()).collect();
        let inputs: Vec<ValueId> =
            read.iter().filter(|id| !inside(id) && !is_constant(id)).copied().collect();
        let is_float =
            |id: &ValueId| graph.value(*id).tensor.as_ref().is_some_and(|t| t.precision.is_float());
        if !inputs.iter().all(is_float) {
            return None;
        }
        let leaves = |id: &ValueId| {
            let readers = &self.consumers[id.0 as usize];
            readers.is_empty()
                || readers.iter().any(|reader| !nodes.contains(reader))
                || graph.outputs().contains(id)
        };
        let provided = nodes.iter().flat_map(|&n| graph.nodes()[n].outputs.iter().copied());
        let outputs = provided.filter(leaves).collect();
        let nodes = nodes.iter().map(|&n| graph.nodes()[n].clone()).collect();
        graph.subgraph(name, nodes, inputs, outputs).ok()
    }
}
