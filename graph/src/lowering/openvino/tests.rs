//! Each case: a small graph, and the kernels that OpenVINO ran for it, as `kind inputs -> outputs`.

use super::{Settings, lower};
use crate::{Attribute, Attributes, Graph, GraphBuilder, GraphError, OpKind, TensorSpec, ValueId};

type Built = Result<Graph, GraphError>;

fn none() -> Attributes {
    Attributes::new()
}

fn conv(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    shape: [usize; 4],
    stride: i64,
) -> Result<ValueId, GraphError> {
    let weight = b.weight(format!("{name}.weight"), TensorSpec::f32(shape));
    let bias = b.weight(format!("{name}.bias"), TensorSpec::f32([shape[0]]));
    let pad = (shape[2] % 2 * (shape[2] / 2)) as i64;
    let a = none()
        .with_ints("kernel_shape", [shape[2] as i64; 2])
        .with_ints("strides", [stride; 2])
        .with_ints("pads", [pad; 4]);
    b.op(name, OpKind::Conv, a, &[x, weight, bias])
}

fn linear(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    from: usize,
    to: usize,
) -> Result<ValueId, GraphError> {
    let weight = b.weight(format!("{name}.weight"), TensorSpec::f32([from, to]));
    let bias = b.weight(format!("{name}.bias"), TensorSpec::f32([to]));
    let product = b.op(name, OpKind::Linear, none(), &[x, weight])?;
    b.binary(&format!("{name}.add"), OpKind::Add, product, bias)
}

fn transpose(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    perm: &[i64],
) -> Result<ValueId, GraphError> {
    b.op(name, OpKind::Transpose, none().with_ints("perm", perm), &[x])
}

fn reshape(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    shape: &[i64],
) -> Result<ValueId, GraphError> {
    b.op(name, OpKind::Reshape, none().with_ints("shape", shape), &[x])
}

fn layer_norm(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    width: usize,
    axis: i64,
) -> Result<ValueId, GraphError> {
    let [scale, bias] =
        ["scale", "bias"].map(|p| b.weight(format!("{name}.{p}"), TensorSpec::f32([width])));
    b.op(
        name,
        OpKind::LayerNorm,
        none().with_int("axis", axis).with("epsilon", Attribute::Float(1e-6)),
        &[x, scale, bias],
    )
}

fn kernels(graph: &Graph, settings: Settings) -> Vec<String> {
    let Ok(lowered) = lower(graph, settings) else { panic!("{} lowers", graph.name()) };
    let shapes = |tensors: &mut dyn Iterator<Item = &TensorSpec>| {
        let one =
            |t: &TensorSpec| t.shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        tensors.map(one).collect::<Vec<_>>().join(" ")
    };
    let text = |n: &crate::Node| {
        format!(
            "{} {} -> {}",
            n.op.kind,
            shapes(&mut n.op.activations()),
            shapes(&mut n.op.outputs.iter())
        )
    };
    lowered.nodes().iter().map(text).collect()
}

fn build(f: impl FnOnce(&mut GraphBuilder) -> Result<ValueId, GraphError>) -> Graph {
    let mut b = GraphBuilder::new("case");
    let built: Built = f(&mut b).and_then(|y| b.finish(vec![y]));
    match built {
        Ok(graph) => graph,
        Err(error) => panic!("the case is a graph: {error}"),
    }
}

fn expect(case: &str, graph: &Graph, expected: &[&str]) {
    assert_eq!(kernels(graph, Settings::default()), expected, "{case}");
}

#[test]
fn convolutions_take_in_sums_and_activations() {
    let residual = build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
        let stem = conv(b, "stem", x, [8, 3, 3, 3], 1)?;
        let first = conv(b, "first", stem, [8, 8, 3, 3], 1)?;
        let relu = b.unary("relu", OpKind::Relu, first)?;
        let second = conv(b, "second", relu, [8, 8, 3, 3], 1)?;
        let sum = b.binary("sum", OpKind::Add, second, stem)?;
        b.unary("out", OpKind::Relu, sum)
    });
    let expected = [
        "reorder 1x3x8x8 -> 1x3x8x8",
        "conv 1x3x8x8 -> 1x8x8x8",
        "conv 1x8x8x8 -> 1x8x8x8",
        "conv 1x8x8x8 1x8x8x8 -> 1x8x8x8",
        "reorder 1x8x8x8 -> 1x8x8x8",
    ];
    expect("residual", &residual, &expected);
}

