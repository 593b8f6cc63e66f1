//! [`planned_bytes`]: the block of memory that ONNX Runtime plans for activations, and
//! [`arena_bytes`]: what its arena has when that block is in it. In bytes.
//!
//! After the engine's allocation planner and memory pattern (`onnxruntime/core/framework`,
//! `allocation_planner.cc` and `mem_pattern_planner.h`, version 1.31):
//!
//! 1. The output of a node takes the buffer of what it views; that of its input, where it computes
//!    in place and nothing else reads the input; a buffer of the same shape that is free, the last
//!    one freed first; or a new one. A buffer is kept from the first value in it to the last read of
//!    any, also while it is free in between. Outputs of the model lie elsewhere.
//! 2. Buffers are placed in the order of their first values: each in the smallest gap between those
//!    alive that it fits in, or behind all of them.
//!
//! The first run has no block: each buffer is allocated by itself. The arena keeps what that took,
//! and the block of later runs lies beside it if it fits nowhere in it.
//!
//! The plan of CoaT-Lite Tiny is 34 027 520 B, which is what the engine asks its arena for.

use super::bfc::Arena;
use crate::{Graph, Node, OpFamily, OpKind, Shape, TensorSpec, ValueId};
use std::collections::{BTreeMap, HashMap};

/// Sizes are multiples of this.
const ALIGNMENT_BYTES: u64 = 64;
/// With more buffers than this alive at once, gaps are not looked for.
const MOST_SEARCHED: usize = 512;

/// Bytes of the block for a lowered model.
#[must_use]
pub fn planned_bytes(kernels: &Graph) -> u64 {
    placed(&buffers(kernels))
}

/// Resident bytes of the arena after a first run, buffer by buffer, and a later one with the block.
#[must_use]
pub fn arena_bytes(kernels: &Graph) -> u64 {
    let buffers = buffers(kernels);
    let mut arena = Arena::new();
    replay(&buffers, &mut arena, Arena::allocate, Arena::release);
    arena.allocate(placed(&buffers));
    arena.touched_bytes()
}

/// The buffers of a lowered model, in the order of their first values.
fn buffers(kernels: &Graph) -> Vec<Buffer> {
    let mut plan = Plan::of(kernels);
    for (step, node) in kernels.nodes().iter().enumerate() {
        plan.execute(step, node);
    }
    plan.buffers
}

/// Memory for values that follow each other.
#[derive(Clone, Debug)]
struct Buffer {
    bytes: u64,
    /// Shape of the value it was made for, and its bytes.
    shape: Option<(Shape, u64)>,
    is_free: bool,
    /// Nodes of the first value, and of the last read.
    first: usize,
    last: usize,
    /// Reads of the value in it that are still to come.
    reads: usize,
}

struct Plan<'g> {
    graph: &'g Graph,
    reads: Vec<usize>,
    is_output: Vec<bool>,
    buffers: Vec<Buffer>,
    /// The buffer of each value that has one.
    places: Vec<Option<usize>>,
    /// Free buffers by shape and bytes.
    free: HashMap<(Shape, u64), Vec<usize>>,
}

impl<'g> Plan<'g> {
    fn of(graph: &'g Graph) -> Self {
        let count = graph.values().len();
        let mut is_output = vec![false; count];
        graph.outputs().iter().for_each(|id| is_output[id.0 as usize] = true);
        let (reads, buffers, free) = (graph.reads(), Vec::new(), HashMap::new());
        Self { graph, reads, is_output, buffers, places: vec![None; count], free }
    }

    fn execute(&mut self, step: usize, node: &Node) {
        for &output in &node.outputs {
            if self.is_output[output.0 as usize] {
                continue;
            }
            let shared = self.shared(node, output).or_else(|| self.freed(output));
            let place = shared.unwrap_or_else(|| self.allocate(output, step));
            let buffer = &mut self.buffers[place];
            buffer.reads += self.reads[output.0 as usize];
            (buffer.last, buffer.is_free) = (step, false);
            self.places[output.0 as usize] = Some(place);
        }
        for &input in &node.inputs {
            if let Some(place) = self.place(input) {
                let buffer = &mut self.buffers[place];
                (buffer.reads, buffer.last) = (buffer.reads - 1, step);
                self.free_if_unread(place);
            }
        }
        for &output in &node.outputs {
            if let Some(place) = self.place(output) {
                self.free_if_unread(place);
            }
        }
    }

    fn place(&self, id: ValueId) -> Option<usize> {
        self.places[id.0 as usize]
    }

    fn tensor(&self, id: ValueId) -> Option<&'g TensorSpec> {
        self.graph.value(id).tensor.as_ref()
    }

    /// The buffer of an input that the output is a view of, or replaces.
    fn shared(&self, node: &Node, output: ValueId) -> Option<usize> {
        let input = *node.inputs.first()?;
        let place = self.place(input)?;
        match node.op.kind {
            OpKind::Reshape | OpKind::Identity => Some(place),
            ref kind if is_in_place(kind) => {
                let is_equal = self.tensor(input).map(key) == self.tensor(output).map(key);
                (is_equal && self.buffers[place].reads == 1).then_some(place)
            }
            _ => None,
        }
    }

    fn freed(&mut self, output: ValueId) -> Option<usize> {
        self.free.get_mut(&key(self.tensor(output)?))?.pop()
    }

    fn allocate(&mut self, output: ValueId, step: usize) -> usize {
        let tensor = self.tensor(output);
        let bytes = tensor.map_or(0, TensorSpec::size_bytes);
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT_BYTES).unwrap_or(u64::MAX);
        let shape = tensor.map(key);
        let buffer = Buffer { bytes, shape, is_free: false, first: step, last: step, reads: 0 };
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }

    fn free_if_unread(&mut self, place: usize) {
        let buffer = &mut self.buffers[place];
        if buffer.reads > 0 || buffer.is_free {
            return;
        }
        buffer.is_free = true;
        if let Some(shape) = &buffer.shape {
            self.free.entry(shape.clone()).or_default().push(place);
        }
    }
}

