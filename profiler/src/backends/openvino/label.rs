//! Describes each executed kernel: an [`OpSpec`] from its layer of the executed graph and the ONNX
//! operators it was made of.
//!
//! The layer gives kind, shapes, precisions and memory formats (the table in
//! [`vitempo_graph::lowering::openvino`] says how they are written); the operator of the same kind
//! gives the attributes that the engine does not report, and shapes give the others. Without an
//! executed graph, a kernel is described by the operator of the same name as the ONNX file has it.

use super::{
    engine::NodeTime,
    execution::{Execution, Layer},
};
use std::collections::{HashMap, VecDeque};
use vitempo_graph::{
    Attribute, Attributes, Graph, Node, OpKind, OpSpec, Operand, Precision, Shape, TensorSpec,
    lowering::openvino::names::Names, patterns,
};

/// Describes kernels.
pub struct Labels<'a> {
    names: Names,
    nodes: HashMap<&'a str, &'a Node>,
    /// Operators that several ONNX operators form; the name of the last one remains.
    made: HashMap<String, OpKind>,
    layers: HashMap<&'a str, VecDeque<&'a Layer>>,
}

impl<'a> Labels<'a> {
    /// For kernels of this model.
    pub fn new(graph: &'a Graph, execution: Option<&'a Execution>) -> Self {
        let mut nodes: HashMap<&str, &Node> = HashMap::new();
        for node in graph.nodes() {
            nodes.extend(
                node.outputs.iter().map(|&output| (graph.value(output).name.as_str(), node)),
            );
        }
        nodes.extend(graph.nodes().iter().map(|node| (node.name.as_str(), node)));
        let mut layers: HashMap<&str, VecDeque<&Layer>> = HashMap::new();
        for layer in execution.map(|e| e.layers.as_slice()).unwrap_or_default() {
            layers.entry(&layer.name).or_default().push_back(layer);
        }
        Self { names: Names::of(graph), nodes, made: made(graph), layers }
    }

    /// The next kernel of the profile.
    pub fn take(&mut self, time: &NodeTime) -> OpSpec {
        match self.layers.get_mut(time.node.as_str()).and_then(VecDeque::pop_front) {
            Some(layer) => self.of_layer(layer),
            None => self.of_name(time),
        }
    }

    fn of_layer(&self, layer: &Layer) -> OpSpec {
        let kind = self.names.kind(&layer.layer_type, &layer.name, &layer.originals);
        let operand = |(tensor, constant): &(TensorSpec, bool)| Operand {
            tensor: tensor.clone(),
            constant: *constant,
        };
        let mut op = OpSpec {
            kind,
            attributes: Attributes::new(),
            inputs: layer.inputs.iter().map(operand).collect(),
            outputs: layer.outputs.clone(),
        };
        if op.kind == OpKind::Attention {
            op.attributes = self.heads(layer);
        }
        let own = layer
            .originals
            .split(',')
            .chain([layer.name.as_str()])
            .find_map(|name| self.node(name).filter(|n| is_same_kind(&n.op.kind, &op.kind)));
        describe(&mut op, own.map(|node| &node.op), &self.inside(layer));
        op
    }

    fn node(&self, name: &str) -> Option<&'a Node> {
        self.nodes
            .get(name)
            .or_else(|| self.nodes.get(name.strip_suffix("/WithoutBiases")?))
            .copied()
    }

    /// The operators a layer was made of, in order; a decomposed one counts once.
    fn inside(&self, layer: &Layer) -> Vec<OpKind> {
        let mut names: Vec<&str> = layer
            .originals
            .split(',')
            .map(|name| name.strip_suffix("/WithoutBiases").unwrap_or(name))
            .collect();
        names.dedup();
        // The conversion of a kernel's integers to floats is part of it.
        let integers = layer.inputs.first().is_some_and(|(t, _)| !t.precision.is_float());
        let heavy = matches!(layer.layer_type.as_str(), "Convolution" | "FullyConnected");
        names.retain(|name| !(integers && heavy) || self.node(name).is_some());
        names
            .into_iter()
            .filter_map(|name| self.made.get(name).cloned().or_else(|| self.names.operator(name)))
            .collect()
    }

    /// The heads of an attention: the softmax in it has them as the third dimension from the end.
    fn heads(&self, layer: &Layer) -> Attributes {
        let softmax = layer
            .originals
            .split(',')
            .find_map(|name| self.node(name).filter(|n| n.op.kind == OpKind::Softmax));
        let heads = softmax.and_then(|n| {
            let shape = &n.op.outputs.first()?.shape;
            shape.get(shape.len().checked_sub(3)?).copied()
        });
        Attributes::new().with_int("heads", heads.unwrap_or(1) as i64)
    }

    fn of_name(&self, time: &NodeTime) -> OpSpec {
        let kind = self.names.kind(&time.node_type, &time.node, &time.node);
        match self.node(&time.node) {
            Some(node) => OpSpec {
                kind: if matches!(kind, OpKind::Unsupported(_)) {
                    node.op.kind.clone()
                } else {
                    kind
                },
                ..node.op.clone()
            },
            None => OpSpec {
                kind,
                attributes: Attributes::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
            },
        }
    }
}

