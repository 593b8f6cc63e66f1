//! Blocks: sequences of operators as in networks of several families, at widths and resolutions of
//! no existing model.
//!
//! A convolution between other convolutions finds its input in the caches and in the engine's own
//! layout; the inventory of single operators has few of each shape. One block measures many of
//! them; rare modes of operators are sampled in turn with blocks. They are operators' networks:
//! training data, never evaluated end to end.

use super::{
    Built, Network, OperatorSample, Template, between, binary, concat, draw, extremes,
    images::{activate, average_whole, conv, resized},
    layer_norm, linear, longest_side, modes, permuted, pick, reshaped, transposed, unary,
};
use crate::Generator;
use vitempo_graph::{Attributes, GraphError, OpKind, TensorSpec, ValueId};

/// The name that `vitempo sample --space` takes for them.
pub const BLOCKS: &str = "operator-blocks";

const TEMPLATES: &[(&str, Template)] = &[
    ("inverted-residual", inverted_residuals),
    ("bottleneck", bottlenecks),
    ("basic-residual", basic_residuals),
    ("dense-block", dense_block),
    ("convnext-block", convnext_block),
    ("shuffle-unit", shuffle_unit),
    ("ghost-unit", ghost_unit),
    ("partial-stage", partial_stage),
    ("pyramid-fusion", pyramid_fusion),
    ("small-network", small_network),
    ("transformer-block", transformer_block),
    ("mixer-block", mixer_block),
];

/// Draws `count` networks, the templates in turn; the i-th does not depend on `count`.
///
/// # Errors
/// [`GraphError`] when a template contradicts itself, which its test rules out.
pub fn blocks(count: usize, seed: u64) -> Result<Vec<OperatorSample>, GraphError> {
    draw(
        &[TEMPLATES, modes::TEMPLATES, extremes::TEMPLATES, permuted::TEMPLATES].concat(),
        count,
        seed,
    )
}

/// Elements that the images of these blocks have at most.
const MOST: usize = 1 << 19;

fn image(n: &mut Network, g: &mut Generator, c: usize) -> ValueId {
    let side = between(g, 4, longest_side(MOST, c).clamp(7, 96));
    n.b.input("x", TensorSpec::f32([1, c, side, side]))
}

/// A number of channels: mostly multiples of eight, now and then of two alone, as networks scaled
/// by a factor have.
fn width(g: &mut Generator, high: usize) -> usize {
    let step = pick(g, &[8, 8, 16, 16, 32, 4, 6, 2]);
    (between(g, 8, high.max(8)) / step).max(1) * step
}

/// `y`, with `x` added where the shapes are equal.
fn add_where_equal(n: &mut Network, x: ValueId, y: ValueId) -> Built {
    if n.shape(x) == n.shape(y) { binary(n, OpKind::Add, y, x) } else { Ok(y) }
}

/// Scales channels by what their means say.
fn excite(n: &mut Network, g: &mut Generator, x: ValueId) -> Built {
    let c = n.channels(x);
    let pooled = if g.unit() < 0.5 {
        unary(n, OpKind::GlobalAveragePool, x)?
    } else {
        let name = n.name();
        n.b.reduce_mean(&name, x, &[2, 3], true)?
    };
    let y = conv(n, pooled, (c / pick(g, &[4, 8, 16, 24])).max(4), 1, 1, 1)?;
    let name = n.name();
    let y = if g.unit() < 0.5 { n.b.unary(&name, OpKind::Relu, y)? } else { n.b.silu(&name, y)? };
    let y = conv(n, y, c, 1, 1, 1)?;
    let gate = unary(n, if g.unit() < 0.5 { OpKind::Sigmoid } else { OpKind::HardSigmoid }, y)?;
    binary(n, OpKind::Mul, x, gate)
}

fn inverted_residual(
    n: &mut Network,
    g: &mut Generator,
    x: ValueId,
    out: usize,
    stride: usize,
) -> Built {
    let hidden =
        ((n.channels(x) as f64 * pick(g, &[1.0, 2.0, 3.0, 4.0, 6.0, 6.0])) as usize / 4).max(2) * 4;
    let y = conv(n, x, hidden, 1, 1, 1)?;
    let y = activate(n, g, y)?;
    let y = conv(n, y, hidden, pick(g, &[3, 3, 5, 7]), stride, hidden)?;
    let mut y = activate(n, g, y)?;
    if g.unit() < 0.25 && hidden >= 32 {
        y = excite(n, g, y)?;
    }
    let y = conv(n, y, out, 1, 1, 1)?;
    add_where_equal(n, x, y)
}

