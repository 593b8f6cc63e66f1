//! Operators of the domains `com.microsoft` and `com.microsoft.nchwc`: the operators that ONNX
//! Runtime's optimizer writes into a saved model.
//!
//! They become the operators that [`lower`](super::lower) forecasts for the same kernels, attribute
//! by attribute. Shapes of blocked tensors have their channels padded to the block of the machine
//! that saved the model.

mod quantized;

use super::{padded, upsample_attributes};
use crate::{
    Attribute, Attributes, MemoryFormat, OpKind, Operand, TensorSpec, Value, ValueSource,
    onnx::{
        Domain,
        domain::{DomainNode, Mapped},
        view::{GraphView, NodeView},
    },
    shape,
};
use std::collections::HashSet;

/// The operators of ONNX Runtime's optimizer.
pub(crate) const DOMAIN: Domain = Domain { map };

fn map(found: &DomainNode<'_>) -> Option<Mapped> {
    let &DomainNode { node, inputs, graph } = found;
    let call = Call { node, inputs, graph };
    match (node.domain, node.op_type) {
        ("com.microsoft.nchwc", op) => call.blocked(op),
        ("com.microsoft", op) => call.fused(op).or_else(|| quantized::map(node, inputs)),
        _ => None,
    }
}

/// Elements of a block of channels on the machine that saved a model: 16, or 8 where channels of
/// its convolutions are padded to 8 only.
fn block(graph: &GraphView<'_>) -> usize {
    let narrow = |dims: &[i64]| match dims {
        [outputs, inputs, ..] => outputs % WIDE != 0 || (*inputs > WIDE && inputs % WIDE != 0),
        _ => false,
    };
    let weights: HashSet<&str> =
        blocked_convolutions(graph).filter_map(|node| node.input.get(1).copied()).collect();
    let mut tensors = graph.initializer.iter().filter(|tensor| weights.contains(tensor.name));
    if tensors.any(|tensor| narrow(&tensor.dims)) { 8 } else { WIDE as usize }
}

fn blocked_convolutions<'g, 'a>(
    graph: &'g GraphView<'a>,
) -> impl Iterator<Item = &'g NodeView<'a>> {
    graph.node.iter().filter(|node| (node.domain, node.op_type) == ("com.microsoft.nchwc", "Conv"))
}

/// The block of machines with AVX-512, and of all that are not x86.
const WIDE: i64 = 16;

struct Call<'a> {
    node: &'a NodeView<'a>,
    inputs: &'a [Option<&'a Value>],
    graph: &'a GraphView<'a>,
}

