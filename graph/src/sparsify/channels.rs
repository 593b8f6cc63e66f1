//! Structured pruning: removes channels and features from every group of dimensions that can shrink
//! ([`super::dimensions`]), those with the smallest weights first. The measure is the squares of a
//! group's weights, in which all weight tensors count equally.
//!
//! An extent that is a multiple of [`UNIT`] remains one, because kernels are faster then. Hidden
//! features of MLPs and inner channels of bottlenecks shrink; dimensions that are split into
//! attention heads, normalised over, or passed to the next block through a kept tensor do not.

use super::{
    SparsifyError, check_share,
    dimensions::{Dimension, Dimensions},
    product_weights,
};
use crate::{
    Attribute, ConstantData, Graph, GraphError, Node, OpKind, Value, ValueId, ValueSource, shape,
};
use std::collections::{BTreeMap, BTreeSet};

/// Extents that are multiples of this stay multiples of it.
const UNIT: usize = 8;

/// The graph with this share of the entries of every group taken out, rounded to whole `UNIT`s
/// where it has any. Tensors named in `keep` keep their shapes: name those at which variants are to
/// be cut.
///
/// # Errors
/// [`SparsifyError`] for an invalid share, an unknown tensor, and models in which nothing can
/// shrink.
pub fn structured(graph: &Graph, share: f64, keep: &[&str]) -> Result<Graph, SparsifyError> {
    check_share(share)?;
    let kept: Vec<ValueId> =
        keep.iter().map(|name| named(graph, name)).collect::<Result<_, _>>()?;
    let dimensions = Dimensions::of(graph, &kept);
    let mut chosen: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (group, weights) in groups(graph, &dimensions) {
        let extent = weights.first().map_or(0, |&dimension| dimensions.extent(dimension));
        let count = remaining(extent, share);
        if count < extent {
            chosen.insert(group, heaviest(graph, &weights, extent, count));
        }
    }
    if chosen.is_empty() {
        return Err(SparsifyError::Nothing {
            model: graph.name().to_owned(),
            reason: "no channels or features inside it can be taken out",
        });
    }
    rebuild(graph, &dimensions, &chosen)
}

fn named(graph: &Graph, name: &str) -> Result<ValueId, SparsifyError> {
    let found =
        graph.values().iter().position(|value| value.name == name && value.tensor.is_some());
    found.map(|index| ValueId(index as u32)).ok_or_else(|| SparsifyError::NoTensor {
        model: graph.name().to_owned(),
        tensor: name.to_owned(),
    })
}

/// Groups that can shrink and that weights of products belong to, with these.
fn groups(graph: &Graph, dimensions: &Dimensions<'_>) -> BTreeMap<usize, Vec<Dimension>> {
    let mut groups: BTreeMap<usize, Vec<Dimension>> = BTreeMap::new();
    for weight in product_weights(graph) {
        for axis in 0..dimensions.rank(weight) {
            if let Some(group) = dimensions.group((weight, axis)) {
                groups.entry(group).or_default().push((weight, axis));
            }
        }
    }
    groups
}

/// How many of `extent` entries remain.
fn remaining(extent: usize, share: f64) -> usize {
    let unit = if extent.is_multiple_of(UNIT) { UNIT } else { 1 };
    let units = extent / unit;
    unit * (((units as f64) * (1.0 - share)).round() as usize).clamp(usize::from(units > 0), units)
}

/// The entries with the largest weights, in their order; the first ones where values are missing.
fn heaviest(graph: &Graph, weights: &[Dimension], extent: usize, count: usize) -> Vec<usize> {
    let mut importance = vec![0.0; extent];
    for &(id, axis) in weights {
        let value = graph.value(id);
        let (ValueSource::Constant(Some(ConstantData::Floats(floats))), Some(tensor)) =
            (&value.source, &value.tensor)
        else {
            continue;
        };
        let total: f64 = floats.iter().map(|v| v * v).sum();
        let inner: usize = tensor.shape.iter().skip(axis + 1).product();
        for (index, float) in floats.iter().enumerate() {
            importance[index / inner.max(1) % extent] +=
                float * float / total.max(f64::MIN_POSITIVE);
        }
    }
    let mut order: Vec<usize> = (0..extent).collect();
    order.sort_by(|&a, &b| importance[b].total_cmp(&importance[a]).then(a.cmp(&b)));
    order.truncate(count);
    order.sort_unstable();
    order
}

