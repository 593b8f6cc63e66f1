use super::*;
use crate::{
    Attribute, Attributes, ConstantData, GraphBuilder, Precision, TensorSpec, ValueId, ValueSource,
    Work,
};
use proptest::prelude::*;

/// Convolutions with and without an activation, a depthwise one, a residual, attention without
/// projections, a classifier.
fn model(channels: usize, size: usize, heads: usize) -> Graph {
    let mut b = GraphBuilder::new("small");
    let image = b.input("image", TensorSpec::f32([1, 3, size, size]));
    let x = b.conv("stem", image, channels, 3, 2, 1, 1, true).unwrap();
    let x = b.unary("stem.relu", OpKind::Relu, x).unwrap();
    let y = b.conv("dw", x, channels, 3, 1, 1, channels, false).unwrap();
    let y = b
        .op(
            "dw.clip",
            OpKind::Clip,
            Attributes::new().with("min", Attribute::Float(0.0)).with("max", Attribute::Float(6.0)),
            &[y],
        )
        .unwrap();
    let y = b.conv("pw", y, channels, 1, 1, 0, 1, true).unwrap();
    let x = b.binary("add", OpKind::Add, x, y).unwrap();
    let side = size.div_ceil(2);
    let x = b.reshape("flat", x, &[1, channels, side * side]).unwrap();
    let x = b
        .op("tokens", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 1]), &[x])
        .unwrap();
    let x = b.layer_norm("norm", x).unwrap();
    let qkv = b.linear("qkv", x, 3 * channels, true).unwrap();
    let split = b.reshape("heads", qkv, &[1, side * side, 3 * heads, channels / heads]).unwrap();
    let split = b
        .op(
            "heads.t",
            OpKind::Transpose,
            Attributes::new().with_ints("perm", [0, 2, 1, 3]),
            &[split],
        )
        .unwrap();
    let parts = Attributes::new().with_int("axis", 1).with_ints("split", [heads as i64; 3]);
    let parts = b.op_many("parts", OpKind::Split, parts, &[split]).unwrap();
    let keys = b
        .op(
            "keys",
            OpKind::Transpose,
            Attributes::new().with_ints("perm", [0, 1, 3, 2]),
            &[parts[1]],
        )
        .unwrap();
    let scores = b.op("scores", OpKind::MatMul, Attributes::new(), &[parts[0], keys]).unwrap();
    let scores = b
        .op("softmax", OpKind::Softmax, Attributes::new().with_int("axis", -1), &[scores])
        .unwrap();
    let mixed = b.op("mix", OpKind::MatMul, Attributes::new(), &[scores, parts[2]]).unwrap();
    let mixed = b
        .op(
            "mixed.t",
            OpKind::Transpose,
            Attributes::new().with_ints("perm", [0, 2, 1, 3]),
            &[mixed],
        )
        .unwrap();
    let mixed = b.reshape("mixed", mixed, &[1, side * side, channels]).unwrap();
    let pooled = b
        .op(
            "pool",
            OpKind::ReduceMean,
            Attributes::new().with_ints("axes", [1]).with_int("keepdims", 0),
            &[mixed],
        )
        .unwrap();
    let logits = b.linear("head", pooled, 10, true).unwrap();
    b.finish(vec![logits, y]).unwrap()
}

fn shapes(graph: &Graph) -> Vec<(String, Vec<usize>)> {
    graph
        .outputs()
        .iter()
        .map(|&id| {
            (graph.value(id).name.clone(), graph.value(id).tensor.clone().unwrap().shape.to_vec())
        })
        .collect()
}

/// Every node reads earlier values, and shape inference agrees with the stored shapes.
fn assert_sound(graph: &Graph) {
    for (index, node) in graph.nodes().iter().enumerate() {
        for &input in &node.inputs {
            assert!(
                !matches!(graph.value(input).source, ValueSource::Node(from) if from as usize >= index),
                "{}",
                node.name
            );
        }
        let inferred = crate::shape::infer(&node.op.kind, &node.op.attributes, &node.op.inputs)
            .unwrap_or_else(|e| panic!("{}: {e}", node.name));
        assert_eq!(inferred, node.op.outputs, "{}", node.name);
    }
    let mut names: Vec<_> = graph.values().iter().map(|v| &v.name).collect();
    names.sort();
    assert!(names.windows(2).all(|w| w[0] != w[1]));
}

fn reader_of<'a>(graph: &'a Graph, name: &str) -> &'a crate::Node {
    graph.nodes().iter().find(|n| n.name == name).unwrap()
}

fn producer(graph: &Graph, id: ValueId) -> &crate::Node {
    graph.producer(id).unwrap()
}

