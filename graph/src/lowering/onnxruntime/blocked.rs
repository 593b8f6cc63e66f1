//! Blocked memory formats (NCHWc): which operators ONNX Runtime runs in them, and the reorders at
//! their borders.
//!
//! Rules after `nchwc_transformer.cc` of ONNX Runtime. Channels are padded to the block (16 with
//! AVX-512, 8 with AVX2); shapes of blocked tensors are written with the padded channels, as the
//! engine itself reports them.

use super::convolution;
use crate::{
    Attribute, Attributes, MemoryFormat, OpKind, Precision, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::{HashMap, HashMapExt};

/// Inputs of a dense convolution and channels of a depthwise one must be a multiple of this.
const ALIGNMENT: usize = 4;

/// The blocked twin of a value.
#[derive(Clone, Copy, Debug)]
struct Twin {
    value: ValueId,
    node: NodeIndex,
    channels: usize,
    /// Uses of the original value before anything was converted.
    uses: usize,
}

struct Pass<'a> {
    graph: &'a mut Rewriter,
    block: usize,
    twins: HashMap<ValueId, Twin>,
    /// In the order they came to be, for reproducible results.
    made: Vec<ValueId>,
    reordered: HashMap<ValueId, ValueId>,
}

/// Converts convolutions, pooling and the operators between them to the blocked format.
pub(super) fn convert(graph: &mut Rewriter, block: usize) {
    let order = graph.order();
    let mut pass =
        Pass { graph, block, twins: HashMap::new(), made: Vec::new(), reordered: HashMap::new() };
    for index in order {
        pass.node(index);
    }
    pass.reorder_outputs();
}

