//! Variants worked out by hand: which dimensions shrink, and which weights are removed.

use super::*;
use crate::{Attributes, ConstantData, GraphBuilder, TensorSpec};

fn floats(shape: &[usize], value: impl Fn(usize) -> f64) -> ConstantData {
    ConstantData::Floats((0..shape.iter().product()).map(value).collect())
}

fn constant(
    builder: &mut GraphBuilder,
    name: &str,
    shape: &[usize],
    value: impl Fn(usize) -> f64,
) -> ValueId {
    builder.constant(name, TensorSpec::f32(shape), floats(shape, value))
}

fn shape<'a>(graph: &'a Graph, name: &str) -> &'a [usize] {
    &graph.values().iter().find(|v| v.name == name).unwrap().tensor.as_ref().unwrap().shape
}

fn payload<'a>(graph: &'a Graph, name: &str) -> &'a [f64] {
    match &graph.values().iter().find(|v| v.name == name).unwrap().source {
        ValueSource::Constant(Some(ConstantData::Floats(v))) => v,
        other => panic!("{name} is {other:?}"),
    }
}

/// x + fc2(relu(fc1(x) + b1)): 4 features, 16 hidden ones; odd hidden features have the larger
/// weights.
fn mlp() -> Graph {
    let mut builder = GraphBuilder::new("mlp");
    let x = builder.input("x", TensorSpec::f32([2, 4]));
    let w1 = constant(&mut builder, "w1", &[4, 16], |i| if i % 2 == 1 { 2.0 } else { 1.0 });
    let b1 = constant(&mut builder, "b1", &[16], |i| i as f64);
    let w2 = constant(&mut builder, "w2", &[16, 4], |i| if i / 4 % 2 == 1 { 2.0 } else { 1.0 });
    let hidden = builder.op("fc1", OpKind::Linear, Attributes::new(), &[x, w1]).unwrap();
    let biased = builder.op("bias", OpKind::Add, Attributes::new(), &[b1, hidden]).unwrap();
    let relu = builder.op("relu", OpKind::Relu, Attributes::new(), &[biased]).unwrap();
    let out = builder.op("fc2", OpKind::Linear, Attributes::new(), &[relu, w2]).unwrap();
    let sum = builder.op("sum", OpKind::Add, Attributes::new(), &[x, out]).unwrap();
    builder.finish(vec![sum]).unwrap()
}

#[test]
fn hidden_features_shrink_by_magnitude_and_the_rest_stays() {
    let pruned = structured(&mlp(), 0.5, &[]).unwrap();
    assert_eq!(
        (shape(&pruned, "w1"), shape(&pruned, "b1"), shape(&pruned, "w2")),
        (&[4, 8][..], &[8][..], &[8, 4][..])
    );
    assert_eq!((shape(&pruned, "relu_out"), shape(&pruned, "sum_out")), (&[2, 8][..], &[2, 4][..]));
    assert_eq!(payload(&pruned, "b1"), [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]);
    assert!(payload(&pruned, "w1").iter().chain(payload(&pruned, "w2")).all(|&v| v == 2.0));
}

#[test]
fn what_is_kept_is_not_pruned() {
    assert!(matches!(structured(&mlp(), 0.5, &["relu_out"]), Err(SparsifyError::Nothing { .. })));
    assert_eq!(
        structured(&mlp(), 0.5, &["nope"]),
        Err(SparsifyError::NoTensor { model: "mlp".into(), tensor: "nope".into() })
    );
    assert_eq!(structured(&mlp(), 1.0, &[]), Err(SparsifyError::Share { share: 1.0 }));
    assert!(
        matches!(structured(&mlp(), 0.01, &[]), Err(SparsifyError::Nothing { .. })),
        "less than a unit is nothing"
    );
}

