//! Fuses elementwise operators into the reductions, normalisations and interpolations before them.

use super::{
    common::OWN,
    pattern::{absorb, is_simple, scales_along},
};
use crate::{
    OpKind,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Fuses chains of functions of one number, and of scales per channel.
pub(super) fn fuse(graph: &mut Rewriter) {
    use OpKind as K;
    for index in graph.order() {
        let takes = graph.node(index).is_some_and(|n| {
            let reduction = matches!(
                n.op.kind,
                K::ReduceMean
                    | K::ReduceSum
                    | K::ReduceMax
                    | K::ReduceMin
                    | K::ReduceL2
                    | K::ReduceProd
            );
            let rank = n.inputs.first().map_or(0, |&v| graph.shape(v).len());
            (reduction && n.op.attributes.int("keepdims") != Some(0))
                || (n.op.kind == K::LayerNorm && rank > 2)
                || matches!(n.op.kind, K::LpNorm | K::Resize)
        });
        if takes {
            while fuse_next(graph, index).is_some() {}
        }
    }
}

fn fuse_next(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (_, output) = graph.ends(index)?;
    let next = graph.only_consumer(output)?;
    let node = graph.node(next).filter(|n| !n.op.attributes.has(OWN))?;
    (is_simple(&node.op.kind) || scales_along(graph, next, output, 1))
        .then(|| absorb(graph, index, next))
        .flatten()
}