fn inverted_residuals(n: &mut Network, g: &mut Generator) -> Built {
    let c = width(g, 160);
    let x = image(n, g, c);
    let out = if g.unit() < 0.5 { c } else { width(g, 224) };
    let stride = pick(g, &[1, 1, 2]);
    let y = inverted_residual(n, g, x, out, stride)?;
    let y = inverted_residual(n, g, y, out, 1)?;
    conv(n, y, width(g, 640), 1, 1, 1)
}

fn bottleneck(n: &mut Network, g: &mut Generator, x: ValueId, out: usize, stride: usize) -> Built {
    let group_width = pick(g, &[0usize, 0, 4, 8, 16, 24, 32, 64]);
    let mid = (out / pick(g, &[1, 2, 4])).max(8);
    let (mid, groups) = if group_width == 0 {
        (mid, 1)
    } else {
        (mid.div_ceil(group_width) * group_width, mid.div_ceil(group_width))
    };
    let y = conv(n, x, mid, 1, 1, 1)?;
    let y = activate(n, g, y)?;
    let y = conv(n, y, mid, 3, stride, groups)?;
    let y = activate(n, g, y)?;
    let y = conv(n, y, out, 1, 1, 1)?;
    let short = if n.shape(x) == n.shape(y) { x } else { conv(n, x, out, 1, stride, 1)? };
    let y = add_where_equal(n, short, y)?;
    unary(n, OpKind::Relu, y)
}

fn bottlenecks(n: &mut Network, g: &mut Generator) -> Built {
    let c = width(g, 768);
    let x = image(n, g, c);
    let out = if g.unit() < 0.5 { c } else { width(g, 1024) };
    let stride = pick(g, &[1, 1, 2]);
    let y = bottleneck(n, g, x, out, stride)?;
    bottleneck(n, g, y, out, 1)
}

fn basic_residuals(n: &mut Network, g: &mut Generator) -> Built {
    let c = width(g, 256);
    let x = image(n, g, c);
    let (out, stride) = (if g.unit() < 0.5 { c } else { width(g, 384) }, pick(g, &[1, 1, 2]));
    let y = conv(n, x, out, 3, stride, 1)?;
    let y = activate(n, g, y)?;
    let y = conv(n, y, out, 3, 1, 1)?;
    let short = if n.shape(x) == n.shape(y) { x } else { conv(n, x, out, 1, stride, 1)? };
    let y = add_where_equal(n, short, y)?;
    let y = unary(n, OpKind::Relu, y)?;
    conv(n, y, width(g, 384), 1, 1, 1)
}

/// Each layer reads all before it.
fn dense_block(n: &mut Network, g: &mut Generator) -> Built {
    let (c, growth) = (width(g, 256), width(g, 64));
    let mut x = image(n, g, c);
    for _ in 0..3 {
        let mut y = x;
        if g.unit() < 0.5 {
            let name = n.name();
            y = n.b.batch_norm(&name, y)?;
            y = unary(n, OpKind::Relu, y)?;
        }
        let y = conv(n, y, 4 * growth, 1, 1, 1)?;
        let y = unary(n, OpKind::Relu, y)?;
        let y = conv(n, y, growth, 3, 1, 1)?;
        x = concat(n, &[x, y], 1)?;
    }
    conv(n, x, c, 1, 1, 1)
}

/// Depthwise, normalised and widened over the last dimension, scaled, added.
fn convnext_block(n: &mut Network, g: &mut Generator) -> Built {
    let c = width(g, 640);
    let x = image(n, g, c);
    let x = conv(n, x, c, 1, 1, 1)?;
    let y = conv(n, x, c, pick(g, &[3, 5, 7, 7, 9]), 1, c)?;
    let y = transposed(n, y, &[0, 2, 3, 1])?;
    let y = layer_norm(n, y)?;
    let y = linear(n, y, pick(g, &[2, 3, 4, 4]) * c)?;
    let name = n.name();
    let y = n.b.gelu_erf(&name, y)?;
    let y = linear(n, y, c)?;
    let scale = n.b.weight("scale", TensorSpec::f32([c]));
    let y = binary(n, OpKind::Mul, y, scale)?;
    let y = transposed(n, y, &[0, 3, 1, 2])?;
    let y = binary(n, OpKind::Add, y, x)?;
    conv(n, y, width(g, 640), 2, 2, 1)
}

fn halves(n: &mut Network, x: ValueId, axis: usize) -> Result<Vec<ValueId>, GraphError> {
    let half = n.shape(x).get(axis).map_or(1, |d| d / 2) as i64;
    let name = n.name();
    n.b.op_many(
        &name,
        OpKind::Split,
        Attributes::new().with_int("axis", axis as i64).with_ints("split", vec![half; 2]),
        &[x],
    )
}

