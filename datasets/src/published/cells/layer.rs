//! [`Layer`]: an operator of a cell, of one image.

use std::collections::BTreeMap;
use vitempo_graph::{Attributes, OpKind, OpSpec, Operand, TensorSpec};

/// Channels, rows and columns.
pub(super) type Shape = [usize; 3];

/// Its operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LayerKind {
    Convolution,
    AveragePool,
    GlobalAveragePool,
    Rectifier,
    BatchNorm,
    Add,
    /// An edge that is absent: its input times zero.
    Zero,
    ChannelShuffle,
    Classifier,
    Other(String),
}

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Layer {
    pub kind: LayerKind,
    pub input: Shape,
    pub output: Shape,
    pub kernel: usize,
    pub stride: usize,
    pub groups: usize,
}

impl Layer {
    /// One that keeps the shape and has no window.
    pub fn same(kind: LayerKind, shape: Shape) -> Self {
        Self { kind, input: shape, output: shape, kernel: 0, stride: 1, groups: 1 }
    }

    /// A convolution to so many channels.
    pub fn convolution(input: Shape, channels: usize, kernel: usize, stride: usize) -> Self {
        let [_, rows, columns] = input;
        let output = [channels, rows / stride, columns / stride];
        Self { kind: LayerKind::Convolution, input, output, kernel, stride, groups: 1 }
    }

    /// As an operator.
    pub fn spec(&self) -> OpSpec {
        let batched = |shape: Shape| [1, shape[0], shape[1], shape[2]];
        let computed =
            |shape: &[usize]| Operand { tensor: TensorSpec::f32(shape), constant: false };
        let weight = |shape: &[usize]| Operand { tensor: TensorSpec::f32(shape), constant: true };
        let square = |v: usize| [v as i64, v as i64];
        let windowed = || {
            Attributes::new()
                .with_ints("kernel_shape", square(self.kernel))
                .with_ints("strides", square(self.stride))
        };
        let ([inward, ..], [outward, ..]) = (self.input, self.output);
        let groups = self.groups.max(1);
        let (kind, attributes, more) = match &self.kind {
            LayerKind::Convolution => {
                let weights = weight(&[outward, inward / groups, self.kernel, self.kernel]);
                let attributes = windowed().with_int("group", groups as i64);
                (OpKind::Conv, attributes, vec![weights])
            }
            LayerKind::AveragePool => (OpKind::AveragePool, windowed(), Vec::new()),
            LayerKind::GlobalAveragePool => {
                (OpKind::GlobalAveragePool, Attributes::new(), Vec::new())
            }
            LayerKind::Rectifier => (OpKind::Relu, Attributes::new(), Vec::new()),
            LayerKind::BatchNorm => {
                (OpKind::BatchNorm, Attributes::new(), vec![weight(&[inward]); 4])
            }
            LayerKind::Add => {
                (OpKind::Add, Attributes::new(), vec![computed(&batched(self.input))])
            }
            LayerKind::Zero => (OpKind::Mul, Attributes::new(), vec![weight(&[1])]),
            LayerKind::ChannelShuffle => (OpKind::Transpose, Attributes::new(), Vec::new()),
            LayerKind::Classifier => {
                return OpSpec {
                    kind: OpKind::Linear,
                    attributes: Attributes::new(),
                    inputs: vec![computed(&[1, inward]), weight(&[inward, outward])],
                    outputs: vec![TensorSpec::f32([1, outward])],
                };
            }
            LayerKind::Other(name) => {
                (OpKind::Unsupported(name.clone()), Attributes::new(), Vec::new())
            }
        };
        let inputs = [vec![computed(&batched(self.input))], more].concat();
        let outputs = vec![TensorSpec::f32(batched(self.output))];
        OpSpec { kind, attributes, inputs, outputs }
    }
}

/// Distinct layers, each with its number.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub operators: Vec<OpSpec>,
    numbers: BTreeMap<Layer, usize>,
}

impl Layers {
    /// Numbers and counts of an architecture's layers.
    pub fn count(&mut self, layers: impl IntoIterator<Item = Layer>) -> Vec<(usize, f64)> {
        let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
        for layer in layers {
            *counts.entry(self.number(layer)).or_default() += 1.0;
        }
        counts.into_iter().collect()
    }

    fn number(&mut self, layer: Layer) -> usize {
        if let Some(number) = self.numbers.get(&layer) {
            return *number;
        }
        let number = self.operators.len();
        self.operators.push(layer.spec());
        self.numbers.insert(layer, number);
        number
    }
}