impl Pass<'_> {
    fn node(&mut self, index: NodeIndex) -> Option<()> {
        use OpKind as K;
        let kind = self.graph.node(index)?.op.kind.clone();
        let (x, y) = self.graph.ends(index)?;
        let stays = |value: ValueId| {
            let tensor = self.graph.tensor(value);
            tensor.is_some_and(|t| !t.precision.is_float() || t.format == MemoryFormat::Blocked)
        };
        // Of a model that the engine has optimised before, kernels are blocked already.
        if stays(x) || self.graph.tensor(y).is_some_and(|t| t.format == MemoryFormat::Blocked) {
            return None;
        }
        match kind {
            K::Conv => self.convolution(index),
            K::MaxPool | K::AveragePool => self.pool(index),
            _ if !self.all_inputs_converted(index) => None,
            K::Add => self.sum(index),
            K::Mul => self.channel_scale(index).or_else(|| self.elementwise(index)),
            K::Concat => self.concat(index),
            K::Relu | K::Sigmoid | K::Tanh => self.activation(index, true),
            K::Gelu | K::Silu => self.activation(index, false),
            K::BatchNorm => self.batch_norm(index),
            K::Transpose => self.transpose(index),
            K::Resize => self.resize(index),
            K::GlobalAveragePool | K::GlobalMaxPool => self.pool(index),
            _ => None,
        }
    }

    /// Whether no input is still provided by a node in its original format.
    fn all_inputs_converted(&self, index: NodeIndex) -> bool {
        self.graph.node(index).is_some_and(|n| {
            n.inputs
                .iter()
                .all(|&v| self.twins.contains_key(&v) || self.graph.producer(v).is_none())
        })
    }

    fn padded(&self, channels: usize) -> usize {
        super::padded(channels, self.block)
    }

    fn blocked(&self, shape: &[usize]) -> TensorSpec {
        let mut shape = shape.to_vec();
        if let Some(channels) = shape.get_mut(1) {
            *channels = self.padded(*channels);
        }
        TensorSpec::f32(shape).with_format(MemoryFormat::Blocked)
    }

    /// Lets the node at `index` provide a blocked twin of its output.
    fn provide(&mut self, index: NodeIndex, channels: usize) -> Option<()> {
        let (_, output) = self.graph.ends(index)?;
        let uses = self.graph.uses(output);
        let spec = self.blocked(self.graph.shape(output));
        let value = self.graph.value("blocked", Some(spec));
        self.graph.set_output(index, 0, value);
        self.stands_for(output, Twin { value, node: index, channels, uses });
        Some(())
    }

    /// Lets a twin stand for `output`.
    fn stands_for(&mut self, output: ValueId, twin: Twin) {
        self.graph.stands_for(twin.value, output);
        self.twins.insert(output, twin);
        self.made.push(output);
    }

    /// Lets the node read its first input in the blocked format.
    fn read_blocked(&mut self, index: NodeIndex) -> Option<()> {
        let (input, _) = self.graph.ends(index)?;
        let value = match (self.twins.get(&input), self.reordered.get(&input)) {
            (Some(twin), _) => twin.value,
            (None, Some(value)) => *value,
            (None, None) => self.reorder_input(input, index),
        };
        self.graph.set_input(index, 0, value);
        Some(())
    }

    /// A reorder from channels first, or from channels last where a transpose brought it to
    /// channels first for this node alone.
    fn reorder_input(&mut self, input: ValueId, reader: NodeIndex) -> ValueId {
        let spec = self.blocked(self.graph.shape(input));
        let transpose = self
            .graph
            .producer_of(input, &OpKind::Transpose)
            .filter(|_| self.graph.only_consumer(input) == Some(reader));
        let from_last = transpose.filter(|&t| {
            self.graph.node(t).is_some_and(|n| n.op.attributes.ints("perm") == [0, 3, 1, 2])
        });
        let last_source = from_last.and_then(|t| self.graph.ends(t)).map(|(source, _)| source);
        let (source, attributes) = match last_source {
            Some(source) => (source, Attributes::new().with_int("channels_last", 1)),
            None => (input, Attributes::new()),
        };
        let value = self.graph.add_with_output(
            "reorder_input",
            OpKind::Reorder,
            attributes,
            vec![source],
            Some(spec),
        );
        if last_source.is_none() {
            self.reordered.insert(input, value);
        }
        value
    }

    fn convolution(&mut self, index: NodeIndex) -> Option<()> {
        let node = self.graph.node(index)?;
        let (inputs, attributes) = (node.inputs.clone(), node.op.attributes.clone());
        let (weight, bias) = (*inputs.get(1)?, inputs.get(2).copied());
        let constants =
            self.graph.is_constant(weight) && bias.is_none_or(|b| self.graph.is_constant(b));
        let weight_spec = self.graph.tensor(weight)?.clone();
        let [outputs, per_group, ref window @ ..] = weight_spec.shape[..] else { return None };
        if !constants
            || window.len() != 2
            || weight_spec.precision != Precision::F32
            || inputs.len() > 3
        {
            return None;
        }
        let group = usize::try_from(attributes.int("group").unwrap_or(1)).ok()?;
        let (outputs_padded, mut per_group_padded, mut group_padded, mut reads_blocked) =
            (self.padded(outputs), per_group, group, true);
        if group > 1 {
            if outputs % ALIGNMENT != 0 {
                return None;
            }
            if per_group == 1 && outputs == group {
                group_padded = outputs_padded;
            } else if per_group % self.block != 0
                || outputs % group != 0
                || (outputs / group) % self.block != 0
            {
                return None;
            }
        } else if per_group < self.block {
            reads_blocked = false;
        } else if per_group % ALIGNMENT != 0 {
            return None;
        } else {
            per_group_padded = self.padded(per_group);
        }
        if reads_blocked {
            self.read_blocked(index)?;
        }
        let shape = [&[outputs_padded, per_group_padded], window].concat();
        if *shape != *weight_spec.shape {
            let padded = self.graph.constant("weight", TensorSpec::f32(shape), None);
            self.graph.set_input(index, 1, padded);
        }
        if bias.is_some() && outputs_padded != outputs {
            let padded = self.graph.constant("bias", TensorSpec::f32([outputs_padded]), None);
            self.graph.set_input(index, 2, padded);
        }
        self.graph.attributes_mut(index)?.set("group", Attribute::Int(group_padded as i64));
        self.provide(index, outputs)
    }

    fn pool(&mut self, index: NodeIndex) -> Option<()> {
        let (input, _) = self.graph.ends(index)?;
        let spec = self.graph.tensor(input)?;
        let channels = *spec.shape.get(1)?;
        let single = self.graph.node(index)?.outputs.len() == 1;
        if spec.precision != Precision::F32
            || spec.rank() != 4
            || channels % self.block != 0
            || !single
        {
            return None;
        }
        self.read_blocked(index)?;
        self.provide(index, channels)
    }

    /// The twins of all inputs, when all have the same logical shape.
    fn same_shape(&self, index: NodeIndex) -> Option<Vec<Twin>> {
        let node = self.graph.node(index)?;
        let twins: Vec<Twin> =
            node.inputs.iter().map(|v| self.twins.get(v).copied()).collect::<Option<_>>()?;
        let first = node.inputs.first()?;
        let same = node.inputs.iter().all(|&v| self.graph.shape(v) == self.graph.shape(*first));
        same.then_some(twins)
    }

    fn sum(&mut self, index: NodeIndex) -> Option<()> {
        let twins = self.same_shape(index)?;
        let (_, output) = self.graph.ends(index)?;
        let [a, b] = twins[..] else { return None };
        for (own, other) in [(a, b), (b, a)] {
            if own.uses != 1 || !self.takes_residual(own.node) {
                continue;
            }
            let uses = self.graph.uses(output);
            self.graph.remove(index);
            self.graph.push_input(own.node, other.value);
            self.graph.attributes_mut(own.node)?.set("residual", Attribute::Int(1));
            self.stands_for(output, Twin { uses, ..own });
            return Some(());
        }
        self.elementwise(index)
    }

    fn takes_residual(&self, node: NodeIndex) -> bool {
        let free = |n: &crate::Node| !n.op.attributes.has("residual");
        convolution::activation(self.graph, node).is_none()
            && self.graph.node(node).is_some_and(|n| n.op.kind == OpKind::Conv && free(n))
    }

    fn elementwise(&mut self, index: NodeIndex) -> Option<()> {
        let twins = self.same_shape(index)?;
        for (position, twin) in twins.iter().enumerate() {
            self.graph.set_input(index, position, twin.value);
        }
        self.provide(index, twins.first()?.channels)
    }

    fn concat(&mut self, index: NodeIndex) -> Option<()> {
        let node = self.graph.node(index)?;
        let twins: Vec<Twin> =
            node.inputs.iter().map(|v| self.twins.get(v).copied()).collect::<Option<_>>()?;
        if node.op.attributes.int("axis") != Some(1)
            || twins.iter().any(|t| t.channels % self.block != 0)
        {
            return None;
        }
        for (position, twin) in twins.iter().enumerate() {
            self.graph.set_input(index, position, twin.value);
        }
        self.provide(index, twins.iter().map(|t| t.channels).sum())
    }

    fn activation(&mut self, index: NodeIndex, fusable: bool) -> Option<()> {
        let (input, output) = self.graph.ends(index)?;
        let twin = *self.twins.get(&input)?;
        if self.graph.node(index)?.inputs.len() != 1 {
            return None;
        }
        let takes = self.graph.is(twin.node, &OpKind::Conv)
            && convolution::activation(self.graph, twin.node).is_none();
        if !(fusable && takes && twin.uses == 1) {
            self.graph.set_input(index, 0, twin.value);
            return self.provide(index, twin.channels);
        }
        let name = self.graph.node(index)?.op.kind.name().to_owned();
        let uses = self.graph.uses(output);
        self.graph.remove(index);
        self.graph.attributes_mut(twin.node)?.set("activation", Attribute::Text(name));
        self.stands_for(output, Twin { uses, ..twin });
        Some(())
    }

    /// A batch norm becomes a depthwise convolution with a window of one.
    fn batch_norm(&mut self, index: NodeIndex) -> Option<()> {
        let node = self.graph.node(index)?;
        let (name, input, output) =
            (node.name.clone(), *node.inputs.first()?, *node.outputs.first()?);
        let constants = node.inputs[1..].iter().all(|&v| self.graph.is_constant(v));
        let twin = *self.twins.get(&input)?;
        if !constants || node.outputs.len() != 1 {
            return None;
        }
        let channels = self.padded(twin.channels);
        let weight = self.graph.constant("scale", TensorSpec::f32([channels, 1, 1, 1]), None);
        let bias = self.graph.constant("shift", TensorSpec::f32([channels]), None);
        self.graph.remove(index);
        let conv = self.graph.add(
            &name,
            OpKind::Conv,
            convolution::channelwise(channels),
            vec![twin.value, weight, bias],
            vec![output],
        );
        self.provide(conv, twin.channels)
    }

    /// A multiplication of every channel by its own constant becomes one too.
    fn channel_scale(&mut self, index: NodeIndex) -> Option<()> {
        let node = self.graph.node(index)?;
        let (name, output) = (node.name.clone(), *node.outputs.first()?);
        let [a, b] = node.inputs[..] else { return None };
        let input = if self.twins.contains_key(&a) { a } else { b };
        let scale = self.graph.other_input(index, input)?;
        let twin = *self.twins.get(&input)?;
        if !convolution::per_channel(self.graph, scale, input) {
            return None;
        }
        let channels = self.padded(twin.channels);
        let weight = self.graph.constant("scale", TensorSpec::f32([channels, 1, 1, 1]), None);
        self.graph.remove(index);
        let conv = self.graph.add(
            &name,
            OpKind::Conv,
            convolution::channelwise(channels),
            vec![twin.value, weight],
            vec![output],
        );
        self.provide(conv, twin.channels)
    }

    /// A transpose to channels last is a reorder.
    fn transpose(&mut self, index: NodeIndex) -> Option<()> {
        let (input, _) = self.graph.ends(index)?;
        let twin = *self.twins.get(&input)?;
        if self.graph.node(index)?.op.attributes.ints("perm") != [0, 2, 3, 1] {
            return None;
        }
        self.graph.set_input(index, 0, twin.value);
        self.graph.change(index, OpKind::Reorder, Attributes::new().with_int("channels_last", 1));
        Some(())
    }

    /// Upsampling by whole factors.
    fn resize(&mut self, index: NodeIndex) -> Option<()> {
        let (input, output) = self.graph.ends(index)?;
        let twin = *self.twins.get(&input)?;
        let a = &self.graph.node(index)?.op.attributes;
        let mode = a.text("mode").unwrap_or("nearest").to_owned();
        let coordinates =
            a.text("coordinate_transformation_mode").unwrap_or("half_pixel").to_owned();
        let supported = match mode.as_str() {
            "nearest" => coordinates == "asymmetric" && a.text("nearest_mode") == Some("floor"),
            "linear" => {
                matches!(coordinates.as_str(), "asymmetric" | "align_corners" | "half_pixel")
            }
            _ => false,
        };
        let (from, to) = (self.graph.shape(input), self.graph.shape(output));
        let whole = from.len() == 4
            && to.len() == 4
            && from.iter().zip(to).all(|(f, t)| *f > 0 && t % f == 0)
            && from[..2] == to[..2];
        if !supported || !whole {
            return None;
        }
        let scales = from.iter().zip(to).map(|(f, t)| (t / f) as f64).collect();
        let attributes = super::upsample_attributes(&mode, &coordinates, scales);
        self.graph.set_input(index, 0, twin.value);
        self.graph.change(index, OpKind::Resize, attributes);
        self.provide(index, twin.channels)
    }

    /// Reorders values with readers in the original format.
    fn reorder_outputs(&mut self) {
        for original in std::mem::take(&mut self.made) {
            let Some(twin) =
                self.twins.get(&original).copied().filter(|_| self.graph.uses(original) > 0)
            else {
                continue;
            };
            self.graph.add(
                "reorder_output",
                OpKind::Reorder,
                Attributes::new(),
                vec![twin.value],
                vec![original],
            );
        }
    }
}
