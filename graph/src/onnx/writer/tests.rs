use super::*;
use crate::{Attribute, Attributes, ConstantData, GraphBuilder, OpKind, Precision, TensorSpec};

type Weights<'a> = &'a [(&'a [usize], Precision)];
type Operator = (OpKind, Attributes, Vec<Vec<usize>>, Vec<(Vec<usize>, Precision)>);

const F32: Precision = Precision::F32;
const I64: Precision = Precision::I64;

/// One operator of each kind on small tensors: kind, attributes, shapes of computed inputs,
/// weights.
fn operators() -> Vec<Operator> {
    let none = Attributes::new;
    let text = |name: &str, value: &str| none().with(name, Attribute::Text(value.to_owned()));
    let real = |name: &str, value: f64| none().with(name, Attribute::Float(value));
    let image: &[usize] = &[1, 4, 8, 8];
    let tokens: &[usize] = &[1, 6, 8];
    let window = || {
        none()
            .with_ints("kernel_shape", [3, 3])
            .with_ints("strides", [2, 2])
            .with_ints("pads", [1, 1, 1, 1])
    };
    let mut all = Vec::new();
    let mut add = |kind: OpKind, attributes: Attributes, inputs: &[&[usize]], weights: Weights| {
        let weights =
            weights.iter().map(|&(shape, precision)| (shape.to_vec(), precision)).collect();
        all.push((kind, attributes, inputs.iter().map(|s| s.to_vec()).collect(), weights));
    };
    add(OpKind::Conv, window(), &[image], &[(&[6, 4, 3, 3], F32), (&[6], F32)]);
    add(OpKind::Conv, none().with_int("group", 4), &[image], &[(&[4, 1, 3, 3], F32)]);
    add(
        OpKind::ConvTranspose,
        none().with_ints("strides", [2, 2]),
        &[image],
        &[(&[4, 6, 2, 2], F32), (&[6], F32)],
    );
    add(OpKind::Linear, none(), &[tokens], &[(&[8, 16], F32)]);
    add(
        OpKind::Linear,
        none().with_int("trans_b", 1),
        &[&[2, 8]],
        &[(&[16, 8], F32), (&[16], F32)],
    );
    add(OpKind::Linear, real("alpha", 0.5).with_int("trans_a", 1), &[&[8, 2]], &[(&[8, 16], F32)]);
    add(OpKind::MatMul, none(), &[tokens, &[1, 8, 6]], &[]);
    add(OpKind::MatMul, none().with_int("trans_b", 1), &[&[6, 8], &[5, 8]], &[]);
    add(
        OpKind::Linear,
        real("alpha", 0.5).with_int("trans_b", 1),
        &[tokens],
        &[(&[16, 8], F32), (&[16], F32)],
    );
    add(OpKind::Einsum, text("equation", "bij,bjk->bik"), &[tokens, &[1, 8, 6]], &[]);
    for kind in [
        OpKind::Add,
        OpKind::Sub,
        OpKind::Mul,
        OpKind::Div,
        OpKind::Min,
        OpKind::Max,
        OpKind::PRelu,
    ] {
        add(kind.clone(), none(), &[image], &[(&[4, 1, 1], F32)]);
    }
    add(OpKind::Mod, none(), &[image], &[(&[4, 1, 1], F32)]);
    add(OpKind::Pow, none(), &[image], &[(&[], F32)]);
    for op in ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"] {
        add(OpKind::Compare, text("op", op), &[image, image], &[]);
    }
    for kind in [
        OpKind::Relu,
        OpKind::Sigmoid,
        OpKind::HardSwish,
        OpKind::Gelu,
        OpKind::GeluTanh,
        OpKind::Mish,
        OpKind::Softplus,
        OpKind::Tanh,
        OpKind::Erf,
        OpKind::Exp,
        OpKind::Log,
        OpKind::Sqrt,
        OpKind::Reciprocal,
        OpKind::Neg,
        OpKind::Abs,
        OpKind::Sin,
        OpKind::Cos,
        OpKind::GlobalAveragePool,
        OpKind::GlobalMaxPool,
        OpKind::Identity,
    ] {
        add(kind, none(), &[image], &[]);
    }
    add(OpKind::LeakyRelu, real("alpha", 0.1), &[image], &[]);
    add(OpKind::Elu, real("alpha", 1.0), &[image], &[]);
    add(OpKind::Clip, real("min", 0.0).with("max", Attribute::Float(6.0)), &[image], &[]);
    add(OpKind::Clip, real("max", 6.0), &[image], &[]);
    add(
        OpKind::HardSigmoid,
        real("alpha", 0.25).with("beta", Attribute::Float(0.5)),
        &[image],
        &[],
    );
    for op in ["Floor", "Ceil", "Round", "Sign"] {
        add(OpKind::Round, text("op", op), &[image], &[]);
    }
    add(OpKind::Softmax, none().with_int("axis", 2), &[tokens], &[]);
    add(OpKind::Softmax, none().with_int("axis", 1).with_int("log", 1), &[tokens], &[]);
    add(OpKind::LayerNorm, none().with_int("axis", 2), &[tokens], &[(&[8], F32), (&[8], F32)]);
    add(OpKind::BatchNorm, none(), &[image], &[(&[4], F32), (&[4], F32), (&[4], F32), (&[4], F32)]);
    add(OpKind::InstanceNorm, none(), &[image], &[(&[4], F32), (&[4], F32)]);
    add(OpKind::LpNorm, none().with_int("axis", 2), &[tokens], &[]);
    add(OpKind::MaxPool, window(), &[image], &[]);
    add(OpKind::AveragePool, window().with_int("count_include_pad", 1), &[image], &[]);
    for kind in [
        OpKind::ReduceMean,
        OpKind::ReduceSum,
        OpKind::ReduceMax,
        OpKind::ReduceMin,
        OpKind::ReduceL2,
        OpKind::ReduceProd,
    ] {
        add(kind, none().with_ints("axes", [2, 3]).with_int("keepdims", 0), &[image], &[]);
    }
    add(OpKind::ArgMax, none().with_int("axis", 1).with_int("keepdims", 0), &[image], &[]);
    add(OpKind::TopK, none().with_int("k", 3).with_int("axis", 2), &[image], &[]);
    add(OpKind::CumSum, none().with_int("axis", 2), &[tokens], &[]);
    add(OpKind::Transpose, none().with_ints("perm", [0, 2, 3, 1]), &[image], &[]);
    add(OpKind::Reshape, none().with_ints("shape", [1, 16, 16]), &[image], &[]);
    add(OpKind::Concat, none().with_int("axis", 1), &[image, image], &[]);
    add(OpKind::Split, none().with_int("axis", 1).with_ints("split", [1, 3]), &[image], &[]);
    let slice = |starts: i64, ends: i64, step: i64| {
        none()
            .with_ints("starts", [starts])
            .with_ints("ends", [ends])
            .with_ints("axes", [3])
            .with_ints("steps", [step])
    };
    add(OpKind::Slice, slice(1, 7, 2), &[image], &[]);
    add(OpKind::Slice, slice(-1, -100, -1), &[image], &[]);
    add(OpKind::Gather, none().with_int("axis", 1).with_int("index", 2), &[tokens], &[]);
    add(OpKind::Gather, none().with_int("axis", 1), &[tokens], &[(&[3], I64)]);
    add(OpKind::GatherElements, none().with_int("axis", 1), &[tokens], &[(&[1, 2, 8], I64)]);
    add(OpKind::GatherNd, none().with_int("batch_dims", 0), &[tokens], &[(&[5, 2], I64)]);
    add(OpKind::ScatterNd, none(), &[tokens], &[(&[2, 1], I64), (&[2, 6, 8], F32)]);
    add(OpKind::Expand, none().with_ints("shape", [3, 6, 8]), &[tokens], &[]);
    add(OpKind::Tile, none().with_ints("repeats", [1, 2, 3]), &[tokens], &[]);
    add(OpKind::Pad, none().with_ints("pads", [0, 0, 1, 1, 0, 0, 2, 2]), &[image], &[]);
    add(
        OpKind::Pad,
        text("mode", "reflect").with_ints("pads", [0, 0, 1, 1, 0, 0, 2, 2]),
        &[image],
        &[],
    );
    add(OpKind::Resize, text("mode", "linear").with_ints("sizes", [1, 4, 16, 16]), &[image], &[]);
    add(
        OpKind::Resize,
        text("mode", "nearest").with("scales", Attribute::Floats(vec![1.0, 1.0, 1.375, 1.3125])),
        &[image],
        &[],
    );
    add(OpKind::GridSample, none(), &[image, &[1, 5, 5, 2]], &[]);
    add(OpKind::DepthToSpace, none().with_int("blocksize", 2), &[image], &[]);
    add(OpKind::SpaceToDepth, none().with_int("blocksize", 2), &[image], &[]);
    add(
        OpKind::Col2Im,
        none()
            .with_ints("image_shape", [5, 7])
            .with_ints("block_shape", [3, 3])
            .with_ints("strides", [2, 2])
            .with_ints("pads", [1, 1, 1, 1]),
        &[&[1, 36, 12]],
        &[],
    );
    add(OpKind::Cast, text("to", "i64"), &[image], &[]);
    add(OpKind::Quantize, none(), &[image], &[(&[], F32), (&[], Precision::U8)]);
    add(
        OpKind::Quantize,
        none().with_int("axis", -3),
        &[image],
        &[(&[4], F32), (&[4], Precision::I8)],
    );
    add(OpKind::DynamicQuantize, none(), &[image], &[]);
    add(OpKind::Shape, none(), &[image], &[]);
    add(OpKind::Trilu, none().with_int("upper", 0), &[tokens], &[]);
    add(OpKind::ConstantOfShape, none().with_ints("shape", [2, 3]), &[], &[]);
    all
}

/// A graph of that one operator.
fn single(
    kind: OpKind,
    attributes: Attributes,
    inputs: &[Vec<usize>],
    weights: &[(Vec<usize>, Precision)],
) -> Graph {
    let mut builder = GraphBuilder::new(kind.name());
    let mut operands: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(i, s)| builder.input(format!("x{i}"), TensorSpec::f32(s.as_slice())))
        .collect();
    operands.extend(
        weights
            .iter()
            .enumerate()
            .map(|(i, (s, p))| builder.weight(format!("w{i}"), TensorSpec::new(s.as_slice(), *p))),
    );
    let outputs = builder.op_many("op", kind, attributes, &operands).unwrap();
    builder.finish(outputs).unwrap()
}

