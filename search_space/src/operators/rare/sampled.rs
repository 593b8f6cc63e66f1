//! Operators that compute an image from windows or points of another: sampling at coordinates,
//! resizing, pooling, padding, transposed convolution, normalisation of instances.

use super::super::{
    Built, Network, Template, between, channels, convolved, images::conv, longest_side, pick,
    unary, written,
};
use crate::Generator;
use vitempo_graph::{Attribute, Attributes, OpKind, TensorSpec};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("grid-sample", grid_sample),
    ("deformable-sample", deformable_sample),
    ("any-resize", any_resize),
    ("position-resize", position_resize),
    ("wide-average-pool", wide_average_pool),
    ("wide-max-pool", wide_max_pool),
    ("pooling-branch", pooling_branch),
    ("any-pad", any_pad),
    ("any-transposed-conv", any_transposed_conv),
    ("instance-norm", instance_norm),
];

/// Elements of an image here.
const MOST: usize = 1 << 21;

fn text(value: &str) -> Attribute {
    Attribute::Text(value.to_owned())
}

/// Sides of an image of `c` channels, not always square.
fn sides(g: &mut Generator, c: usize, low: usize) -> [usize; 2] {
    let most = longest_side(MOST, c).clamp(low + 1, 256);
    let h = between(g, low, most);
    [h, if g.unit() < 0.6 { h } else { between(g, low, most) }]
}

/// An image that a convolution has just made, or an input just written where it has few channels.
fn image(n: &mut Network, c: usize, [h, w]: [usize; 2]) -> Built {
    if c < 8 { written(n, [1, c, h, w]) } else { convolved(n, [1, c, h, w]) }
}

/// How `grid_sample` interpolates, and what it reads outside.
fn sampling(g: &mut Generator) -> Attributes {
    Attributes::new()
        .with("mode", text(pick(g, &["linear", "linear", "linear", "nearest", "cubic"])))
        .with("padding_mode", text(pick(g, &["zeros", "zeros", "border", "reflection"])))
        .with_int("align_corners", pick(g, &[0, 0, 1]))
}

/// Coordinates from -1 to 1.
fn grid(n: &mut Network, shape: [usize; 4]) -> Built {
    let x = n.b.input("grid", TensorSpec::f32(shape));
    unary(n, OpKind::Tanh, x)
}

/// An image warped by a flow.
fn grid_sample(n: &mut Network, g: &mut Generator) -> Built {
    let c = pick(g, &[1, 3, 3, 8, 16, 32, 64, 128, 256]);
    let from = sides(g, c, 8);
    let to = if g.unit() < 0.5 { from } else { sides(g, c, 8) };
    let x = image(n, c, from)?;
    let grid = grid(n, [1, to[0], to[1], 2])?;
    let (name, attributes) = (n.name(), sampling(g));
    let y = n.b.op(&name, OpKind::GridSample, attributes, &[x, grid])?;
    unary(n, OpKind::Abs, y)
}

/// A few points of each query in each head, as deformable attention reads them.
fn deformable_sample(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d) = (pick(g, &[4usize, 8, 8]), pick(g, &[16usize, 32, 32, 64]));
    let (side, queries, points) =
        (between(g, 7, 100), between(g, 50, 10_000), pick(g, &[2usize, 4, 4, 8]));
    let queries = queries.min(large_queries(heads * d * points));
    let side = side.min(longest_side(4 * MOST, heads * d));
    let x = written(n, [heads, d, side, side])?;
    let grid = grid(n, [heads, queries, points, 2])?;
    let name = n.name();
    let attributes = Attributes::new()
        .with("mode", text("linear"))
        .with("padding_mode", text("zeros"))
        .with_int("align_corners", 0);
    let y = n.b.op(&name, OpKind::GridSample, attributes, &[x, grid])?;
    let weights = n.b.input("weights", TensorSpec::f32([heads, 1, queries, points]));
    let [a, b] = [n.name(), n.name()];
    let y = n.b.binary(&a, OpKind::Mul, y, weights)?;
    n.b.op(
        &b,
        OpKind::ReduceSum,
        Attributes::new().with_ints("axes", vec![3]).with_int("keepdims", 0),
        &[y],
    )
}

