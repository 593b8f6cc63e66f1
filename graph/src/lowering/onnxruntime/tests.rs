//! Each rule on the smallest graph it applies to. The kernels expected are those ONNX Runtime
//! 1.31.1 reports for the same model.

#![allow(clippy::unwrap_used)]

use super::lower;
use crate::{
    Attribute, Attributes, Budget, ConstantData, Graph, GraphBuilder, MemoryFormat, OpKind,
    Precision, TensorSpec, ValueId,
};

fn lowered(shape: &[usize], build: impl Fn(&mut GraphBuilder, ValueId) -> ValueId) -> Graph {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32(shape));
    let y = build(&mut b, x);
    lower(&b.finish(vec![y]).unwrap(), 16).unwrap()
}

/// Kinds, with `/` and fused operators, and `b` for a blocked output.
fn kernels(graph: &Graph) -> Vec<String> {
    let one = |n: &crate::Node| {
        let a = &n.op.attributes;
        let mut text = n.op.kind.name().to_owned();
        for name in ["activation", "residual", "alpha", "trans_b", "channels_last"] {
            match a.get(name) {
                Some(Attribute::Text(t)) => text.push_str(&format!("/{t}")),
                Some(_) => text.push_str(&format!("/{name}")),
                None => {}
            }
        }
        if n.op.outputs[0].format == MemoryFormat::Blocked {
            text.push_str(" b");
        }
        text
    };
    graph.nodes().iter().map(one).collect()
}

fn conv(b: &mut GraphBuilder, name: &str, x: ValueId, weight: [usize; 4], group: i64) -> ValueId {
    let w = b.weight(format!("{name}.w"), TensorSpec::f32(weight));
    let bias = b.weight(format!("{name}.b"), TensorSpec::f32([weight[0]]));
    let pad = (weight[2] / 2) as i64;
    let attributes = Attributes::new().with_ints("pads", [pad; 4]).with_int("group", group);
    b.op(name, OpKind::Conv, attributes, &[x, w, bias]).unwrap()
}

fn plain(b: &mut GraphBuilder, name: &str, kind: OpKind, inputs: &[ValueId]) -> ValueId {
    b.op(name, kind, Attributes::new(), inputs).unwrap()
}

fn transpose(b: &mut GraphBuilder, name: &str, x: ValueId, perm: &[i64]) -> ValueId {
    b.op(name, OpKind::Transpose, Attributes::new().with_ints("perm", perm), &[x]).unwrap()
}

/// Input shape, weight shape, groups, kernels.
type ConvCase = ([usize; 4], [usize; 4], i64, &'static [&'static str]);

#[test]
fn convolutions_are_blocked_where_channels_allow() {
    let cases: [ConvCase; 6] = [
        ([1, 3, 32, 32], [24, 3, 3, 3], 1, &["conv b", "reorder"]),
        ([1, 24, 32, 32], [24, 24, 1, 1], 1, &["reorder b", "conv b", "reorder"]),
        ([1, 18, 32, 32], [36, 18, 3, 3], 1, &["conv"]),
        ([1, 24, 32, 32], [24, 1, 3, 3], 24, &["reorder b", "conv b", "reorder"]),
        ([1, 14, 32, 32], [14, 1, 3, 3], 14, &["conv"]),
        ([1, 48, 32, 32], [48, 24, 3, 3], 2, &["conv"]),
    ];
    for (x, w, group, expected) in cases {
        assert_eq!(
            kernels(&lowered(&x, |b, x| conv(b, "c", x, w, group))),
            expected,
            "{x:?} {w:?}"
        );
    }
    let padded = lowered(&[1, 24, 32, 32], |b, x| conv(b, "c", x, [40, 24, 1, 1], 1));
    let shapes: Vec<_> =
        padded.nodes()[1].op.inputs.iter().map(|i| i.tensor.shape.to_vec()).collect();
    assert_eq!(shapes, [vec![1, 32, 32, 32], vec![48, 32, 1, 1], vec![48]]);
    assert_eq!(padded.nodes()[2].op.outputs[0].shape[..], [1, 40, 32, 32]);
}

