//! [`weights`]: counts the weights of a model, and how many of them are 0.

use std::collections::BTreeSet;
#[cfg(feature = "profile")]
use vitempo_graph::Precision;
use vitempo_graph::{ConstantData, Graph, TensorSpec, Value, ValueId, ValueSource};

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