#[test]
fn a_sum_whose_other_side_is_read_later_stays() {
    let graph = build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 8, 8, 8]));
        let stem = conv(b, "stem", x, [8, 8, 3, 3], 1)?;
        let branch = conv(b, "branch", stem, [8, 8, 3, 3], 1)?;
        let sum = b.binary("sum", OpKind::Add, branch, stem)?;
        let other = conv(b, "other", stem, [4, 8, 3, 3], 1)?;
        b.concat("join", &[sum, other], 1)
    });
    let found = kernels(&graph, Settings::default());
    assert!(found.contains(&"elementwise 1x8x8x8 1x8x8x8 -> 1x8x8x8".to_owned()), "{found:?}");
    assert!(found.contains(&"concat 1x8x8x8 1x4x8x8 -> 1x12x8x8".to_owned()), "{found:?}");
}

#[test]
fn strides_of_pointwise_convolutions_move_up() {
    let graph = build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 8, 8, 8]));
        let first = conv(b, "first", x, [8, 8, 3, 3], 1)?;
        let relu = b.unary("relu", OpKind::Relu, first)?;
        conv(b, "second", relu, [16, 8, 1, 1], 2)
    });
    let expected = [
        "reorder 1x8x8x8 -> 1x8x8x8",
        "conv 1x8x8x8 -> 1x8x4x4",
        "conv 1x8x4x4 -> 1x16x4x4",
        "reorder 1x16x4x4 -> 1x16x4x4",
    ];
    expect("strides", &graph, &expected);
}

#[test]
fn tokens_cost_nothing_after_a_convolution() {
    let graph = build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 3, 32, 32]));
        let patches = conv(b, "patches", x, [16, 3, 8, 8], 8)?;
        let flat = reshape(b, "flat", patches, &[1, 16, 16])?;
        let tokens = transpose(b, "tokens", flat, &[0, 2, 1])?;
        let normed = layer_norm(b, "norm", tokens, 16, 2)?;
        let wide = linear(b, "fc", normed, 16, 64)?;
        b.unary("gelu", OpKind::Gelu, wide)
    });
    let expected = [
        "reorder 1x3x32x32 -> 1x3x32x32",
        "conv 1x3x32x32 -> 1x16x4x4",
        "layer_norm 1x16x16 -> 1x16x16",
        "elementwise 1x16x16 -> 1x16x16",
        "linear 1x16x16 -> 1x16x64",
    ];
    expect("tokens", &graph, &expected);
}

#[test]
fn a_norm_over_channels_last_images_is_taken_apart() {
    let graph = build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 7, 7, 24]));
        layer_norm(b, "norm", x, 24, 3)
    });
    let expected = [
        "reduce_mean 1x7x7x24 -> 1x7x7x1",
        "elementwise 1x7x7x24 1x7x7x1 -> 1x7x7x24",
        "rms_norm 1x7x7x24 -> 1x7x7x24",
        "elementwise 1x7x7x24 -> 1x7x7x24",
    ];
    expect("norm", &graph, &expected);
}