/// By the name of its last operator: GELU and the like that the model spells out.
fn made(graph: &Graph) -> HashMap<String, OpKind> {
    let canonical = patterns::canonicalize(graph);
    let kinds: HashMap<&str, &OpKind> = canonical
        .nodes()
        .iter()
        .flat_map(|node| {
            node.outputs.iter().map(|&o| (canonical.value(o).name.as_str(), &node.op.kind))
        })
        .collect();
    let changed = |node: &Node| {
        let kind = kinds.get(graph.value(*node.outputs.first()?).name.as_str())?;
        (**kind != node.op.kind).then(|| (node.name.clone(), (*kind).clone()))
    };
    graph.nodes().iter().filter_map(changed).collect()
}

/// Whether a kernel of kind `kernel` has the attributes of an operator of kind `operator`.
fn is_same_kind(operator: &OpKind, kernel: &OpKind) -> bool {
    use OpKind as K;
    operator == kernel
        || match kernel {
            K::MaxPool => *operator == K::GlobalMaxPool,
            K::AveragePool => *operator == K::GlobalAveragePool,
            K::ReduceMean => *operator == K::GlobalAveragePool,
            K::LayerNorm => *operator == K::InstanceNorm,
            _ => false,
        }
}

/// Inputs that only steer are taken out, attributes put in. `own`: the operator as the model has
/// it; `inside`: all that went into the kernel.
fn describe(op: &mut OpSpec, own: Option<&OpSpec>, inside: &[OpKind]) {
    use OpKind as K;
    let same_rank = |own: &&OpSpec| {
        own.activations().next().map(TensorSpec::rank)
            == op.activations().next().map(TensorSpec::rank)
    };
    let own_attributes = own
        .filter(|o| o.kind == op.kind)
        .filter(same_rank)
        .map(|o| o.attributes.clone())
        .unwrap_or_default();
    let (input, output) = (
        op.activations().next().map(|t| t.shape.clone()).unwrap_or_default(),
        first_shape(&op.outputs),
    );
    let rank = input.len();
    match op.kind {
        K::Conv | K::ConvTranspose => convolution(op, own_attributes, inside),
        K::Linear => {
            let fused = fused(inside, &[K::Linear, K::MatMul, K::Add]);
            op.attributes = with_activation(Attributes::new().with_int("trans_b", 1), fused);
            weights_like_input(op);
        }
        K::MatMul if inside.len() < 2 => op.attributes = matmul(&op.inputs),
        K::Attention => {}
        K::Elementwise | K::MatMul => {
            let ops = inside.iter().map(elementwise).collect::<Vec<_>>().join("+");
            if !ops.is_empty() {
                op.attributes.set("ops", Attribute::Text(ops));
            }
        }
        K::LayerNorm => {
            let axes = op
                .inputs
                .get(1)
                .and_then(|i| i.tensor.shape.first().copied())
                .unwrap_or(rank.saturating_sub(2));
            op.attributes = own_attributes.with_int("axis", rank.saturating_sub(axes) as i64);
            op.inputs.truncate(1);
        }
        K::RmsNorm => {
            op.attributes = own_attributes.with_int("axis", rank.saturating_sub(1) as i64);
        }
        K::MaxPool | K::AveragePool => {
            let global = own.is_some_and(|o| o.kind != op.kind)
                || own_attributes.ints("kernel_shape").is_empty();
            op.attributes = if global { global_window(&input, &output) } else { own_attributes };
            op.inputs.truncate(1);
        }
        K::Concat => {
            op.attributes = Attributes::new()
                .with_int("axis", different(&input, &output).first().copied().unwrap_or(0));
        }
        K::Split => {
            let axis = different(&input, &output).first().copied().unwrap_or(0);
            let parts: Vec<i64> = op
                .outputs
                .iter()
                .filter_map(|o| o.shape.get(axis as usize))
                .map(|&d| d as i64)
                .collect();
            op.attributes = Attributes::new().with_int("axis", axis).with_ints("split", parts);
            op.inputs.truncate(1);
        }
        K::Transpose => {
            op.attributes = match permutation(&input, &output) {
                Some(perm) if own_attributes.ints("perm").is_empty() => {
                    Attributes::new().with_ints("perm", perm)
                }
                _ => own_attributes,
            };
            op.inputs.truncate(1);
        }
        // A reorder that keeps the order only converts.
        K::Reorder if converts(op) => {
            op.kind = K::Cast;
            op.attributes =
                Attributes::new().with("to", Attribute::Text(op.precision().name().to_owned()));
        }
        K::Cast => {
            op.attributes =
                Attributes::new().with("to", Attribute::Text(op.precision().name().to_owned()));
        }
        K::ReduceMean if own.is_some_and(|o| o.kind != K::ReduceMean) => {
            op.attributes = Attributes::new()
                .with_ints("axes", (2..rank as i64).collect::<Vec<_>>())
                .with_int("keepdims", i64::from(output.len() == rank));
            op.inputs.truncate(1);
        }
        K::Softmax => {
            let last = rank.saturating_sub(1) as i64;
            op.attributes = if own_attributes.int("axis").is_some() {
                own_attributes
            } else {
                own_attributes.with_int("axis", last)
            };
        }
        K::Gather | K::GatherNd | K::GatherElements => {
            op.attributes = own_attributes;
            op.inputs.truncate(2);
        }
        // Bounds, sizes, axes and paddings are constants of integers.
        _ => {
            op.attributes = own_attributes;
            op.inputs
                .retain(|i| !(i.constant && !i.tensor.precision.is_float() && i.tensor.rank() < 2));
        }
    }
}

