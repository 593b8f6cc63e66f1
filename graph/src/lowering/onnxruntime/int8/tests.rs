//! Each rule on the smallest graph it applies to. The kernels expected are those that ONNX Runtime
//! 1.31.1 saves for the same model.

#![allow(clippy::unwrap_used)]

use super::super::lower;
use crate::{
    Attribute, Attributes, ConstantData, Graph, GraphBuilder, MemoryFormat, OpKind, Precision,
    TensorSpec, ValueId,
};

/// A graph of Q/DQ pairs under construction.
struct Pairs {
    b: GraphBuilder,
    made: usize,
}

impl Pairs {
    fn name(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{what}{}", self.made)
    }

    fn op(&mut self, kind: OpKind, attributes: Attributes, inputs: &[ValueId]) -> ValueId {
        let name = self.name("n");
        self.b.op(&name, kind, attributes, inputs).unwrap()
    }

    fn plain(&mut self, kind: OpKind, inputs: &[ValueId]) -> ValueId {
        self.op(kind, Attributes::new(), inputs)
    }

    fn constant(&mut self, tensor: TensorSpec, data: ConstantData) -> ValueId {
        let name = self.name("c");
        self.b.constant(name, tensor, data)
    }

    /// Q and DQ behind a value.
    fn pair(&mut self, x: ValueId, scale: f64, zero: i64) -> ValueId {
        let scale = self.constant(TensorSpec::f32([]), ConstantData::Floats(vec![scale]));
        let zero =
            self.constant(TensorSpec::new([], Precision::U8), ConstantData::Ints(vec![zero]));
        let to = Attributes::new().with("to", Attribute::Text("u8".to_owned()));
        let q = self.op(OpKind::Quantize, to, &[x, scale, zero]);
        self.plain(OpKind::Dequantize, &[q, scale, zero])
    }

    fn qdq(&mut self, x: ValueId) -> ValueId {
        self.pair(x, 0.1, 128)
    }

    /// Q and DQ of a scale without a value.
    fn unknown(&mut self, x: ValueId) -> ValueId {
        let (scale, zero) = (self.name("scale"), self.name("zero"));
        let scale = self.b.weight(scale, TensorSpec::f32([]));
        let zero = self.b.weight(zero, TensorSpec::new([], Precision::U8));
        let to = Attributes::new().with("to", Attribute::Text("u8".to_owned()));
        let q = self.op(OpKind::Quantize, to, &[x, scale, zero]);
        self.plain(OpKind::Dequantize, &[q, scale, zero])
    }

    /// A weight or bias behind its DQ.
    fn weight(&mut self, shape: &[usize], precision: Precision) -> ValueId {
        let name = self.name("w");
        let integers = self.b.weight(name, TensorSpec::new(shape, precision));
        let scale = self.constant(TensorSpec::f32([]), ConstantData::Floats(vec![0.01]));
        let zero = self.constant(TensorSpec::new([], precision), ConstantData::Ints(vec![0]));
        self.plain(OpKind::Dequantize, &[integers, scale, zero])
    }

    fn conv(&mut self, x: ValueId, channels: [usize; 2]) -> ValueId {
        let [inputs, outputs] = channels;
        let weight = self.weight(&[outputs, inputs, 1, 1], Precision::I8);
        self.plain(OpKind::Conv, &[x, weight])
    }

    /// A convolution of 16 channels and the pair behind it.
    fn conv_pair(&mut self, x: ValueId) -> ValueId {
        let y = self.conv(x, [16, 16]);
        self.qdq(y)
    }

    fn linear(&mut self, x: ValueId, shape: [usize; 2]) -> ValueId {
        let weight = self.weight(&shape, Precision::I8);
        self.plain(OpKind::Linear, &[x, weight])
    }

    fn biased(&mut self, x: ValueId, shape: [usize; 2]) -> ValueId {
        let (y, bias) = (self.linear(x, shape), self.weight(&shape[1..], Precision::I32));
        self.plain(OpKind::Add, &[y, bias])
    }

    fn reshape(&mut self, x: ValueId, shape: &[i64]) -> ValueId {
        self.op(OpKind::Reshape, Attributes::new().with_ints("shape", shape), &[x])
    }

