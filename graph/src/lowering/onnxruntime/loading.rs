//! [`kept_bytes`]: memory that ONNX Runtime frees while it loads a model, and that stays with the
//! process. In bytes.
//!
//! After the engine's order of work (version 1.31), as far as weights are moved:
//!
//! 1. The file is parsed: a buffer for each tensor.
//! 2. Each is copied to a tensor of the session, and its buffer freed, in the order of a hash table.
//! 3. Filters of convolutions in blocked format are reordered, one after the other: an unpacked
//!    copy, the reordered one, a message with it, and the message in the graph, of which the first
//!    three are freed. The filters as they were are freed at the end.
//! 4. Weights of matrix products are packed, one after the other, and freed.
//! 5. The arena takes its blocks.
//!
//! How much stays depends on sizes and order ([`Heap`]); of equal runs with other orders too.

use super::heap::{Block, Heap};
use crate::{Graph, MemoryFormat, Node, ValueId, ValueSource};
use std::collections::HashSet;

/// Tensors that are smaller stay where they are.
const LEAST_TENSOR_BYTES: u64 = 128;
/// What a tensor of the session and a packed weight are larger by.
const TENSOR_BYTES: u64 = 64;
const PACKED_BYTES: u64 = 128;
/// Descriptions that are allocated between tensors and stay.
const DESCRIPTION_BYTES: u64 = 256;
/// Copies of a filter while it is reordered.
const COPIES: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Packed,
    Reordered,
    AsItIs,
}

/// Bytes of freed memory at the peak, of a lowered model whose arena has `arena_bytes`.
#[must_use]
pub fn kept_bytes(kernels: &Graph, arena_bytes: u64) -> u64 {
    let weights = weights(kernels);
    let mut heap = Heap::new();
    let mut places = parsed(&mut heap, &weights);
    reorder(&mut heap, &weights, &mut places);
    pack(&mut heap, &weights, &places);
    heap.allocate(arena_bytes);
    let live = weights.iter().fold(arena_bytes, |sum, (bytes, _)| sum.saturating_add(*bytes));
    heap.most_bytes().saturating_sub(live)
}

/// Constants in the order in which kernels read them.
fn weights(kernels: &Graph) -> Vec<(u64, Use)> {
    let mut seen: HashSet<ValueId> = HashSet::new();
    let mut found = Vec::new();
    for node in kernels.nodes() {
        for (index, &id) in node.inputs.iter().enumerate() {
            let value = kernels.value(id);
            let is_constant = matches!(value.source, ValueSource::Constant(_));
            let bytes = value.tensor.as_ref().map_or(0, crate::TensorSpec::size_bytes);
            if is_constant && bytes >= LEAST_TENSOR_BYTES && seen.insert(id) {
                found.push((bytes, use_of(node, index)));
            }
        }
    }
    found
}

fn use_of(node: &Node, index: usize) -> Use {
    let kind = &node.op.kind;
    let is_blocked = node.op.outputs.first().is_some_and(|t| t.format == MemoryFormat::Blocked);
    match () {
        () if kind.is_matrix_product() => Use::Packed,
        () if kind.is_product() && index == 1 && is_blocked => Use::Reordered,
        () => Use::AsItIs,
    }
}

/// Steps 1 and 2.
fn parsed(heap: &mut Heap, weights: &[(u64, Use)]) -> Vec<Block> {
    let buffers: Vec<Block> = weights.iter().map(|(bytes, _)| heap.allocate(*bytes)).collect();
    let mut places = buffers.clone();
    for index in hashed(weights.len()) {
        places[index] = kept(heap, weights[index].0.saturating_add(TENSOR_BYTES));
        heap.release(buffers[index]);
    }
    places
}

/// Step 3.
fn reorder(heap: &mut Heap, weights: &[(u64, Use)], places: &mut [Block]) {
    let mut before = Vec::new();
    for ((bytes, of), place) in weights.iter().zip(places) {
        if *of == Use::Reordered {
            let copies: [Block; COPIES] = std::array::from_fn(|_| heap.allocate(*bytes));
            before.push(std::mem::replace(place, kept(heap, *bytes)));
            copies.into_iter().for_each(|copy| heap.release(copy));
        }
    }
    before.into_iter().for_each(|place| heap.release(place));
}

/// Step 4.
fn pack(heap: &mut Heap, weights: &[(u64, Use)], places: &[Block]) {
    for ((bytes, _), place) in weights.iter().zip(places).filter(|((_, of), _)| *of == Use::Packed)
    {
        kept(heap, bytes.saturating_add(PACKED_BYTES));
        heap.release(*place);
    }
}

/// A tensor, and the description behind it.
fn kept(heap: &mut Heap, bytes: u64) -> Block {
    let block = heap.allocate(bytes);
    heap.allocate(DESCRIPTION_BYTES);
    block
}

/// Numbers up to a count in an order without pattern, always the same.
fn hashed(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|index| (*index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, GraphBuilder, OpKind, TensorSpec};

    /// Products one after the other, with weights of 1 MB each.
    fn products(count: usize) -> Graph {
        let mut b = GraphBuilder::new("chain");
        let mut x = b.input("x", TensorSpec::f32([1, 500]));
        for index in 0..count {
            let weight = b.weight(format!("w{index}"), TensorSpec::f32([500, 500]));
            let name = format!("p{index}");
            x = b.op(&name, OpKind::Linear, Attributes::new(), &[x, weight]).expect("a product");
        }
        b.finish(vec![x]).expect("a graph")
    }

    #[test]
    fn weights_that_are_packed_leave_holes() {
        let megabyte = 1_000_000;
        let kept = kept_bytes(&products(40), 0);
        assert!((2 * megabyte..40 * megabyte).contains(&kept), "{kept} of 40 MB");
        // A large arena fits in none of them.
        assert!(kept_bytes(&products(40), 200 * megabyte) >= 2 * megabyte);
        assert!(kept_bytes(&products(0), 0) < megabyte);
    }

    #[test]
    fn an_order_has_every_number_once() {
        let mut order = hashed(100);
        assert_ne!(order[..50], *(0..50).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn tensors_of_any_size_are_numbers() {
        let mut b = GraphBuilder::new("huge");
        let x = b.input("x", TensorSpec::f32([1, 1 << 30]));
        let weight = b.weight("w", TensorSpec::f32([1 << 30, 1 << 30]));
        let y = b.op("p", OpKind::Linear, Attributes::new(), &[x, weight]).expect("a product");
        let graph = b.finish(vec![y]).expect("a graph");
        assert!(kept_bytes(&graph, u64::MAX) < u64::MAX);
    }
}
