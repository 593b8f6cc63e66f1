//! Labels of a small executed graph, written by hand: a grouped convolution with its sum and
//! activation, behind a reorder.

use super::{engine::NodeTime, execution, label::Labels};
use vitempo_graph::{Graph, GraphBuilder, MemoryFormat, OpKind, OpSpec, Precision, TensorSpec};

fn dims(shape: &[usize]) -> String {
    shape.iter().map(|d| format!("<dim>{d}</dim>")).collect()
}

/// One layer: id and execution order, name, type, operators, layout, precision, inputs (shape),
/// outputs (shape).
fn layer(
    id: usize,
    [name, kind, originals, layout, precision]: [&str; 5],
    inputs: &[&[usize]],
    outputs: &[&[usize]],
) -> String {
    let port = |number: usize, shape: &[usize]| {
        format!(r#"<port id="{number}" precision="FP32">{}</port>"#, dims(shape))
    };
    let ports = |first: usize, shapes: &[&[usize]]| {
        shapes.iter().enumerate().map(|(i, s)| port(first + i, s)).collect::<String>()
    };
    let data = format!(
        r#"<data execOrder="{id}" execTimeMcs="not_executed" originalLayersNames="{originals}" outputLayouts="{layout}" outputPrecisions="{precision}"
        primitiveType="jit" runtimePrecision="{precision}" />"#
    );
    let (read, made) = (ports(0, inputs), ports(inputs.len(), outputs));
    format!(
        r#"<layer id="{id}" name="{name}" type="{kind}">{data}<input>{read}</input><output>{made}</output></layer>"#
    )
}

const IMAGE: &[usize] = &[1, 8, 6, 6];

/// The executed graph of [`model`]; layers are not in execution order in the file.
fn executed() -> String {
    let weight: &[usize] = &[4, 2, 2, 3, 3];
    let layers = [
        layer(5, ["pool", "Pooling", "pool", "acdb", "bf16"], &[IMAGE], &[&[1, 8, 1, 1]]),
        layer(0, ["x", "Input", "x", "abcd", "f32"], &[], &[IMAGE]),
        layer(1, ["x_abcd_acdb_conv", "Reorder", "", "acdb", "bf16"], &[IMAGE], &[IMAGE]),
        layer(2, ["w", "Const", "w", "abcde", "bf16"], &[], &[weight]),
        layer(3, ["w_reorder", "Reorder", "", "Abcde16a", "bf16"], &[weight], &[weight]),
        layer(
            4,
            ["conv", "GroupConvolution", "conv/WithoutBiases,conv,sum,act", "acdb", "bf16"],
            &[IMAGE, weight, IMAGE],
            &[IMAGE],
        ),
    ];
    let edges =
        [(0, 0, 1, 0), (1, 1, 4, 0), (2, 0, 3, 0), (3, 1, 4, 1), (1, 1, 4, 2), (4, 3, 5, 0)];
    let edge = |(a, b, c, d): (usize, usize, usize, usize)| {
        format!(r#"<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}" />"#)
    };
    format!(
        "<?xml version=\"1.0\"?><net name=\"m\"><layers>{}</layers><edges>{}</edges></net>",
        layers.concat(),
        edges.map(edge).concat()
    )
}

fn model() -> Graph {
    let build = || {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32(IMAGE));
        let conv = b.conv("conv", x, 8, 3, 1, 1, 4, false)?;
        let sum = b.binary("sum", OpKind::Add, conv, x)?;
        let act = b.unary("act", OpKind::HardSwish, sum)?;
        let pool = b.unary("pool", OpKind::GlobalMaxPool, act)?;
        b.finish(vec![pool])
    };
    build().unwrap_or_else(|e| panic!("{e}"))
}

fn time(node: &str, node_type: &str) -> NodeTime {
    NodeTime {
        node: node.to_owned(),
        node_type: node_type.to_owned(),
        exec_type: "jit".to_owned(),
        executed: true,
        time_us: 1,
    }
}

fn tensors(op: &OpSpec) -> Vec<String> {
    op.inputs
        .iter()
        .map(|i| format!("{}{}", i.tensor, if i.constant { " const" } else { "" }))
        .chain(op.outputs.iter().map(ToString::to_string))
        .collect()
}

#[test]
fn kernels_are_described_by_their_layers() {
    let (graph, execution) =
        (model(), execution::parse(&executed(), &[]).unwrap_or_else(|e| panic!("{e}")));
    let mut labels = Labels::new(&graph, Some(&execution));
    let reorder = labels.take(&time("x_abcd_acdb_conv", "Reorder"));
    assert_eq!(
        (&reorder.kind, reorder.outputs[0].format),
        (&OpKind::Reorder, MemoryFormat::ChannelsLast)
    );
    assert_eq!(tensors(&reorder), ["1x8x6x6 f32", "1x8x6x6 bf16 channels_last"]);
    let conv = labels.take(&time("conv", "GroupConvolution"));
    assert_eq!(conv.kind, OpKind::Conv);
    let image = "1x8x6x6 bf16 channels_last";
    // The weight has lost the dimension of the groups; it comes blocked from a reorder of a
    // constant.
    assert_eq!(tensors(&conv), [image, "8x2x3x3 bf16 blocked const", image, image]);
    let attributes = &conv.attributes;
    assert_eq!(
        (attributes.text("activation"), attributes.int("residual"), attributes.int("group")),
        (Some("hard_swish"), Some(1), Some(4))
    );
    assert_eq!(
        (attributes.ints("kernel_shape"), attributes.ints("pads")),
        (&[3, 3][..], &[1, 1, 1, 1][..])
    );
    let pool = labels.take(&time("pool", "MaxPool"));
    assert_eq!(
        (&pool.kind, pool.attributes.ints("kernel_shape"), pool.precision()),
        (&OpKind::MaxPool, &[6, 6][..], Precision::Bf16)
    );
}

#[test]
fn a_convolution_that_lost_its_name_is_described_by_its_shapes() {
    let (image, weight, output): (&[usize], &[usize], &[usize]) =
        (&[1, 3, 9, 8], &[4, 3, 3, 3], &[1, 4, 5, 4]);
    let layers = [
        layer(0, ["x", "Input", "x", "abcd", "f32"], &[], &[image]),
        layer(1, ["w", "Const", "w", "abcd", "f32"], &[], &[weight]),
        layer(
            2,
            ["Multiply_7", "Convolution", "Multiply_7", "acdb", "f32"],
            &[image, weight],
            &[output],
        ),
    ];
    let edges = r#"<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/><edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>"#;
    let xml = format!("<net><layers>{}</layers><edges>{edges}</edges></net>", layers.concat());
    let (graph, execution) =
        (model(), execution::parse(&xml, &[]).unwrap_or_else(|e| panic!("{e}")));
    let conv = Labels::new(&graph, Some(&execution)).take(&time("Multiply_7", "Convolution"));
    assert_eq!(
        (conv.attributes.ints("strides"), conv.attributes.ints("pads")),
        (&[2, 2][..], &[1, 0, 1, 1][..])
    );
    assert_eq!(
        (conv.attributes.ints("kernel_shape"), conv.attributes.int("group")),
        (&[3, 3][..], Some(1))
    );
    assert_eq!(conv.attributes.text("activation"), None);
}

#[test]
fn images_given_channels_last_are_written_channels_first() {
    let (nhwc, nchw): (&[usize], &[usize]) = (&[1, 6, 5, 8], &[1, 8, 6, 5]);
    let layers = [
        layer(0, ["x", "Input", "x", "abcd", "f32"], &[], &[nhwc]),
        layer(1, ["x_f32_bf16", "Reorder", "", "abcd", "bf16"], &[nhwc], &[nhwc]),
        layer(2, ["Transpose_1", "Transpose", "Transpose_1", "abcd", "bf16"], &[nhwc], &[nchw]),
    ];
    let edges = r#"<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/><edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>"#;
    let xml = format!("<net><layers>{}</layers><edges>{edges}</edges></net>", layers.concat());
    let (graph, execution) =
        (model(), execution::parse(&xml, &["x"]).unwrap_or_else(|e| panic!("{e}")));
    let mut labels = Labels::new(&graph, Some(&execution));
    let cast = labels.take(&time("x_f32_bf16", "Reorder"));
    assert_eq!((cast.kind.name(), cast.attributes.text("to")), ("cast", Some("bf16")));
    assert_eq!(tensors(&cast), ["1x8x6x5 f32 channels_last", "1x8x6x5 bf16 channels_last"]);
    let reorder = labels.take(&time("Transpose_1", "Transpose"));
    assert_eq!(tensors(&reorder), ["1x8x6x5 bf16 channels_last", "1x8x6x5 bf16"]);
    assert_eq!(reorder.kind, OpKind::Reorder);
}

#[test]
fn without_an_executed_graph_names_are_enough_for_most() {
    let graph = model();
    let mut labels = Labels::new(&graph, None);
    let conv = labels.take(&time("conv/WithoutBiases", "GroupConvolution"));
    assert_eq!((&conv.kind, conv.outputs[0].shape.as_slice()), (&OpKind::Conv, IMAGE));
    let unknown = labels.take(&time("nobody", "Mystery"));
    assert_eq!(
        (unknown.kind, unknown.inputs.len()),
        (OpKind::Unsupported("Mystery".to_owned()), 0)
    );
}

#[test]
fn what_is_no_executed_graph_is_refused() {
    let good = executed();
    for (bad, reason) in [
        (String::new(), "no XML"),
        ("<net/>".to_owned(), "no layers"),
        (good.replace("<edge ", "<edgy "), "reads a tensor that no layer computes"),
        (good.replace("execOrder", "order"), "no place in the order"),
        (good.replace("<dim>3</dim>", "<dim>-1</dim>"), "no static shape"),
        (good.replace("name=\"conv\"", ""), "no name"),
    ] {
        let error = execution::parse(&bad, &[]).err().unwrap_or_default();
        assert!(error.contains(reason), "{reason}: {error}");
    }
}
