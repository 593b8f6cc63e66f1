//! Cuts and reductions: slices that share a tensor out become one Split, global pools become reductions.

use crate::{
    Attributes, OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use std::collections::BTreeMap;

/// Pools over the whole image are reductions.
pub(super) fn global_pools(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some((x, _)) = graph.ends(index) else { continue };
        let kind = match graph.node(index).map(|n| &n.op.kind) {
            Some(OpKind::GlobalAveragePool) => OpKind::ReduceMean,
            Some(OpKind::GlobalMaxPool) => OpKind::ReduceMax,
            _ => continue,
        };
        let axes: Vec<i64> = (2..graph.shape(x).len()).map(|a| a as i64).collect();
        graph.change(index, kind, Attributes::new().with_ints("axes", axes).with_int("keepdims", 1));
    }
}

/// One slice of a tensor along one axis.
struct Cut {
    start: i64,
    end: i64,
    node: NodeIndex,
}

fn cut(graph: &Rewriter, index: NodeIndex) -> Option<(ValueId, i64, Cut)> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Slice)?;
    let a = &node.op.attributes;
    let ([start], [end], [axis]) = (a.ints("starts"), a.ints("ends"), a.ints("axes")) else { return None };
    let unit = a.ints("steps").iter().all(|&s| s == 1);
    unit.then_some((*node.inputs.first()?, *axis, Cut { start: *start, end: *end, node: index }))
}

/// Slices that cut a tensor into pieces without a gap become one Split.
pub(super) fn slices_to_splits(graph: &mut Rewriter) {
    let mut cuts: BTreeMap<(ValueId, i64), Vec<Cut>> = BTreeMap::new();
    for index in graph.order() {
        if let Some((source, axis, cut)) = cut(graph, index) {
            cuts.entry((source, axis)).or_default().push(cut);
        }
    }
    for ((source, axis), mut pieces) in cuts {
        pieces.sort_by_key(|c| (c.start, c.end));
        let extent = usize::try_from(axis).ok().and_then(|a| graph.shape(source).get(a)).map_or(-1, |&d| d as i64);
        let whole = pieces.first().is_some_and(|c| c.start == 0) && pieces.last().is_some_and(|c| c.end == extent);
        if pieces.len() < 2 || !whole || pieces.windows(2).any(|w| w[0].end != w[1].start) {
            continue;
        }
        let sizes: Vec<i64> = pieces.iter().map(|c| c.end - c.start).collect();
        let name = graph.node(pieces[0].node).map(|n| n.name.clone()).unwrap_or_default();
        let outputs: Vec<ValueId> = pieces.iter().filter_map(|c| graph.remove(c.node)?.outputs.first().copied()).collect();
        graph.add(&name, OpKind::Split, Attributes::new().with_int("axis", axis).with_ints("split", sizes), vec![source], outputs);
    }
}
