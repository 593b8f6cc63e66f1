//! Extreme shapes of real networks: images of millions of elements, very few channels, heads in the
//! last dimension, thousands of queries over few keys, means over whole images.

use super::{
    Built, Network, Template, between, channels,
    images::{activate, average_whole, conv, interpolation, resized},
    longest_side, pick, unary, written,
};
use crate::Generator;
use vitempo_graph::{OpKind, TensorSpec};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("large-image", large_image),
    ("large-resize", large_resize),
    ("few-channels", few_channels),
    ("whole-image-mean", whole_image_mean),
    ("talking-heads", talking_heads),
    ("reduced-attention", reduced_attention),
];

/// Elements of a large image.
pub(super) const MOST: usize = 1 << 22;
/// Multiply-accumulates of one convolution.
pub(super) const MOST_MACS: usize = 1 << 30;

/// Height and width of an image of `c` channels that is large and not always square.
fn large_sides(g: &mut Generator, c: usize) -> (usize, usize) {
    let most = longest_side(MOST, c);
    let h = between(g, 64.min(most), most.min(640));
    let w = (h as f64 * pick(g, &[1.0, 1.0, 0.75, 1.33])) as usize;
    (h, w)
}

/// Dense, depthwise and pointwise convolutions over an image that no cache holds.
fn large_image(n: &mut Network, g: &mut Generator) -> Built {
    let c = pick(g, &[3usize, 16, 24, 32, 32, 48, 64, 64, 96, 128]);
    let (h, w) = large_sides(g, c);
    let x = n.b.input("x", TensorSpec::f32([1, c, h, w]));
    let stride = pick(g, &[1, 1, 2]);
    let most = (MOST_MACS * stride * stride / (9 * c * h * w)).clamp(8, 128);
    let y = conv(n, x, between(g, 8, most).next_multiple_of(8), 3, stride, 1)?;
    let y = activate(n, g, y)?;
    let mid = n.channels(y);
    let y = if g.unit() < 0.5 {
        conv(n, y, mid, pick(g, &[3, 5, 7]), 1, mid)?
    } else {
        conv(n, y, mid, 1, 1, 1)?
    };
    let y = unary(n, OpKind::Relu, y)?;
    conv(n, y, pick(g, &[1, 8, 16, 32]), 1, 1, 1)
}

fn large_resize(n: &mut Network, g: &mut Generator) -> Built {
    let (c, factor) = (pick(g, &[1usize, 8, 21, 32, 64, 150, 256]), pick(g, &[2usize, 2, 4, 8]));
    let most = longest_side(MOST, c) / factor;
    let side = between(g, 7.min(most), most.min(160));
    let x = n.b.input("x", TensorSpec::f32([1, c, side, side]));
    let x = conv(n, x, c, 1, 1, 1)?;
    let (mode, transformation) = interpolation(g);
    let y = resized(n, x, side * factor, mode, transformation)?;
    conv(n, y, pick(g, &[1, 8, 16]), 1, 1, 1)
}

/// Channels that fill no vector: engines choose other kernels or convert between formats.
fn few_channels(n: &mut Network, g: &mut Generator) -> Built {
    let c = between(g, 1, 20);
    let side = between(g, 14, 160);
    let x = n.b.input("x", TensorSpec::f32([1, c, side, side]));
    let mut y = x;
    for _ in 0..3 {
        y = conv(n, y, between(g, 2, 28), pick(g, &[1, 3, 3, 5]), pick(g, &[1, 1, 2]), 1)?;
        y = activate(n, g, y)?;
        let c = n.channels(y);
        y = conv(n, y, c, 3, 1, c)?;
    }
    conv(n, y, channels(g, 64), 1, 1, 1)
}

fn whole_image_mean(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 1024), between(g, 4, 64));
    let x = n.b.input("x", TensorSpec::f32([1, c, side, side]));
    let x = conv(n, x, c, 1, 1, 1)?;
    let y = match g.below(3) {
        0 => {
            let name = n.name();
            n.b.reduce_mean(&name, x, &[2, 3], true)?
        }
        1 => unary(n, OpKind::GlobalAveragePool, x)?,
        _ => average_whole(n, x)?,
    };
    conv(n, y, channels(g, 1024), 1, 1, 1)
}

/// Scores mixed over heads before and after a softmax, the heads last.
fn talking_heads(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, queries) = (between(g, 1, 16), between(g, 16, 400));
    let keys = if g.unit() < 0.7 { queries } else { between(g, 16, 400) };
    let x = written(n, [1, queries, keys, heads])?;
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.linear(&a, x, heads, true)?;
    let y = n.b.softmax(&b, y, pick(g, &[1, 2, 2, 3]))?;
    let y = n.b.linear(&e, y, heads, true)?;
    unary(n, OpKind::Abs, y)
}

/// Many queries over keys that were made fewer.
fn reduced_attention(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d, queries) =
        (pick(g, &[1usize, 2, 2, 4, 5, 8]), pick(g, &[32usize, 32, 48, 64]), between(g, 256, 8192));
    let keys = between(g, 16, (MOST / (heads * queries)).clamp(16, 1024));
    let mut given =
        [("q", [1, heads, queries, d]), ("k", [1, heads, d, keys]), ("v", [1, heads, keys, d])]
            .map(|(name, shape)| n.b.input(name, TensorSpec::f32(shape)));
    for x in &mut given {
        *x = unary(n, OpKind::Abs, *x)?;
    }
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let y = n.b.matmul(&a, given[0], given[1])?;
    let y = n.b.softmax(&b, y, 3)?;
    let y = n.b.matmul(&e, y, given[2])?;
    n.b.transpose(&f, y, &[0, 2, 1, 3])
}