#[test]
fn products_read_and_convolutions_write_integers() {
    let graph = qdq(&model(8, 8, 2), &Options::seeded(1)).unwrap();
    for name in ["stem", "dw", "pw", "qkv", "scores", "mix", "head"] {
        let node = reader_of(&graph, name);
        assert!(
            node.inputs.iter().all(|&id| producer(&graph, id).op.kind == OpKind::Dequantize),
            "{name}"
        );
    }
    // (convolution, operators between it and its Q)
    for (name, after) in [("stem", "stem.relu"), ("dw", "dw.clip"), ("pw", "pw")] {
        let left = reader_of(&graph, after).outputs[0];
        let readers: Vec<_> = graph.nodes().iter().filter(|n| n.inputs.contains(&left)).collect();
        assert!(readers.len() == 1 && readers[0].op.kind == OpKind::Quantize, "{name}");
    }
    let stem = reader_of(&graph, "stem");
    let [x, w, b] = [0, 1, 2].map(|i| producer(&graph, stem.inputs[i]));
    assert_eq!(x.op.inputs[0].tensor.precision, Precision::U8);
    assert_eq!(
        (
            w.op.inputs[0].tensor.precision,
            w.op.attributes.int("axis"),
            &w.op.inputs[1].tensor.shape[..]
        ),
        (Precision::I8, Some(0), &[8][..])
    );
    assert_eq!(
        (b.op.inputs[0].tensor.precision, b.op.attributes.int("axis")),
        (Precision::I32, Some(0))
    );
    let qkv = producer(&graph, reader_of(&graph, "qkv").inputs[1]);
    assert_eq!(
        (qkv.op.attributes.int("axis"), &qkv.op.inputs[1].tensor.shape[..]),
        (Some(1), &[24][..])
    );
    // A value with two readers is quantised once: the residual reads the convolution's input.
    assert_eq!(reader_of(&graph, "add").inputs[0], reader_of(&graph, "dw").inputs[0]);
    // A ReLU's range begins at 0, so that engines can drop the ReLU.
    let zero = graph.values().iter().find(|v| v.name == "stem.relu_out/zero_point").unwrap();
    assert_eq!(zero.source, ValueSource::Constant(Some(ConstantData::Ints(vec![0]))));
}

#[test]
fn products_of_computed_tensors_read_ranges_around_zero_but_attention_weights() {
    for options in [Options::default(), Options::seeded(1), Options::seeded(2)] {
        let graph = qdq(&model(8, 8, 2), &options).unwrap();
        let zero = |node: &str, operand: usize| {
            let pair = producer(&graph, reader_of(&graph, node).inputs[operand]);
            graph.value(pair.inputs[2]).source.clone()
        };
        let middle = ValueSource::Constant(Some(ConstantData::Ints(vec![128])));
        assert_eq!(
            [zero("scores", 0), zero("scores", 1), zero("mix", 1)],
            [middle.clone(), middle.clone(), middle.clone()],
            "{options:?}"
        );
        assert_ne!(zero("mix", 0), middle, "{options:?}");
    }
}

#[test]
fn structure_does_not_depend_on_values_and_survives_the_file() {
    let plain = model(8, 8, 2);
    let structure = qdq(&plain, &Options::default()).unwrap();
    assert_eq!(structure.architecture(), qdq(&plain, &Options::seeded(3)).unwrap().architecture());
    assert!(structure.values().iter().all(|v| !v.name.contains("/scale")
        || v.source == ValueSource::Constant(None)
        || matches!(v.source, ValueSource::Node(_))));
    for conversion in
        [Conversion::Qdq, Conversion::QdqResults, Conversion::Integer, Conversion::Half]
    {
        let bytes = conversion.model_bytes(&plain, 3, (-1.0, 1.0)).unwrap();
        assert_eq!(bytes, conversion.model_bytes(&plain, 3, (-1.0, 1.0)).unwrap());
        let read = onnx::read_bytes("small", &bytes, &onnx::ReadOptions::default()).unwrap();
        let kinds = |g: &Graph| g.kinds();
        assert_eq!(
            kinds(&read),
            kinds(&conversion.apply(&plain, &Options::default()).unwrap()),
            "{conversion:?}"
        );
        assert_eq!(shapes(&read), shapes(&plain), "{conversion:?}");
        assert_eq!(Work::of_graph(&read).macs, Work::of_graph(&plain).macs, "{conversion:?}");
    }
}

#[test]
fn weights_of_a_file_are_quantised_with_their_own_ranges() {
    let plain = model(8, 8, 2);
    let bytes = onnx::to_bytes(&plain, &onnx::WriteOptions::seeded(5)).unwrap();
    let with_values = onnx::read_weights("small", &bytes, &onnx::ReadOptions::default()).unwrap();
    // Seeded values in the file equal those computed on demand.
    let conversions =
        [(Conversion::Qdq, 127), (Conversion::QdqResults, 127), (Conversion::Integer, 64)];
    for (conversion, most) in conversions {
        let weights = |g: &Graph| {
            let graph = conversion.apply(g, &Options::seeded(5)).unwrap();
            let integers = graph.values().iter().filter(|v| v.name.ends_with(".weight/quantized"));
            integers
                .map(|v| (v.name.clone(), v.source.clone()))
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        assert_eq!(weights(&with_values), weights(&plain));
        assert!(weights(&plain).values().all(|s| matches!(s, ValueSource::Constant(Some(ConstantData::Ints(v))) if v.iter().map(|i| i.abs()).max() == Some(most))));
    }
}

#[test]
fn a_quantised_model_stays_as_it_is() {
    let once = qdq(&model(8, 8, 2), &Options::seeded(1)).unwrap();
    assert_eq!(qdq(&once, &Options::seeded(1)).unwrap(), once);
    assert!(is_quantized(&once) && !is_quantized(&model(8, 8, 2)));
}

#[test]
fn half_is_half_everywhere() {
    let graph = half(&model(8, 8, 2)).unwrap();
    assert!(
        graph
            .values()
            .iter()
            .all(|v| v.tensor.as_ref().is_none_or(|t| t.precision != Precision::F32))
    );
    assert_sound(&graph);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn rewritten_graphs_are_sound(channels in 1usize..5, size in 2usize..12, heads in 1usize..3, seed: u64) {
        let plain = model(4 * channels, size, heads);
        for conversion in [Conversion::Qdq, Conversion::QdqResults, Conversion::Integer, Conversion::Half] {
            for options in [Options::default(), Options::seeded(seed)] {
                let graph = conversion.apply(&plain, &options).unwrap();
                assert_sound(&graph);
                prop_assert_eq!(shapes(&graph), shapes(&plain));
                prop_assert_eq!(graph.inputs().len(), plain.inputs().len());
            }
        }
    }
}