    fn transpose(&mut self, x: ValueId, perm: &[i64]) -> ValueId {
        self.op(OpKind::Transpose, Attributes::new().with_ints("perm", perm), &[x])
    }

    fn layer_norm(&mut self, x: ValueId, features: usize) -> ValueId {
        let name = self.name("scale");
        let scale = self.b.weight(name, TensorSpec::f32([features]));
        self.op(OpKind::LayerNorm, Attributes::new().with_int("axis", -1), &[x, scale])
    }
}

fn lowered(shape: &[usize], build: impl Fn(&mut Pairs, ValueId) -> Vec<ValueId>) -> Graph {
    let mut pairs = Pairs { b: GraphBuilder::new("t"), made: 0 };
    let x = pairs.b.input("x", TensorSpec::f32(shape));
    let outputs = build(&mut pairs, x);
    lower(&pairs.b.finish(outputs).unwrap(), 16).unwrap()
}

/// Kinds in alphabetic order, those of integers with `8`, those that work channels last with
/// `last`.
fn kernels(graph: &Graph) -> Vec<String> {
    let one = |node: &crate::Node| {
        let mut text = node.op.kind.name().to_owned();
        let x = &node.op.inputs[0].tensor;
        if x.precision == Precision::U8 && node.op.kind != OpKind::Dequantize {
            text.push('8');
        }
        if x.format == MemoryFormat::ChannelsLast {
            text.push_str(" last");
        }
        text
    };
    let mut all: Vec<String> = graph.nodes().iter().map(one).collect();
    all.sort();
    all
}

const IMAGE: [usize; 4] = [1, 16, 8, 8];

#[test]
fn every_reader_has_a_dq_of_its_own_and_the_pair_travels_over_each_reshape() {
    let g = lowered(&[1, 4, 16], |p, x| {
        let x = p.qdq(x);
        (0..3).map(|_| p.biased(x, [16, 8])).collect()
    });
    let expected = ["linear8", "linear8", "linear8", "quantize", "reshape", "reshape", "reshape"]
        .into_iter()
        .chain(["reshape8", "reshape8", "reshape8"]);
    assert_eq!(kernels(&g), expected.collect::<Vec<_>>());
}

#[test]
fn pairs_travel_forward_over_movements_to_each_reader() {
    let g = lowered(&[1, 4, 16], |p, x| {
        let x = p.qdq(x);
        let moved = p.reshape(x, &[4, 16]);
        vec![p.layer_norm(moved, 16), p.plain(OpKind::Sigmoid, &[moved])]
    });
    assert_eq!(
        kernels(&g),
        ["dequantize", "dequantize", "layer_norm", "quantize", "reshape8", "sigmoid"]
    );
    let flattened = lowered(&IMAGE, |p, x| {
        let x = p.qdq(x);
        let c = p.conv_pair(x);
        let tokens = p.reshape(c, &[1, 16, 64]);
        let tokens = p.transpose(tokens, &[0, 2, 1]);
        vec![p.layer_norm(tokens, 16)]
    });
    assert_eq!(
        kernels(&flattened),
        [
            "conv8 last",
            "dequantize",
            "layer_norm",
            "quantize",
            "reshape8",
            "transpose8",
            "transpose8",
            "transpose8"
        ]
    );
}

#[test]
fn a_pair_does_not_travel_where_a_q_reads_the_moved_value_beside_others() {
    let g = lowered(&[1, 4, 16], |p, x| {
        let x = p.qdq(x);
        let moved = p.reshape(x, &[4, 16]);
        let q = p.qdq(moved);
        vec![p.linear(q, [16, 8]), p.layer_norm(moved, 16)]
    });
    assert_eq!(
        kernels(&g),
        ["dequantize", "layer_norm", "linear8", "quantize", "quantize", "reshape"]
    );
}

#[test]
fn a_pair_travels_backward_over_what_has_no_other_reader() {
    for shared in [false, true] {
        let g = lowered(&[1, 4, 16], |p, x| {
            let x = p.plain(OpKind::Sigmoid, &[x]);
            let moved = p.reshape(x, &[4, 16]);
            let q = p.qdq(moved);
            let mut outputs = vec![p.linear(q, [16, 8])];
            outputs.extend(shared.then(|| p.plain(OpKind::Abs, &[x])));
            outputs
        });
        let expected: &[&str] = if shared {
            &["abs", "linear8", "quantize", "reshape", "sigmoid"]
        } else {
            &["linear8", "quantize", "reshape8", "sigmoid"]
        };
        assert_eq!(kernels(&g), expected);
    }
}