#[test]
fn activations_and_residuals_go_into_blocked_convolutions() {
    let g = lowered(&[1, 32, 8, 8], |b, x| {
        let first = conv(b, "c1", x, [32, 32, 1, 1], 1);
        let second = conv(b, "c2", first, [32, 32, 3, 3], 1);
        let sum = plain(b, "add", OpKind::Add, &[second, first]);
        plain(b, "relu", OpKind::Relu, &[sum])
    });
    assert_eq!(kernels(&g), ["reorder b", "conv b", "conv/relu/residual b", "reorder"]);
    let silu = lowered(&[1, 32, 8, 8], |b, x| {
        let y = conv(b, "c", x, [32, 32, 1, 1], 1);
        let s = plain(b, "s", OpKind::Sigmoid, &[y]);
        plain(b, "m", OpKind::Mul, &[y, s])
    });
    assert_eq!(kernels(&silu), ["reorder b", "conv b", "silu b", "reorder"]);
}

#[test]
fn layouts_around_convolutions_are_reorders() {
    let g = lowered(&[1, 64, 32], |b, x| {
        let turned = transpose(b, "t", x, &[0, 2, 1]);
        let image = b
            .op(
                "unflatten",
                OpKind::Reshape,
                Attributes::new().with_ints("shape", [1, 32, 8, 8]),
                &[turned],
            )
            .unwrap();
        let y = conv(b, "c", image, [32, 1, 3, 3], 32);
        transpose(b, "back", y, &[0, 2, 3, 1])
    });
    assert_eq!(
        kernels(&g),
        ["reshape", "reorder/channels_last b", "conv b", "reorder/channels_last"]
    );
}

#[test]
fn a_product_takes_bias_scale_and_transpose() {
    let linear = lowered(&[1, 16, 32], |b, x| {
        let w = b.weight("w", TensorSpec::f32([32, 64]));
        let bias = b.weight("b", TensorSpec::f32([64]));
        let y = plain(b, "mm", OpKind::Linear, &[x, w]);
        plain(b, "add", OpKind::Add, &[bias, y])
    });
    assert_eq!(kernels(&linear), ["reshape", "linear", "reshape"]);
    assert_eq!(linear.nodes()[1].op.inputs.len(), 3);
    let scores = lowered(&[1, 2, 16, 32], |b, x| {
        let half = b.constant("half", TensorSpec::f32([]), ConstantData::Floats(vec![0.5]));
        let k = plain(b, "relu", OpKind::Relu, &[x]);
        let k = transpose(b, "t", k, &[0, 1, 3, 2]);
        let q = plain(b, "scale", OpKind::Mul, &[x, half]);
        plain(b, "mm", OpKind::MatMul, &[q, k])
    });
    assert_eq!(kernels(&scores), ["relu", "matmul/alpha/trans_b"]);
}

#[test]
fn a_transpose_passes_a_split_and_cancels() {
    let g = lowered(&[1, 16, 2, 4], |b, x| {
        let turned = transpose(b, "t", x, &[2, 0, 1, 3]);
        let attributes = Attributes::new().with_int("axis", 0).with_ints("split", [1, 1]);
        let parts = b.op_many("split", OpKind::Split, attributes, &[turned]).unwrap();
        let back: Vec<ValueId> = parts
            .iter()
            .enumerate()
            .map(|(i, &p)| transpose(b, &format!("back{i}"), p, &[1, 2, 0, 3]))
            .collect();
        plain(b, "add", OpKind::Add, &back)
    });
    assert_eq!(kernels(&g), ["split", "add"]);
    assert_eq!(g.nodes()[0].op.attributes.int("axis"), Some(2));
}

/// Beside another reader, only a transpose that undoes it draws a transpose past an operator.
#[test]
fn a_transpose_passes_an_operator_of_several_readers_to_the_one_that_undoes_it() {
    for (perm, passes) in [([0, 2, 1, 3], true), ([0, 1, 3, 2], false)] {
        let mut b = GraphBuilder::new("t");
        let x = b.input("x", TensorSpec::f32([3, 8, 6, 4]));
        let x = plain(&mut b, "abs", OpKind::Abs, &[x]);
        let turned = transpose(&mut b, "t", x, &[0, 2, 1, 3]);
        let gate = plain(&mut b, "gate", OpKind::Sigmoid, &[turned]);
        let back = transpose(&mut b, "back", gate, &perm);
        let outputs = vec![
            plain(&mut b, "relu", OpKind::Relu, &[back]),
            plain(&mut b, "pool", OpKind::GlobalAveragePool, &[gate]),
        ];
        let kernels = lower(&b.finish(outputs).unwrap(), 1).unwrap();
        let transposes = kernels.nodes().iter().filter(|n| n.op.kind == OpKind::Transpose).count();
        assert_eq!(transposes, if passes { 1 } else { 2 });
    }
}