fn converts(op: &OpSpec) -> bool {
    let (Some(from), Some(to)) = (op.inputs.first().map(|i| &i.tensor), op.outputs.first()) else {
        return false;
    };
    from.precision != to.precision && from.format == to.format && from.shape == to.shape
}

/// A name in a chain: of a normalisation, whose other parts ran before, only the shift is left.
fn elementwise(kind: &OpKind) -> &str {
    match kind {
        OpKind::LayerNorm | OpKind::BatchNorm | OpKind::InstanceNorm | OpKind::GroupNorm => {
            OpKind::Add.name()
        }
        other => other.name(),
    }
}

/// Weights in single precision were converted when the model was compiled, if the kernel computes
/// in half of it.
fn weights_like_input(op: &mut OpSpec) {
    let computed = op.precision_computed();
    if matches!(computed, Precision::F16 | Precision::Bf16) {
        op.inputs
            .iter_mut()
            .filter(|i| i.constant && i.tensor.precision == Precision::F32)
            .for_each(|i| i.tensor.precision = computed);
    }
}

fn first_shape(tensors: &[TensorSpec]) -> Shape {
    tensors.first().map(|t| t.shape.clone()).unwrap_or_default()
}

/// Weights of a grouped convolution have the group as a dimension of its own, unlike in ONNX.
fn convolution(op: &mut OpSpec, own: Attributes, inside: &[OpKind]) {
    op.attributes = own;
    let spatial = op.outputs.first().map_or(0, |o| o.rank().saturating_sub(2));
    if let Some(weight) = op.inputs.get_mut(1).filter(|w| w.tensor.rank() == spatial + 3) {
        let shape = &weight.tensor.shape;
        let (groups, rows) = (shape[0], shape[0] * shape[1]);
        weight.tensor.shape = std::iter::once(rows).chain(shape[2..].iter().copied()).collect();
        op.attributes.set("group", Attribute::Int(groups as i64));
    }
    let sum =
        |i: &Operand| !i.constant && Some(&i.tensor.shape) == op.outputs.first().map(|o| &o.shape);
    let residual = op.inputs.iter().skip(2).any(sum);
    let mut fused = fused(inside, &[op.kind.clone(), OpKind::BatchNorm]);
    if op.kind == OpKind::Conv && op.attributes.ints("kernel_shape").is_empty() {
        // A scale folded into the weights took the convolution's name.
        fused.drain(..fused.iter().position(|kind| *kind != OpKind::Mul).unwrap_or(fused.len()));
        window(op);
    }
    if residual {
        op.attributes.set("residual", Attribute::Int(1));
        if let Some(place) = fused.iter().position(|kind| *kind == OpKind::Add) {
            fused.remove(place);
        }
    }
    op.attributes = with_activation(std::mem::take(&mut op.attributes), fused);
    weights_like_input(op);
}

