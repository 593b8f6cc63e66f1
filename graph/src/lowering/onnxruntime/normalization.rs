//! Normalisations as ONNX Runtime fuses them: a residual sum that only a LayerNorm reads goes into
//! it (SkipLayerNormalization).

use crate::{
    OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Fuses sums into the LayerNorms after them. Returns whether anything changed.
pub(super) fn fuse_residuals(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        changed |= fuse_residual(graph, index).is_some();
    }
    changed
}

fn fuse_residual(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph
        .node(index)
        .filter(|n| n.op.kind == OpKind::LayerNorm && !n.op.attributes.has("residual"))?;
    let (name, mut attributes) = (node.name.clone(), node.op.attributes.clone());
    let (sum, weights, output) =
        (*node.inputs.first()?, node.inputs[1..].to_vec(), *node.outputs.first()?);
    let add =
        graph.producer_of(sum, &OpKind::Add).filter(|_| graph.only_consumer(sum) == Some(index))?;
    let [a, b] = graph.node(add)?.inputs[..] else { return None };
    if graph.shape(a).len() != 3
        || graph.shape(a) != graph.shape(b)
        || attributes.int("axis") != Some(2)
    {
        return None;
    }
    let (mut inputs, mut bias) = ([a, b], None);
    for side in &mut inputs {
        if let Some((x, vector)) = biased(graph, *side) {
            *side = x;
            bias = Some(vector);
            break;
        }
    }
    attributes.set("residual", crate::Attribute::Int(1));
    let inputs = inputs.into_iter().chain(weights).chain(bias).collect();
    graph.fuse(&name, OpKind::LayerNorm, attributes, inputs, output).map(|_| ())
}

/// The operands of a sum of a tensor and a constant vector without other readers.
fn biased(graph: &Rewriter, value: ValueId) -> Option<(ValueId, ValueId)> {
    let add =
        graph.producer_of(value, &OpKind::Add).filter(|_| graph.only_consumer(value).is_some())?;
    let [x, vector] = graph.node(add)?.inputs[..] else { return None };
    let fits = graph.is_constant(vector)
        && graph.shape(x).len() == 3
        && graph.shape(vector).len() == 1
        && graph.shape(x).last() == graph.shape(vector).last();
    fits.then_some((x, vector))
}