#[test]
fn slices_that_cover_a_tensor_are_a_split() {
    let slice = |b: &mut GraphBuilder, x: ValueId, from: i64, to: i64| {
        let a = Attributes::new()
            .with_ints("axes", [1])
            .with_ints("starts", [from])
            .with_ints("ends", [to])
            .with_ints("steps", [1]);
        b.op(&format!("s{from}"), OpKind::Slice, a, &[x]).unwrap()
    };
    for (cut, expected) in [(8, vec!["split", "add"]), (6, vec!["slice", "slice", "concat"])] {
        let g = lowered(&[1, 16, 4], |b, x| {
            let (left, right) = (slice(b, x, 0, cut), slice(b, x, 8, 16));
            if cut == 8 {
                plain(b, "add", OpKind::Add, &[left, right])
            } else {
                b.op("cat", OpKind::Concat, Attributes::new().with_int("axis", 1), &[left, right])
                    .unwrap()
            }
        });
        assert_eq!(kernels(&g), expected, "cut at {cut}");
    }
}

#[test]
fn a_layer_norm_takes_the_sum_only_it_reads() {
    for shared in [false, true] {
        let g = lowered(&[1, 16, 32], |b, x| {
            let r = plain(b, "relu", OpKind::Relu, &[x]);
            let sum = plain(b, "add", OpKind::Add, &[x, r]);
            let (scale, bias) =
                (b.weight("s", TensorSpec::f32([32])), b.weight("b", TensorSpec::f32([32])));
            let y = plain(b, "norm", OpKind::LayerNorm, &[sum, scale, bias]);
            if shared { plain(b, "mul", OpKind::Mul, &[y, sum]) } else { y }
        });
        let expected: &[&str] = if shared {
            &["relu", "add", "layer_norm", "mul"]
        } else {
            &["relu", "layer_norm/residual"]
        };
        assert_eq!(kernels(&g), expected);
    }
}

#[test]
fn lowering_what_is_lowered_changes_nothing_for_plain_graphs() {
    let g = lowered(&[1, 16, 32], |b, x| {
        let r = plain(b, "relu", OpKind::Relu, &[x]);
        b.op("soft", OpKind::Softmax, Attributes::new().with_int("axis", -1), &[r]).unwrap()
    });
    assert_eq!(lower(&g, 16).unwrap().architecture(), g.architecture());
}

#[test]
fn blocks_of_eight_take_what_blocks_of_sixteen_pad_or_refuse() {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 8, 14, 14]));
    let y = conv(&mut b, "conv", x, [24, 8, 3, 3], 1);
    let graph = b.finish(vec![y]).unwrap();
    let shapes = |block: usize| -> Vec<(OpKind, Vec<usize>)> {
        lower(&graph, block)
            .unwrap()
            .nodes()
            .iter()
            .map(|n| (n.op.kind.clone(), n.op.outputs[0].shape.to_vec()))
            .collect()
    };
    let (reorder, conv) = (OpKind::Reorder, OpKind::Conv);
    let (input, output) = (vec![1, 8, 14, 14], vec![1, 24, 14, 14]);
    assert_eq!(
        shapes(8),
        [
            (reorder.clone(), input),
            (conv.clone(), output.clone()),
            (reorder.clone(), output.clone())
        ]
    );
    // Eight channels are less than a block of sixteen: the convolution reads channels first, and
    // pads its output.
    assert_eq!(shapes(16), [(conv.clone(), vec![1, 32, 14, 14]), (reorder, output.clone())]);
    assert_eq!(shapes(1), [(conv, output)]);
}

#[test]
fn held_to_channels_first_the_third_level_is_off() {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 16, 14, 14]));
    let y = conv(&mut b, "conv", x, [16, 16, 3, 3], 1);
    let y = plain(&mut b, "relu", OpKind::Relu, &[y]);
    let z = conv(&mut b, "second", y, [16, 16, 3, 3], 1);
    let sum = plain(&mut b, "sum", OpKind::Add, &[y, z]);
    let graph = b.finish(vec![sum]).unwrap();
    assert_eq!(
        kernels(
            &super::kernels(
                std::borrow::Cow::Borrowed(&graph),
                super::Rules { block: None, has_gelu: false },
                &Budget::default()
            )
            .unwrap()
        ),
        ["conv/relu", "conv", "add"]
    );
    assert_eq!(kernels(&lower(&graph, 1).unwrap()), ["conv/relu", "conv/residual"]);
}