/// Attention of two heads of eight over four tokens, all from one projection.
fn attention() -> Graph {
    build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 4, 16]));
        let heads = |b: &mut GraphBuilder, name: &str| {
            let projected = linear(b, name, x, 16, 16)?;
            let split = reshape(b, &format!("{name}.split"), projected, &[1, 4, 2, 8])?;
            transpose(b, &format!("{name}.heads"), split, &[0, 2, 1, 3])
        };
        let (q, k, v) = (heads(b, "q")?, heads(b, "k")?, heads(b, "v")?);
        let turned = transpose(b, "turned", k, &[0, 1, 3, 2])?;
        let scores = b.op("scores", OpKind::MatMul, none(), &[q, turned])?;
        let scale = b.scalar("scale", scores, 0.35)?;
        let scaled = b.binary("scaled", OpKind::Mul, scores, scale)?;
        let weights = b.op("softmax", OpKind::Softmax, none().with_int("axis", 3), &[scaled])?;
        let mixed = b.op("mixed", OpKind::MatMul, none(), &[weights, v])?;
        let tokens = transpose(b, "tokens", mixed, &[0, 2, 1, 3])?;
        let joined = reshape(b, "joined", tokens, &[1, 4, 16])?;
        linear(b, "out", joined, 16, 16)
    })
}

#[test]
fn attention_is_one_kernel() {
    let projections = "linear 1x4x16 -> 1x4x16";
    let found = kernels(&attention(), Settings::default());
    assert!(
        found.contains(&"attention 1x4x2x8 1x2x8x4 1x4x2x8 -> 1x4x2x8".to_owned()),
        "{found:?}"
    );
    assert!(found.contains(&"transpose 1x4x2x8 -> 1x2x8x4".to_owned()), "{found:?}");
    assert_eq!(found.iter().filter(|k| *k == projections).count(), 4, "{found:?}");
    assert_eq!(found.len(), 6, "the scale goes into the projection of the keys: {found:?}");
}

#[test]
fn bfloat16_leaves_the_transpose_behind_attention() {
    let found = kernels(&attention(), Settings { bf16: true, ..Settings::default() });
    assert!(
        found.contains(&"attention 1x4x2x8 1x2x8x4 1x4x2x8 -> 1x2x4x8".to_owned()),
        "{found:?}"
    );
    assert!(found.contains(&"transpose 1x2x4x8 -> 1x4x2x8".to_owned()), "{found:?}");
    assert_eq!(
        found.first().map(String::as_str),
        Some("cast 1x4x16 -> 1x4x16"),
        "what goes in is converted: {found:?}"
    );
}

#[test]
fn images_that_come_channels_last_need_no_reorder() {
    let graph = build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
        let y = conv(b, "conv", x, [8, 3, 3, 3], 1)?;
        b.op("pool", OpKind::GlobalAveragePool, none(), &[y])
    });
    let expected = ["conv 1x3x8x8 -> 1x8x8x8", "reduce_mean 1x8x8x8 -> 1x8x1x1"];
    assert_eq!(kernels(&graph, Settings { channels_last: true, ..Settings::default() }), expected);
}

#[test]
fn quantised_convolutions_take_in_their_pairs() {
    let float = build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
        let first = conv(b, "first", x, [8, 3, 3, 3], 1)?;
        let relu = b.unary("relu", OpKind::Relu, first)?;
        conv(b, "second", relu, [8, 8, 3, 3], 1)
    });
    let Ok(graph) = crate::quantize::qdq(&float, &crate::quantize::Options::default()) else {
        panic!("the case can be quantised")
    };
    let expected = [
        "elementwise 1x3x8x8 -> 1x3x8x8",
        "reorder 1x3x8x8 -> 1x3x8x8",
        "conv 1x3x8x8 -> 1x8x8x8",
        "conv 1x8x8x8 -> 1x8x8x8",
        "reorder 1x8x8x8 -> 1x8x8x8",
    ];
    let found = kernels(&graph, Settings::default());
    assert_eq!(found[..4], expected[..4], "{found:?}");
}

fn quantised(f: impl FnOnce(&mut GraphBuilder) -> Result<ValueId, GraphError>) -> Vec<String> {
    let Ok(graph) = crate::quantize::qdq(&build(f), &crate::quantize::Options::default()) else {
        panic!("the case can be quantised")
    };
    kernels(&graph, Settings::default())
}