/// The graph with only the chosen entries of each group.
fn rebuild(
    graph: &Graph,
    dimensions: &Dimensions<'_>,
    chosen: &BTreeMap<usize, Vec<usize>>,
) -> Result<Graph, SparsifyError> {
    let mut changed: BTreeSet<ValueId> = BTreeSet::new();
    let mut values: Vec<Value> = graph.values().to_vec();
    for (index, value) in values.iter_mut().enumerate() {
        let id = ValueId(index as u32);
        for axis in 0..dimensions.rank(id) {
            let entries = dimensions.group((id, axis)).and_then(|group| chosen.get(&group));
            if let Some(entries) = entries {
                take(value, axis, entries);
                changed.insert(id);
            }
        }
    }
    let node = |node: &Node| -> Result<Node, GraphError> {
        if !node.inputs.iter().chain(&node.outputs).any(|id| changed.contains(id)) {
            return Ok(node.clone());
        }
        shrunk(node, &values)
    };
    let nodes = graph.nodes().iter().map(node).collect::<Result<_, _>>()?;
    Ok(Graph::new(graph.name(), values, nodes, graph.inputs().to_vec(), graph.outputs().to_vec())?)
}

/// Keeps some entries of one dimension.
fn take(value: &mut Value, axis: usize, entries: &[usize]) {
    let Some(tensor) = &mut value.tensor else { return };
    let (extent, inner) =
        (tensor.shape[axis], tensor.shape.iter().skip(axis + 1).product::<usize>());
    if let ValueSource::Constant(Some(data)) = &mut value.source {
        match data {
            ConstantData::Floats(v) => *v = taken(v, extent, inner, entries),
            ConstantData::Ints(v) => *v = taken(v, extent, inner, entries),
        }
    }
    tensor.shape[axis] = entries.len();
}

fn taken<T: Copy>(data: &[T], extent: usize, inner: usize, entries: &[usize]) -> Vec<T> {
    let rows = data.chunks_exact((extent * inner).max(1));
    rows.flat_map(|row| {
        entries.iter().flat_map(move |&entry| &row[entry * inner..(entry + 1) * inner])
    })
    .copied()
    .collect()
}

/// An operator on tensors that shrank, with attributes that count their extents brought in line.
fn shrunk(node: &Node, values: &[Value]) -> Result<Node, GraphError> {
    let tensor =
        |id: Option<&ValueId>| id.and_then(|id| values.get(id.0 as usize)?.tensor.as_ref());
    let mut attributes = node.op.attributes.clone();
    match node.op.kind {
        // Only of depthwise convolutions do channels change that are counted here.
        OpKind::Conv if attributes.int("group").is_some_and(|group| group > 1) => {
            let channels =
                tensor(node.inputs.first()).and_then(|t| t.shape.get(1)).copied().unwrap_or(1);
            attributes.set("group", Attribute::Int(channels as i64));
        }
        OpKind::Reshape => {
            let shape: Vec<i64> = tensor(node.outputs.first())
                .map_or(&[][..], |t| t.shape.as_slice())
                .iter()
                .map(|&extent| extent as i64)
                .collect();
            attributes.set("shape", Attribute::Ints(shape.into()));
        }
        _ => {}
    }
    let (inputs, outputs) = (node.inputs.clone(), node.outputs.clone());
    let node = Node {
        written: node.written,
        ..Node::new(node.name.clone(), node.op.kind.clone(), attributes, values, inputs, outputs)
    };
    check(&node).map_err(|reason| GraphError::Node { node: node.name.clone(), reason })?;
    Ok(node)
}

/// Whether the operator's inputs give its stored output.
fn check(node: &Node) -> Result<(), String> {
    let found = shape::infer(&node.op.kind, &node.op.attributes, &node.op.inputs)?;
    let differs =
        found.iter().zip(&node.op.outputs).find(|(found, said)| found.shape != said.shape);
    differs.map_or(Ok(()), |(found, said)| Err(format!("its result is {found} instead of {said}")))
}
