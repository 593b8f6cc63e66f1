//! The layout pass and the writer on small graphs; random chains of movements against their
//! definition.

use super::expression::Operator as Arithmetic;
use super::program::{Payload, Program};
use super::schema::Code;
use super::weights::Array;
use super::*;
use crate::{
    Attribute, Attributes, ConstantData, GraphBuilder, MemoryFormat, OpKind, Precision, TensorSpec,
    ValueId,
};
use proptest::prelude::*;
use std::collections::HashMap;

fn codes(graph: &Graph) -> Vec<&'static str> {
    plan(graph, Precision::F32).unwrap().1
}

fn none() -> Attributes {
    Attributes::new()
}

#[test]
fn a_convolution_takes_its_norm_and_activation_and_needs_no_transpose() {
    let mut b = GraphBuilder::new("m");
    let x = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
    let y = b.conv("conv", x, 4, 3, 2, 1, 1, false).unwrap();
    let y = b.batch_norm("norm", y).unwrap();
    let y = b.op("relu", OpKind::Relu, none(), &[y]).unwrap();
    let graph = b.finish(vec![y]).unwrap();
    let written = write(&graph, &Weights::seeded(&graph, 1).unwrap()).unwrap();
    // An image of even extent and a stride of 2: the engine's own padding would put everything at
    // the end.
    assert_eq!(written.operators.iter().map(|o| o.code).collect::<Vec<_>>(), ["PAD", "CONV_2D"]);
    let conv = &written.operators[1].op;
    assert_eq!(
        (conv.attributes.text("activation"), conv.outputs[0].format),
        (Some("relu"), MemoryFormat::ChannelsLast)
    );
    assert_eq!(
        (conv.outputs[0].shape.as_slice(), written.operators[1].node.as_str()),
        (&[1, 4, 4, 4][..], "conv")
    );
    assert_eq!(
        (written.inputs[0].layout.as_slice(), written.inputs[0].stored_shape()),
        (&[0, 2, 3, 1][..], vec![1, 8, 8, 3])
    );
    assert_eq!(written.outputs[0].stored_shape(), [1, 4, 4, 4]);
}

/// A residual block with a ReLU behind its sum, a pool, a mean and a classifier; an attention
/// product stays in floats.
fn residual() -> Graph {
    let mut b = GraphBuilder::new("residual");
    let x = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
    let x = b.conv("stem", x, 4, 3, 1, 1, 1, true).unwrap();
    let y = b.conv("depthwise", x, 4, 3, 1, 1, 4, true).unwrap();
    let sum = b.binary("sum", OpKind::Add, x, y).unwrap();
    let sum = b.op("relu", OpKind::Relu, none(), &[sum]).unwrap();
    let pooled = b.op("pool", OpKind::GlobalAveragePool, none(), &[sum]).unwrap();
    let flat = b.reshape("flat", pooled, &[1, 4]).unwrap();
    let flat = b.linear("head", flat, 5, true).unwrap();
    let y = b.op("softmax", OpKind::Softmax, none().with_int("axis", -1), &[flat]).unwrap();
    b.finish(vec![y]).unwrap()
}

#[test]
fn integers_flow_from_product_to_product() {
    let graph = residual();
    let written = write_int8(&graph, &Weights::seeded(&graph, 1).unwrap(), (-1.0, 1.0)).unwrap();
    let expected = [
        "QUANTIZE",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "ADD",
        "MEAN",
        "RESHAPE",
        "FULLY_CONNECTED",
        "DEQUANTIZE",
        "SOFTMAX",
    ];
    assert_eq!(written.operators.iter().map(|o| o.code).collect::<Vec<_>>(), expected);
    let (planned, codes) = plan(&graph, Precision::I8).unwrap();
    assert_eq!((codes.as_slice(), planned), (&expected[..], written.graph));
    for operator in &written.operators[1..7] {
        assert!(
            operator
                .op
                .activations()
                .chain(&operator.op.outputs)
                .all(|t| t.precision == Precision::I8),
            "{}",
            operator.code
        );
    }
    let conv = &written.operators[1].op.inputs;
    assert_eq!(
        (conv[1].tensor.precision, conv[2].tensor.precision),
        (Precision::I8, Precision::I32)
    );
    assert_eq!(
        (written.inputs[0].precision, written.outputs[0].precision),
        (Precision::F32, Precision::F32)
    );
}

