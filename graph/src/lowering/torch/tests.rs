//! Small graphs and the calls they become.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Attribute, Attributes, ConstantData, GraphBuilder, OpKind, TensorSpec, ValueId};

fn kinds(graph: &Graph) -> Vec<String> {
    graph.nodes().iter().map(|n| n.op.kind.name().to_owned()).collect()
}

fn op(
    b: &mut GraphBuilder,
    name: &str,
    kind: OpKind,
    attributes: Attributes,
    inputs: &[ValueId],
) -> ValueId {
    b.op(name, kind, attributes, inputs).unwrap()
}

fn conv(b: &mut GraphBuilder, x: ValueId, pads: [i64; 4]) -> ValueId {
    let weight = b.weight("w", TensorSpec::f32([8, 3, 3, 3]));
    let attributes = Attributes::new()
        .with_ints("kernel_shape", [3, 3])
        .with_ints("strides", [2, 2])
        .with_ints("pads", pads)
        .with_ints("dilations", [1, 1])
        .with_int("group", 1);
    op(b, "conv", OpKind::Conv, attributes, &[x, weight])
}

#[test]
fn an_image_keeps_its_format_until_it_becomes_tokens() {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
    let y = conv(&mut b, x, [1, 1, 1, 1]);
    let y = op(&mut b, "relu", OpKind::Relu, Attributes::new(), &[y]);
    let y = op(
        &mut b,
        "flatten",
        OpKind::Reshape,
        Attributes::new().with_ints("shape", [1, 8, 16]),
        &[y],
    );
    let y = op(
        &mut b,
        "tokens",
        OpKind::Transpose,
        Attributes::new().with_ints("perm", [0, 2, 1]),
        &[y],
    );
    let y = op(&mut b, "scale", OpKind::Sigmoid, Attributes::new(), &[y]);
    let graph = b.finish(vec![y]).unwrap();
    let last = program(&graph, Precision::Bf16, MemoryFormat::ChannelsLast).unwrap();
    let formats: Vec<_> = last.nodes().iter().map(|n| n.op.outputs[0].format).collect();
    assert_eq!(formats[..2], [MemoryFormat::ChannelsLast; 2]);
    assert_eq!(formats[2..], [MemoryFormat::ChannelsFirst; 3]);
    assert!(
        last.nodes()[0].op.inputs.iter().all(|i| i.tensor.format == MemoryFormat::ChannelsLast
            && i.tensor.precision == Precision::Bf16)
    );
    assert_eq!(last.nodes()[4].op.attributes.ints("perm_0"), [] as [i64; 0]);
    let first = program(&graph, Precision::F32, MemoryFormat::ChannelsFirst).unwrap();
    assert!(first.nodes().iter().all(|n| n.op.outputs[0].format == MemoryFormat::ChannelsFirst));
    // Channels last, tokens lie row by row; channels first, they are read across.
    assert_eq!(first.nodes()[4].op.attributes.ints("perm_0"), [0, 2, 1]);
}

#[test]
fn batch_norm_of_permuted_tokens_writes_them_row_by_row() {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 7, 4]));
    let parameters =
        ["scale", "shift", "mean", "variance"].map(|name| b.weight(name, TensorSpec::f32([4])));
    let there = op(
        &mut b,
        "there",
        OpKind::Transpose,
        Attributes::new().with_ints("perm", [0, 2, 1]),
        &[x],
    );
    let y = op(
        &mut b,
        "norm",
        OpKind::BatchNorm,
        Attributes::new(),
        &[&[there][..], &parameters].concat(),
    );
    let back =
        op(&mut b, "back", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 1]), &[y]);
    let z = op(&mut b, "scaled", OpKind::Sigmoid, Attributes::new(), &[back]);
    let program =
        program(&b.finish(vec![z]).unwrap(), Precision::F32, MemoryFormat::ChannelsFirst).unwrap();
    let orders: Vec<_> =
        program.nodes().iter().map(|n| n.op.attributes.ints("perm_0").to_vec()).collect();
    assert_eq!(orders, [vec![], vec![0, 2, 1], vec![], vec![0, 2, 1]]);
}

