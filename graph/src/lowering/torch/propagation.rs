//! Derives the strides, and thus the memory format, of every tensor when torch runs the calls.

use super::strides::Strided;
use crate::{
    Attribute, Graph, GraphError, MemoryFormat, Node, OpKind, OpSpec, Precision, TensorSpec, Value,
    ValueId, ValueSource,
};

/// The graph with every tensor's precision and memory format, and the result of [`describe`].
pub(super) fn annotate(
    graph: &Graph,
    precision: Precision,
    format: MemoryFormat,
) -> Result<Graph, GraphError> {
    let mut values = graph.values().to_vec();
    for tensor in values.iter_mut().filter_map(|v| v.tensor.as_mut()) {
        if tensor.precision == Precision::F32 {
            tensor.precision = precision;
        }
    }
    let images = images(graph);
    let mut strided: Vec<Option<Strided>> =
        values.iter().enumerate().map(|(i, v)| outer(v, images[i], format)).collect();
    let mut nodes = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let inputs: Vec<Strided> =
            node.inputs.iter().map(|&v| known(&strided, &values, v)).collect();
        let made = outputs(&node.op, &inputs);
        for (&value, output) in node.outputs.iter().zip(&made.tensors) {
            strided[value.0 as usize] = Some(output.clone());
            if let Some(tensor) = values[value.0 as usize].tensor.as_mut() {
                tensor.format = output.format();
            }
        }
        let mut op = Node::new(
            "",
            node.op.kind.clone(),
            node.op.attributes.clone(),
            &values,
            node.inputs.clone(),
            node.outputs.clone(),
        )
        .op;
        if op.kind == OpKind::Cast
            && let Some(output) = op.outputs.first()
        {
            op.attributes.set("to", Attribute::Text(output.precision.name().to_owned()));
        }
        describe(&mut op, &inputs, &made.tensors, made.copied);
        nodes.push(Node { op, ..node.clone() });
    }
    for (value, strided) in values.iter_mut().zip(&strided) {
        if let (Some(tensor), Some(strided)) = (value.tensor.as_mut(), strided) {
            tensor.format = strided.format();
        }
    }
    Graph::new(graph.name(), values, nodes, graph.inputs().to_vec(), graph.outputs().to_vec())
}

/// Writes the memory order of its tensors into `op`: their formats, `perm_N` for an input in
/// another order, `copy` for a reshape that moved its elements. `copied`: whether the first output
/// has memory of its own.
pub fn describe(op: &mut OpSpec, inputs: &[Strided], outputs: &[Strided], copied: bool) {
    for (operand, strided) in op.inputs.iter_mut().zip(inputs) {
        operand.tensor.format = strided.format();
    }
    for (tensor, strided) in op.outputs.iter_mut().zip(outputs) {
        tensor.format = strided.format();
    }
    if op.kind == OpKind::Reshape && copied {
        op.attributes.set("copy", Attribute::Int(1));
    }
    let moves = copied && (op.kind == OpKind::Reshape || !is_view(&op.kind));
    for (position, strided) in inputs.iter().enumerate().filter(|_| moves) {
        let plain = strided.format() == MemoryFormat::ChannelsFirst;
        if let Some(order) = strided.order().filter(|_| plain) {
            op.attributes.set(&format!("perm_{position}"), Attribute::Ints(order.into()));
        }
    }
}

/// Operators that are views in torch wherever they can be.
fn is_view(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Transpose
            | OpKind::Reshape
            | OpKind::Slice
            | OpKind::Split
            | OpKind::Expand
            | OpKind::Identity
    )
}

/// For each value, whether it is the weight of a convolution, which has the requested format.
fn images(graph: &Graph) -> Vec<bool> {
    let mut images = vec![false; graph.values().len()];
    for node in
        graph.nodes().iter().filter(|n| matches!(n.op.kind, OpKind::Conv | OpKind::ConvTranspose))
    {
        if let Some(weight) = node.inputs.get(1) {
            images[weight.0 as usize] = true;
        }
    }
    images
}

/// Inputs and weights as the caller and the model bring them.
fn outer(value: &Value, is_weight: bool, format: MemoryFormat) -> Option<Strided> {
    let shape = &value.tensor.as_ref()?.shape;
    match value.source {
        ValueSource::Input => Some(Strided::in_format(shape, format)),
        ValueSource::Constant(_) => Some(Strided::in_format(
            shape,
            if is_weight { format } else { MemoryFormat::ChannelsFirst },
        )),
        ValueSource::Node(_) => None,
    }
}

fn known(strided: &[Option<Strided>], values: &[Value], value: ValueId) -> Strided {
    let index = value.0 as usize;
    strided[index].clone().unwrap_or_else(|| {
        Strided::contiguous(values[index].tensor.as_ref().map_or(&[], |t| &t.shape))
    })
}

/// The outputs of a call.
struct Made {
    tensors: Vec<Strided>,
    /// Whether they have memory of their own.
    copied: bool,
}

