//! Where models begin and end, and where the other inventories ended when they met real models:
//! stems of few channels, heads on one pixel, convolutions over thousands of channels or over large
//! images, shortcuts that skip pixels, gates that repeat within a model, uneven splits, images
//! that become tokens and images again, several scales joined.

use super::{
    Built, Network, OperatorSample, Template, between, binary, channels, concat, draw,
    images::{activate, conv, interpolation, resized},
    layer_norm, linear, longest_side, pick, reshaped, transposed, unary, written,
};
use crate::Generator;
use vitempo_graph::{Attributes, GraphError, OpKind, TensorSpec, ValueId};

/// The name that `vitempo sample --space` takes for them.
pub const ENDS: &str = "operator-ends";

const TEMPLATES: &[(&str, Template)] = &[
    ("narrow-stem", stem),
    ("one-pixel-head", head),
    ("many-channels", many_channels),
    ("large-window-conv", large_image),
    ("large-depthwise", large_depthwise),
    ("skipping-shortcut", shortcut),
    ("repeated-gates", repeated_gates),
    ("uneven-split", uneven_split),
    ("there-and-back", there_and_back),
    ("joined-scales", joined_scales),
];

/// Draws `count` networks, the templates in turn; the i-th does not depend on `count`.
///
/// # Errors
/// [`GraphError`] when a template contradicts itself, which its test rules out.
pub fn ends(count: usize, seed: u64) -> Result<Vec<OperatorSample>, GraphError> {
    draw(TEMPLATES, count, seed)
}

/// Elements that an image has at most.
const MOST: usize = 1 << 23;
/// Multiply-accumulates of one convolution.
const MOST_MACS: usize = 1 << 31;

/// The longest side at which a convolution of so many multiply-accumulates per pixel, over images
/// of so many channels, stays within bounds.
fn most_side(macs: usize, channels: usize) -> usize {
    longest_side(MOST_MACS, macs).min(longest_side(MOST, channels))
}

/// A square image that a cheap convolution has just made.
fn made(n: &mut Network, c: usize, side: usize) -> Built {
    let x = n.b.input("x", TensorSpec::f32([1, 8, side, side]));
    conv(n, x, c, 1, 1, 1)
}

/// Such an image, or one that an operator on single elements has made: engines that keep images in a
/// layout of their own convert it first.
fn made_or_written(n: &mut Network, g: &mut Generator, c: usize, side: usize) -> Built {
    if g.unit() < 0.5 { made(n, c, side) } else { written(n, [1, c, side, side]) }
}

/// The first convolutions of narrow networks, at any resolution.
fn stem(n: &mut Network, g: &mut Generator) -> Built {
    let side = 16 * between(g, 4, 40);
    let x = n.b.input("x", TensorSpec::f32([1, 3, side, side]));
    let (kernel, stride) = pick(g, &[(3, 2), (3, 2), (3, 2), (3, 1), (5, 2), (7, 2), (4, 4)]);
    let out = pick(g, &[4usize, 6, 8, 8, 10, 12, 16, 16, 18, 24, 32, 32, 40, 48, 64]);
    let y = conv(n, x, out, kernel, stride, 1)?;
    let y = activate(n, g, y)?;
    if g.unit() < 0.6 {
        let y = conv(n, y, out, 3, pick(g, &[1, 1, 2]), out)?;
        let y = activate(n, g, y)?;
        conv(n, y, channels(g, 32), 1, 1, 1)
    } else {
        conv(n, y, channels(g, 64), 3, 2, 1)
    }
}

/// An image's mean through convolutions of one pixel or products of one row.
fn head(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 1024), between(g, 4, 14));
    let x = made(n, c, side)?;
    let y = conv(n, x, channels(g, 1536), 1, 1, 1)?;
    let y = activate(n, g, y)?;
    let y = unary(n, OpKind::GlobalAveragePool, y)?;
    let (hidden, classes) = (channels(g, 2048), between(g, 10, 1500));
    if g.unit() < 0.5 {
        let y = conv(n, y, hidden, 1, 1, 1)?;
        let y = activate(n, g, y)?;
        let y = conv(n, y, classes, 1, 1, 1)?;
        return reshaped(n, y, &[1, classes]);
    }
    let wide = n.channels(y);
    let y = reshaped(n, y, &[1, wide])?;
    let y = linear(n, y, hidden)?;
    let y = activate(n, g, y)?;
    linear(n, y, classes)
}