/// Half of the channels through three convolutions, joined with the other half, interleaved.
fn shuffle_unit(n: &mut Network, g: &mut Generator) -> Built {
    let half = width(g, 256);
    let x = image(n, g, 2 * half);
    let x = conv(n, x, 2 * half, 1, 1, 1)?;
    let parts = halves(n, x, 1)?;
    let y = conv(n, parts[1], half, 1, 1, 1)?;
    let y = unary(n, OpKind::Relu, y)?;
    let y = conv(n, y, half, pick(g, &[3, 3, 5]), 1, half)?;
    let y = conv(n, y, half, 1, 1, 1)?;
    let y = unary(n, OpKind::Relu, y)?;
    let y = concat(n, &[parts[0], y], 1)?;
    let whole = n.shape(y);
    let [a, b] = [n.name(), n.name()];
    let y = n.b.reshape(&a, y, &[1, 2, half, whole[2], whole[3]])?;
    let y = transposed(n, y, &[0, 2, 1, 3, 4])?;
    let y = n.b.reshape(&b, y, &whole)?;
    conv(n, y, width(g, 256), 1, 1, 1)
}

/// Half of the channels made cheaply out of the other half.
fn ghost_unit(n: &mut Network, g: &mut Generator) -> Built {
    let (c, half) = (width(g, 256), width(g, 256));
    let x = image(n, g, c);
    let y = conv(n, x, half, 1, 1, 1)?;
    let y = activate(n, g, y)?;
    let z = conv(n, y, half, pick(g, &[3, 5]), 1, half)?;
    let z = activate(n, g, z)?;
    let y = concat(n, &[y, z], 1)?;
    let y = conv(n, y, 2 * half, pick(g, &[3, 5]), pick(g, &[1, 2]), 2 * half)?;
    conv(n, y, c, 1, 1, 1)
}

/// One branch through blocks, another past them.
fn partial_stage(n: &mut Network, g: &mut Generator) -> Built {
    let (c, half) = (width(g, 384), width(g, 192));
    let x = image(n, g, c);
    let past = conv(n, x, half, 1, 1, 1)?;
    let past = n.b.silu("past", past)?;
    let mut y = conv(n, x, half, 1, 1, 1)?;
    y = n.b.silu("through", y)?;
    for name in ["block-1", "block-2"] {
        let z = conv(n, y, half, 1, 1, 1)?;
        let z = n.b.silu(&format!("{name}-a"), z)?;
        let z = conv(n, z, half, 3, 1, 1)?;
        let z = n.b.silu(&format!("{name}-b"), z)?;
        y = binary(n, OpKind::Add, z, y)?;
    }
    let y = concat(n, &[y, past], 1)?;
    conv(n, y, c, 1, 1, 1)
}

/// Two resolutions, each added to the other.
fn pyramid_fusion(n: &mut Network, g: &mut Generator) -> Built {
    let (fine, coarse) = (width(g, 128), width(g, 256));
    let side = 2 * between(g, 4, 32);
    let x = n.b.input("x", TensorSpec::f32([1, fine, side, side]));
    let x = conv(n, x, fine, 3, 1, 1)?;
    let x = unary(n, OpKind::Relu, x)?;
    let low = conv(n, x, coarse, 3, 2, 1)?;
    let low = unary(n, OpKind::Relu, low)?;
    let up = conv(n, low, fine, 1, 1, 1)?;
    let (mode, transformation) =
        if g.unit() < 0.5 { ("linear", "pytorch_half_pixel") } else { ("nearest", "asymmetric") };
    let up = resized(n, up, side, mode, transformation)?;
    let x = binary(n, OpKind::Add, x, up)?;
    let x = unary(n, OpKind::Relu, x)?;
    let down = conv(n, x, coarse, 3, 2, 1)?;
    let low = binary(n, OpKind::Add, low, down)?;
    let low = unary(n, OpKind::Relu, low)?;
    conv(n, low, coarse, 3, 1, 1)
}

/// A stem, three stages of blocks of one kind, a classifier.
fn small_network(n: &mut Network, g: &mut Generator) -> Built {
    let side = pick(g, &[64usize, 96, 112, 128, 160, 192]);
    let mut c = width(g, 48);
    let x = n.b.input("x", TensorSpec::f32([1, 3, side, side]));
    let (kernel, stride) = pick(g, &[(3, 2), (3, 2), (5, 2), (7, 2), (7, 4), (4, 4)]);
    let name = n.name();
    let y = n.b.conv(&name, x, c, kernel, stride, (kernel - 1) / 2, 1, true)?;
    let mut y = activate(n, g, y)?;
    if g.unit() < 0.3 {
        let name = n.name();
        let window = Attributes::new()
            .with_ints("kernel_shape", vec![3; 2])
            .with_ints("strides", vec![2; 2])
            .with_ints("pads", vec![1; 4]);
        y = n.b.op(&name, OpKind::MaxPool, window, &[y])?;
    }
    let inverted = g.unit() < 0.6;
    for _ in 0..3 {
        c = (c + width(g, 2 * c)).min(320);
        y = if inverted { inverted_residual(n, g, y, c, 2)? } else { bottleneck(n, g, y, c, 2)? };
        y = if inverted { inverted_residual(n, g, y, c, 1)? } else { bottleneck(n, g, y, c, 1)? };
    }
    classify(n, g, y)
}

