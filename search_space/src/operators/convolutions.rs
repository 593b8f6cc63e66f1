//! Less common convolutions: wide, dilated, one-sided, one-dimensional, with several outputs per
//! channel, or with a residual; other activations.

use super::{Built, Network, Template, between, binary, channels, convolved, pick, unary, written};
use crate::Generator;
use vitempo_graph::{Attribute, Attributes, OpKind, TensorSpec, ValueId};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("wide-conv", wide),
    ("channel-multiplier", channel_multiplier),
    ("dilated-conv", dilated),
    ("one-sided-conv", one_sided),
    ("residual-conv", residual),
    ("channel-conv", channel_conv),
    ("response-norm", response_norm),
    ("rare-activation", rare_activation),
    ("spatial-mean", spatial_mean),
];

fn conv(n: &mut Network, x: ValueId, out: usize, kernel: usize) -> Built {
    let name = n.name();
    n.b.conv(&name, x, out, kernel, 1, kernel / 2, 1, true)
}

/// A convolution of any kernel; `pads` on both sides.
fn general(
    n: &mut Network,
    x: ValueId,
    weight: &[usize],
    pads: &[usize],
    dilation: usize,
    group: usize,
) -> Built {
    let list = |values: &[usize]| values.iter().map(|&v| v as i64).collect::<Vec<_>>();
    let spatial = &weight[2..];
    let attributes = Attributes::new()
        .with_ints("kernel_shape", list(spatial))
        .with_ints("strides", vec![1; spatial.len()])
        .with_ints("pads", list(&[pads, pads].concat()))
        .with_ints("dilations", vec![dilation as i64; spatial.len()])
        .with_int("group", group as i64);
    let name = n.name();
    let weights = n.b.weight(format!("{name}.weight"), TensorSpec::f32(weight));
    let bias = n.b.weight(format!("{name}.bias"), TensorSpec::f32([weight[0]]));
    n.b.op(&name, OpKind::Conv, attributes, &[x, weights, bias])
}

/// Many channels on few pixels, as in last stages.
fn wide(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (16 * between(g, 16, 128), between(g, 5, 16));
    let x = n.b.input("x", TensorSpec::f32([1, c, side, side]));
    let x = unary(n, OpKind::Relu, x)?;
    let hidden = 16 * between(g, 4, 128);
    let kernel = if c * hidden < 1 << 18 { pick(g, &[1, 3]) } else { 1 };
    let y = conv(n, x, hidden, kernel)?;
    let y = unary(n, OpKind::Relu, y)?;
    conv(n, y, c, 1)
}

/// Depthwise with several outputs for each channel.
fn channel_multiplier(n: &mut Network, g: &mut Generator) -> Built {
    let (c, times, side) = (4 * between(g, 4, 96), pick(g, &[2usize, 2, 3, 4]), between(g, 7, 64));
    let x = convolved(n, [1, c, side, side])?;
    let (kernel, stride) = (pick(g, &[3, 3, 5, 7]), pick(g, &[1, 2, 2]));
    let name = n.name();
    let y = n.b.conv(&name, x, c * times, kernel, stride, kernel / 2, c, true)?;
    conv(n, y, c, 1)
}

fn dilated(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side, dilation) = (channels(g, 384), between(g, 10, 40), pick(g, &[2, 2, 3, 4, 6, 12]));
    let x = convolved(n, [1, c, side, side])?;
    let depthwise = g.unit() < 0.5;
    let (weight, group) = if depthwise { ([c, 1, 3, 3], c) } else { ([c, c, 3, 3], 1) };
    let y = general(n, x, &weight, &[dilation, dilation], dilation, group)?;
    conv(n, y, c, 1)
}