impl Call<'_> {
    fn tensor(&self, index: usize) -> Option<&TensorSpec> {
        self.inputs.get(index).copied().flatten()?.tensor.as_ref()
    }

    fn is_constant(&self, index: usize) -> bool {
        self.inputs
            .get(index)
            .copied()
            .flatten()
            .is_some_and(|v| matches!(v.source, ValueSource::Constant(_)))
    }

    /// The given inputs that are present.
    fn present(&self, indices: impl IntoIterator<Item = usize>) -> Vec<usize> {
        indices.into_iter().filter(|&i| self.tensor(i).is_some()).collect()
    }

    fn operator(&self, kind: OpKind, attributes: Attributes, operands: Vec<usize>) -> Mapped {
        Mapped { kind, attributes, operands, outputs: None }
    }

    /// An operator whose output is blocked for any input.
    fn with_blocked_output(&self, mapped: Mapped) -> Option<Mapped> {
        let operand = |&i: &usize| {
            Some(Operand { tensor: self.tensor(i)?.clone(), constant: self.is_constant(i) })
        };
        let operands: Vec<Operand> = mapped.operands.iter().filter_map(operand).collect();
        let attributes = shape::canonical(&mapped.kind, mapped.attributes, &operands).ok()?;
        let outputs = shape::infer(&mapped.kind, &attributes, &operands).ok()?;
        let outputs = outputs.into_iter().map(|t| t.with_format(MemoryFormat::Blocked)).collect();
        Some(Mapped { attributes, outputs: Some(outputs), ..mapped })
    }

    fn blocked(&self, op: &str) -> Option<Mapped> {
        match op {
            "Conv" => self.with_blocked_output(self.convolution()),
            "MaxPool" | "AveragePool" => {
                let mut attributes = self.window();
                for name in ["ceil_mode", "count_include_pad"] {
                    if let Some(value) =
                        self.node.int(name).filter(|_| name == "ceil_mode" || op == "AveragePool")
                    {
                        attributes.set(name, Attribute::Int(value));
                    }
                }
                let kind = if op == "MaxPool" { OpKind::MaxPool } else { OpKind::AveragePool };
                self.with_blocked_output(self.operator(kind, attributes, vec![0]))
            }
            "GlobalMaxPool" => self.with_blocked_output(self.operator(
                OpKind::GlobalMaxPool,
                Attributes::new(),
                vec![0],
            )),
            "GlobalAveragePool" => self.with_blocked_output(self.operator(
                OpKind::GlobalAveragePool,
                Attributes::new(),
                vec![0],
            )),
            "Upsample" => {
                let scales = self.node.ints("scales").iter().map(|&s| s as f64).collect();
                let mode = self.node.text("mode").unwrap_or("nearest");
                let coordinates =
                    self.node.text("coordinate_transformation_mode").unwrap_or("asymmetric");
                let attributes = upsample_attributes(mode, coordinates, scales);
                self.with_blocked_output(self.operator(OpKind::Resize, attributes, vec![0]))
            }
            "ReorderInput" | "ReorderOutput" => self.reorder(op == "ReorderInput"),
            _ => None,
        }
    }

    /// A reorder to the blocked format or back; channels last are the last dimension on the other
    /// side.
    fn reorder(&self, to_blocked: bool) -> Option<Mapped> {
        let x = self.tensor(0)?;
        let last = self.node.int("channels_last") == Some(1);
        let attributes =
            if last { Attributes::new().with_int("channels_last", 1) } else { Attributes::new() };
        let mut dims = x.shape.clone();
        let output = if to_blocked {
            if last {
                let channels = dims.pop()?;
                dims.insert(1.min(dims.len()), channels);
            }
            if self.feeds_convolution() {
                let channels = dims.get_mut(1)?;
                *channels = padded(*channels, block(self.graph));
            }
            TensorSpec::new(dims, x.precision).with_format(MemoryFormat::Blocked)
        } else {
            *dims.get_mut(1)? = usize::try_from(self.node.int("channels")?).ok()?;
            if last {
                let channels = dims.remove(1);
                dims.push(channels);
            }
            TensorSpec::new(dims, x.precision)
        };
        shape::check(&output.shape).ok()?;
        Some(Mapped {
            kind: OpKind::Reorder,
            attributes,
            operands: vec![0],
            outputs: Some(vec![output]),
        })
    }

    /// Whether a convolution reads the result. Others read blocks only where channels fill them.
    fn feeds_convolution(&self) -> bool {
        let result = self.node.output.first();
        blocked_convolutions(self.graph).any(|conv| conv.input.first() == result)
    }

    fn window(&self) -> Attributes {
        let mut attributes = Attributes::new();
        for name in ["kernel_shape", "strides", "pads", "dilations"] {
            if !self.node.ints(name).is_empty() {
                attributes.set(name, Attribute::Ints(self.node.ints(name).into()));
            }
        }
        if let Some(auto) = self.node.text("auto_pad") {
            attributes.set("auto_pad", Attribute::Text(auto.to_owned()));
        }
        attributes
    }

    fn activation(&self) -> Option<Attribute> {
        let name = self.node.text("activation").filter(|n| !n.is_empty())?;
        let mut words = String::with_capacity(name.len() + 2);
        for (i, letter) in name.chars().enumerate() {
            if letter.is_ascii_uppercase() && i > 0 {
                words.push('_');
            }
            words.push(letter.to_ascii_lowercase());
        }
        Some(Attribute::Text(words))
    }

    fn convolution(&self) -> Mapped {
        let mut attributes = self.window();
        attributes.set("group", Attribute::Int(self.node.int("group").unwrap_or(1)));
        if let Some(activation) = self.activation() {
            attributes.set("activation", activation);
        }
        if self.tensor(3).is_some() {
            attributes.set("residual", Attribute::Int(1));
        }
        self.operator(OpKind::Conv, attributes, self.present(0..4))
    }

    fn product(&self, operands: std::ops::Range<usize>) -> Option<Mapped> {
        let linear = self.is_constant(1) && self.tensor(1)?.rank() == 2 && !self.is_constant(0);
        let mut attributes = Attributes::new()
            .with("alpha", Attribute::Float(self.node.float("alpha").unwrap_or(1.0)));
        attributes.set("beta", Attribute::Float(self.node.float("beta").unwrap_or(1.0)));
        for (theirs, ours) in [
            ("transA", "trans_a"),
            ("transB", "trans_b"),
            ("transBatchA", "trans_batch_a"),
            ("transBatchB", "trans_batch_b"),
        ] {
            if self.node.int(theirs) == Some(1) {
                attributes.set(ours, Attribute::Int(1));
            }
        }
        if let Some(activation) = self.activation() {
            attributes.set("activation", activation);
        }
        let kind = if linear { OpKind::Linear } else { OpKind::MatMul };
        Some(self.operator(kind, attributes, self.present(operands)))
    }

    /// Attention over queries, keys and values `[batch, rows, heads x size]`, with a bias of each or
    /// of the scores. Packed or earlier keys, and masks of keys, are other forms.
    fn attention(&self) -> Option<Mapped> {
        let heads = self.node.int("num_heads")?;
        let parts: Vec<&TensorSpec> = (0..3).map(|i| self.tensor(i)).collect::<Option<_>>()?;
        let are_rows = parts.iter().all(|part| part.rank() == 3);
        let given = |&i: &usize| self.inputs.get(i).is_some_and(Option::is_some);
        if !are_rows || [4, 6, 7, 8, 9].iter().any(given) {
            return None;
        }
        let attributes = Attributes::new().with_int("heads", heads);
        Some(self.operator(OpKind::Attention, attributes, self.present([0, 1, 2, 3, 5])))
    }

    fn fused(&self, op: &str) -> Option<Mapped> {
        let biased = |kind: OpKind| {
            let attributes = if self.tensor(1).is_some() {
                Attributes::new().with_int("bias", 1)
            } else {
                Attributes::new()
            };
            Some(self.operator(kind, attributes, self.present(0..2)))
        };
        match op {
            "FusedConv" => Some(self.convolution()),
            "FusedGemm" => self.product(0..3),
            "FusedMatMul" => self.product(0..2),
            "Gelu" | "BiasGelu" => biased(OpKind::Gelu),
            "FastGelu" => biased(OpKind::GeluTanh),
            "QuickGelu" => {
                let alpha = self.node.float("alpha").unwrap_or(1.702);
                let attributes = Attributes::new().with("alpha", Attribute::Float(alpha));
                Some(self.operator(
                    OpKind::Silu,
                    if alpha == 1.0 { Attributes::new() } else { attributes },
                    vec![0],
                ))
            }
            "SkipLayerNormalization" => {
                let attributes = Attributes::new()
                    .with("epsilon", Attribute::Float(self.node.float("epsilon")?))
                    .with_int("residual", 1);
                Some(self.operator(OpKind::LayerNorm, attributes, self.present(0..5)))
            }
            "MultiHeadAttention" => self.attention(),
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::{
        OpKind, Precision, TensorSpec,
        onnx::{ReadOptions, proto, read_bytes},
    };
    use prost::Message as _;

    fn node(op: &str, domain: &str, inputs: &[&str], output: &str) -> proto::NodeProto {
        proto::NodeProto {
            op_type: op.to_owned(),
            domain: domain.to_owned(),
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..proto::NodeProto::default()
        }
    }

    /// A saved model: 24 channels reordered, then a convolution with blocked weights.
    fn saved(channels: usize) -> Vec<u8> {
        let mut builder = crate::GraphBuilder::new("saved");
        let x = builder.input("x", TensorSpec::new([1, 24, 8, 8], Precision::F32));
        let y = builder.unary("relu", OpKind::Relu, x).unwrap();
        let graph = builder.finish(vec![y]).unwrap();
        let bytes = crate::onnx::to_bytes(&graph, &crate::onnx::WriteOptions::seeded(1)).unwrap();
        let mut model = proto::ModelProto::decode(&*bytes).unwrap();
        let file = model.graph.as_mut().unwrap();
        let (x, y) = (file.input[0].name.clone(), file.output[0].name.clone());
        file.node = vec![
            node("ReorderInput", "com.microsoft.nchwc", &[&x], "blocked"),
            node("Conv", "com.microsoft.nchwc", &["blocked", "w"], &y),
        ];
        file.initializer.push(proto::TensorProto {
            name: "w".to_owned(),
            dims: vec![channels as i64, channels as i64, 1, 1],
            data_type: 1,
            raw_data: vec![0; 4 * channels * channels],
            ..proto::TensorProto::default()
        });
        model.encode_to_vec()
    }

    #[test]
    fn blocks_are_those_of_the_machine_that_saved_the_file() {
        for channels in [24, 32] {
            let graph = read_bytes("saved", &saved(channels), &ReadOptions::default()).unwrap();
            let reorder = graph.nodes().iter().find(|n| n.op.kind == OpKind::Reorder).unwrap();
            assert_eq!(reorder.op.outputs[0].shape.as_slice(), [1, channels, 8, 8]);
        }
    }

    /// Integer convolutions are not blocked: such a file says nothing of the machine's block.
    #[test]
    fn pools_read_the_channels_that_there_are() {
        let mut model = proto::ModelProto::decode(&*saved(32)).unwrap();
        let file = model.graph.as_mut().unwrap();
        let y = file.node[1].output[0].clone();
        file.node[1] = node("GlobalAveragePool", "com.microsoft.nchwc", &["blocked"], &y);
        let graph = read_bytes("saved", &model.encode_to_vec(), &ReadOptions::default()).unwrap();
        let kinds: Vec<&OpKind> = graph.nodes().iter().map(|n| &n.op.kind).collect();
        assert_eq!(kinds, [&OpKind::Reorder, &OpKind::GlobalAveragePool]);
        assert_eq!(graph.nodes()[1].op.inputs[0].tensor.shape.as_slice(), [1, 24, 8, 8]);
    }

    /// An attention with these inputs, `None` where one is left out.
    fn attention(inputs: &[Option<&[i64]>]) -> crate::Graph {
        let mut model = proto::ModelProto::decode(&*saved(32)).unwrap();
        let file = model.graph.as_mut().unwrap();
        let given = file.input.remove(0);
        let name = |(i, dims): (usize, &Option<&[i64]>)| dims.map(|_| format!("i{i}"));
        let names: Vec<String> =
            inputs.iter().enumerate().map(|input| name(input).unwrap_or_default()).collect();
        for (dims, name) in inputs.iter().zip(&names) {
            let Some(dims) = dims else { continue };
            let mut info = proto::ValueInfoProto { name: name.clone(), ..given.clone() };
            let tensor = info.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap();
            let dim = |&d: &i64| proto::DimensionProto { dim_value: Some(d), dim_param: None };
            tensor.shape.as_mut().unwrap().dim = dims.iter().map(dim).collect();
            file.input.push(info);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut node = node("MultiHeadAttention", "com.microsoft", &names, "y");
        node.attribute.push(proto::AttributeProto {
            name: "num_heads".to_owned(),
            i: Some(2),
            ..proto::AttributeProto::default()
        });
        (file.node, file.initializer) = (vec![node], vec![]);
        file.output[0].name = "y".to_owned();
        read_bytes("m", &model.encode_to_vec(), &ReadOptions::default()).unwrap()
    }

    #[test]
    fn attention_over_rows_reads_its_biases() {
        let (q, k): (&[i64], &[i64]) = (&[2, 5, 8], &[2, 7, 8]);
        let rows = [Some(q), Some(k), Some(k)];
        let with = |more: &[Option<&'static [i64]>]| attention(&[&rows[..], more].concat());
        for (more, operands) in [
            (&[][..], 3),
            (&[Some(&[24][..])], 4),
            (&[None, None, Some(&[2, 2, 5, 7])], 4),
            (&[Some(&[24]), None, Some(&[2, 2, 5, 7])], 5),
        ] {
            let graph = with(more);
            let op = &graph.nodes()[0].op;
            assert_eq!((&op.kind, op.inputs.len()), (&OpKind::Attention, operands));
        }
        let heads: &[i64] = &[2, 2, 7, 4];
        for other in [
            with(&[None, Some(&[2, 7])]),
            with(&[None, None, None, Some(&[2, 2, 3, 4]), Some(&[2, 2, 3, 4])]),
            attention(&[Some(q), Some(heads), Some(heads)]),
            attention(&[Some(q), Some(&[2, 7, 2, 2, 4])]),
            attention(&[Some(&[2, 5, 2, 3, 4])]),
        ] {
            assert!(matches!(other.nodes()[0].op.kind, OpKind::Unsupported(_)));
        }
    }

    #[test]
    fn a_reader_without_domains_knows_no_operator_of_theirs() {
        let options = ReadOptions { domains: &[], ..ReadOptions::default() };
        let graph = read_bytes("saved", &saved(32), &options).unwrap();
        let unknown = |kind: &OpKind| matches!(kind, OpKind::Unsupported(_));
        assert!(graph.nodes().iter().all(|node| unknown(&node.op.kind)));
    }
}