#[test]
fn scales_are_those_of_weights_and_ranges() {
    let graph = residual();
    let weights = Weights::seeded(&graph, 1).unwrap();
    let program = quantize::quantize(
        program(&graph, &Budget::default()).unwrap(),
        Some((&weights, (-1.0, 1.0))),
        &Budget::default(),
    )
    .unwrap();
    let of = |id: usize| program.tensors[id].quantization.clone().unwrap();
    let find = |code: Code| program.operations.iter().find(|o| o.code == code).unwrap();
    for (code, axis) in [(Code::Conv, 0), (Code::DepthwiseConv, 3), (Code::FullyConnected, 0)] {
        let [x, w, b] = find(code).inputs[..] else { panic!() };
        assert_eq!(
            (of(w).axis, of(w).scales.len(), of(w).zero_point),
            (axis, program.tensors[w].shape[axis], 0)
        );
        let products: Vec<f64> =
            of(w).scales.iter().map(|s| f64::from((s * of(x).scales[0]) as f32)).collect();
        assert_eq!(of(b).scales, products);
    }
    // A range that begins at 0 is a ReLU.
    assert_eq!(of(find(Code::Add).outputs[0]).zero_point, -128);
    let reshape = find(Code::Reshape);
    assert_eq!(of(reshape.inputs[0]), of(reshape.outputs[0]));
    // Filters are stored one channel after the other, or side by side: each has its own largest
    // magnitude.
    for (code, channels_last) in [(Code::Conv, false), (Code::DepthwiseConv, true)] {
        let filter = find(code).inputs[1];
        let Payload::Bytes(bytes) = &program.tensors[filter].payload else { panic!() };
        let (count, each) = (4, bytes.len() / 4);
        for c in 0..count {
            let own = |i: &usize| if channels_last { i % count == c } else { i / each == c };
            let largest =
                (0..bytes.len()).filter(own).map(|i| (bytes[i] as i8).unsigned_abs()).max();
            assert_eq!(largest, Some(127), "{code:?} {c}");
        }
    }
}

#[test]
fn patches_become_tokens_without_moving() {
    let mut b = GraphBuilder::new("m");
    let x = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
    let y = b.conv("patches", x, 6, 4, 4, 0, 1, true).unwrap();
    let y = b.reshape("flat", y, &[1, 6, 4]).unwrap();
    let y = b.op("tokens", OpKind::Transpose, none().with_ints("perm", [0, 2, 1]), &[y]).unwrap();
    let y = b.linear("head", y, 5, true).unwrap();
    assert_eq!(codes(&b.finish(vec![y]).unwrap()), ["CONV_2D", "RESHAPE", "FULLY_CONNECTED"]);
}

#[test]
fn reshapes_of_reshapes_read_the_first_ones_input() {
    let mut b = GraphBuilder::new("m");
    let x = b.input("x", TensorSpec::f32([2, 12]));
    let y = b.reshape("one", x, &[2, 3, 4]).unwrap();
    let y = b.reshape("two", y, &[6, 4]).unwrap();
    let y = b.op("abs", OpKind::Abs, none(), &[y]).unwrap();
    let (graph, codes) = plan(&b.finish(vec![y]).unwrap(), Precision::F32).unwrap();
    assert_eq!(codes, ["RESHAPE", "ABS"]);
    assert_eq!(graph.nodes()[0].op.inputs[0].tensor.shape[..], [2, 12]);
}

#[test]
fn keys_are_read_transposed_and_values_as_they_are() {
    let mut b = GraphBuilder::new("m");
    let [q, k] = ["q", "k"].map(|name| b.input(name, TensorSpec::f32([1, 2, 5, 4])));
    let t = b.op("t", OpKind::Transpose, none().with_ints("perm", [0, 1, 3, 2]), &[k]).unwrap();
    let scores = b.op("scores", OpKind::MatMul, none(), &[q, t]).unwrap();
    let y = b.op("softmax", OpKind::Softmax, none().with_int("axis", -1), &[scores]).unwrap();
    let y = b.op("mix", OpKind::MatMul, none(), &[y, k]).unwrap();
    let (graph, codes) = plan(&b.finish(vec![y]).unwrap(), Precision::F32).unwrap();
    assert_eq!(codes, ["BATCH_MATMUL", "SOFTMAX", "BATCH_MATMUL"]);
    assert_eq!(graph.nodes()[0].op.attributes.int("trans_b"), Some(1));
}