/// The mean of the image, a hidden layer or none, a class for each output: as linear layers or as
/// convolutions of one pixel.
fn classify(n: &mut Network, g: &mut Generator, x: ValueId) -> Built {
    let whole = n.shape(x);
    let pooled =
        if g.unit() < 0.7 { unary(n, OpKind::GlobalAveragePool, x)? } else { average_whole(n, x)? };
    let (hidden, classes) = (width(g, 1536), pick(g, &[10, 100, 1000, 1000]));
    if g.unit() < 0.5 {
        let y = if g.unit() < 0.5 { conv(n, pooled, hidden, 1, 1, 1)? } else { pooled };
        let y = activate(n, g, y)?;
        return conv(n, y, classes, 1, 1, 1);
    }
    let y = reshaped(n, pooled, &[1, whole[1]])?;
    let y = if g.unit() < 0.3 { linear(n, y, hidden)? } else { y };
    linear(n, y, classes)
}

/// Attention and two linear layers, over widths that reach those of large models.
fn transformer_block(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d, tokens) =
        (between(g, 1, 16), pick(g, &[16usize, 24, 32, 48, 64, 64, 80]), between(g, 16, 640));
    let c = heads * d;
    let x = n.b.input("x", TensorSpec::f32([1, tokens, c]));
    let y = layer_norm(n, x)?;
    let mut parts = Vec::new();
    for perm in [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]] {
        let part = linear(n, y, c)?;
        let part = reshaped(n, part, &[1, tokens, heads, d])?;
        parts.push(transposed(n, part, &perm)?);
    }
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let scores = n.b.matmul(&a, parts[0], parts[1])?;
    let scale = n.b.scalar("scale", scores, 0.125)?;
    let scores = binary(n, OpKind::Mul, scores, scale)?;
    let weights = n.b.softmax(&b, scores, 3)?;
    let y = n.b.matmul(&e, weights, parts[2])?;
    let y = transposed(n, y, &[0, 2, 1, 3])?;
    let y = reshaped(n, y, &[1, tokens, c])?;
    let y = linear(n, y, c)?;
    let x = binary(n, OpKind::Add, x, y)?;
    let y = layer_norm(n, x)?;
    let y = linear(n, y, (c as f64 * pick(g, &[2.0, 2.67, 3.0, 4.0, 4.0])) as usize / 8 * 8)?;
    let name = n.name();
    let y = if g.unit() < 0.7 { n.b.gelu_erf(&name, y)? } else { n.b.silu(&name, y)? };
    let y = linear(n, y, c)?;
    binary(n, OpKind::Add, x, y)
}

/// Linear layers over tokens, then over channels.
fn mixer_block(n: &mut Network, g: &mut Generator) -> Built {
    let (tokens, c) = (between(g, 49, 400), width(g, 768));
    let x = n.b.input("x", TensorSpec::f32([1, tokens, c]));
    let y = layer_norm(n, x)?;
    let y = transposed(n, y, &[0, 2, 1])?;
    let y = linear(n, y, width(g, 512))?;
    let name = n.name();
    let y = n.b.gelu_erf(&name, y)?;
    let y = linear(n, y, tokens)?;
    let y = transposed(n, y, &[0, 2, 1])?;
    let x = binary(n, OpKind::Add, x, y)?;
    let y = layer_norm(n, x)?;
    let y = linear(n, y, pick(g, &[2, 4]) * c)?;
    let name = n.name();
    let y = n.b.gelu_erf(&name, y)?;
    let y = linear(n, y, c)?;
    binary(n, OpKind::Add, x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_builds_and_repeats() {
        let samples = blocks(600, 3).unwrap_or_else(|e| panic!("{e}"));
        let few = blocks(40, 3).unwrap_or_else(|e| panic!("{e}"));
        assert!(samples.iter().zip(&few).all(|(a, b)| a.graph == b.graph));
        let architectures: std::collections::BTreeSet<String> =
            samples.iter().map(|s| s.graph.architecture()).collect();
        assert!(architectures.len() > 590, "only {} distinct blocks", architectures.len());
        assert!(
            samples
                .iter()
                .all(|s| s.graph.unsupported().next().is_none() && s.graph.nodes().len() > 2)
        );
    }
}