#[test]
fn quantised_branches_with_a_scale_per_channel_join_the_sum() {
    let found = quantised(|b| {
        let x = b.input("x", TensorSpec::f32([1, 8, 8, 8]));
        let stem = conv(b, "stem", x, [8, 8, 3, 3], 1)?;
        let wide = conv(b, "wide", stem, [16, 8, 1, 1], 1)?;
        let branch = conv(b, "branch", wide, [8, 16, 1, 1], 1)?;
        let scale = b.weight("scale", TensorSpec::f32([8, 1, 1]));
        let scaled = b.binary("scaled", OpKind::Mul, branch, scale)?;
        let sum = b.binary("sum", OpKind::Add, stem, scaled)?;
        b.op("pool", OpKind::GlobalAveragePool, none(), &[sum])
    });
    assert!(
        found.contains(&"cast 1x8x8x8 -> 1x8x8x8".to_owned()),
        "what is added becomes floats: {found:?}"
    );
    assert!(found.contains(&"conv 1x16x8x8 1x8x8x8 -> 1x8x8x8".to_owned()), "{found:?}");
    assert!(
        found.contains(&"elementwise 1x8x8x8 -> 1x8x8x8".to_owned()),
        "the scale follows: {found:?}"
    );
}

#[test]
fn sums_with_a_gate_stay_apart_from_quantised_convolutions() {
    let found = quantised(|b| {
        let x = b.input("x", TensorSpec::f32([1, 8, 8, 8]));
        let stem = conv(b, "stem", x, [8, 8, 3, 3], 1)?;
        let gate = b.unary("gate", OpKind::Sigmoid, stem)?;
        let branch = conv(b, "branch", stem, [8, 8, 1, 1], 1)?;
        b.binary("sum", OpKind::Add, branch, gate)
    });
    assert!(!found.contains(&"conv 1x8x8x8 1x8x8x8 -> 1x8x8x8".to_owned()), "{found:?}");
    assert!(found.contains(&"elementwise 1x8x8x8 1x8x8x8 -> 1x8x8x8".to_owned()), "{found:?}");
}

#[test]
fn strides_stop_at_quantised_numbers() {
    let found = quantised(|b| {
        let x = b.input("x", TensorSpec::f32([1, 8, 8, 8]));
        let first = conv(b, "first", x, [8, 8, 3, 3], 1)?;
        conv(b, "second", first, [16, 8, 1, 1], 2)
    });
    let expected = [
        "conv 1x8x8x8 -> 1x8x8x8",
        "elementwise 1x8x8x8 -> 1x8x8x8",
        "max_pool 1x8x8x8 -> 1x8x4x4",
        "elementwise 1x8x4x4 -> 1x8x4x4",
    ];
    assert_eq!(found.get(2..6), Some(&expected.map(str::to_owned)[..]), "{found:?}");
}

#[test]
fn quantised_products_of_images_are_finished_by_another_kernel() {
    let found = quantised(|b| {
        let x = b.input("x", TensorSpec::f32([1, 7, 7, 24]));
        let wide = linear(b, "fc", x, 24, 96)?;
        b.unary("gelu", OpKind::Gelu, wide)
    });
    assert_eq!(
        found.get(1..),
        Some(
            &["linear 1x7x7x24 -> 1x7x7x96", "elementwise 1x7x7x96 -> 1x7x7x96"].map(str::to_owned)
                [..]
        ),
        "{found:?}"
    );
}

#[test]
fn what_follows_moved_quantised_numbers_stays_behind_the_move() {
    let found = quantised(|b| {
        let x = b.input("x", TensorSpec::f32([1, 8, 4, 4]));
        let image = conv(b, "conv", x, [8, 8, 3, 3], 1)?;
        let flat = reshape(b, "flat", image, &[1, 8, 16])?;
        let tokens = transpose(b, "tokens", flat, &[0, 2, 1])?;
        b.unary("gelu", OpKind::Gelu, tokens)
    });
    assert_eq!(found.last().map(String::as_str), Some("elementwise 1x16x8 -> 1x16x8"), "{found:?}");
}