#[test]
fn grouped_and_depthwise_convolutions_keep_their_groups() {
    let mut b = GraphBuilder::new("m");
    let x = b.input("x", TensorSpec::f32([1, 8, 4, 4]));
    let y = b.conv("depthwise", x, 8, 3, 1, 1, 8, true).unwrap();
    let y = b.conv("grouped", y, 8, 3, 1, 1, 2, true).unwrap();
    let (graph, codes) = plan(&b.finish(vec![y]).unwrap(), Precision::F32).unwrap();
    assert_eq!(codes, ["DEPTHWISE_CONV_2D", "CONV_2D"]);
    let weights: Vec<_> =
        graph.nodes().iter().map(|n| n.op.inputs[1].tensor.shape.to_vec()).collect();
    assert_eq!(weights, [[8, 1, 3, 3], [8, 4, 3, 3]]);
}

#[test]
fn elements_are_put_into_a_tensor_by_a_selection() {
    let mut b = GraphBuilder::new("m");
    let x = b.input("x", TensorSpec::f32([1, 4, 6]));
    let updates = b.input("updates", TensorSpec::f32([2, 6]));
    let rows = b.constant(
        "rows",
        TensorSpec::new([2, 2], Precision::I64),
        ConstantData::Ints(vec![0, 1, 0, 3]),
    );
    let y = b.op("put", OpKind::ScatterNd, none(), &[x, rows, updates]).unwrap();
    assert_eq!(
        codes(&b.finish(vec![y]).unwrap()),
        ["SCATTER_ND", "SCATTER_ND", "GREATER", "SELECT_V2"]
    );
}

#[test]
fn a_dimension_the_window_passes_through_goes_to_the_batch() {
    let mut b = GraphBuilder::new("m");
    let x = b.input("x", TensorSpec::f32([1, 2, 8, 8, 5]));
    let weight = b.weight("w", TensorSpec::f32([3, 2, 3, 3, 1]));
    let window = none().with_ints("kernel_shape", [3, 3, 1]).with_ints("pads", [1, 1, 0, 1, 1, 0]);
    let y = b.op("conv", OpKind::Conv, window, &[x, weight]).unwrap();
    let (graph, codes) = plan(&b.finish(vec![y]).unwrap(), Precision::F32).unwrap();
    let conv = graph.nodes().iter().zip(codes).find(|(_, code)| *code == "CONV_2D").unwrap().0;
    assert_eq!(
        (conv.op.inputs[0].tensor.shape.as_slice(), conv.op.outputs[0].shape.as_slice()),
        (&[5, 2, 8, 8][..], &[5, 3, 8, 8][..])
    );
    let output = graph.value(graph.outputs()[0]).tensor.as_ref().unwrap();
    assert_eq!(output.elements(), 3 * 8 * 8 * 5);
}

#[test]
fn what_cannot_be_expressed_is_refused_by_name() {
    let message =
        |shape: &[usize], kind: OpKind, attributes: Attributes, weight: Option<&[usize]>| {
            let mut b = GraphBuilder::new("m");
            let x = b.input("x", TensorSpec::f32(shape));
            let inputs: Vec<ValueId> = std::iter::once(x)
                .chain(weight.map(|w| b.weight("w", TensorSpec::f32(w))))
                .collect();
            let y = b.op("bad", kind, attributes, &inputs).unwrap();
            plan(&b.finish(vec![y]).unwrap(), Precision::F32).unwrap_err().to_string()
        };
    let volume = message(&[1, 2, 4, 4, 4], OpKind::Conv, none(), Some(&[3, 2, 3, 3, 3]));
    assert!(volume.contains("`bad`") && volume.contains("3 dimensions"), "{volume}");
    let mode = none()
        .with("mode", Attribute::Text("wrap".into()))
        .with_ints("pads", [0, 0, 1, 1, 0, 0, 1, 1]);
    let wrapped = message(&[1, 2, 4, 4], OpKind::Pad, mode, None);
    assert!(wrapped.contains("`bad`") && wrapped.contains("`wrap`"), "{wrapped}");
}