fn decoded(graph: &Graph, options: &WriteOptions) -> GraphProto {
    ModelProto::decode(to_bytes(graph, options).unwrap().as_slice()).unwrap().graph.unwrap()
}

/// Whether the reader makes an attribute of the values of a weight.
fn inferred_from_values(kind: &OpKind, weights: &[(Vec<usize>, Precision)]) -> bool {
    *kind == OpKind::Pow && !weights.is_empty()
}

/// Where to leave the models for other programs to load, if anywhere.
fn keep(name: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("VITEMPO_KEEP_MODELS") {
        std::fs::write(Path::new(&folder).join(format!("{name}.onnx")), bytes).unwrap();
    }
}

#[test]
fn every_kind_is_written() {
    for (index, (kind, attributes, inputs, weights)) in operators().into_iter().enumerate() {
        let graph = single(kind.clone(), attributes, &inputs, &weights);
        let bytes = to_bytes(&graph, &WriteOptions::seeded(1)).unwrap();
        keep(&format!("{index:03}_{kind}"), &bytes);
        let proto = ModelProto::decode(bytes.as_slice()).unwrap().graph.unwrap();
        assert_eq!(proto.input.len(), inputs.len(), "{kind}");
        assert_eq!(proto.output.len(), graph.outputs().len(), "{kind}");
        assert!(proto.initializer.iter().all(|t| t.data_location == 0), "{kind}");
        let known: BTreeSet<_> = proto
            .input
            .iter()
            .map(|v| &v.name)
            .chain(proto.initializer.iter().map(|t| &t.name))
            .collect();
        let mut known: BTreeSet<_> = known;
        for node in &proto.node {
            assert!(
                node.input.iter().all(|name| name.is_empty() || known.contains(name)),
                "{kind}: {:?}",
                node.input
            );
            known.extend(&node.output);
        }
        let read =
            crate::onnx::read_bytes("again", &bytes, &crate::onnx::ReadOptions::default()).unwrap();
        let tensors = |graph: &Graph| {
            graph.outputs().iter().map(|&id| graph.value(id).tensor.clone()).collect::<Vec<_>>()
        };
        assert_eq!(tensors(&read), tensors(&graph), "{kind}");
        // Constants, and a product written as several operators, are read as other operators.
        let (one, constant) =
            (read.nodes().len() == 1, matches!(kind, OpKind::Shape | OpKind::ConstantOfShape));
        assert!(one || constant || kind == OpKind::Linear, "{kind}: {:?}", read.kinds());
        if let [node] = read.nodes() {
            assert_eq!(node.op.kind, kind);
            if !inferred_from_values(&kind, &weights) {
                assert_eq!(node.op, graph.nodes()[0].op, "{kind}");
            }
        }
    }
}