#[test]
fn a_movement_between_different_scales_stays_a_movement_of_floats() {
    let g = lowered(&[1, 4, 16], |p, x| {
        let x = p.qdq(x);
        let moved = p.reshape(x, &[4, 16]);
        let q = p.pair(moved, 0.2, 128);
        vec![p.linear(q, [16, 8])]
    });
    assert_eq!(kernels(&g), ["dequantize", "linear8", "quantize", "quantize", "reshape"]);
}

#[test]
fn a_clip_goes_where_the_integers_end_with_it() {
    for (zero, redundant) in [(0, true), (128, false)] {
        let g = lowered(&IMAGE, |p, x| {
            let x = p.qdq(x);
            let y = p.conv(x, [16, 16]);
            let y = p.plain(OpKind::Relu, &[y]);
            let y = p.pair(y, 0.1, zero);
            vec![p.conv_pair(y)]
        });
        let integers = kernels(&g).iter().filter(|k| *k == "conv8 last").count();
        assert_eq!(integers, if redundant { 2 } else { 1 });
    }
    let clipped = |most: f64| {
        lowered(&IMAGE, |p, x| {
            let x = p.plain(OpKind::Sigmoid, &[x]);
            let bounds = Attributes::new()
                .with("min", Attribute::Float(0.0))
                .with("max", Attribute::Float(most));
            let y = p.op(OpKind::Clip, bounds, &[x]);
            let y = p.pair(y, 6.0 / 255.0, 0);
            vec![p.conv_pair(y)]
        })
    };
    let has_clip = |graph: &Graph| graph.nodes().iter().any(|n| n.op.kind == OpKind::Clip);
    assert!(!has_clip(&clipped(6.0)) && has_clip(&clipped(3.0)));
}

#[test]
fn a_product_that_not_only_a_q_reads_stays_one_of_floats() {
    let g = lowered(&[4, 16], |p, x| {
        let x = p.qdq(x);
        let y = p.linear(x, [16, 16]);
        let q = p.qdq(y);
        let z = p.linear(q, [16, 16]);
        vec![p.plain(OpKind::Sigmoid, &[y]), p.plain(OpKind::Abs, &[z])]
    });
    let products: Vec<String> =
        kernels(&g).into_iter().filter(|k| k.starts_with("linear")).collect();
    assert_eq!(products, ["linear", "linear8"]);
}

#[test]
fn movements_of_all_kinds_work_on_integers() {
    let split = lowered(&IMAGE, |p, x| {
        let x = p.qdq(x);
        let c = p.conv_pair(x);
        let attributes = Attributes::new().with_int("axis", 1).with_ints("split", [8, 8]);
        let parts = p.b.op_many("split", OpKind::Split, attributes, &[c]).unwrap();
        parts
            .into_iter()
            .map(|part| {
                let part = p.qdq(part);
                let y = p.conv(part, [8, 8]);
                p.qdq(y)
            })
            .collect()
    });
    assert_eq!(
        kernels(&split),
        [
            "conv8 last",
            "conv8 last",
            "conv8 last",
            "dequantize",
            "dequantize",
            "quantize",
            "split8",
            "transpose8",
            "transpose8",
            "transpose8"
        ]
    );
    let gathered = lowered(&[1, 4, 16], |p, x| {
        let x = p.qdq(x);
        let indices =
            p.constant(TensorSpec::new([2], Precision::I64), ConstantData::Ints(vec![1, 2]));
        let y = p.op(OpKind::Gather, Attributes::new().with_int("axis", 1), &[x, indices]);
        let y = p.qdq(y);
        vec![p.linear(y, [16, 8])]
    });
    assert_eq!(kernels(&gathered), ["gather8", "linear8", "quantize"]);
}