/// A table of a FlatBuffer: the place of its field `number`, if it has one.
fn field(bytes: &[u8], table: usize, number: usize) -> Option<usize> {
    let back = i32::from_le_bytes(bytes[table..table + 4].try_into().unwrap());
    let vtable = usize::try_from(table as i64 - i64::from(back)).unwrap();
    let short = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let slot = 4 + 2 * number;
    (slot < short(vtable) && short(vtable + slot) > 0).then(|| table + short(vtable + slot))
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// The tables a vector field holds.
fn tables(bytes: &[u8], table: usize, number: usize) -> Vec<usize> {
    let at = field(bytes, table, number).unwrap();
    let vector = at + word(bytes, at);
    (0..word(bytes, vector)).map(|i| vector + 4 + 4 * i).map(|at| at + word(bytes, at)).collect()
}

#[test]
fn the_file_holds_what_was_planned_with_aligned_weights() {
    let mut b = GraphBuilder::new("m");
    let x = b.input("x", TensorSpec::f32([1, 3, 6, 6]));
    let y = b.conv("conv", x, 5, 3, 1, 1, 1, true).unwrap();
    let y = b.op("sigmoid", OpKind::Sigmoid, none(), &[y]).unwrap();
    let graph = b.finish(vec![y]).unwrap();
    let weights = Weights::seeded(&graph, 1).unwrap();
    let bytes = write(&graph, &weights).unwrap().bytes;
    assert_eq!(bytes, write(&graph, &weights).unwrap().bytes);
    assert_eq!(&bytes[4..8], b"TFL3");
    let model = word(&bytes, 0);
    assert_eq!(word(&bytes, field(&bytes, model, 0).unwrap()), 3);
    let subgraphs = tables(&bytes, model, 2);
    assert_eq!((subgraphs.len(), tables(&bytes, subgraphs[0], 3).len()), (1, 2));
    let buffers = tables(&bytes, model, 4);
    let data: Vec<usize> = buffers
        .iter()
        .filter_map(|&buffer| field(&bytes, buffer, 0))
        .map(|at| at + word(&bytes, at))
        .collect();
    let mut sizes: Vec<usize> = data.iter().map(|&vector| word(&bytes, vector)).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [5 * 4, 5 * 3 * 3 * 3 * 4]);
    assert!(data.iter().all(|vector| (vector + 4) % 16 == 0));
}

/// A graph of one operator on an image.
fn single(kind: OpKind, attributes: Attributes, weights: &[usize]) -> Graph {
    let mut b = GraphBuilder::new("m");
    let mut inputs = vec![b.input("x", TensorSpec::f32([1, 4, 8, 8]))];
    let weight =
        |(i, &extent): (usize, &usize)| b.weight(format!("w{i}"), TensorSpec::f32([extent]));
    inputs.extend(weights.iter().enumerate().map(weight));
    let y = b.op("op", kind, attributes, &inputs).unwrap();
    b.finish(vec![y]).unwrap()
}

#[test]
fn what_the_engine_would_compute_otherwise_is_refused() {
    let text = |name: &str, value: &str| none().with(name, Attribute::Text(value.to_owned()));
    let dilated = none().with_ints("kernel_shape", [3, 3]).with_ints("dilations", [2, 2]);
    let resized = |coordinates: &str| {
        text("coordinate_transformation_mode", coordinates).with_ints("sizes", [1, 4, 16, 16])
    };
    for (kind, attributes, says) in [
        (OpKind::AveragePool, dilated, "dilated"),
        (OpKind::Resize, resized("tf_crop_and_resize"), "`tf_crop_and_resize`"),
        (
            OpKind::Resize,
            resized("tf_crop_and_resize").with("mode", Attribute::Text("linear".to_owned())),
            "`tf_crop_and_resize`",
        ),
    ] {
        let error = plan(&single(kind, attributes, &[]), Precision::F32).unwrap_err().to_string();
        assert!(error.contains("`op`") && error.contains(says), "{error}");
    }
}

#[test]
fn remainders_of_floats_have_the_sign_of_the_dividend() {
    let expected = ["ABS", "ABS", "FLOOR_MOD", "SIGN", "MUL"];
    assert_eq!(codes(&single(OpKind::Mod, none(), &[1])), expected);
    let mut b = GraphBuilder::new("m");
    let [x, y] = ["x", "y"].map(|name| b.input(name, TensorSpec::new([4], Precision::I32)));
    let z = b.binary("op", OpKind::Mod, x, y).unwrap();
    assert_eq!(codes(&b.finish(vec![z]).unwrap()), ["FLOOR_MOD"]);
}

