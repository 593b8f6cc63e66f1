//! Folding: values of operators whose inputs are all constants, as far as shapes are computed from
//! them.
//!
//! What is not evaluated here, or is too large, still folds to a constant of known shape without
//! values.

mod arithmetic;
mod movement;
mod normalization;

use super::payload::{Limits, length};
use crate::{Attributes, ConstantData, OpKind, TensorSpec};

/// One constant input: its tensor and its values.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub tensor: &'a TensorSpec,
    pub data: &'a ConstantData,
}

/// The values of all outputs; `None` when they are too many or not computed here. Attributes are
/// canonical.
pub(super) fn evaluate(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Known<'_>],
    outputs: &[TensorSpec],
    limits: Limits,
) -> Option<Vec<ConstantData>> {
    let work = outputs
        .iter()
        .fold(0u64, |n, o| n.saturating_add(o.elements()))
        .saturating_mul(inputs.len() as u64);
    if outputs.iter().any(|o| o.elements() > limits.elements) || work > limits.work {
        return None;
    }
    let first = *inputs.first()?;
    let output = outputs.first()?;
    let data = match kind {
        OpKind::Identity | OpKind::Reshape => vec![first.data.clone()],
        OpKind::Split => movement::split(a, first, outputs)?,
        OpKind::Transpose
        | OpKind::Slice
        | OpKind::Expand
        | OpKind::Tile
        | OpKind::Gather
        | OpKind::GatherNd
        | OpKind::ScatterNd
        | OpKind::Concat => {
            vec![movement::evaluate(kind, a, inputs, output)?]
        }
        OpKind::BatchNorm
        | OpKind::Softmax
        | OpKind::Resize
        | OpKind::Linear
        | OpKind::MatMul
        | OpKind::Conv
        | OpKind::CumSum => {
            vec![normalization::evaluate(kind, a, inputs, output)?]
        }
        _ => vec![arithmetic::evaluate(kind, a, inputs, output)?],
    };
    let fits = data.iter().zip(outputs).all(|(d, o)| length(d) as u64 == o.elements());
    (fits && data.len() == outputs.len()).then_some(data)
}

/// For each element of an output of `shape`, in order, where it is in the input: `offset` +
/// coordinates x `strides`.
fn offsets(shape: &[usize], strides: &[i64], offset: i64) -> Option<Vec<usize>> {
    let count: usize = shape.iter().product();
    let mut at = vec![0usize; shape.len()];
    let mut position = offset;
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(usize::try_from(position).ok()?);
        for i in (0..shape.len()).rev() {
            at[i] += 1;
            position += strides[i];
            if at[i] < shape[i] {
                break;
            }
            position -= strides[i] * shape[i] as i64;
            at[i] = 0;
        }
    }
    Some(all)
}

/// Distance between neighbours along each dimension of a row-major tensor.
fn strides(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i].max(1) as i64);
    }
    strides
}

/// Strides of a tensor of `from` as seen by an output of shape `to` that it is broadcast to.
fn broadcast_strides(from: &[usize], to: &[usize]) -> Option<Vec<i64>> {
    let missing = to.len().checked_sub(from.len())?;
    let own = strides(from).into_iter().zip(from).map(|(s, &d)| if d == 1 { 0 } else { s });
    Some(std::iter::repeat_n(0, missing).chain(own).collect())
}

/// The elements at these places.
fn pick(data: &ConstantData, places: &[usize]) -> Option<ConstantData> {
    Some(match data {
        ConstantData::Ints(v) => {
            ConstantData::Ints(places.iter().map(|&i| v.get(i).copied()).collect::<Option<_>>()?)
        }
        ConstantData::Floats(v) => {
            ConstantData::Floats(places.iter().map(|&i| v.get(i).copied()).collect::<Option<_>>()?)
        }
    })
}