fn key(tensor: &TensorSpec) -> (Shape, u64) {
    (tensor.shape.clone(), tensor.size_bytes())
}

/// Kernels that the engine lets write into their input.
fn is_in_place(kind: &OpKind) -> bool {
    match kind {
        OpKind::Gelu | OpKind::GeluTanh | OpKind::Silu => false,
        OpKind::Softmax => true,
        other => other.family() == OpFamily::Activation,
    }
}

/// Allocates each buffer at its first step, and releases it behind its last one.
fn replay<S, P>(
    buffers: &[Buffer],
    space: &mut S,
    allocate: fn(&mut S, u64) -> P,
    release: fn(&mut S, P),
) {
    let steps = buffers.iter().map(|buffer| buffer.last + 1).max().unwrap_or(0);
    let mut ending: Vec<Vec<P>> = (0..steps).map(|_| Vec::new()).collect();
    let mut next = buffers.iter().filter(|buffer| buffer.bytes > 0).peekable();
    for step in 0..steps {
        while let Some(buffer) = next.next_if(|buffer| buffer.first == step) {
            ending[buffer.last].push(allocate(space, buffer.bytes));
        }
        for place in std::mem::take(&mut ending[step]) {
            release(space, place);
        }
    }
}

/// The block while it is planned: buffers alive by offset, and the end of all that ever were.
#[derive(Default)]
struct Block {
    alive: BTreeMap<u64, u64>,
    end: u64,
}

impl Block {
    fn allocate(&mut self, bytes: u64) -> u64 {
        let offset = gap(&self.alive, bytes, self.end);
        self.end = self.end.max(offset.saturating_add(bytes));
        self.alive.insert(offset, bytes);
        offset
    }

    fn release(&mut self, offset: u64) {
        self.alive.remove(&offset);
    }
}

/// The end of the last of these buffers, each at the best place while it is alive.
fn placed(buffers: &[Buffer]) -> u64 {
    let mut block = Block::default();
    replay(buffers, &mut block, Block::allocate, Block::release);
    block.end
}

/// Where a buffer goes: the smallest gap that it fits in, or behind the last one.
fn gap(alive: &BTreeMap<u64, u64>, bytes: u64, arena_bytes: u64) -> u64 {
    let end = |(offset, bytes): (&u64, &u64)| offset.saturating_add(*bytes);
    let behind = alive.last_key_value().map_or(0, end);
    if alive.len() > MOST_SEARCHED {
        return behind;
    }
    let mut start = 0;
    let mut best: Option<(u64, u64)> = None;
    let mut consider = |start: u64, stop: u64| {
        let left = stop.checked_sub(start).and_then(|gap| gap.checked_sub(bytes));
        if let Some(left) = left.filter(|left| best.is_none_or(|(least, _)| *left < least)) {
            best = Some((left, start));
        }
    };
    for (offset, bytes) in alive {
        consider(start, *offset);
        start = offset.saturating_add(*bytes);
    }
    consider(start, arena_bytes);
    best.map_or(behind, |(_, start)| start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, GraphBuilder};

    /// Softmax keeps shapes and works in place, Transpose does neither.
    fn transposed(b: &mut GraphBuilder, name: &str, x: ValueId, perm: [i64; 2]) -> ValueId {
        let attributes = Attributes::new().with_ints("perm", perm);
        b.op(name, OpKind::Transpose, attributes, &[x]).expect("a transpose")
    }

    #[test]
    fn buffers_are_kept_for_values_of_the_same_shape() {
        let mut b = GraphBuilder::new("chain");
        let mut x = b.input("x", TensorSpec::f32([16, 32]));
        for index in 0..5 {
            x = transposed(&mut b, &format!("t{index}"), x, [1, 0]);
        }
        let graph = b.finish(vec![x]).expect("a graph");
        // One buffer for each of the two shapes, both kept to the end; the output lies elsewhere.
        assert_eq!(planned_bytes(&graph), 2 * 4 * 16 * 32);
    }

    #[test]
    fn a_gap_that_fits_is_used_and_an_input_is_replaced() {
        let mut b = GraphBuilder::new("gap");
        let x = b.input("x", TensorSpec::f32([16, 32]));
        let kept = transposed(&mut b, "first", x, [1, 0]);
        let soft = b.op("soft", OpKind::Softmax, Attributes::new().with_int("axis", 1), &[kept]);
        let soft = soft.expect("a softmax");
        let shape = Attributes::new().with_ints("shape", [2, 256]);
        let view = b.op("view", OpKind::Reshape, shape, &[soft]).expect("a view");
        let other = transposed(&mut b, "second", view, [1, 0]);
        let last = transposed(&mut b, "third", other, [1, 0]);
        let end = transposed(&mut b, "fourth", last, [1, 0]);
        let graph = b.finish(vec![end]).expect("a graph");
        // 32 x 16 until `second`; 256 x 2 beside it; 2 x 256 in the place of the first.
        assert_eq!(planned_bytes(&graph), 2 * 4 * 512);
    }

    #[test]
    fn gaps_are_the_smallest_that_fit() {
        let alive = BTreeMap::from([(0, 64), (256, 64), (448, 64)]);
        assert_eq!(gap(&alive, 128, 640), 320, "of 192, 128 and 128 B the first that is least");
        assert_eq!(gap(&alive, 192, 640), 64);
        assert_eq!(gap(&alive, 256, 640), 512, "behind all");
        assert_eq!(gap(&BTreeMap::new(), 64, 0), 0);
    }
}