#[test]
fn what_onnx_cannot_say_is_refused_by_name() {
    let image = || vec![vec![1, 4, 8, 8]];
    let fused = |name: &str| Attributes::new().with_int(name, 1);
    let conv = [(vec![4, 4, 3, 3], F32)];
    let graphs = [
        (single(OpKind::Reorder, Attributes::new(), &image(), &[]), "memory format"),
        (single(OpKind::RmsNorm, Attributes::new(), &image(), &[(vec![8], F32)]), "opset 20"),
        (single(OpKind::Conv, fused("residual"), &image(), &conv), "`residual`"),
        (single(OpKind::Silu, fused("bias"), &image(), &[]), "fused"),
        (
            single(OpKind::MatMul, fused("trans_a"), &[vec![1, 8, 8], vec![1, 8, 8]], &[]),
            "`trans_a`",
        ),
    ];
    for (graph, says) in graphs {
        let error = to_bytes(&graph, &WriteOptions::default()).unwrap_err().to_string();
        assert!(error.contains("node `op`") && error.contains(says), "{error}");
    }
    let mut builder = GraphBuilder::new("blocked");
    let x = builder.input("x", TensorSpec::f32([1, 8, 4, 4]).with_format(MemoryFormat::Blocked));
    let y = builder.unary("op", OpKind::Relu, x).unwrap();
    let error = to_bytes(&builder.finish(vec![y]).unwrap(), &WriteOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("blocked"), "{error}");
    let mut builder = GraphBuilder::new("twice");
    let x = builder.input("x", TensorSpec::f32([1]));
    let y = builder.unary("a", OpKind::Relu, x).unwrap();
    let z = builder.unary("a", OpKind::Relu, y).unwrap();
    let error = to_bytes(&builder.finish(vec![z]).unwrap(), &WriteOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("`a_out`"), "{error}");
}

