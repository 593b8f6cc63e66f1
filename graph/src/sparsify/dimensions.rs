//! [`Dimensions`]: the dimensions of tensors that shrink together, and those that cannot shrink.
//!
//! An output channel of a convolution is a channel of every elementwise result behind it, an entry
//! of the biases added to it, and an input channel of the next convolutions. Dimensions that an
//! operator passes through are joined; those that it mixes, reorders or counts are fixed, and with
//! them all dimensions that they are joined to. Everything else is fixed too: an unknown operator
//! may prevent pruning, but never makes a wrong model.

use crate::{Graph, Node, OpKind, ValueId};

/// One dimension of one tensor.
pub(super) type Dimension = (ValueId, usize);

/// Dimensions of all tensors of a graph, in groups.
pub(super) struct Dimensions<'a> {
    graph: &'a Graph,
    /// Index of each tensor's first dimension.
    first: Vec<usize>,
    parent: Vec<usize>,
    fixed: Vec<bool>,
}

impl<'a> Dimensions<'a> {
    /// Of a graph whose inputs, results and `kept` tensors keep their shapes.
    pub(super) fn of(graph: &'a Graph, kept: &[ValueId]) -> Self {
        let mut first = Vec::with_capacity(graph.values().len());
        let mut count = 0;
        for value in graph.values() {
            first.push(count);
            count += value.tensor.as_ref().map_or(0, |t| t.rank());
        }
        let mut dimensions =
            Self { graph, first, parent: (0..count).collect(), fixed: vec![false; count] };
        graph
            .inputs()
            .iter()
            .chain(graph.outputs())
            .chain(kept)
            .for_each(|&id| dimensions.fix_from(id, 0));
        graph.nodes().iter().for_each(|node| dimensions.node(node));
        dimensions
    }

    /// The group of a dimension; `None` where it cannot shrink.
    pub(super) fn group(&self, (id, axis): Dimension) -> Option<usize> {
        let root = self.root(self.first[id.0 as usize] + axis);
        (!self.fixed[root]).then_some(root)
    }

    /// How large a dimension is now.
    pub(super) fn extent(&self, (id, axis): Dimension) -> usize {
        self.shape(id).get(axis).copied().unwrap_or(0)
    }

    pub(super) fn rank(&self, id: ValueId) -> usize {
        self.shape(id).len()
    }

