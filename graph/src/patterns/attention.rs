//! Recognises scaled dot-product attention as exporters decompose it: a product, a scale, possibly
//! a mask, a softmax, another product.

use super::rewriter::{NodeIndex, Rewriter};
use crate::{Graph, OpKind, ValueId};

/// One attention in a graph. Sizes are in tokens and elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionPattern {
    /// The queries as the first product reads them, before a scale.
    pub query: ValueId,
    /// The keys, before they are transposed for the product and before a scale.
    pub key: ValueId,
    /// The values as the second product reads them.
    pub value: ValueId,
    /// The output of the second product.
    pub output: ValueId,
    /// Product of all dimensions before the heads.
    pub batch: usize,
    /// Number of heads; 1 where there is no such dimension.
    pub heads: usize,
    /// Number of queries.
    pub queries: usize,
    /// Number of keys and values.
    pub keys: usize,
    /// Size of a query and a key in one head.
    pub head_size: usize,
    /// Whether something is added to the scores before the softmax (a mask, or position biases).
    pub has_bias: bool,
}

/// The attentions of a graph, in topological order.
#[must_use]
pub fn attention(graph: &Graph) -> Vec<AttentionPattern> {
    let rewriter = Rewriter::new(graph);
    rewriter.order().into_iter().filter_map(|index| around(&rewriter, index)).collect()
}

/// Goes back over multiplications and divisions by one number.
fn unscaled(graph: &Rewriter, mut value: ValueId) -> ValueId {
    while let Some(index) =
        graph.producer(value).filter(|&i| graph.is(i, &OpKind::Mul) || graph.is(i, &OpKind::Div))
    {
        match graph.scalar_operand(index) {
            Some((_, other)) => value = other,
            None => break,
        }
    }
    value
}

/// The scores behind the softmax's input, without scale, bias and the reshapes that broadcast a
/// bias; and whether there was a bias.
fn scores(graph: &Rewriter, softmax_input: ValueId) -> Option<(NodeIndex, bool)> {
    let (mut value, mut has_bias) = (unscaled(graph, softmax_input), false);
    for _ in 0..8 {
        let index = graph.producer(value)?;
        let node = graph.node(index)?;
        value = match node.op.kind {
            OpKind::MatMul => return Some((index, has_bias)),
            OpKind::Add => {
                has_bias = true;
                let leads = |v: &ValueId| !graph.is_constant(*v) && scores(graph, *v).is_some();
                *node.inputs.iter().find(|v| leads(v))?
            }
            OpKind::Reshape => *node.inputs.first()?,
            _ => return None,
        };
        value = unscaled(graph, value);
    }
    None
}

fn around(graph: &Rewriter, softmax: NodeIndex) -> Option<AttentionPattern> {
    let (input, weights) = graph.ends(softmax).filter(|_| graph.is(softmax, &OpKind::Softmax))?;
    let (product, has_bias) = scores(graph, input)?;
    let mix = graph.consumers(weights).find(|&i| graph.is(i, &OpKind::MatMul))?;
    let [left, value] = graph.node(mix)?.inputs[..] else { return None };
    let node = graph.node(product)?;
    let [q, k] = node.inputs[..] else { return None };
    let (query, transposed) = (unscaled(graph, q), unscaled(graph, k));
    let transpose = graph.producer_of(transposed, &OpKind::Transpose);
    let key = transpose
        .and_then(|t| graph.ends(t))
        .map_or(transposed, |(source, _)| unscaled(graph, source));
    let (q_shape, v_shape) = (graph.shape(q), graph.shape(value));
    let [outer @ .., queries, head_size] = q_shape else { return None };
    let keys = *v_shape.get(v_shape.len().checked_sub(2)?)?;
    let (batch, heads) = match outer {
        [batch @ .., heads] => (batch.iter().product(), *heads),
        [] => (1, 1),
    };
    let output = *graph.node(mix)?.outputs.first()?;
    (left == weights).then_some(AttentionPattern {
        query,
        key,
        value,
        output,
        batch,
        heads,
        queries: *queries,
        keys,
        head_size: *head_size,
        has_bias,
    })
}