#[test]
fn poolings_behind_convolutions_work_channels_last() {
    let g = lowered(&IMAGE, |p, x| {
        let x = p.qdq(x);
        let c = p.conv_pair(x);
        let window =
            Attributes::new().with_ints("kernel_shape", [2, 2]).with_ints("strides", [2, 2]);
        let m = p.op(OpKind::MaxPool, window.clone(), &[c]);
        let m = p.qdq(m);
        let c = p.conv_pair(m);
        let a = p.op(OpKind::AveragePool, window, &[c]);
        let a = p.qdq(a);
        let c = p.conv_pair(a);
        let g = p.plain(OpKind::GlobalAveragePool, &[c]);
        let g = p.qdq(g);
        vec![p.conv_pair(g)]
    });
    assert_eq!(
        kernels(&g),
        [
            "average_pool8 last",
            "conv8 last",
            "conv8 last",
            "conv8 last",
            "conv8 last",
            "dequantize",
            "global_average_pool8 last",
            "max_pool8 last",
            "quantize",
            "transpose8",
            "transpose8"
        ]
    );
}

#[test]
fn a_transpose_of_what_convolutions_add_cancels_before_the_dqs() {
    let g = lowered(&IMAGE, |p, x| {
        let x = p.qdq(x);
        let c = p.conv_pair(x);
        let d = p.conv_pair(c);
        let sum = p.plain(OpKind::Add, &[c, d]);
        let tokens = p.transpose(sum, &[0, 2, 3, 1]);
        vec![p.layer_norm(tokens, 16)]
    });
    assert_eq!(
        kernels(&g),
        [
            "add",
            "conv8 last",
            "conv8 last",
            "dequantize",
            "dequantize",
            "layer_norm",
            "quantize",
            "transpose8"
        ]
    );
}

#[test]
fn the_dqs_of_one_value_keep_a_gelu_apart() {
    let g = lowered(&IMAGE, |p, x| {
        let x = p.qdq(x);
        let c = p.conv_pair(x);
        let number =
            |p: &mut Pairs, n: f64| p.constant(TensorSpec::f32([]), ConstantData::Floats(vec![n]));
        let (root, one, half) = (number(p, 2f64.sqrt()), number(p, 1.0), number(p, 0.5));
        let y = p.plain(OpKind::Div, &[c, root]);
        let y = p.plain(OpKind::Erf, &[y]);
        let y = p.plain(OpKind::Add, &[y, one]);
        let y = p.plain(OpKind::Mul, &[c, y]);
        let y = p.plain(OpKind::Mul, &[y, half]);
        let y = p.qdq(y);
        vec![p.conv_pair(y)]
    });
    assert_eq!(
        kernels(&g),
        [
            "add",
            "conv8 last",
            "conv8 last",
            "dequantize",
            "dequantize",
            "dequantize",
            "div",
            "erf",
            "mul",
            "mul",
            "quantize",
            "quantize",
            "transpose8",
            "transpose8"
        ]
    );
}

#[test]
fn hard_sigmoid_and_product_of_a_hard_swish_share_a_dq() {
    let g = lowered(&IMAGE, |p, x| {
        let x = p.qdq(x);
        let c = p.conv_pair(x);
        let y = p.plain(OpKind::HardSwish, &[c]);
        let y = p.qdq(y);
        vec![p.conv_pair(y)]
    });
    assert_eq!(
        kernels(&g),
        [
            "conv8 last",
            "conv8 last",
            "dequantize",
            "dequantize",
            "hard_sigmoid",
            "mul",
            "quantize",
            "quantize",
            "transpose8",
            "transpose8"
        ]
    );
}

#[test]
fn two_pairs_in_a_row_are_one() {
    let g = lowered(&[4, 16], |p, x| {
        let x = p.pair(x, 0.1, 128);
        let x = p.pair(x, 0.2, 128);
        vec![p.linear(x, [16, 8])]
    });
    assert_eq!(kernels(&g), ["linear8", "quantize"]);
}