/// Windows over hundreds to thousands of channels.
fn many_channels(n: &mut Network, g: &mut Generator) -> Built {
    let (c, out) = (32 * between(g, 6, 64), 32 * between(g, 3, 32));
    let kernel = pick(g, &[1usize, 3, 3]);
    let side = between(g, 4, most_side(kernel * kernel * c * out, c).clamp(5, 64));
    let x = made_or_written(n, g, c, side)?;
    let y = conv(n, x, out, kernel, 1, 1)?;
    let y = activate(n, g, y)?;
    unary(n, OpKind::Abs, y)
}

/// Windows over images of up to a million pixels.
fn large_image(n: &mut Network, g: &mut Generator) -> Built {
    let (c, out) = (channels(g, 192), channels(g, 192));
    let (kernel, stride) = pick(g, &[(1usize, 1usize), (3, 1), (3, 1), (3, 2), (1, 2)]);
    let most = stride * longest_side(MOST_MACS, kernel * kernel * c * out);
    let most = most.min(longest_side(MOST, c.max(out))).clamp(33, 1024);
    let side = between(g, most / 4, most);
    let x = made_or_written(n, g, c, side)?;
    let y = conv(n, x, out, kernel, stride, 1)?;
    let y = activate(n, g, y)?;
    conv(n, y, 8, 1, 1, 1)
}

/// Windows within each channel of large images.
fn large_depthwise(n: &mut Network, g: &mut Generator) -> Built {
    let (c, kernel) = (channels(g, 768), pick(g, &[3usize, 3, 5, 7, 7, 9, 11]));
    let most = longest_side(MOST / 4, c).clamp(15, 320);
    let x = made(n, c, between(g, most / 4, most))?;
    let y = conv(n, x, c, kernel, pick(g, &[1, 1, 1, 2]), c)?;
    let y = activate(n, g, y)?;
    conv(n, y, 8, 1, 1, 1)
}

/// A block of which the shortcut is a convolution of one pixel, on every second pixel or on means.
fn shortcut(n: &mut Network, g: &mut Generator) -> Built {
    let (c, out) = (channels(g, 768), channels(g, 1024));
    let side = 2 * between(g, 4, (most_side(9 * c * out, c.max(out)) / 2).clamp(5, 64));
    let x = made(n, c, side)?;
    let x = unary(n, OpKind::Relu, x)?;
    let y = conv(n, x, out, 3, 2, 1)?;
    let short = if g.unit() < 0.7 {
        conv(n, x, out, 1, 2, 1)?
    } else {
        let window = Attributes::new()
            .with_ints("kernel_shape", vec![2, 2])
            .with_ints("strides", vec![2, 2]);
        let name = n.name();
        let pooled = n.b.op(&name, OpKind::AveragePool, window, &[x])?;
        conv(n, pooled, out, 1, 1, 1)?
    };
    let y = binary(n, OpKind::Add, y, short)?;
    unary(n, OpKind::Relu, y)
}

/// The channels' means, through two convolutions of one pixel, scale the image.
fn gated(n: &mut Network, g: &mut Generator, x: ValueId, hidden: usize) -> Built {
    let c = n.channels(x);
    let y = unary(n, OpKind::GlobalAveragePool, x)?;
    let y = conv(n, y, hidden, 1, 1, 1)?;
    let y = activate(n, g, y)?;
    let y = conv(n, y, c, 1, 1, 1)?;
    let gate = unary(n, if g.unit() < 0.5 { OpKind::Sigmoid } else { OpKind::HardSigmoid }, y)?;
    binary(n, OpKind::Mul, x, gate)
}

/// Several blocks in a row, each with a gate over its channels.
fn repeated_gates(n: &mut Network, g: &mut Generator) -> Built {
    let (c, times) = (channels(g, 384), between(g, 2, 6));
    let (hidden, kernel) = ((c / pick(g, &[4, 8, 16])).max(4), pick(g, &[3, 3, 5]));
    let mut x = made(n, c, between(g, 5, longest_side(1 << 18, c).clamp(7, 64)))?;
    for _ in 0..times {
        let y = conv(n, x, c, kernel, 1, c)?;
        let y = activate(n, g, y)?;
        let y = gated(n, g, y, hidden)?;
        let y = conv(n, y, c, 1, 1, 1)?;
        x = binary(n, OpKind::Add, y, x)?;
    }
    Ok(x)
}

