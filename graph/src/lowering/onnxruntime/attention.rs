//! Attention that ONNX Runtime runs as one kernel: over the pixels of an image, with queries, keys
//! and values from one product without bias.
//!
//! The engine's rule (made for MobileCLIP, whose blocks FastViT shares) requires a transpose
//! between the pixels and the product, scaled queries, no mask, and a projection with a bias after
//! it. Everything between the two products becomes a Split and a MultiHeadAttention.

use super::reshape::{self, Form};
use crate::{
    Attributes, OpKind, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// One such attention.
struct Found {
    /// Queries, keys and values beside each other: `[1, tokens, 3 x width]`.
    packed: ValueId,
    /// `[1, tokens, width]`.
    output: ValueId,
    heads: usize,
}

/// Replaces every such attention.
pub(super) fn fuse(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(found) = around(graph, index) else { continue };
        let Some(tensor) = graph.tensor(found.output).cloned() else { continue };
        let width = tensor.shape[2];
        let Some(last) = graph.producer(found.output) else { continue };
        let parts: Vec<ValueId> = (0..3)
            .map(|_| {
                graph.value(
                    "part",
                    Some(TensorSpec { shape: tensor.shape.clone(), ..tensor.clone() }),
                )
            })
            .collect();
        let attributes =
            Attributes::new().with_int("axis", 2).with_ints("split", [width as i64; 3]);
        graph.add("split", OpKind::Split, attributes, vec![found.packed], parts.clone());
        graph.remove_with_inputs(last);
        graph.add(
            "attention",
            OpKind::Attention,
            Attributes::new().with_int("heads", found.heads as i64),
            parts,
            vec![found.output],
        );
    }
}

fn permuted(graph: &Rewriter, value: ValueId, perm: &[i64]) -> Option<ValueId> {
    let transpose = graph
        .producer_of(value, &OpKind::Transpose)
        .filter(|&t| graph.node(t).is_some_and(|n| n.op.attributes.ints("perm") == perm))?;
    graph.ends(transpose).map(|(source, _)| source)
}

/// The only reader of a value, if it is of this kind: the reader and its output.
fn next(graph: &Rewriter, value: ValueId, kind: &OpKind) -> Option<(NodeIndex, ValueId)> {
    let reader = graph.only_consumer(value).filter(|&n| graph.is(n, kind))?;
    Some((reader, graph.ends(reader)?.1))
}

/// The attention around the softmax at `index`.
fn around(graph: &Rewriter, index: NodeIndex) -> Option<Found> {
    let (scores, weights) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Softmax))?;
    let [scaled, turned] = graph.node(graph.producer_of(scores, &OpKind::MatMul)?)?.inputs[..]
    else {
        return None;
    };
    let (_, query) = graph.scalar_operand(graph.producer_of(scaled, &OpKind::Mul)?)?;
    let key = permuted(graph, turned, &[0, 1, 3, 2])?;
    let (mix, mixed) = next(graph, weights, &OpKind::MatMul)?;
    let [_, value] = graph.node(mix)?.inputs[..] else { return None };
    let part = |value: ValueId| {
        let squeeze = graph
            .producer_of(value, &OpKind::Reshape)
            .filter(|&r| matches!(reshape::form(graph, r), Some(Form::Squeeze(_))))?;
        graph.ends(squeeze).map(|(source, _)| source)
    };
    let parts = [part(query)?, part(key)?, part(value)?];
    let split = graph.node(graph.producer_of(parts[0], &OpKind::Split)?)?;
    if split.outputs != parts || split.op.attributes.int("axis") != Some(0) {
        return None;
    }
    let stacked = permuted(graph, *split.inputs.first()?, &[2, 0, 3, 1, 4])?;
    let (packed, _) = graph.ends(graph.producer_of(stacked, &OpKind::Reshape)?)?;
    let &[1, tokens, 3, heads, size] = graph.shape(stacked) else { return None };
    let product =
        graph.node(graph.producer_of(packed, &OpKind::Linear)?).filter(|n| n.inputs.len() == 2)?;
    permuted(graph, *product.inputs.first()?, &[0, 2, 1])?;
    let (transpose, ordered) = next(graph, mixed, &OpKind::Transpose)?;
    let (_, output) = next(graph, ordered, &OpKind::Reshape)?;
    let (_, projected) = next(graph, output, &OpKind::Linear)?;
    next(graph, projected, &OpKind::Add)?;
    let straight = graph.node(transpose)?.op.attributes.ints("perm") == [0, 2, 1, 3];
    (straight && graph.shape(output) == [1, tokens, heads * size]).then_some(Found {
        packed,
        output,
        heads,
    })
}