/// The window of a convolution as far as the shapes show: no dilation, and of the strides and
/// paddings that fit the smallest.
fn window(op: &mut OpSpec) {
    let shapes = (op.inputs.first(), op.inputs.get(1), op.outputs.first());
    let (Some(input), Some(weight), Some(output)) = shapes else { return };
    let (input, weight, output) = (&input.tensor.shape, &weight.tensor.shape, &output.shape);
    let (mut strides, mut begins, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for ((&i, &k), &o) in input.iter().zip(weight).zip(output).skip(2) {
        let stride = i.div_ceil(o.max(1)).max(1);
        let padding = ((o.max(1) - 1) * stride + k).saturating_sub(i);
        strides.push(stride as i64);
        begins.push((padding / 2) as i64);
        ends.push((padding - padding / 2) as i64);
    }
    let group =
        input.get(1).zip(weight.get(1)).map_or(1, |(&channels, &each)| channels / each.max(1));
    let kernel: Vec<i64> = weight.iter().skip(2).map(|&k| k as i64).collect();
    let attributes = std::mem::take(&mut op.attributes)
        .with_ints("dilations", vec![1; kernel.len()])
        .with_ints("kernel_shape", kernel);
    op.attributes = attributes
        .with_ints("strides", strides)
        .with_ints("pads", [begins, ends].concat())
        .with_int("group", group as i64);
}

/// The operators fused into a kernel, without its own.
fn fused(inside: &[OpKind], own: &[OpKind]) -> Vec<OpKind> {
    inside.iter().filter(|kind| !own.contains(kind)).cloned().collect()
}

fn with_activation(attributes: Attributes, fused: Vec<OpKind>) -> Attributes {
    if fused.is_empty() {
        return attributes;
    }
    let names: Vec<&str> = fused.iter().map(OpKind::name).collect();
    attributes.with("activation", Attribute::Text(names.join("+")))
}

/// Which sides are transposed, as far as the shapes show.
fn matmul(inputs: &[Operand]) -> Attributes {
    let last_two = |i: usize| {
        let shape = &inputs.get(i)?.tensor.shape;
        Some((*shape.get(shape.len().checked_sub(2)?)?, *shape.last()?))
    };
    match (last_two(0), last_two(1)) {
        (Some((_, k)), Some((rows, columns))) if k != rows && k == columns => {
            Attributes::new().with_int("trans_b", 1)
        }
        (Some((k, m)), Some((rows, _))) if m != rows && k == rows => {
            Attributes::new().with_int("trans_a", 1)
        }
        _ => Attributes::new(),
    }
}

/// The window of a pool over the whole image.
fn global_window(input: &[usize], output: &[usize]) -> Attributes {
    let spatial: Vec<i64> = input
        .iter()
        .skip(2)
        .zip(output.iter().skip(2))
        .map(|(&i, &o)| (i / o.max(1)) as i64)
        .collect();
    let ones = vec![1; spatial.len()];
    Attributes::new()
        .with_ints("pads", vec![0; 2 * spatial.len()])
        .with_ints("kernel_shape", spatial)
        .with_ints("strides", ones)
        .with_int("ceil_mode", 0)
}

/// Dimensions of different extent.
fn different(a: &[usize], b: &[usize]) -> Vec<i64> {
    a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b).map(|(i, _)| i as i64).collect()
}

/// The permutation from one shape to the other, if only one does it.
fn permutation(from: &[usize], to: &[usize]) -> Option<Vec<i64>> {
    let place = |extent: &usize| {
        let mut places =
            from.iter().enumerate().filter(|(_, d)| *d == extent).map(|(i, _)| i as i64);
        places.next().filter(|_| places.next().is_none())
    };
    to.iter().map(place).collect()
}