    fn shape(&self, id: ValueId) -> &'a [usize] {
        self.graph.value(id).tensor.as_ref().map_or(&[], |t| &t.shape)
    }

    fn root(&self, mut index: usize) -> usize {
        while self.parent[index] != index {
            index = self.parent[index];
        }
        index
    }

    /// Joins two dimensions, if both exist; broadcast dimensions differ, and are fixed.
    fn join(&mut self, a: Dimension, b: Dimension) {
        if self.rank(a.0) <= a.1 || self.rank(b.0) <= b.1 || self.extent(a) != self.extent(b) {
            self.fix(a);
            self.fix(b);
            return;
        }
        let (a, b) = (
            self.root(self.first[a.0.0 as usize] + a.1),
            self.root(self.first[b.0.0 as usize] + b.1),
        );
        let (kept, joined) = (a.min(b), a.max(b));
        self.parent[joined] = kept;
        self.fixed[kept] |= self.fixed[joined];
    }

    fn fix(&mut self, (id, axis): Dimension) {
        if axis < self.rank(id) {
            let root = self.root(self.first[id.0 as usize] + axis);
            self.fixed[root] = true;
        }
    }

    fn fix_from(&mut self, id: ValueId, axis: usize) {
        (axis..self.rank(id)).for_each(|axis| self.fix((id, axis)));
    }

    fn fix_all(&mut self, node: &Node) {
        node.inputs.iter().chain(&node.outputs).for_each(|&id| self.fix_from(id, 0));
    }

    /// Every dimension of `y` but some is the same one of `x`; those are fixed.
    fn carry(&mut self, x: ValueId, y: ValueId, but: impl Fn(usize) -> bool) {
        for axis in 0..self.rank(x).max(self.rank(y)) {
            if but(axis) {
                self.fix((x, axis));
                self.fix((y, axis));
            } else {
                self.join((x, axis), (y, axis));
            }
        }
    }

    fn node(&mut self, node: &Node) {
        let known = node
            .inputs
            .iter()
            .chain(&node.outputs)
            .all(|&id| self.graph.value(id).tensor.is_some());
        let (Some(&x), Some(&y), true) = (node.inputs.first(), node.outputs.first(), known) else {
            return self.fix_all(node);
        };
        let a = &node.op.attributes;
        let axis = a.int("axis").and_then(|axis| usize::try_from(axis).ok());
        match node.op.kind {
            OpKind::Conv => self.convolution(node, x, y),
            OpKind::Linear => self.linear(node, x, y),
            OpKind::MaxPool
            | OpKind::AveragePool
            | OpKind::GlobalAveragePool
            | OpKind::GlobalMaxPool => self.carry(x, y, |axis| axis > 1),
            OpKind::BatchNorm => {
                self.carry(x, y, |_| false);
                node.inputs.iter().skip(1).for_each(|&id| self.join((id, 0), (x, 1)));
            }
            OpKind::LayerNorm | OpKind::RmsNorm => {
                let from = axis.unwrap_or(0);
                self.carry(x, y, |axis| axis >= from);
                node.inputs.iter().skip(1).for_each(|&id| self.fix_from(id, 0));
            }
            OpKind::Softmax => self.carry(x, y, |i| {
                axis.is_none_or(
                    |axis| if a.int("coerce").is_some() { i >= axis } else { i == axis },
                )
            }),
            OpKind::Concat | OpKind::Split => {
                for &input in &node.inputs {
                    node.outputs.iter().for_each(|&output| {
                        self.carry(input, output, |i| axis.is_none_or(|axis| i == axis));
                    });
                }
            }
            OpKind::ReduceMean
            | OpKind::ReduceSum
            | OpKind::ReduceMax
            | OpKind::ReduceMin
            | OpKind::ReduceL2 => self.reduction(x, y, a.ints("axes")),
            OpKind::Transpose => {
                for (to, &from) in a.ints("perm").iter().enumerate() {
                    self.join((x, usize::try_from(from).unwrap_or(usize::MAX)), (y, to));
                }
            }
            OpKind::Reshape => self.reshape(x, y),
            OpKind::Pad => {
                let (pads, rank) = (a.ints("pads"), self.rank(x));
                let padded = |axis: usize| {
                    [axis, axis + rank].iter().any(|&i| pads.get(i).is_none_or(|&p| p != 0))
                };
                self.carry(x, y, padded);
            }
            ref kind if is_elementwise(kind) => {
                node.inputs.iter().for_each(|&input| self.broadcast(input, y));
            }
            _ => self.fix_all(node),
        }
    }

    /// Dense: channels in and out are the kernel's; depthwise: they are one. Other groups are not
    /// changed.
    fn convolution(&mut self, node: &Node, x: ValueId, y: ValueId) {
        let Some(&kernel) = node.inputs.get(1) else { return self.fix_all(node) };
        let group = node.op.attributes.int("group").unwrap_or(1);
        let depthwise = usize::try_from(group)
            .is_ok_and(|group| group == self.extent((x, 1)) && group == self.extent((kernel, 0)));
        let fused = ["activation", "residual", "integer"]
            .into_iter()
            .any(|name| node.op.attributes.has(name));
        if fused || (group != 1 && !depthwise) {
            return self.fix_all(node);
        }
        self.join((x, 0), (y, 0));
        self.join((y, 1), (kernel, 0));
        node.inputs.iter().skip(2).for_each(|&bias| self.join((bias, 0), (kernel, 0)));
        if group == 1 {
            self.join((x, 1), (kernel, 1));
        } else {
            self.join((x, 1), (kernel, 0));
            self.fix((kernel, 1));
        }
        [x, y, kernel].into_iter().for_each(|id| self.fix_from(id, 2));
    }

    fn linear(&mut self, node: &Node, x: ValueId, y: ValueId) {
        let attributes = &node.op.attributes;
        let (Some(&weight), rank) = (node.inputs.get(1), self.rank(x)) else {
            return self.fix_all(node);
        };
        let plain =
            !["trans_a", "activation", "integer"].into_iter().any(|name| attributes.has(name));
        if !plain || rank < 2 || self.rank(weight) != 2 || self.rank(y) != rank {
            return self.fix_all(node);
        }
        let (from, to) = if attributes.int("trans_b") == Some(1) { (1, 0) } else { (0, 1) };
        (0..rank - 1).for_each(|axis| self.join((x, axis), (y, axis)));
        self.join((x, rank - 1), (weight, from));
        self.join((y, rank - 1), (weight, to));
        node.inputs.iter().skip(2).for_each(|&bias| self.broadcast(bias, y));
    }

    /// Shapes aligned at the end; dimensions of extent 1 are repeated.
    fn broadcast(&mut self, input: ValueId, output: ValueId) {
        let (shorter, longer) = (self.rank(input), self.rank(output));
        for axis in 0..shorter {
            let (a, b) = ((input, axis), (output, (axis + longer).saturating_sub(shorter)));
            if self.extent(a) == self.extent(b) {
                self.join(a, b);
            }
        }
    }

    fn reduction(&mut self, x: ValueId, y: ValueId, axes: &[i64]) {
        let keeps = self.rank(x) == self.rank(y);
        let mut to = 0;
        for axis in 0..self.rank(x) {
            let reduced = axes.contains(&i64::try_from(axis).unwrap_or(-1));
            match reduced {
                true => self.fix((x, axis)),
                false => self.join((x, axis), (y, to)),
            }
            to += usize::from(keeps || !reduced);
        }
    }

    /// A dimension stays one where as many elements lie before it and it is as large as before.
    fn reshape(&mut self, x: ValueId, y: ValueId) {
        let before = |shape: &[usize]| -> Vec<usize> {
            let step = |product: &mut usize, &extent: &usize| {
                let before = *product;
                *product = product.saturating_mul(extent);
                Some(before)
            };
            shape.iter().scan(1usize, step).collect()
        };
        let (from, to) = (before(self.shape(x)), before(self.shape(y)));
        let mut same = vec![None; to.len()];
        for (axis, &elements) in from.iter().enumerate() {
            let extent = self.extent((x, axis));
            let found = (0..to.len()).find(|&other| {
                extent > 1 && to[other] == elements && self.extent((y, other)) == extent
            });
            match found {
                Some(other) => same[other] = Some(axis),
                None => self.fix((x, axis)),
            }
        }
        for (other, axis) in same.into_iter().enumerate() {
            match axis {
                Some(axis) => self.join((x, axis), (y, other)),
                None => self.fix((y, other)),
            }
        }
    }
}

/// Operators whose result at each place depends on their inputs at that place alone.
fn is_elementwise(kind: &OpKind) -> bool {
    use OpKind::{
        Abs, Add, Cast, Clip, Cos, Div, Elu, Erf, Exp, Gelu, GeluTanh, HardSigmoid, HardSwish,
        Identity, LeakyRelu, Log, Max, Min, Mish, Mul, Neg, PRelu, Pow, Reciprocal, Relu, Round,
        Sigmoid, Silu, Sin, Softplus, Sqrt, Sub, Tanh,
    };
    matches!(
        kind,
        Abs | Add
            | Cast
            | Clip
            | Cos
            | Div
            | Elu
            | Erf
            | Exp
            | Gelu
            | GeluTanh
            | HardSigmoid
            | HardSwish
            | Identity
            | LeakyRelu
            | Log
            | Max
            | Min
            | Mish
            | Mul
            | Neg
            | PRelu
            | Pow
            | Reciprocal
            | Relu
            | Round
            | Sigmoid
            | Silu
            | Sin
            | Softplus
            | Sqrt
            | Sub
            | Tanh
    )
}
