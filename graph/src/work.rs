//! [`Work`]: FLOPs, bytes and parameters of operators and graphs. No other file counts them.
//!
//! MACs are those of convolutions, matrix products, Einsum and attention (`macs`). FLOPs are two
//! per MAC plus a fixed number per element for everything else (`elementwise`); movement of data
//! counts as none. Every sum and product saturates: absurd shapes give `u64::MAX`, never a panic.

mod elementwise;
mod macs;

use crate::{Graph, OpKind, OpSpec, Precision, TensorSpec, Value, ValueId, ValueSource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::iter::Sum;

/// The work of an operator or a graph, independent of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Multiply-accumulates of convolutions and matrix products.
    pub macs: u64,
    /// Floating-point operations: two per MAC, and those of all other operators.
    pub flops: u64,
    /// Bytes read: every input once, weights included; of the operands of Slice and Gather, only
    /// the selected elements. Reshape and Identity read nothing.
    pub bytes_read: u64,
    /// Bytes written: every output once. Reshape and Identity write nothing.
    pub bytes_written: u64,
    /// Elements of weights: floating-point constants, and quantised ones; scales and zero points
    /// are none.
    pub params: u64,
}

impl Work {
    /// FLOPs per byte moved; 0 when nothing moves.
    #[must_use]
    pub fn arithmetic_intensity(&self) -> f64 {
        match self.bytes_read.saturating_add(self.bytes_written) {
            0 => 0.0,
            bytes => self.flops as f64 / bytes as f64,
        }
    }

    /// The work of one operator. Of an unsupported one: the bytes of its known tensors, and no
    /// FLOPs.
    #[must_use]
    pub fn of_operator(op: &OpSpec) -> Self {
        let macs = macs::macs(op);
        let flops = macs.saturating_mul(2).saturating_add(elementwise::flops(op));
        let weights = op
            .inputs
            .iter()
            .enumerate()
            .filter(|(index, w)| w.constant && is_parameter(&op.kind, *index, &w.tensor));
        let params = total(weights.map(|(_, w)| w.tensor.elements()));
        let (bytes_read, bytes_written) = bytes(op);
        Self { macs, flops, bytes_read, bytes_written, params }
    }

    /// The work of a graph: the sum over its operators; a weight read by several counts once as
    /// parameters. So does one that the file reads as it is and through Identity, Transpose or
    /// Reshape (tied weights): these are the same trained numbers. This holds for a graph as it was
    /// read; one that was made of another (kernels of an engine, a quantised model) counts each
    /// constant that it has, as an engine does that folds a Transpose of a weight into a copy.
    #[must_use]
    pub fn of_graph(graph: &Graph) -> Self {
        let sum: Self = graph.nodes().iter().map(|node| Self::of_operator(&node.op)).sum();
        Self { params: total(weights(graph).into_values().map(TensorSpec::elements)), ..sum }
    }
}

/// The least that a graph's weights take in memory when a framework computes in `precision`, bytes:
/// each weight in that precision or in its own, whichever is narrower. Tied weights count once, as
/// for engines that keep views of them.
pub(crate) fn weights_bytes(graph: &Graph, precision: Precision) -> u64 {
    let widest = precision.size_bytes();
    let size = |weight: &TensorSpec| {
        weight.elements().saturating_mul(weight.precision.size_bytes().min(widest) as u64)
    };
    total(weights(graph).into_values().map(size))
}

/// The weights of a graph, each once, also where others are copies of them.
fn weights(graph: &Graph) -> BTreeMap<ValueId, &TensorSpec> {
    let mut weights = BTreeMap::new();
    for node in graph.nodes() {
        for (index, id) in node.inputs.iter().enumerate() {
            if let Value { tensor: Some(tensor), source: ValueSource::Constant(_), .. } =
                graph.value(*id)
                && is_parameter(&node.op.kind, index, tensor)
            {
                weights.insert(graph.original(*id), tensor);
            }
        }
    }
    weights
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Self>>(works: I) -> Self {
        works.fold(Self::default(), |a, b| Self {
            macs: a.macs.saturating_add(b.macs),
            flops: a.flops.saturating_add(b.flops),
            bytes_read: a.bytes_read.saturating_add(b.bytes_read),
            bytes_written: a.bytes_written.saturating_add(b.bytes_written),
            params: a.params.saturating_add(b.params),
        })
    }
}

/// Whether the constant input `index` is a trained parameter.
fn is_parameter(kind: &OpKind, index: usize, tensor: &TensorSpec) -> bool {
    match kind {
        OpKind::Quantize | OpKind::Dequantize => index == 0,
        // A form that the reader does not follow.
        OpKind::Unsupported(name) if name == "DequantizeLinear" => index == 0,
        kind => {
            tensor.precision.is_float()
                || (kind.is_product() && matches!(index, 1 | 2) && tensor.elements() > 1)
        }
    }
}

