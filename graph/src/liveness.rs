//! Memory of activations: which tensors are alive at the same time when nodes run in the graph's
//! order. In bytes.
//!
//! A tensor needs memory from the node that writes it to the last one that reads it. Views
//! (reshapes, identities) share the memory of what they view. Operators that compute element by
//! element, softmax and batch normalisation write into an input of the same size that nothing reads
//! later, as engines do. Inputs and outputs of the graph stay until its end.
//!
//! The largest sum is the least that any placement of tensors needs; engines need more where memory
//! is fragmented.

use crate::{Graph, Node, OpFamily, OpKind, TensorSpec, ValueId};

/// How many inputs of a node are looked at for one that it replaces.
const MOST_INPUTS: usize = 8;

/// Memory that values share.
#[derive(Clone, Copy, Debug)]
struct Storage {
    bytes: u64,
    /// Reads that are still to come; a graph's inputs and outputs have one that never comes.
    reads: usize,
}

/// The most that a graph's tensors need at once, inputs and outputs included, weights aside. Values
/// whose tensor is not known count as empty.
#[must_use]
pub fn peak_alive_bytes(graph: &Graph) -> u64 {
    // Outputs have one read more, which never comes.
    let mut reads = graph.reads();
    graph.outputs().iter().for_each(|id| reads[id.0 as usize] += 1);
    let mut run = Run {
        graph,
        reads,
        storages: Vec::new(),
        places: vec![None; graph.values().len()],
        alive_bytes: 0,
        peak_bytes: 0,
    };
    for &input in graph.inputs() {
        run.allocate(input, 1);
    }
    for node in graph.nodes() {
        run.execute(node);
    }
    run.peak_bytes
}

/// Whether an operator may write into its input.
fn is_in_place(kind: &OpKind) -> bool {
    matches!(kind.family(), OpFamily::Activation | OpFamily::Elementwise)
        || matches!(kind, OpKind::Softmax | OpKind::BatchNorm)
}

struct Run<'g> {
    graph: &'g Graph,
    reads: Vec<usize>,
    storages: Vec<Storage>,
    /// The storage of each value that has one.
    places: Vec<Option<usize>>,
    alive_bytes: u64,
    peak_bytes: u64,
}

impl Run<'_> {
    fn execute(&mut self, node: &Node) {
        for &output in &node.outputs {
            let shared = match node.op.kind {
                OpKind::Reshape | OpKind::Identity => {
                    node.inputs.first().and_then(|id| self.places[id.0 as usize])
                }
                ref kind if is_in_place(kind) => self.reusable(node, output),
                _ => None,
            };
            match shared {
                Some(place) => {
                    self.storages[place].reads += self.reads[output.0 as usize];
                    self.places[output.0 as usize] = Some(place);
                }
                None => self.allocate(output, 0),
            }
        }
        for &input in &node.inputs {
            self.read(input);
        }
        for output in &node.outputs {
            self.free_if_unread(*output);
        }
    }

    /// An input's storage that nothing but this node still reads, of the output's size.
    fn reusable(&self, node: &Node, output: ValueId) -> Option<usize> {
        let bytes = self.bytes(output);
        let inputs = node.inputs.iter().take(MOST_INPUTS);
        inputs.filter_map(|id| self.places[id.0 as usize]).find(|&place| {
            let own = node.inputs.iter().filter(|id| self.places[id.0 as usize] == Some(place));
            self.storages[place].bytes == bytes && self.storages[place].reads == own.count()
        })
    }

    fn bytes(&self, id: ValueId) -> u64 {
        self.graph.value(id).tensor.as_ref().map_or(0, TensorSpec::size_bytes)
    }

    fn allocate(&mut self, id: ValueId, kept: usize) {
        let storage = Storage { bytes: self.bytes(id), reads: self.reads[id.0 as usize] + kept };
        self.places[id.0 as usize] = Some(self.storages.len());
        self.storages.push(storage);
        self.alive_bytes = self.alive_bytes.saturating_add(storage.bytes);
        self.peak_bytes = self.peak_bytes.max(self.alive_bytes);
    }

    fn read(&mut self, id: ValueId) {
        let Some(place) = self.places[id.0 as usize] else { return };
        self.storages[place].reads -= 1;
        self.free_if_unread(id);
    }

    fn free_if_unread(&mut self, id: ValueId) {
        let Some(place) = self.places[id.0 as usize] else { return };
        let storage = &mut self.storages[place];
        if storage.reads == 0 {
            self.alive_bytes = self.alive_bytes.saturating_sub(std::mem::take(&mut storage.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, GraphBuilder};

    const KIB: u64 = 1024;

    /// A chain of operators over vectors of 1 KiB.
    fn chain(kinds: &[OpKind]) -> Graph {
        let mut b = GraphBuilder::new("chain");
        let mut x = b.input("x", TensorSpec::f32([256]));
        for (index, kind) in kinds.iter().enumerate() {
            let attributes = match kind {
                OpKind::Softmax | OpKind::CumSum => Attributes::new().with_int("axis", 0),
                _ => Attributes::new(),
            };
            let name = format!("{kind}{index}");
            x = b.op(&name, kind.clone(), attributes, &[x]).expect("an operator");
        }
        b.finish(vec![x]).expect("a graph")
    }

    #[test]
    fn some_operators_write_into_their_input_and_others_do_not() {
        let peak = |kinds: &[OpKind]| peak_alive_bytes(&chain(kinds));
        let (relu, softmax, sum) = (OpKind::Relu, OpKind::Softmax, OpKind::CumSum);
        assert_eq!(peak(&[sum.clone(), relu, softmax]), 2 * KIB, "the input and one tensor");
        assert_eq!(peak(&[sum.clone(), sum]), 3 * KIB);
    }

    #[test]
    fn the_input_of_a_graph_is_not_overwritten() {
        assert_eq!(peak_alive_bytes(&chain(&[OpKind::Relu])), 2 * KIB);
    }

    #[test]
    fn what_is_read_later_stays_alive_also_through_a_view() {
        let mut b = GraphBuilder::new("residual");
        let x = b.input("x", TensorSpec::f32([16, 16]));
        let shape = |shape: &[i64]| Attributes::new().with_ints("shape", shape);
        let mut op = |name: &str, kind, attributes, inputs: &[ValueId]| {
            b.op(name, kind, attributes, inputs).expect("an operator")
        };
        let kept = op("kept", OpKind::Relu, Attributes::new(), &[x]);
        let view = op("view", OpKind::Reshape, shape(&[256]), &[kept]);
        let read = op("read", OpKind::Relu, Attributes::new(), &[kept]);
        let back = op("back", OpKind::Reshape, shape(&[16, 16]), &[view]);
        let sum = op("sum", OpKind::Add, Attributes::new(), &[read, back]);
        let graph = b.finish(vec![sum]).expect("a graph");
        let why = "input, kept and read; the sum replaces one";
        assert_eq!(peak_alive_bytes(&graph), 3 * KIB, "{why}");
    }
}