#[test]
fn scales_paddings_and_factors_are_folded_as_the_engine_does() {
    let folded = lowered(&[1, 8, 14, 14], |b, x| {
        let pads = Attributes::new().with_ints("pads", [0, 0, 1, 1, 0, 0, 1, 1]);
        let padded = b.op("pad", OpKind::Pad, pads, &[x]).unwrap();
        let y = conv(b, "conv", padded, [8, 1, 1, 1], 8);
        let half = b.scalar("half", y, 0.5).unwrap();
        plain(b, "mul", OpKind::Mul, &[y, half])
    });
    assert_eq!(kernels(&folded), ["reorder b", "conv b", "reorder"]);
    let gated = lowered(&[4, 8], |b, x| {
        let factor = b.scalar("factor", x, 1.702).unwrap();
        let scaled = plain(b, "scaled", OpKind::Mul, &[x, factor]);
        let gate = plain(b, "gate", OpKind::Sigmoid, &[scaled]);
        plain(b, "gated", OpKind::Mul, &[x, gate])
    });
    assert_eq!(kernels(&gated), ["silu/alpha"]);
    let batched = lowered(&[196, 3, 64], |b, x| {
        let heads = transpose(b, "heads", x, &[1, 0, 2]);
        let turned = transpose(b, "turned", x, &[1, 2, 0]);
        plain(b, "scores", OpKind::MatMul, &[heads, turned])
    });
    let attributes = Attributes::new()
        .with_int("trans_b", 1)
        .with_int("trans_batch_a", 1)
        .with_int("trans_batch_b", 1);
    assert_eq!(
        batched
            .nodes()
            .iter()
            .map(|n| (n.op.kind.clone(), n.op.attributes.clone()))
            .collect::<Vec<_>>(),
        [(OpKind::MatMul, attributes)]
    );
}

/// Two convolutions as ONNX Runtime's quantiser leaves them: every value between Q and DQ.
#[test]
fn integer_kernels_keep_the_names_of_the_values_they_provide() {
    let mut b = GraphBuilder::new("m");
    let scale = b.weight("scale", TensorSpec::f32([]));
    let zero = b.weight("zero", TensorSpec::new([], Precision::U8));
    let pair = |b: &mut GraphBuilder, name: &str, x| {
        let to = Attributes::new().with("to", Attribute::Text("u8".to_owned()));
        let q = b.op(&format!("{name}/q"), OpKind::Quantize, to, &[x, scale, zero]).unwrap();
        b.op(&format!("{name}/dq"), OpKind::Dequantize, Attributes::new(), &[q, scale, zero])
            .unwrap()
    };
    let x = b.input("x", TensorSpec::f32([1, 16, 8, 8]));
    let mut y = pair(&mut b, "x", x);
    for name in ["first", "second"] {
        let integers = TensorSpec::new([16, 16, 3, 3], Precision::I8);
        let weight = b.weight(format!("{name}/w"), integers);
        let zero = b.weight(format!("{name}/zero"), TensorSpec::new([], Precision::I8));
        let dq = Attributes::new();
        let weight =
            b.op(&format!("{name}/w/dq"), OpKind::Dequantize, dq, &[weight, scale, zero]).unwrap();
        let window = Attributes::new().with_ints("kernel_shape", [3, 3]).with_ints("pads", [1; 4]);
        y = b.op(name, OpKind::Conv, window, &[y, weight]).unwrap();
        y = b.op(&format!("{name}/relu"), OpKind::Relu, Attributes::new(), &[y]).unwrap();
        y = pair(&mut b, name, y);
    }
    let kernels = lower(&b.finish(vec![y]).unwrap(), 16).unwrap();
    let provided: Vec<&str> = kernels
        .nodes()
        .iter()
        .filter(|n| n.op.kind == OpKind::Conv)
        .map(|n| kernels.value(n.outputs[0]).name.as_str())
        .collect();
    // A transpose behind the last one provides the integers.
    assert_eq!(provided, ["first/q_out", "second_out"]);
}