/// Bytes read and written.
fn bytes(op: &OpSpec) -> (u64, u64) {
    let written = total(op.outputs.iter().map(TensorSpec::size_bytes));
    let inputs = |skip: usize| total(op.inputs.iter().skip(skip).map(|i| i.tensor.size_bytes()));
    match op.kind {
        OpKind::Reshape | OpKind::Identity => (0, 0),
        OpKind::Shape => (0, written),
        OpKind::Slice | OpKind::Gather | OpKind::GatherNd | OpKind::GatherElements => {
            let data = op.inputs.first().map_or(0, |i| i.tensor.size_bytes());
            (data.min(written).saturating_add(inputs(1)), written)
        }
        _ => (inputs(0), written),
    }
}

/// A sum that saturates.
fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, GraphBuilder, Operand};

    fn op(kind: OpKind, inputs: &[(&[usize], bool)], output: &[usize]) -> OpSpec {
        let inputs = inputs
            .iter()
            .map(|&(shape, constant)| Operand { tensor: TensorSpec::f32(shape), constant })
            .collect();
        OpSpec {
            kind,
            attributes: Attributes::new(),
            inputs,
            outputs: vec![TensorSpec::f32(output)],
        }
    }

    #[test]
    fn bytes_and_parameters() {
        // (operator, bytes read, bytes written, parameters)
        let cases = [
            (
                op(OpKind::Linear, &[(&[4, 8], false), (&[8, 16], true), (&[16], true)], &[4, 16]),
                4 * (32 + 128 + 16),
                256,
                144,
            ),
            (op(OpKind::Add, &[(&[2, 3], false), (&[3], true)], &[2, 3]), 36, 24, 3),
            (op(OpKind::Reshape, &[(&[2, 3], false)], &[6]), 0, 0, 0),
            (op(OpKind::Identity, &[(&[2, 3], false)], &[2, 3]), 0, 0, 0),
            (op(OpKind::Slice, &[(&[100, 3], false)], &[2, 3]), 24, 24, 0),
            (op(OpKind::Transpose, &[(&[2, 3], false)], &[3, 2]), 24, 24, 0),
            (op(OpKind::Unsupported("Foo".into()), &[(&[2, 3], false)], &[3, 2]), 24, 24, 0),
        ];
        for (op, read, written, params) in cases {
            let work = Work::of_operator(&op);
            assert_eq!(
                (work.bytes_read, work.bytes_written, work.params),
                (read, written, params),
                "{}",
                op.kind
            );
        }
    }

    #[test]
    fn integer_constants_are_no_parameters() {
        let mut gather = op(OpKind::Gather, &[(&[10, 3], true), (&[2], true)], &[2, 3]);
        gather.inputs[1].tensor.precision = Precision::I64;
        let work = Work::of_operator(&gather);
        assert_eq!((work.params, work.bytes_read), (30, 24 + 16));
    }

    #[test]
    fn absurd_shapes_saturate() {
        let huge: &[usize] = &[usize::MAX, usize::MAX, 3, 3];
        for kind in OpKind::ALL {
            let work = Work::of_operator(&op(
                kind.clone(),
                &[(huge, false), (huge, true), (huge, true)],
                huge,
            ));
            assert!(
                work.bytes_written == u64::MAX
                    || matches!(kind, OpKind::Reshape | OpKind::Identity),
                "{kind}"
            );
            let _ = Work::of_operator(&op(kind.clone(), &[], &[]));
            let _ = Work::of_operator(&op(kind.clone(), &[(&[], false)], &[]));
            assert!(work.arithmetic_intensity().is_finite());
        }
    }

    #[test]
    fn a_shared_weight_counts_once() {
        let mut values = GraphBuilder::new("shared");
        let x = values.input("x", TensorSpec::f32([2, 8]));
        let weight = values.weight("w", TensorSpec::f32([8]));
        let _unread = values.weight("unread", TensorSpec::f32([100]));
        let Ok(once) = values.binary("once", OpKind::Mul, x, weight) else {
            panic!("Mul broadcasts")
        };
        let Ok(twice) = values.binary("twice", OpKind::Mul, once, weight) else {
            panic!("Mul broadcasts")
        };
        let Ok(graph) = values.finish(vec![twice]) else { panic!("a chain is a graph") };
        let work = Work::of_graph(&graph);
        assert_eq!(
            work,
            Work {
                macs: 0,
                flops: 32,
                bytes_read: 2 * (64 + 32),
                bytes_written: 2 * 64,
                params: 8
            }
        );
    }
}