/// An inverted bottleneck with squeeze and excitation, then pooling into a classifier.
#[test]
fn expanded_channels_of_a_bottleneck_shrink_through_its_branches() {
    let mut builder = GraphBuilder::new("bottleneck");
    let conv = |group: i64| Attributes::new().with_int("group", group);
    let x = builder.input("x", TensorSpec::f32([1, 8, 6, 6]));
    let mut weight = |name: &str, shape: &[usize]| {
        constant(&mut builder, name, shape, |i| (i as f64 * 0.7).sin())
    };
    let (expand, depthwise, squeeze, excite) = (
        weight("expand", &[32, 8, 1, 1]),
        weight("depthwise", &[32, 1, 3, 3]),
        weight("squeeze", &[16, 32, 1, 1]),
        weight("excite", &[32, 16, 1, 1]),
    );
    let (project, classify) = (weight("project", &[8, 32, 1, 1]), weight("classify", &[8, 10]));
    let expanded = builder.op("expanded", OpKind::Conv, conv(1), &[x, expand]).unwrap();
    let padded = Attributes::new().with_int("group", 32).with_ints("pads", [1, 1, 1, 1]);
    let filtered = builder.op("filtered", OpKind::Conv, padded, &[expanded, depthwise]).unwrap();
    let mean =
        builder.op("mean", OpKind::GlobalAveragePool, Attributes::new(), &[filtered]).unwrap();
    let squeezed = builder.op("squeezed", OpKind::Conv, conv(1), &[mean, squeeze]).unwrap();
    let excited = builder.op("excited", OpKind::Conv, conv(1), &[squeezed, excite]).unwrap();
    let gate = builder.op("gate", OpKind::Sigmoid, Attributes::new(), &[excited]).unwrap();
    let gated = builder.op("gated", OpKind::Mul, Attributes::new(), &[filtered, gate]).unwrap();
    let projected = builder.op("projected", OpKind::Conv, conv(1), &[gated, project]).unwrap();
    let sum = builder.op("sum", OpKind::Add, Attributes::new(), &[x, projected]).unwrap();
    let pooled =
        builder.op("pooled", OpKind::GlobalAveragePool, Attributes::new(), &[sum]).unwrap();
    let flat = builder
        .op("flat", OpKind::Reshape, Attributes::new().with_ints("shape", [1, 8]), &[pooled])
        .unwrap();
    let logits =
        builder.op("logits", OpKind::Linear, Attributes::new(), &[flat, classify]).unwrap();
    let graph = builder.finish(vec![logits]).unwrap();

    let pruned = structured(&graph, 0.5, &[]).unwrap();
    let shapes = ["expand", "depthwise", "squeeze", "excite", "project", "classify"]
        .map(|name| shape(&pruned, name).to_vec());
    assert_eq!(
        shapes,
        [
            vec![16, 8, 1, 1],
            vec![16, 1, 3, 3],
            vec![8, 16, 1, 1],
            vec![16, 8, 1, 1],
            vec![8, 16, 1, 1],
            vec![8, 10]
        ]
    );
    let node = pruned.nodes().iter().find(|n| n.name == "filtered").unwrap();
    assert_eq!(node.op.attributes.int("group"), Some(16));
    // It is a model: it can be written and read again.
    let bytes = crate::onnx::to_bytes(&pruned, &crate::onnx::WriteOptions::seeded(1)).unwrap();
    let read =
        crate::onnx::read_weights("pruned", &bytes, &crate::onnx::ReadOptions::default()).unwrap();
    assert_eq!(read.architecture(), pruned.architecture());
}

#[test]
fn masks_zero_the_smallest_weights_of_each_product() {
    let masked = masked(&mlp(), 0.5).unwrap();
    let zeros = |name: &str| payload(&masked, name).iter().filter(|v| **v == 0.0).count();
    assert_eq!((zeros("w1"), zeros("w2"), zeros("b1")), (32, 32, 1), "biases are left alone");
    assert!(payload(&masked, "w1").iter().all(|&v| v == 0.0 || v == 2.0));
    assert_eq!(masked.architecture(), mlp().architecture());
}

#[test]
fn masks_need_values_and_pruned_structure_does_not() {
    let mut builder = GraphBuilder::new("bare");
    let x = builder.input("x", TensorSpec::f32([2, 4]));
    let (w1, w2) = (
        builder.weight("w1", TensorSpec::f32([4, 16])),
        builder.weight("w2", TensorSpec::f32([16, 4])),
    );
    let hidden = builder.op("fc1", OpKind::Linear, Attributes::new(), &[x, w1]).unwrap();
    let out = builder.op("fc2", OpKind::Linear, Attributes::new(), &[hidden, w2]).unwrap();
    let bare = builder.finish(vec![out]).unwrap();
    assert_eq!(
        masked(&bare, 0.5),
        Err(SparsifyError::NoValues { model: "bare".into(), weight: "w1".into() })
    );
    assert_eq!(shape(&structured(&bare, 0.5, &[]).unwrap(), "w2"), [8, 4]);
}
