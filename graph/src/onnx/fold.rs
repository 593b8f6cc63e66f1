//! Constant folding: evaluates operators whose inputs are all constants, as far as shapes depend on
//! them.
//!
//! Operators that are not evaluated here, or whose results are too large, fold to a constant of
//! known shape without values.

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

/// What evaluating an operator costs, before it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FoldWork {
    /// Elements read and written.
    pub steps: u64,
    /// Bytes of the outputs and of temporary arrays.
    pub bytes: u64,
}

/// The cost of evaluating an operator; `None` where it is beyond what is folded. An empty dimension
/// counts as one element: loops over the others still run.
pub(super) fn work(
    kind: &OpKind,
    inputs: &[Known<'_>],
    outputs: &[TensorSpec],
    limits: Limits,
) -> Option<FoldWork> {
    if outputs.iter().all(|o| o.elements() == 0) {
        return Some(FoldWork::default());
    }
    let extent =
        |t: &TensorSpec| t.shape.iter().fold(1u64, |n, &d| n.saturating_mul(d.max(1) as u64));
    let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0u64, u64::saturating_add);
    let written = sum(&mut outputs.iter().map(extent));
    let read = sum(&mut inputs.iter().map(|known| extent(known.tensor)));
    let each = terms(kind, inputs);
    let between = match (kind, inputs.first(), outputs.first()) {
        (OpKind::Resize, Some(x), Some(y)) => resizing(&x.tensor.shape, &y.shape),
        _ => FoldWork::default(),
    };
    let steps = written
        .saturating_mul((inputs.len() as u64).max(each))
        .saturating_add(read)
        .saturating_add(between.steps);
    let bytes = written.saturating_mul(ELEMENT_BYTES).saturating_add(between.bytes);
    let too_large = outputs.iter().any(|o| o.elements() > limits.elements);
    (!too_large && steps <= limits.work).then_some(FoldWork { steps, bytes })
}

/// Of values in the making: f64.
const ELEMENT_BYTES: u64 = 8;

/// Products that one element of the output is the sum of.
fn terms(kind: &OpKind, inputs: &[Known<'_>]) -> u64 {
    let extent = |dimension: Option<&usize>| dimension.map_or(1, |&d| d as u64);
    let shape = inputs.first().map(|x| &x.tensor.shape);
    match (kind, shape) {
        (OpKind::Linear | OpKind::MatMul, Some(shape)) => extent(shape.last()),
        (OpKind::Conv, Some(shape)) => extent(shape.get(1)),
        _ => 1,
    }
}

/// A resize is one product with a matrix per dimension, one after the other: the tensor between two
/// of them can be larger than both ends.
fn resizing(from: &[usize], to: &[usize]) -> FoldWork {
    let product = |shape: &[u64]| shape.iter().fold(1, |n: u64, &d| n.saturating_mul(d.max(1)));
    let mut now: Vec<u64> = from.iter().map(|&d| d as u64).collect();
    let mut work = FoldWork::default();
    for (d, &to) in to.iter().enumerate() {
        let Some(from) = now.get(d).copied().filter(|&from| from != to as u64) else { continue };
        let matrix = from.saturating_mul(to as u64);
        now[d] = to as u64;
        let made = product(&now);
        work.steps = work.steps.saturating_add(made.saturating_mul(from)).saturating_add(matrix);
        work.bytes =
            work.bytes.saturating_add(made.saturating_add(matrix).saturating_mul(ELEMENT_BYTES));
    }
    work
}

/// The values of all outputs; `None` if they are not computed here. Attributes are canonical.
/// [`work`] gives the cost beforehand.
pub(super) fn evaluate(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Known<'_>],
    outputs: &[TensorSpec],
) -> Option<Vec<ConstantData>> {
    let first = *inputs.first()?;
    let output = outputs.first()?;
    if outputs.iter().all(|o| o.elements() == 0) {
        return Some(outputs.iter().map(empty).collect());
    }
    if *kind == OpKind::Resize && first.tensor.elements() == 0 {
        return None;
    }
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

/// No values of a tensor's element type.
fn empty(tensor: &TensorSpec) -> ConstantData {
    if tensor.precision.is_float() {
        ConstantData::Floats(Vec::new())
    } else {
        ConstantData::Ints(Vec::new())
    }
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

/// Strides of a tensor of shape `from`, broadcast to an output of shape `to`.
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
