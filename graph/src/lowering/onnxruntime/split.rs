//! Merges gathers and slices that together cover a tensor into one split.

use super::reshape;
use crate::{
    Attributes, OpKind, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::HashSet;

/// One part of a tensor along one axis.
#[derive(Clone, Copy, Debug)]
struct Part {
    node: NodeIndex,
    axis: usize,
    start: i64,
    end: i64,
    /// Whether the axis goes away (a gather of one index).
    drops_axis: bool,
}

/// Replaces gathers and slices of the same value by a split where they cover one axis without
/// overlap. Whether anything changed.
pub(super) fn fuse_gathers(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    let mut values: Vec<ValueId> = Vec::new();
    let mut given: HashSet<ValueId> = HashSet::default();
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let shared = |v: &&ValueId| graph.consumers(**v).len() > 1;
        for value in node.inputs.iter().filter(shared) {
            if graph.producer(*value).is_none() && given.insert(*value) {
                values.push(*value);
            }
        }
        if let [output] = &node.outputs[..] {
            values.extend(Some(output).filter(shared));
        }
    }
    for value in values {
        changed |= fuse_parts_of(graph, value).is_some();
    }
    changed
}

fn part(graph: &Rewriter, index: NodeIndex, of: ValueId) -> Option<Part> {
    let node = graph.node(index)?;
    if node.inputs.first() != Some(&of) {
        return None;
    }
    let a = &node.op.attributes;
    match node.op.kind {
        OpKind::Gather => {
            let start = a.int("index")?;
            Some(Part {
                node: index,
                axis: usize::try_from(a.int("axis")?).ok()?,
                start,
                end: start + 1,
                drops_axis: true,
            })
        }
        OpKind::Slice => {
            match (a.ints("axes"), a.ints("starts"), a.ints("ends"), a.ints("steps")) {
                ([axis], [start], [end], [1]) => Some(Part {
                    node: index,
                    axis: usize::try_from(*axis).ok()?,
                    start: *start,
                    end: *end,
                    drops_axis: false,
                }),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Other readers of the value are left alone.
fn fuse_parts_of(graph: &mut Rewriter, value: ValueId) -> Option<()> {
    let tensor = graph.tensor(value)?.clone();
    let readers = graph.consumers(value).collect::<Vec<_>>();
    let mut parts: Vec<Part> = readers.iter().filter_map(|&i| part(graph, i, value)).collect();
    let axis = parts.first()?.axis;
    let extent = *tensor.shape.get(axis)? as i64;
    parts.sort_by_key(|p| p.start);
    let contiguous = parts.windows(2).all(|w| w[0].end == w[1].start && w[0].axis == w[1].axis);
    if parts.len() < 2 || !contiguous || parts[0].start != 0 || parts[parts.len() - 1].end != extent
    {
        return None;
    }
    let sizes: Vec<i64> = parts.iter().map(|p| p.end - p.start).collect();
    let mut outputs = Vec::with_capacity(parts.len());
    for (part, &size) in parts.iter().zip(&sizes) {
        let node = graph.remove(part.node)?;
        let output = *node.outputs.first()?;
        if !part.drops_axis {
            outputs.push(output);
            continue;
        }
        let mut shape = tensor.shape.clone();
        shape[axis] = size as usize;
        let piece = graph.value("piece", Some(TensorSpec { shape, ..tensor.clone() }));
        graph.add(
            &node.name,
            OpKind::Reshape,
            reshape::attributes("Squeeze", &[axis]),
            vec![piece],
            vec![output],
        );
        outputs.push(piece);
    }
    let attributes = Attributes::new().with_int("axis", axis as i64).with_ints("split", sizes);
    graph.add("split", OpKind::Split, attributes, vec![value], outputs);
    Some(())
}