#[test]
fn unknown_scales_are_those_of_the_same_elements() {
    let g = |clips: bool| {
        lowered(&IMAGE, |p, x| {
            let x = p.unknown(x);
            let c = p.conv(x, [16, 16]);
            let c = p.unknown(c);
            let window = Attributes::new().with_ints("kernel_shape", [2, 2]);
            let mut m = p.op(OpKind::MaxPool, window, &[c]);
            if clips {
                m = p.plain(OpKind::Relu, &[m]);
            }
            let m = p.unknown(m);
            let c = p.conv(m, [16, 16]);
            vec![p.unknown(c)]
        })
    };
    let moved = [
        "conv8 last",
        "conv8 last",
        "dequantize",
        "max_pool8 last",
        "quantize",
        "transpose8",
        "transpose8",
    ];
    assert_eq!(kernels(&g(false)), moved);
    // What a ReLU clips has another scale: the pair of the pooling stays before its Q.
    let clipped = [
        "conv8 last",
        "conv8 last",
        "dequantize",
        "dequantize",
        "max_pool8 last",
        "quantize",
        "quantize",
        "transpose8",
        "transpose8",
    ];
    assert_eq!(kernels(&g(true)), clipped);
}

#[test]
fn images_are_resized_as_integers_without_interpolation_only() {
    for (mode, kernel) in [("nearest", "resize8"), ("linear", "resize")] {
        let g = lowered(&IMAGE, |p, x| {
            let x = p.qdq(x);
            let c = p.conv_pair(x);
            let attributes = Attributes::new()
                .with("mode", Attribute::Text(mode.to_owned()))
                .with_ints("sizes", [1, 16, 16, 16]);
            let y = p.op(OpKind::Resize, attributes, &[c]);
            let y = p.qdq(y);
            vec![p.conv_pair(y)]
        });
        assert!(kernels(&g).contains(&kernel.to_owned()), "{mode}: {:?}", kernels(&g));
    }
}

#[test]
fn weights_that_no_kernel_on_integers_took_are_dequantised_in_every_run() {
    let left = lowered(&[16, 8], |p, x| {
        let x = p.qdq(x);
        let weight = p.weight(&[4, 16], Precision::I8);
        let y = p.plain(OpKind::MatMul, &[weight, x]);
        vec![p.plain(OpKind::Abs, &[y])]
    });
    assert_eq!(kernels(&left), ["abs", "dequantize", "dequantize", "matmul", "quantize"]);
    let transposed = lowered(&IMAGE, |p, x| {
        let x = p.qdq(x);
        let weight = p.b.weight("up.w", TensorSpec::f32([16, 16, 2, 2]));
        let bias = p.b.weight("up.b", TensorSpec::f32([16]));
        let up = Attributes::new().with_ints("strides", [2, 2]);
        let y = p.op(OpKind::ConvTranspose, up, &[x, weight, bias]);
        vec![p.qdq(y)]
    });
    assert_eq!(
        kernels(&transposed),
        [
            "conv_transpose",
            "dequantize",
            "dequantize",
            "dequantize",
            "dequantize",
            "quantize",
            "quantize"
        ]
    );
    let operands = |kind: OpKind| {
        transposed.nodes().iter().find(|n| n.op.kind == kind).map(|n| n.op.inputs.clone()).unwrap()
    };
    assert!(operands(OpKind::ConvTranspose).iter().all(|operand| !operand.constant));
}

#[test]
fn a_q_with_several_readers_stays_behind_a_dq_of_its_scale() {
    let g = lowered(&[4, 16], |p, x| {
        let scale = p.constant(TensorSpec::f32([]), ConstantData::Floats(vec![0.1]));
        let zero = p.constant(TensorSpec::new([], Precision::U8), ConstantData::Ints(vec![128]));
        let to = || Attributes::new().with("to", Attribute::Text("u8".to_owned()));
        let q = p.op(OpKind::Quantize, to(), &[x, scale, zero]);
        let dq = |p: &mut Pairs, q| p.plain(OpKind::Dequantize, &[q, scale, zero]);
        let (first, second) = (dq(p, q), dq(p, q));
        let again = p.op(OpKind::Quantize, to(), &[second, scale, zero]);
        let (a, b) = (dq(p, again), dq(p, again));
        vec![p.layer_norm(first, 16), p.layer_norm(b, 16), p.linear(a, [16, 8])]
    });
    assert_eq!(
        kernels(&g),
        [
            "dequantize",
            "dequantize",
            "dequantize",
            "layer_norm",
            "layer_norm",
            "linear8",
            "quantize",
            "quantize"
        ]
    );
}