#[test]
fn values_quantised_around_zero_keep_the_transpose_behind_attention_apart() {
    let Ok(graph) = crate::quantize::qdq(&attention(), &crate::quantize::Options::default()) else {
        panic!("the case can be quantised")
    };
    let found = kernels(&graph, Settings::default());
    assert!(
        found.iter().any(|k| k.starts_with("attention") && k.ends_with("-> 1x2x4x8")),
        "{found:?}"
    );
    assert!(found.contains(&"transpose 1x2x4x8 -> 1x4x2x8".to_owned()), "{found:?}");
    // With another zero point they come as floats.
    let mut values = graph.values().to_vec();
    for value in values
        .iter_mut()
        .filter(|v| v.name.starts_with("v.heads") && v.name.ends_with("/zero_point"))
    {
        value.source = crate::ValueSource::Constant(Some(crate::ConstantData::Ints(vec![127])));
    }
    let Ok(graph) = Graph::new(
        "other",
        values,
        graph.nodes().to_vec(),
        graph.inputs().to_vec(),
        graph.outputs().to_vec(),
    ) else {
        panic!("a graph")
    };
    let found = kernels(&graph, Settings::default());
    assert!(
        found.iter().any(|k| k.starts_with("attention") && k.ends_with("-> 1x4x2x8")),
        "{found:?}"
    );
}

#[test]
fn a_sum_with_quantised_tokens_is_scaled_for_all_but_its_normalisation() {
    let found = quantised(|b| {
        let x = b.input("x", TensorSpec::f32([1, 16, 4, 4]));
        let image = conv(b, "conv", x, [16, 16, 3, 3], 1)?;
        let flat = reshape(b, "flat", image, &[1, 16, 16])?;
        let tokens = transpose(b, "tokens", flat, &[0, 2, 1])?;
        let mixed = linear(b, "mix", tokens, 16, 16)?;
        let sum = b.binary("sum", OpKind::Add, tokens, mixed)?;
        let norm = layer_norm(b, "norm", sum, 16, 2)?;
        let wide = linear(b, "fc", norm, 16, 16)?;
        b.binary("out", OpKind::Add, sum, wide)
    });
    assert!(
        found.contains(&"elementwise 1x16x16 1x16x16 -> 1x16x16 1x16x16".to_owned()),
        "{found:?}"
    );
}

#[test]
fn parts_of_a_join_are_quantised_before_it() {
    let found = quantised(|b| {
        let x = b.input("x", TensorSpec::f32([1, 8, 8, 8]));
        let first = conv(b, "first", x, [8, 8, 3, 3], 1)?;
        let second = conv(b, "second", first, [16, 8, 3, 3], 1)?;
        let second = b.unary("relu", OpKind::Relu, second)?;
        let join = b.op("join", OpKind::Concat, none().with_int("axis", 1), &[first, second])?;
        conv(b, "last", join, [8, 24, 1, 1], 1)
    });
    let place = |kernel: &str| found.iter().position(|k| k == kernel);
    assert!(
        place("elementwise 1x8x8x8 -> 1x8x8x8") < place("concat 1x8x8x8 1x16x8x8 -> 1x24x8x8"),
        "{found:?}"
    );
    assert!(
        place("elementwise 1x16x8x8 -> 1x16x8x8").is_none(),
        "a range from 0 goes into the convolution: {found:?}"
    );
    assert!(place("elementwise 1x24x8x8 -> 1x24x8x8").is_none(), "{found:?}");
}

#[test]
fn elementwise_operators_around_another_kernel_do_not_merge() {
    let graph = build(|b| {
        let x = b.input("x", TensorSpec::f32([1, 4, 16]));
        let y = b.input("y", TensorSpec::f32([1, 4, 16]));
        let sum = b.binary("sum", OpKind::Add, x, y)?;
        let product = linear(b, "fc", sum, 16, 16)?;
        let scaled = b.binary("gate", OpKind::Mul, sum, y)?;
        b.binary("out", OpKind::Add, product, scaled)
    });
    let expected = [
        "elementwise 1x4x16 1x4x16 -> 1x4x16 1x4x16",
        "linear 1x4x16 -> 1x4x16",
        "elementwise 1x4x16 1x4x16 -> 1x4x16",
    ];
    expect("diamond", &graph, &expected);
}