/// As many queries as keep what is sampled within bounds.
fn large_queries(each: usize) -> usize {
    (4 * MOST / each.max(1)).max(50)
}

/// Mode, transformation of coordinates and rounding of a resize.
fn resizing(g: &mut Generator) -> Attributes {
    let (mode, transformation) = pick(
        g,
        &[
            ("nearest", "asymmetric"),
            ("nearest", "half_pixel"),
            ("linear", "half_pixel"),
            ("linear", "pytorch_half_pixel"),
            ("linear", "align_corners"),
            ("linear", "asymmetric"),
            ("cubic", "half_pixel"),
            ("cubic", "align_corners"),
        ],
    );
    let attributes = Attributes::new()
        .with("mode", text(mode))
        .with("coordinate_transformation_mode", text(transformation));
    if mode != "nearest" {
        return attributes;
    }
    attributes.with("nearest_mode", text(pick(g, &["floor", "floor", "round_prefer_floor"])))
}

fn resize(n: &mut Network, g: &mut Generator, x: vitempo_graph::ValueId, to: [usize; 2]) -> Built {
    let shape = n.shape(x);
    let sizes = [shape[0], shape[1], to[0], to[1]].map(|s| s as i64);
    let (name, attributes) = (n.name(), resizing(g).with_ints("sizes", sizes));
    n.b.op(&name, OpKind::Resize, attributes, &[x])
}

/// Up and down, by whole and by other factors.
fn any_resize(n: &mut Network, g: &mut Generator) -> Built {
    let c = pick(g, &[1, 3, 16, 32, 64, 96, 128, 256]);
    let factor = pick(g, &[0.25, 0.5, 0.5, 0.64, 0.93, 1.07, 1.5, 2.0, 2.0, 2.5, 4.0, 8.0]);
    let from = sides(g, (c as f64 * f64::max(1.0, factor * factor)) as usize, 7);
    let x = image(n, c, from)?;
    let to = from.map(|side| ((side as f64 * factor).round() as usize).max(1));
    let y = resize(n, g, x, to)?;
    unary(n, OpKind::Abs, y)
}

/// An image of tokens at the size of another image's patches, as position embeddings and branches
/// of several scales need it.
fn position_resize(n: &mut Network, g: &mut Generator) -> Built {
    let c = pick(g, &[96usize, 192, 224, 384, 448, 768, 1024]);
    let (from, to) = (between(g, 7, 37), between(g, 7, 37));
    let x = written(n, [1, from * from, c])?;
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let y = n.b.transpose(&a, x, &[0, 2, 1])?;
    let y = n.b.reshape(&b, y, &[1, c, from, from])?;
    let y = resize(n, g, y, [to, to])?;
    let y = n.b.reshape(&e, y, &[1, c, to * to])?;
    let y = n.b.transpose(&f, y, &[0, 2, 1])?;
    unary(n, OpKind::Abs, y)
}

/// A window that fits the image: kernel, stride, padding.
fn window(g: &mut Generator, side: usize) -> (usize, usize, usize) {
    let kernel = pick(g, &[2, 3, 3, 5, 7, 8, 9, 13, 16]).min(side);
    let stride = pick(g, &[1, 1, 2, kernel, kernel.div_ceil(2)]);
    (kernel, stride, if g.unit() < 0.5 { kernel / 2 } else { 0 })
}

fn pool(n: &mut Network, g: &mut Generator, kind: OpKind) -> Built {
    let c = channels(g, 768);
    let from = sides(g, c, 6);
    let x = image(n, c, from)?;
    let (kernel, stride, pad) = window(g, from[0].min(from[1]));
    let mut attributes = Attributes::new()
        .with_ints("kernel_shape", vec![kernel as i64; 2])
        .with_ints("strides", vec![stride as i64; 2])
        .with_ints("pads", vec![pad as i64; 4]);
    if kind == OpKind::AveragePool {
        attributes = attributes.with_int("count_include_pad", pick(g, &[0, 1]));
    }
    let name = n.name();
    let y = n.b.op(&name, kind, attributes, &[x])?;
    if g.unit() < 0.5 { conv(n, y, c, 1, 1, 1) } else { unary(n, OpKind::Sigmoid, y) }
}

