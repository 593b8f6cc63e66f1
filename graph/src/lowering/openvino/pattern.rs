//! Predicates about nodes that several rules share.

use crate::{
    Attribute, Node, OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Whether the plugin runs this as an elementwise operator.
pub(super) fn is_elementwise(kind: &OpKind) -> bool {
    use OpKind as K;
    is_simple(kind)
        || matches!(
            kind,
            K::Add
                | K::Sub
                | K::Mul
                | K::Div
                | K::Pow
                | K::Min
                | K::Max
                | K::Mod
                | K::Compare
                | K::Logical
                | K::Where
                | K::Erf
                | K::Exp
                | K::Log
                | K::Reciprocal
                | K::Neg
                | K::Sin
                | K::Cos
                | K::Dequantize
        )
}

/// Functions of one number that convolutions and products fuse.
pub(super) fn is_simple(kind: &OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::Relu
            | K::LeakyRelu
            | K::PRelu
            | K::Elu
            | K::Clip
            | K::Sigmoid
            | K::HardSigmoid
            | K::HardSwish
            | K::Silu
            | K::Gelu
            | K::GeluTanh
            | K::Mish
            | K::Softplus
            | K::Tanh
            | K::Sqrt
            | K::Abs
            | K::Round
            | K::Quantize
    )
}

/// Whether a node is the joined pair of Quantize and Dequantize.
pub(super) fn is_quantize(graph: &Rewriter, index: NodeIndex) -> bool {
    graph.is(index, &OpKind::Quantize)
}

/// Marks a convolution that took a Quantize in before it took a sum in.
pub(super) const QUANTIZED_FIRST: &str = "quantized_first";

/// Marks a Quantize whose zero point is in the middle of its range, and attention whose values such
/// a one quantised.
pub(super) const AROUND_ZERO: &str = "around_zero";

/// Whether a value was quantised around 0, perhaps before something that moves it.
pub(super) fn is_around_zero(graph: &Rewriter, value: ValueId) -> bool {
    quantize_of(graph, value)
        .and_then(|index| graph.node(index))
        .is_some_and(|n| n.op.attributes.has(AROUND_ZERO))
}

/// Whether the last operator that a kernel took in is a Quantize.
pub(super) fn ends_quantized(node: &Node) -> bool {
    let attributes = &node.op.attributes;
    if attributes.has(QUANTIZED_FIRST)
        && attributes.has("residual")
        && attributes.text("activation") == Some(OpKind::Quantize.name())
    {
        return false;
    }
    let ends = |attribute: &str| {
        node.op
            .attributes
            .text(attribute)
            .is_some_and(|ops| ops.rsplit('+').next() == Some(OpKind::Quantize.name()))
    };
    ends("activation") || ends("ops")
}

/// Whether a value was quantised, perhaps before something that moves it.
pub(super) fn is_quantized_value(graph: &Rewriter, value: ValueId) -> bool {
    quantize_of(graph, value).is_some()
}

/// The Quantize, or the kernel that ends with one, that produced a value, through operators that
/// move elements.
fn quantize_of(graph: &Rewriter, mut value: ValueId) -> Option<NodeIndex> {
    for _ in 0..4 {
        let index = graph.producer(value)?;
        let node = graph.node(index)?;
        match node.op.kind {
            OpKind::Quantize => return Some(index),
            OpKind::Reshape | OpKind::Transpose | OpKind::Split | OpKind::Slice => {}
            _ => return ends_quantized(node).then_some(index),
        }
        value = graph.ends(index)?.0;
    }
    None
}

/// Whether a node reads only constants.
pub(super) fn constant_only(graph: &Rewriter, index: NodeIndex) -> bool {
    graph.node(index).is_some_and(|n| {
        !n.inputs.is_empty()
            && !matches!(n.op.kind, OpKind::Unsupported(_))
            && n.inputs.iter().all(|&v| graph.is_constant(v))
    })
}

/// Whether a constant has one element, or one per position along `axis` of `like`.
pub(super) fn along_axis(graph: &Rewriter, constant: ValueId, like: ValueId, axis: usize) -> bool {
    let (shape, full) = (graph.shape(constant), graph.shape(like));
    if !graph.is_constant(constant) || shape.len() > full.len() {
        return false;
    }
    let offset = full.len() - shape.len();
    shape.iter().enumerate().all(|(i, &d)| d == 1 || (i + offset == axis && d == full[axis]))
}

/// Whether a node of two inputs scales or shifts `x` by a constant, the same along all dimensions
/// but `axis`.
pub(super) fn scales_along(graph: &Rewriter, index: NodeIndex, x: ValueId, axis: usize) -> bool {
    let Some(node) = graph.node(index) else { return false };
    if !matches!(
        node.op.kind,
        OpKind::Add | OpKind::Sub | OpKind::Mul | OpKind::Div | OpKind::PRelu
    ) {
        return false;
    }
    let fits = |v: ValueId| along_axis(graph, v, x, axis);
    matches!(node.inputs[..], [a, b] if (a == x && fits(b)) || (b == x && fits(a)))
        && node.outputs.first().is_some_and(|&o| graph.shape(o) == graph.shape(x))
}

/// Fuses `next`, the only reader of its output, into `index`: constants become inputs, the
/// operator's kind is added to attribute `activation`.
pub(super) fn absorb(graph: &mut Rewriter, index: NodeIndex, next: NodeIndex) -> Option<()> {
    let (_, output) = graph.ends(index)?;
    let removed = graph.remove(next)?;
    let end = *removed.outputs.first()?;
    graph.set_output(index, 0, end);
    for input in removed.inputs.into_iter().filter(|&v| v != output) {
        graph.push_input(index, input);
    }
    note(graph, index, "activation", removed.op.kind.name());
    Some(())
}

/// Adds a kind to a list in an attribute.
pub(super) fn note(graph: &mut Rewriter, index: NodeIndex, attribute: &str, kind: &str) {
    if let Some(attributes) = graph.attributes_mut(index) {
        match attributes.0.get_mut(attribute) {
            Some(Attribute::Text(list)) => {
                list.push('+');
                list.push_str(kind);
            }
            _ => {
                attributes.set(attribute, Attribute::Text(kind.to_owned()));
            }
        }
    }
}