/// Kernels of one row or one column, dense and depthwise.
fn one_sided(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side, kernel) = (channels(g, 384), between(g, 7, 40), pick(g, &[3usize, 5, 7, 7, 11]));
    let x = convolved(n, [1, c, side, side])?;
    let (within, group) = if g.unit() < 0.5 { (1, c) } else { (c, 1) };
    let y = general(n, x, &[c, within, 1, kernel], &[0, kernel / 2], 1, group)?;
    let y = general(n, y, &[c, within, kernel, 1], &[kernel / 2, 0], 1, group)?;
    conv(n, y, c, 1)
}

/// A block whose last convolution is added to its input.
fn residual(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side, kernel) = (channels(g, 512), between(g, 7, 48), pick(g, &[1usize, 3, 3]));
    let x = convolved(n, [1, c, side, side])?;
    let y = conv(n, x, c, kernel)?;
    let y = unary(n, OpKind::Relu, y)?;
    let y = conv(n, y, c, kernel)?;
    let y = binary(n, OpKind::Add, y, x)?;
    let y = unary(n, OpKind::Relu, y)?;
    conv(n, y, c, 1)
}

/// A one-dimensional convolution over the channels' means, which then scale the image.
fn channel_conv(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side, kernel) = (channels(g, 768), between(g, 7, 40), pick(g, &[3usize, 5, 7]));
    let x = convolved(n, [1, c, side, side])?;
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let y = n.b.reduce_mean(&a, x, &[2, 3], false)?;
    let y = n.b.reshape(&b, y, &[1, 1, c])?;
    let y = general(n, y, &[1, 1, kernel], &[kernel / 2], 1, 1)?;
    let y = unary(n, OpKind::Sigmoid, y)?;
    let y = n.b.reshape(&e, y, &[1, c, 1, 1])?;
    let y = n.b.binary(&f, OpKind::Mul, x, y)?;
    conv(n, y, c, 1)
}

/// Channels divided by the mean of their norms over the image.
fn response_norm(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 1024), between(g, 7, 40));
    let x = written(n, [1, side, side, c])?;
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let norm = n.b.op(
        &a,
        OpKind::ReduceL2,
        Attributes::new().with_ints("axes", vec![1, 2]).with_int("keepdims", 1),
        &[x],
    )?;
    let mean = n.b.reduce_mean(&b, norm, &[3], true)?;
    let y = n.b.binary(&e, OpKind::Div, norm, mean)?;
    n.b.binary(&f, OpKind::Mul, x, y)
}

fn rare_activation(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 512), between(g, 7, 64));
    let x = convolved(n, [1, c, side, side])?;
    let alpha = |value| Attributes::new().with("alpha", Attribute::Float(value));
    let name = n.name();
    let y = match g.below(5) {
        0 => n.b.op(&name, OpKind::LeakyRelu, alpha(0.1), &[x])?,
        1 => n.b.op(&name, OpKind::Elu, alpha(1.0), &[x])?,
        2 => n.b.op(
            &name,
            OpKind::HardSigmoid,
            alpha(1.0 / 6.0).with("beta", Attribute::Float(0.5)),
            &[x],
        )?,
        3 => {
            let slope = n.b.weight("slope", TensorSpec::f32([c, 1, 1]));
            n.b.op(&name, OpKind::PRelu, Attributes::new(), &[x, slope])?
        }
        _ => {
            let y = n.b.unary(&name, OpKind::Softplus, x)?;
            let y = unary(n, OpKind::Tanh, y)?;
            binary(n, OpKind::Mul, x, y)?
        }
    };
    conv(n, y, c, 1)
}

/// Means and maxima over an image, or over its rows alone.
fn spatial_mean(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 1024), between(g, 5, 56));
    let x = convolved(n, [1, c, side, side])?;
    let axes: Vec<i64> = [vec![2, 3], vec![3], vec![2], vec![1]][g.below(4) as usize].clone();
    let kind = if g.unit() < 0.7 { OpKind::ReduceMean } else { OpKind::ReduceMax };
    let name = n.name();
    let y = n.b.op(
        &name,
        kind,
        Attributes::new().with_ints("axes", axes).with_int("keepdims", 1),
        &[x],
    )?;
    unary(n, OpKind::Sigmoid, y)
}