#[test]
fn a_group_may_have_one_scale() {
    for (scales, shape) in [(2, &[1, 1, 1, 2, 1][..]), (4, &[1, 1, 1, 4])] {
        let graph = single(OpKind::GroupNorm, none().with_int("groups", 2), &[scales; 2]);
        let program = program(&graph, &Budget::default()).unwrap();
        let weights: Vec<&[usize]> = program
            .tensors
            .iter()
            .filter_map(|tensor| match &tensor.payload {
                Payload::Weight(expression) if expression.elements() == scales => {
                    Some(tensor.shape.as_slice())
                }
                _ => None,
            })
            .collect();
        assert_eq!(weights, [shape; 2]);
    }
}

/// Runs programs of RESHAPE, TRANSPOSE and ADD.
fn run(program: &Program, input: &Array) -> Array {
    let mut values: HashMap<usize, Array> = HashMap::new();
    let (at, port) = &program.inputs[0];
    values.insert(*at, input.transposed(&port.layout));
    for (id, tensor) in program.tensors.iter().enumerate() {
        if let Payload::Weight(expression) = &tensor.payload {
            values
                .insert(id, expression.evaluate(&Weights::default(), &Budget::default()).unwrap());
        }
    }
    for operation in &program.operations {
        let x = &values[&operation.inputs[0]];
        let wanted = &program.tensors[operation.outputs[0]].shape;
        let y = match (operation.code, &program.tensors[operation.inputs[1]].payload) {
            (Code::Reshape, _) => Array { shape: wanted.clone(), data: x.data.clone() },
            (Code::Transpose, Payload::Ints(perm)) => {
                x.transposed(&perm.iter().map(|p| p as usize).collect::<Vec<_>>())
            }
            (Code::Add, _) => {
                x.combined(Arithmetic::Add, &values[&operation.inputs[1]], wanted.clone())
            }
            (code, _) => panic!("{code:?}"),
        };
        assert_eq!(&y.shape, wanted);
        values.insert(operation.outputs[0], y);
    }
    let (at, port) = &program.outputs[0];
    let back: Vec<usize> =
        (0..port.layout.len()).map(|d| layout::position(&port.layout, d)).collect();
    values[at].transposed(&back)
}

fn counting(shape: &[usize], factor: f32) -> Array {
    let count: usize = shape.iter().product();
    Array { shape: shape.to_vec(), data: (0..count).map(|i| i as f32 * factor).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Reshapes, transposes and additions in any order give correct results, in whatever layout the
    /// tensors between are stored.
    #[test]
    fn movements_keep_their_meaning(steps in prop::collection::vec((0u8..4, any::<u32>()), 1..10)) {
        let mut b = GraphBuilder::new("m");
        let input = counting(&[2, 6, 4, 1], 1.0);
        let (mut id, mut expected) = (b.input("x", TensorSpec::f32(input.shape.clone())), input.clone());
        for (number, &(step, draw)) in steps.iter().enumerate() {
            let name = format!("step{number}");
            let rank = expected.shape.len();
            match step {
                0 => {
                    let mut perm: Vec<usize> = (0..rank).collect();
                    (1..rank).for_each(|i| perm.swap(i, (draw as usize >> (2 * i)) % (i + 1)));
                    let attributes = none().with_ints("perm", perm.iter().map(|&p| p as i64).collect::<Vec<_>>());
                    id = b.op(&name, OpKind::Transpose, attributes, &[id]).unwrap();
                    expected = expected.transposed(&perm);
                }
                1 | 2 => {
                    let shapes: [&[usize]; 6] = [&[2, 6, 4], &[48], &[4, 2, 6], &[1, 12, 4], &[2, 3, 2, 2, 2], &[6, 1, 8]];
                    let shape = shapes[draw as usize % shapes.len()].to_vec();
                    id = b.op(&name, OpKind::Reshape, none().with_ints("shape", shape.iter().map(|&d| d as i64).collect::<Vec<_>>()), &[id]).unwrap();
                    expected.shape = shape;
                }
                _ => {
                    let term = counting(&expected.shape[draw as usize % rank..], 0.5);
                    let data = ConstantData::Floats(term.data.iter().map(|&v| f64::from(v)).collect());
                    let constant = b.constant(format!("{name}.term"), TensorSpec::new(term.shape.clone(), Precision::F32), data);
                    id = b.op(&name, OpKind::Add, none(), &[id, constant]).unwrap();
                    expected = expected.combined(Arithmetic::Add, &term, expected.shape.clone());
                }
            }
        }
        let program = program(&b.finish(vec![id]).unwrap(), &Budget::default()).unwrap();
        prop_assert_eq!(run(&program, &input), expected);
    }
}
