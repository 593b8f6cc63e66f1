//! Attention that snippets run as one kernel: product, elementwise operators, softmax, product, and
//! the transposes around them.

use super::pattern::{AROUND_ZERO, is_around_zero, is_elementwise, is_quantized_value};
use crate::{
    Attribute, Attributes, OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// The order of a transpose from `[batch, tokens, heads, size]` to `[batch, heads, tokens, size]`,
/// and back.
const HEADS_OUTSIDE: [i64; 4] = [0, 2, 1, 3];

/// Replaces every attention that snippets take by one kernel. `with_output`: the transpose after it
/// too, as in 32-bit floats.
pub(super) fn fuse(graph: &mut Rewriter, with_output: bool) {
    for index in graph.order() {
        fuse_around(graph, index, with_output);
    }
}

fn transposed(graph: &Rewriter, value: ValueId) -> Option<ValueId> {
    let index = graph.producer_of(value, &OpKind::Transpose)?;
    (graph.node(index)?.op.attributes.ints("perm") == HEADS_OUTSIDE
        && graph.only_consumer(value).is_some())
    .then(|| graph.ends(index))?
    .map(|(x, _)| x)
}

/// The operands of elementwise operators between the product and the softmax, and the value that
/// the softmax reads.
fn between(graph: &Rewriter, mut value: ValueId) -> Option<(Vec<ValueId>, NodeIndex)> {
    let mut extra = Vec::new();
    for _ in 0..8 {
        let next = graph.only_consumer(value)?;
        let node = graph.node(next)?;
        if node.op.kind == OpKind::Softmax {
            return Some((extra, next));
        }
        if !is_elementwise(&node.op.kind)
            || graph.shape(*node.outputs.first()?) != graph.shape(value)
        {
            return None;
        }
        extra.extend(
            node.inputs
                .iter()
                .copied()
                .filter(|&v| v != value && graph.shape(v).iter().product::<usize>() > 1),
        );
        value = *node.outputs.first()?;
    }
    None
}

fn fuse_around(graph: &mut Rewriter, product: NodeIndex, with_output: bool) -> Option<()> {
    let first = graph.node(product).filter(|n| n.op.kind == OpKind::MatMul)?.clone();
    let [q, k] = first.inputs[..] else { return None };
    let scores = *first.outputs.first()?;
    let rank = graph.shape(scores).len();
    if !(rank == 3 || rank == 4)
        || graph.is_constant(k)
        || first.op.attributes.int("trans_a").unwrap_or(0) != 0
    {
        return None;
    }
    let (extra, softmax) = between(graph, scores)?;
    if extra.len() > 1 || graph.node(softmax)?.op.attributes.int("axis") != Some(rank as i64 - 1) {
        return None;
    }
    let (_, mut weights) = graph.ends(softmax)?;
    if let Some(quantize) = graph.only_consumer(weights).filter(|&i| graph.is(i, &OpKind::Quantize))
    {
        weights = graph.ends(quantize)?.1;
    }
    let mix = graph.only_consumer(weights).filter(|&i| graph.is(i, &OpKind::MatMul))?;
    let second = graph.node(mix)?.clone();
    let [left, v] = second.inputs[..] else { return None };
    if left != weights || !second.op.attributes.0.is_empty() {
        return None;
    }
    let mut output = *second.outputs.first()?;
    let heads = graph.shape(scores).get(rank.checked_sub(3)?).copied().unwrap_or(1);
    let mut ops = Attributes::new().with_int("heads", heads as i64);
    // Values that enter as bytes prevent the fusion of the transpose after the product.
    let bytes = is_around_zero(graph, v);
    if bytes {
        ops.set(AROUND_ZERO, Attribute::Int(1));
    }
    while let Some(next) = graph.only_consumer(output) {
        let node = graph.node(next)?;
        let end = *node.outputs.first()?;
        if with_output
            && !bytes
            && node.op.kind == OpKind::Transpose
            && node.op.attributes.ints("perm") == HEADS_OUTSIDE
            && !ops.has("activation")
        {
            output = end;
            break;
        }
        if !is_elementwise(&node.op.kind)
            || node
                .inputs
                .iter()
                .any(|&i| i != output && graph.shape(i).iter().product::<usize>() > 1)
        {
            break;
        }
        ops.set("activation", Attribute::Text(node.op.kind.name().to_owned()));
        output = end;
    }
    // A Quantize that stays before the product keeps the transpose of the left side away.
    let q = transposed(graph, q).filter(|&x| !is_quantized_value(graph, x)).unwrap_or(q);
    let v = transposed(graph, v).unwrap_or(v);
    let inputs = [q, k].into_iter().chain(extra).chain([v]).collect();
    graph.fuse(&second.name, OpKind::Attention, ops, inputs, output).map(|_| ())
}