#[test]
fn forms_of_other_operator_sets_are_written() {
    let old = |log: i64| {
        let attributes = Attributes::new().with_int("axis", 1).with_int("coerce", 1);
        let attributes = if log == 1 { attributes.with_int("log", 1) } else { attributes };
        single(OpKind::Softmax, attributes, &[vec![2, 4, 3, 5]], &[])
    };
    for (log, op_type) in [(0, "Softmax"), (1, "LogSoftmax")] {
        let bytes = to_bytes(&old(log), &WriteOptions::default()).unwrap();
        let back = crate::onnx::read_bytes("m", &bytes, &crate::onnx::ReadOptions::default());
        let back = back.unwrap();
        let shapes: Vec<&[usize]> =
            back.nodes().iter().map(|n| n.op.outputs[0].shape.as_slice()).collect();
        assert_eq!(shapes, [&[2, 60][..], &[2, 60], &[2, 4, 3, 5]]);
        let proto = decoded_bytes(&bytes);
        let types: Vec<&str> = proto.node.iter().map(|n| n.op_type.as_str()).collect();
        assert_eq!(types, ["Flatten", op_type, "Reshape"]);
    }
    let norm = |scales: usize| {
        let weights = [(vec![scales], F32), (vec![scales], F32)];
        single(
            OpKind::GroupNorm,
            Attributes::new().with_int("groups", 2),
            &[vec![1, 4, 8, 8]],
            &weights,
        )
    };
    for (scales, opset, ir) in [(2, 20, 9), (4, 21, 10)] {
        let bytes = to_bytes(&norm(scales), &WriteOptions::default()).unwrap();
        let model = ModelProto::decode(&bytes[..]).unwrap();
        assert_eq!((model.opset_import[0].version, model.ir_version), (opset, ir));
        assert_eq!(model.graph.unwrap().node[0].op_type, "GroupNormalization");
    }
    let mut b = GraphBuilder::new("both");
    let mut x = b.input("x", TensorSpec::f32([1, 4, 8, 8]));
    for (name, count) in [("groups", 2), ("channels", 4)] {
        let scale = b.weight(format!("{name}.scale"), TensorSpec::f32([count]));
        let bias = b.weight(format!("{name}.bias"), TensorSpec::f32([count]));
        let groups = Attributes::new().with_int("groups", 2);
        x = b.op(name, OpKind::GroupNorm, groups, &[x, scale, bias]).unwrap();
    }
    let error = to_bytes(&b.finish(vec![x]).unwrap(), &WriteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("`channels` has a scale per channel"), "{error}");
}

