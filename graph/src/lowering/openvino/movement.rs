//! Slices, concatenations and reductions under the plugin's names: slices that partition a tensor
//! become one Split, convolutions between a Split and a Concat become one grouped convolution,
//! global pools become reductions, the transpose that mixes groups of channels becomes
//! ShuffleChannels, and Einsum becomes a product.

use crate::{
    Attribute, Attributes, OpKind, TensorSpec, ValueId,
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
        graph.change(
            index,
            kind,
            Attributes::new().with_ints("axes", axes).with_int("keepdims", 1),
        );
    }
}

fn is_reduction(kind: &OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::ReduceMean | K::ReduceSum | K::ReduceMax | K::ReduceMin | K::ReduceL2 | K::ReduceProd
    )
}

/// Reductions keep their dimensions if a later operator restores these; two in a row are merged;
/// and they move before a Transpose.
pub(super) fn reductions(graph: &mut Rewriter) {
    for index in graph.order() {
        if graph.node(index).is_some_and(|n| is_reduction(&n.op.kind)) {
            keep_dimensions(graph, index);
            merge(graph, index);
            before_transpose(graph, index);
        }
    }
}

fn axes_of(graph: &Rewriter, index: NodeIndex) -> Vec<i64> {
    graph.node(index).map(|n| n.op.attributes.ints("axes").to_vec()).unwrap_or_default()
}

fn keep_dimensions(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (x, output) = graph.ends(index)?;
    let after = graph.only_consumer(output).filter(|&i| graph.is(i, &OpKind::Reshape))?;
    let (_, end) = graph.ends(after)?;
    let axes = axes_of(graph, index);
    let kept: Vec<usize> = graph
        .shape(x)
        .iter()
        .enumerate()
        .map(|(i, &d)| if axes.contains(&(i as i64)) { 1 } else { d })
        .collect();
    if graph.node(index)?.op.attributes.int("keepdims") != Some(0) || graph.shape(end) != kept {
        return None;
    }
    graph.remove(after);
    graph.set_output(index, 0, end);
    graph.attributes_mut(index)?.set("keepdims", Attribute::Int(1));
    Some(())
}

fn merge(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (x, _) = graph.ends(index)?;
    let kind = graph.node(index)?.op.kind.clone();
    let before = graph
        .producer_of(x, &kind)
        .filter(|_| graph.only_consumer(x).is_some() && kind != OpKind::ReduceL2)?;
    let keeps =
        |i: NodeIndex| graph.node(i).is_some_and(|n| n.op.attributes.int("keepdims") != Some(0));
    if !keeps(index) || !keeps(before) {
        return None;
    }
    let mut axes = [axes_of(graph, before), axes_of(graph, index)].concat();
    axes.sort_unstable();
    axes.dedup();
    let (source, _) = graph.ends(before)?;
    graph.set_input(index, 0, source);
    graph.remove(before);
    graph.attributes_mut(index)?.set("axes", Attribute::Ints(axes.into()));
    Some(())
}

fn before_transpose(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (x, output) = graph.ends(index)?;
    let transpose =
        graph.producer_of(x, &OpKind::Transpose).filter(|_| graph.only_consumer(x).is_some())?;
    let perm = graph.node(transpose)?.op.attributes.ints("perm").to_vec();
    if graph.node(index)?.op.attributes.int("keepdims") == Some(0) {
        return None;
    }
    let mut axes: Vec<i64> = axes_of(graph, index)
        .iter()
        .map(|&a| perm.get(usize::try_from(a).ok()?).copied())
        .collect::<Option<_>>()?;
    axes.sort_unstable();
    let (source, _) = graph.ends(transpose)?;
    let mut tensor = graph.tensor(source)?.clone();
    for &axis in &axes {
        *tensor.shape.get_mut(usize::try_from(axis).ok()?)? = 1;
    }
    graph.set_input(index, 0, source);
    graph.remove(transpose);
    graph.attributes_mut(index)?.set("axes", Attribute::Ints(axes.into()));
    let reduced = graph.value("reduced", Some(tensor));
    graph.set_output(index, 0, reduced);
    graph.add(
        "transpose",
        OpKind::Transpose,
        Attributes::new().with_ints("perm", perm),
        vec![reduced],
        vec![output],
    );
    Some(())
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
    let ([start], [end], [axis]) = (a.ints("starts"), a.ints("ends"), a.ints("axes")) else {
        return None;
    };
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
        let extent = usize::try_from(axis)
            .ok()
            .and_then(|a| graph.shape(source).get(a))
            .map_or(-1, |&d| d as i64);
        let whole = pieces.first().is_some_and(|c| c.start == 0)
            && pieces.last().is_some_and(|c| c.end == extent);
        if pieces.len() < 2 || !whole || pieces.windows(2).any(|w| w[0].end != w[1].start) {
            continue;
        }
        let sizes: Vec<i64> = pieces.iter().map(|c| c.end - c.start).collect();
        let name = graph.node(pieces[0].node).map(|n| n.name.clone()).unwrap_or_default();
        let outputs: Vec<ValueId> =
            pieces.iter().filter_map(|c| graph.remove(c.node)?.outputs.first().copied()).collect();
        graph.add(
            &name,
            OpKind::Split,
            Attributes::new().with_int("axis", axis).with_ints("split", sizes),
            vec![source],
            outputs,
        );
    }
}