fn outputs(op: &OpSpec, inputs: &[Strided]) -> Made {
    let shapes: Vec<&[usize]> =
        op.outputs.iter().map(|t: &TensorSpec| t.shape.as_slice()).collect();
    let one = |strided: Strided, copied: bool| Made { tensors: vec![strided], copied };
    let (Some(shape), Some(x)) = (shapes.first(), inputs.first()) else {
        return Made {
            tensors: shapes.iter().map(|s| Strided::contiguous(s)).collect(),
            copied: true,
        };
    };
    let as_image = |format: MemoryFormat| Strided::in_format(shape, format);
    match op.kind {
        OpKind::Transpose => one(
            x.permuted(op.attributes.ints("perm")).unwrap_or_else(|| Strided::contiguous(shape)),
            false,
        ),
        OpKind::Reshape => match x.viewed(shape) {
            Some(view) => one(view, false),
            None => one(Strided::contiguous(shape), true),
        },
        OpKind::Expand => one(x.expanded(shape), false),
        OpKind::Identity => one(x.clone(), false),
        OpKind::Split => Made {
            tensors: shapes.iter().map(|s| x.cut(s, &vec![1; s.len()])).collect(),
            copied: false,
        },
        OpKind::Slice => slice(op, x, shape),
        OpKind::Gather if op.attributes.int("index").is_some() => {
            let axis = op.attributes.int("axis").and_then(|a| usize::try_from(a).ok()).unwrap_or(0);
            one(x.without(axis), false)
        }
        OpKind::Gather => {
            let axis = op.attributes.int("axis").and_then(|a| usize::try_from(a).ok()).unwrap_or(0);
            one(
                inputs.get(1).map_or_else(
                    || Strided::contiguous(shape),
                    |indices| x.indexed(axis, indices, shape),
                ),
                true,
            )
        }
        // `hardtanh` fills a tensor like its input.
        OpKind::Clip
            if op.attributes.float("min").is_some() && op.attributes.float("max").is_some() =>
        {
            one(x.like(), true)
        }
        OpKind::Conv | OpKind::ConvTranspose => {
            let last = inputs.iter().take(2).any(|i| i.format() == MemoryFormat::ChannelsLast);
            one(
                as_image(if last {
                    MemoryFormat::ChannelsLast
                } else {
                    MemoryFormat::ChannelsFirst
                }),
                true,
            )
        }
        OpKind::MaxPool
        | OpKind::AveragePool
        | OpKind::GlobalAveragePool
        | OpKind::GlobalMaxPool
        | OpKind::BatchNorm
        | OpKind::GroupNorm
        | OpKind::Resize
        | OpKind::Pad
        | OpKind::DepthToSpace => one(as_image(x.format()), true),
        OpKind::Concat => {
            let last = inputs.iter().all(|i| i.format() == MemoryFormat::ChannelsLast);
            one(
                as_image(if last {
                    MemoryFormat::ChannelsLast
                } else {
                    MemoryFormat::ChannelsFirst
                }),
                true,
            )
        }
        OpKind::PRelu => one(Strided::elementwise(shape, &[x]), true),
        _ if is_elementwise(&op.kind) => {
            one(Strided::elementwise(shape, &inputs.iter().collect::<Vec<_>>()), true)
        }
        _ => {
            Made { tensors: shapes.iter().map(|s| Strided::contiguous(s)).collect(), copied: true }
        }
    }
}

/// A slice is a view; one that runs backwards is a view of what `flip` copied.
fn slice(op: &OpSpec, x: &Strided, shape: &[usize]) -> Made {
    let (axes, steps) = (op.attributes.ints("axes"), op.attributes.ints("steps"));
    let mut all = vec![1usize; shape.len()];
    for (&axis, &step) in axes.iter().zip(steps) {
        if let Some(slot) = usize::try_from(axis).ok().and_then(|a| all.get_mut(a)) {
            *slot = usize::try_from(step.unsigned_abs()).unwrap_or(1);
        }
    }
    let flipped = steps.iter().any(|&step| step < 0);
    let source = if flipped { x.like() } else { x.clone() };
    Made { tensors: vec![source.cut(shape, &all)], copied: flipped }
}

fn is_elementwise(kind: &OpKind) -> bool {
    use OpKind::*;
    matches!(
        kind,
        Add | Sub
            | Mul
            | Div
            | Pow
            | Min
            | Max
            | Mod
            | Compare
            | Logical
            | Where
            | Relu
            | LeakyRelu
            | Elu
            | Clip
            | Sigmoid
            | HardSigmoid
            | HardSwish
            | Silu
            | Gelu
            | GeluTanh
            | Mish
            | Softplus
            | Tanh
            | Erf
            | Exp
            | Log
            | Sqrt
            | Reciprocal
            | Neg
            | Abs
            | Sin
            | Cos
            | Round
            | Cast
    )
}