fn mlp(hidden: usize) -> Graph {
    let mut b = GraphBuilder::new("mlp");
    let x = b.input("x", TensorSpec::f32([1, 10, 16]));
    let n = b.layer_norm("norm", x).unwrap();
    let h = b.linear("fc1", n, hidden, true).unwrap();
    let a = b.gelu_erf("gelu", h).unwrap();
    let y = b.linear("fc2", a, 16, true).unwrap();
    let z = b.binary("residual", OpKind::Add, x, y).unwrap();
    b.finish(vec![z]).unwrap()
}

#[test]
fn weights_follow_seed_and_name() {
    let graph = mlp(32);
    let seeded = |seed| to_bytes(&graph, &WriteOptions::seeded(seed)).unwrap();
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
    // Another size of one layer does not change the others.
    let (narrow, wide) =
        (decoded(&graph, &WriteOptions::seeded(1)), decoded(&mlp(48), &WriteOptions::seeded(1)));
    let weight = |graph: &GraphProto, name: &str| {
        graph.initializer.iter().find(|t| t.name == name).unwrap().raw_data.clone()
    };
    assert_eq!(weight(&narrow, "norm.weight"), weight(&wide, "norm.weight"));
    assert_eq!(weight(&narrow, "gelu.half"), 0.5f32.to_le_bytes());
    assert_ne!(weight(&narrow, "fc1.weight"), weight(&narrow, "fc2.weight"));
}

#[test]
fn omitted_weights_are_references() {
    let graph = mlp(32);
    let proto = decoded(&graph, &WriteOptions::default());
    for tensor in &proto.initializer {
        let elements: i64 = tensor.dims.iter().product();
        assert_eq!(tensor.data_location == 1, elements > 64, "{}", tensor.name);
        assert_eq!(tensor.raw_data.is_empty(), elements > 64, "{}", tensor.name);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mlp.onnx");
    write_file(&path, &graph, &WriteOptions::default()).unwrap();
    assert!(!crate::onnx::weights_present(&path).unwrap());
    assert_eq!(
        decoded_bytes(&crate::onnx::materialize(&path, 0).unwrap()),
        decoded(&graph, &WriteOptions::seeded(0))
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

fn decoded_bytes(bytes: &[u8]) -> GraphProto {
    ModelProto::decode(bytes).unwrap().graph.unwrap()
}

#[test]
fn unwritable_places_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken.onnx");
    std::fs::create_dir(&taken).unwrap();
    for path in [folder.path().join("missing/model.onnx"), taken] {
        let error = write_file(&path, &mlp(8), &WriteOptions::default()).unwrap_err();
        assert!(
            matches!(&error, OnnxError::Write { path: named, .. } if *named == path),
            "{error}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn more_than_protobuf_holds_is_refused() {
    let mut builder = GraphBuilder::new("huge");
    let x = builder.input("x", TensorSpec::f32([1, 2, 1 << 15]));
    let y = builder.linear("fc", x, 1 << 15, false).unwrap();
    let graph = builder.finish(vec![y]).unwrap();
    let error = to_bytes(&graph, &WriteOptions::seeded(1)).unwrap_err().to_string();
    assert!(error.contains("2147483647"), "{error}");
    assert!(to_bytes(&graph, &WriteOptions::default()).is_ok());
}

#[test]
fn payloads_keep_their_values() {
    let cases = [
        (
            Precision::I64,
            ConstantData::Ints(vec![-1, 2]),
            [(-1i64).to_le_bytes(), 2i64.to_le_bytes()].concat(),
        ),
        (
            Precision::I32,
            ConstantData::Ints(vec![-1, 2]),
            [(-1i32).to_le_bytes(), 2i32.to_le_bytes()].concat(),
        ),
        (Precision::Bool, ConstantData::Ints(vec![0, 1]), vec![0, 1]),
        (
            Precision::F32,
            ConstantData::Floats(vec![0.5, -2.0]),
            [0.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat(),
        ),
        (Precision::F16, ConstantData::Floats(vec![1.0, -2.5]), vec![0x00, 0x3c, 0x00, 0xc1]),
    ];
    for (precision, data, bytes) in cases {
        assert_eq!(
            tensors::encode(&data, &TensorSpec::new([2], precision)),
            Ok(bytes),
            "{precision}"
        );
        assert!(tensors::encode(&data, &TensorSpec::new([3], precision)).is_err(), "{precision}");
    }
}