/// The plugin's kernel that mixes groups of channels.
pub(super) const SHUFFLE: &str = "ShuffleChannels";

/// `Reshape [N, g, C / g, H, W]`, `Transpose` of the two in the middle, `Reshape` back.
pub(super) fn shuffles(graph: &mut Rewriter) {
    for index in graph.order() {
        shuffle(graph, index);
    }
}

fn shuffle(graph: &mut Rewriter, transpose: NodeIndex) -> Option<()> {
    let node = graph.node(transpose).filter(|n| n.op.kind == OpKind::Transpose)?;
    let (name, perm) = (node.name.clone(), node.op.attributes.ints("perm"));
    if perm.get(..3) != Some(&[0, 2, 1])
        || !perm.iter().skip(3).enumerate().all(|(i, &p)| p == i as i64 + 3)
    {
        return None;
    }
    let (split, mixed) = graph.ends(transpose)?;
    let before = graph
        .producer_of(split, &OpKind::Reshape)
        .filter(|_| graph.only_consumer(split).is_some())?;
    let after = graph.only_consumer(mixed).filter(|&i| graph.is(i, &OpKind::Reshape))?;
    let (x, output) = (graph.ends(before)?.0, graph.ends(after)?.1);
    let (shape, groups) = (graph.shape(x), graph.shape(split));
    let fits = shape.len() + 1 == groups.len()
        && shape.len() > 2
        && shape[0] == groups[0]
        && shape[2..] == groups[3..]
        && graph.shape(output) == shape;
    let attributes = Attributes::new().with_int("groups", *groups.get(1)? as i64);
    fits.then(|| {
        graph.fuse(&name, OpKind::Unsupported(SHUFFLE.to_owned()), attributes, vec![x], output)
    })?
    .map(|_| ())
}

/// Equal convolutions of equal parts of the channels, joined again in order, are one convolution of
/// as many groups.
pub(super) fn group_convolutions(graph: &mut Rewriter) {
    for index in graph.order() {
        if graph.is(index, &OpKind::Split) {
            group(graph, index);
        }
    }
}

fn group(graph: &mut Rewriter, split: NodeIndex) -> Option<()> {
    let node = graph.node(split)?.clone();
    let x = *node.inputs.first()?;
    let convs: Vec<NodeIndex> = node
        .outputs
        .iter()
        .map(|&v| graph.only_consumer(v).filter(|&i| graph.is(i, &OpKind::Conv)))
        .collect::<Option<_>>()?;
    let first = graph.node(*convs.first()?)?.clone();
    let joined: Vec<ValueId> =
        convs.iter().map(|&c| graph.ends(c).map(|(_, y)| y)).collect::<Option<_>>()?;
    let concat = graph.only_consumer(*joined.first()?).filter(|&i| graph.is(i, &OpKind::Concat))?;
    let same_window = |&c: &NodeIndex| {
        graph.node(c).is_some_and(|n| {
            n.op == first.op && n.inputs.len() == 2 && graph.is_constant(n.inputs[1])
        })
    };
    let in_order = graph.node(concat)?.inputs == joined
        && graph.node(concat)?.op.attributes.int("axis") == Some(1);
    let groups = first.op.attributes.int("group").unwrap_or(1);
    if node.op.attributes.int("axis") != Some(1)
        || !convs.iter().all(same_window)
        || !in_order
        || groups != 1
        || joined.iter().any(|&v| graph.only_consumer(v).is_none())
    {
        return None;
    }
    let (name, output) = (first.name.clone(), graph.ends(concat)?.1);
    let mut weight = graph.shape(first.inputs[1]).to_vec();
    *weight.first_mut()? *= convs.len();
    let weight = graph.constant("weight", TensorSpec::f32(weight), None);
    let attributes = first.op.attributes.with_int("group", convs.len() as i64);
    graph.fuse(&name, OpKind::Conv, attributes, vec![x, weight], output).map(|_| ())
}

/// An Einsum that is a batched product of matrices is one.
pub(super) fn einsums(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(equation) = graph
            .node(index)
            .filter(|n| n.op.kind == OpKind::Einsum)
            .and_then(|n| n.op.attributes.text("equation"))
        else {
            continue;
        };
        if let Some(turned) = as_product(equation) {
            let attributes = if turned {
                Attributes::new().with("trans_b", Attribute::Int(1))
            } else {
                Attributes::new()
            };
            graph.change(index, OpKind::MatMul, attributes);
        }
    }
}

/// Whether `bik,bkj->bij` (false) or `bik,bjk->bij` (true), with any number of leading dimensions
/// that all three share.
fn as_product(equation: &str) -> Option<bool> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = equation.split_once("->")?;
    let (a, b) = inputs.split_once(',')?;
    let [a, b, o] = [a, b, output].map(|s| s.chars().collect::<Vec<_>>());
    let n = a.len();
    if n < 3
        || b.len() != n
        || o.len() != n
        || a[..n - 2] != b[..n - 2]
        || a[..n - 2] != o[..n - 2]
        || a[n - 2] != o[n - 2]
    {
        return None;
    }
    match (b[n - 2], b[n - 1]) {
        (k, j) if k == a[n - 1] && j == o[n - 1] => Some(false),
        (j, k) if k == a[n - 1] && j == o[n - 1] => Some(true),
        _ => None,
    }
}