/// One channel and two groups of many: a context that a softmax over the pixels weighs.
fn uneven_split(n: &mut Network, g: &mut Generator) -> Built {
    let (d, first) = (8 * between(g, 4, 48), pick(g, &[1usize, 1, 2, 3, 8]));
    let most = (MOST / 4 / d).clamp(17, 4096);
    let (rows, columns) = (pick(g, &[1usize, 4, 4, 16]), between(g, 16, most / 4));
    let x = n.b.input("x", TensorSpec::f32([1, 8, rows, columns]));
    let x = conv(n, x, first + 2 * d, 1, 1, 1)?;
    let parts = Attributes::new()
        .with_int("axis", 1)
        .with_ints("split", [first, d, d].map(|part| part as i64));
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let parts = n.b.op_many(&a, OpKind::Split, parts, &[x])?;
    let weights = n.b.softmax(&b, parts[0], 3)?;
    let weights = if first == 1 { weights } else { n.b.reduce_mean(&e, weights, &[1], true)? };
    let y = binary(n, OpKind::Mul, parts[1], weights)?;
    let sum = Attributes::new().with_ints("axes", vec![3]).with_int("keepdims", 1);
    let name = n.name();
    let context = n.b.op(&name, OpKind::ReduceSum, sum, &[y])?;
    let value = unary(n, OpKind::Relu, parts[2])?;
    let y = binary(n, OpKind::Mul, value, context)?;
    conv(n, y, 8, 1, 1, 1)
}

/// An image as rows of channels and as an image again, normalised on the way.
fn there_and_back(n: &mut Network, g: &mut Generator) -> Built {
    let c = channels(g, 512);
    let side = between(g, 7, longest_side(MOST, c).clamp(8, 224));
    let x = made(n, c, side)?;
    let y = if g.unit() < 0.5 {
        let y = transposed(n, x, &[0, 2, 3, 1])?;
        let y = layer_norm(n, y)?;
        transposed(n, y, &[0, 3, 1, 2])?
    } else {
        let y = reshaped(n, x, &[1, c, side * side])?;
        let y = transposed(n, y, &[0, 2, 1])?;
        let y = layer_norm(n, y)?;
        let y = transposed(n, y, &[0, 2, 1])?;
        reshaped(n, y, &[1, c, side, side])?
    };
    let y = if g.unit() < 0.5 { conv(n, y, c, 3, pick(g, &[1, 2]), c)? } else { y };
    conv(n, y, 8, 1, 1, 1)
}

/// Images of a pyramid, resized to the largest, as channels of one.
fn joined_scales(n: &mut Network, g: &mut Generator) -> Built {
    let (c, out, count) = (channels(g, 256), channels(g, 256), between(g, 2, 4));
    let kernel = pick(g, &[1usize, 1, 3]);
    let step = 1 << (count - 1);
    let most = most_side(kernel * kernel * count * c * out, count * c) / step;
    let side = step * between(g, 2, most.clamp(3, 192 / step));
    let (mode, transformation) = interpolation(g);
    let mut scales = Vec::new();
    for scale in 0..count {
        let small = side >> scale;
        let x = n.b.input(format!("x{scale}"), TensorSpec::f32([1, 8, small, small]));
        let y = conv(n, x, c, 1, 1, 1)?;
        scales.push(if small == side { y } else { resized(n, y, side, mode, transformation)? });
    }
    let y = concat(n, &scales, 1)?;
    let y = conv(n, y, out, kernel, 1, 1)?;
    activate(n, g, y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use vitempo_graph::Work;

    #[test]
    fn every_template_builds_within_its_bounds_and_varies() {
        let samples = ends(1000, 5).unwrap_or_else(|e| panic!("{e}"));
        for s in &samples {
            let tensors = s.graph.values().iter().filter_map(|v| v.tensor.as_ref());
            let largest = tensors.map(TensorSpec::elements).max();
            assert!(
                largest.is_some_and(|elements| elements <= 2 * MOST as u64),
                "{}: {largest:?} elements",
                s.encoding
            );
            let flops = Work::of_graph(&s.graph).flops;
            assert!(flops <= 5 * MOST_MACS as u64, "{}: {flops} FLOPs", s.encoding);
            assert_eq!(s.graph.unsupported().count(), 0, "{}", s.encoding);
        }
        let architectures: BTreeSet<String> =
            samples.iter().map(|s| s.graph.architecture()).collect();
        assert!(architectures.len() > 980, "only {} distinct networks", architectures.len());
    }
}
