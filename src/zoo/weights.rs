//! [`weights`]: counts the weights of a model, and how many of them are 0.

use std::collections::BTreeSet;
use vitempo_graph::{ConstantData, Graph, TensorSpec, Value, ValueId, ValueSource};
#[cfg(feature = "profile")]
use vitempo_graph::{OpKind, Precision, Work};

/// Constants that a model's nodes read, each once.
pub fn weights(graph: &Graph) -> impl Iterator<Item = (&TensorSpec, Option<&ConstantData>)> {
    let read: BTreeSet<ValueId> =
        graph.nodes().iter().flat_map(|node| node.inputs.iter().copied()).collect();
    read.into_iter().filter_map(move |id| match graph.value(id) {
        Value { tensor: Some(tensor), source: ValueSource::Constant(data), .. } => {
            Some((tensor, data.as_ref()))
        }
        _ => None,
    })
}

/// Number of values of kernels and matrices that are 0.
#[cfg(feature = "profile")]
pub(super) fn zeros(graph: &Graph) -> u64 {
    weights(graph)
        .filter(|(tensor, _)| is_matrix(tensor))
        .filter_map(|(_, data)| data)
        .map(zeros_of)
        .sum()
}

/// Weights and biases of a variant, without the scales of its integer products, which only a product
/// with the scale of a [`OpKind::DynamicQuantize`] distinguishes from factors that were trained.
#[cfg(feature = "profile")]
pub(super) fn parameters(graph: &Graph) -> u64 {
    let quantize = graph.nodes().iter().filter(|node| node.op.kind == OpKind::DynamicQuantize);
    let computed: BTreeSet<ValueId> =
        quantize.filter_map(|node| node.outputs.get(1).copied()).collect();
    let scaling = graph.nodes().iter().filter(|node| {
        node.op.kind == OpKind::Mul && node.inputs.iter().any(|id| computed.contains(id))
    });
    let read: BTreeSet<ValueId> = scaling.flat_map(|node| node.inputs.iter().copied()).collect();
    let constants = read.into_iter().filter_map(|id| match graph.value(id) {
        Value { tensor: Some(tensor), source: ValueSource::Constant(_), .. } => {
            Some(tensor.elements())
        }
        _ => None,
    });
    let scales: u64 = constants.fold(0, u64::saturating_add);
    Work::of_graph(graph).params.saturating_sub(scales)
}

/// Kernels and matrices, quantised or not.
#[cfg(feature = "profile")]
fn is_matrix(tensor: &TensorSpec) -> bool {
    tensor.rank() >= 2
        && (tensor.precision.is_float()
            || matches!(tensor.precision, Precision::I8 | Precision::U8))
}

#[cfg(feature = "profile")]
fn zeros_of(data: &ConstantData) -> u64 {
    let count = match data {
        ConstantData::Floats(v) => v.iter().filter(|v| **v == 0.0).count(),
        ConstantData::Ints(v) => v.iter().filter(|v| **v == 0).count(),
    };
    count as u64
}