#[test]
fn heads_are_gathered_by_a_copy() {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 3, 7, 4]));
    let y = op(
        &mut b,
        "heads",
        OpKind::Transpose,
        Attributes::new().with_ints("perm", [0, 2, 1, 3]),
        &[x],
    );
    let y = op(
        &mut b,
        "merge",
        OpKind::Reshape,
        Attributes::new().with_ints("shape", [1, 7, 12]),
        &[y],
    );
    let z =
        op(&mut b, "split", OpKind::Reshape, Attributes::new().with_ints("shape", [7, 12]), &[y]);
    let program =
        program(&b.finish(vec![z]).unwrap(), Precision::F32, MemoryFormat::ChannelsFirst).unwrap();
    let copies: Vec<_> = program.nodes().iter().map(|n| n.op.attributes.int("copy")).collect();
    assert_eq!(copies, [None, Some(1), None]);
    assert_eq!(program.nodes()[1].op.attributes.ints("perm_0"), [0, 2, 1, 3]);
}

#[test]
fn what_the_author_wrote_is_one_call() {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 7, 4]));
    let (w, bias) = (b.weight("w", TensorSpec::f32([4, 6])), b.weight("b", TensorSpec::f32([6])));
    let y = op(&mut b, "product", OpKind::Linear, Attributes::new(), &[x, w]);
    let y = op(&mut b, "bias", OpKind::Add, Attributes::new(), &[bias, y]);
    let soft = op(&mut b, "softplus", OpKind::Softplus, Attributes::new(), &[y]);
    let tanh = op(&mut b, "tanh", OpKind::Tanh, Attributes::new(), &[soft]);
    let y = op(&mut b, "mul", OpKind::Mul, Attributes::new(), &[y, tanh]);
    let y = op(
        &mut b,
        "same",
        OpKind::Cast,
        Attributes::new().with("to", Attribute::Text("f32".into())),
        &[y],
    );
    let y = op(&mut b, "identity", OpKind::Identity, Attributes::new(), &[y]);
    let program =
        program(&b.finish(vec![y]).unwrap(), Precision::F32, MemoryFormat::ChannelsFirst).unwrap();
    assert_eq!(kinds(&program), ["linear", "mish"]);
    assert_eq!(program.nodes()[0].op.inputs.len(), 3);
    assert_eq!(program.nodes()[0].name, "product");
}

#[test]
fn a_bias_that_is_no_vector_of_features_stays_an_addition() {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 7, 6]));
    let w = b.weight("w", TensorSpec::f32([6, 6]));
    let y = op(&mut b, "product", OpKind::Linear, Attributes::new(), &[x, w]);
    let one = b.constant("one", TensorSpec::f32([1]), ConstantData::Floats(vec![1.0]));
    let y = op(&mut b, "add", OpKind::Add, Attributes::new(), &[y, one]);
    let program =
        program(&b.finish(vec![y]).unwrap(), Precision::F32, MemoryFormat::ChannelsFirst).unwrap();
    assert_eq!(kinds(&program), ["linear", "add"]);
}

#[test]
fn uneven_padding_is_a_call_of_its_own() {
    for (pads, expected) in [([1, 1, 1, 1], vec!["conv"]), ([0, 0, 1, 1], vec!["pad", "conv"])] {
        let mut b = GraphBuilder::new("t");
        let x = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
        let y = conv(&mut b, x, pads);
        let program =
            program(&b.finish(vec![y]).unwrap(), Precision::F32, MemoryFormat::ChannelsFirst)
                .unwrap();
        assert_eq!(kinds(&program), expected);
        assert_eq!(program.nodes().last().unwrap().op.outputs[0].shape[..], [1, 8, 4, 4]);
        if expected.len() == 2 {
            assert_eq!(program.nodes()[0].op.outputs[0].shape[..], [1, 3, 9, 9]);
            assert_eq!(program.nodes()[1].op.attributes.ints("pads"), [0; 4]);
        }
    }
}