fn wide_average_pool(n: &mut Network, g: &mut Generator) -> Built {
    pool(n, g, OpKind::AveragePool)
}

fn wide_max_pool(n: &mut Network, g: &mut Generator) -> Built {
    pool(n, g, OpKind::MaxPool)
}

/// Pooling beside convolutions that read the same image; all are concatenated.
fn pooling_branch(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 512), between(g, 5, 48));
    let x = convolved(n, [1, c, side, side])?;
    let (kind, kernel) =
        if g.unit() < 0.7 { (OpKind::AveragePool, 3) } else { (OpKind::MaxPool, 3) };
    let mut attributes = Attributes::new()
        .with_ints("kernel_shape", vec![kernel; 2])
        .with_ints("strides", vec![1; 2])
        .with_ints("pads", vec![1; 4]);
    if kind == OpKind::AveragePool {
        attributes = attributes.with_int("count_include_pad", pick(g, &[0, 1, 1]));
    }
    let name = n.name();
    let pooled = n.b.op(&name, kind, attributes, &[x])?;
    let near = channels(g, c.max(16));
    let a = conv(n, pooled, near, 1, 1, 1)?;
    let b = conv(n, x, near, 1, 1, 1)?;
    let b = conv(n, b, near, 3, 1, 1)?;
    super::super::concat(n, &[a, b], 1)
}

/// Padding of rows and columns, sometimes of channels, in every mode.
fn any_pad(n: &mut Network, g: &mut Generator) -> Built {
    let c = pick(g, &[1, 3, 16, 32, 64, 128, 256]);
    let from = sides(g, c, 10);
    let x = image(n, c, from)?;
    let mode = pick(g, &["constant", "constant", "reflect", "reflect", "edge"]);
    let mut side = || between(g, 1, 8) as i64;
    let (top, left, bottom, right) = (side(), side(), side(), side());
    let behind = if mode == "constant" && g.unit() < 0.2 { between(g, 1, c) as i64 } else { 0 };
    let attributes = Attributes::new()
        .with_ints("pads", vec![0, 0, top, left, 0, behind, bottom, right])
        .with("mode", text(mode));
    let name = n.name();
    let y = n.b.op(&name, OpKind::Pad, attributes, &[x])?;
    unary(n, OpKind::Abs, y)
}

/// Transposed convolutions, dense and depthwise, with and without overlap and output padding.
fn any_transposed_conv(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 256), between(g, 5, 48));
    let side = side.min(longest_side(MOST / 4, c));
    let x = convolved(n, [1, c, side, side])?;
    let (kernel, stride, pad, more) = pick(
        g,
        &[(2, 2, 0, 0), (3, 2, 1, 1), (4, 2, 1, 0), (5, 2, 2, 1), (3, 1, 1, 0), (8, 8, 0, 0)],
    );
    let depthwise = g.unit() < 0.25;
    let out = if depthwise { c } else { channels(g, 128) };
    let (within, group) = if depthwise { (1, c) } else { (out, 1) };
    let name = n.name();
    let weight = n.b.weight(format!("{name}.weight"), TensorSpec::f32([c, within, kernel, kernel]));
    let attributes = Attributes::new()
        .with_ints("kernel_shape", vec![kernel as i64; 2])
        .with_ints("strides", vec![stride; 2])
        .with_ints("pads", vec![pad; 4])
        .with_ints("output_padding", vec![more; 2])
        .with_int("group", group as i64);
    let y = n.b.op(&name, OpKind::ConvTranspose, attributes, &[x, weight])?;
    unary(n, OpKind::Relu, y)
}

fn instance_norm(n: &mut Network, g: &mut Generator) -> Built {
    let c = channels(g, 512);
    let from = sides(g, c, 5);
    let x = convolved(n, [1, c, from[0], from[1]])?;
    let name = n.name();
    let [scale, bias] =
        ["scale", "bias"].map(|part| n.b.weight(format!("{name}.{part}"), TensorSpec::f32([c])));
    let y = n.b.op(&name, OpKind::InstanceNorm, Attributes::new(), &[x, scale, bias])?;
    unary(n, OpKind::Relu, y)
}
