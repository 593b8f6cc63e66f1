//! Operators on images `[1, C, H, W]`, between 1x1 convolutions if engines keep images in a layout
//! of their own.

use super::{
    Built, MOST_ELEMENTS, Network, Template, between, binary, channels, longest_side, pick, unary,
};
use crate::Generator;
use vitempo_graph::{Attribute, Attributes, OpKind, TensorSpec, ValueId};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("dense-conv", dense_conv),
    ("stem-conv", stem_conv),
    ("grouped-conv", grouped_conv),
    ("depthwise-conv", depthwise_conv),
    ("pointwise-conv", pointwise_conv),
    ("transposed-conv", transposed_conv),
    ("max-pool", max_pool),
    ("average-pool", average_pool),
    ("squeeze-excite", squeeze_excite),
    ("resize", resize),
    ("image-activation", activation),
    ("image-arithmetic", arithmetic),
    ("image-concat", concat),
    ("image-split", split),
    ("image-pad", pad),
    ("image-to-tokens", to_tokens),
    ("windows", windows),
    ("image-batch-norm", batch_norm),
    ("group-norm", group_norm),
];

/// Side of an image by its channels.
fn side(g: &mut Generator, channels: usize) -> usize {
    between(g, 6, longest_side(MOST_ELEMENTS, channels).clamp(7, 160))
}

fn image(n: &mut Network, g: &mut Generator, channels: usize) -> ValueId {
    let (h, w) = (side(g, channels), side(g, channels));
    let side = if g.unit() < 0.7 { (h, h) } else { (h, w) };
    n.b.input("x", TensorSpec::f32([1, channels, side.0, side.1]))
}

/// A convolution whose padding keeps an odd kernel's image as large as it is.
pub(super) fn conv(
    n: &mut Network,
    x: ValueId,
    out: usize,
    kernel: usize,
    stride: usize,
    group: usize,
) -> Built {
    let name = n.name();
    let pad = if kernel.is_multiple_of(2) { 0 } else { kernel / 2 };
    n.b.conv(&name, x, out, kernel, stride, pad, group, true)
}

/// An image that a convolution has just made.
fn convolved(
    n: &mut Network,
    g: &mut Generator,
    high: usize,
) -> Result<(ValueId, usize), vitempo_graph::GraphError> {
    let c = channels(g, high);
    let x = image(n, g, c);
    Ok((conv(n, x, c, 1, 1, 1)?, c))
}

/// An activation of those that follow convolutions, or none.
pub(super) fn activate(n: &mut Network, g: &mut Generator, x: ValueId) -> Built {
    let name = n.name();
    match g.below(7) {
        0 | 1 => n.b.unary(&name, OpKind::Relu, x),
        2 => n.b.silu(&name, x),
        3 => n.b.gelu_erf(&name, x),
        4 => n.b.unary(&name, OpKind::HardSwish, x),
        5 => n.b.op(
            &name,
            OpKind::Clip,
            Attributes::new().with("min", Attribute::Float(0.0)).with("max", Attribute::Float(6.0)),
            &[x],
        ),
        _ => Ok(x),
    }
}

fn dense_conv(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 512)?;
    let (kernel, stride) = (pick(g, &[2, 3, 3, 3, 5]), pick(g, &[1, 1, 2]));
    let out = if g.unit() < 0.5 { c } else { channels(g, (2 * c).min(512)) };
    let y = conv(n, x, out, kernel, stride, 1)?;
    activate(n, g, y)
}

fn stem_conv(n: &mut Network, g: &mut Generator) -> Built {
    let side = pick(g, &[160, 192, 224, 256, 288, 320, 384]);
    let x = n.b.input("x", TensorSpec::f32([1, 3, side, side]));
    let (kernel, stride) = pick(
        g,
        &[(3, 2), (3, 2), (3, 1), (4, 4), (7, 2), (7, 4), (8, 8), (14, 14), (16, 16), (32, 32)],
    );
    let most = if stride > 4 { 768 } else { 96 };
    let out = channels(g, most);
    let y = conv(n, x, out, kernel, stride, 1)?;
    activate(n, g, y)
}

fn grouped_conv(n: &mut Network, g: &mut Generator) -> Built {
    let (groups, width) = (pick(g, &[2, 3, 4, 8, 16]), pick(g, &[8, 16, 24, 32, 48, 64]));
    let c = groups * width;
    let x = image(n, g, c);
    let x = conv(n, x, c, 1, 1, 1)?;
    let (kernel, stride) = (pick(g, &[1, 3, 3, 5]), pick(g, &[1, 1, 2]));
    conv(n, x, c, kernel, stride, groups)
}

fn depthwise_conv(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 1024)?;
    let (kernel, stride) = (pick(g, &[2, 3, 3, 5, 7, 9]), pick(g, &[1, 1, 2]));
    let y = conv(n, x, c, kernel, stride, c)?;
    let y = activate(n, g, y)?;
    conv(n, y, c, 1, 1, 1)
}

fn pointwise_conv(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 1024)?;
    let hidden = channels(g, 1024);
    let y = conv(n, x, hidden, 1, pick(g, &[1, 1, 1, 2]), 1)?;
    let y = activate(n, g, y)?;
    let z = conv(n, y, c, 1, 1, 1)?;
    let name = n.name();
    if n.b.tensor(z) == n.b.tensor(x) { n.b.binary(&name, OpKind::Add, z, x) } else { Ok(z) }
}

fn transposed_conv(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 256)?;
    let (kernel, stride) = pick(g, &[(2, 2), (3, 1), (4, 2), (4, 4)]);
    let out = channels(g, 256);
    let name = n.name();
    let weight = n.b.weight(format!("{name}.weight"), TensorSpec::f32([c, out, kernel, kernel]));
    let list = |v: usize, times: usize| vec![v as i64; times];
    let pad = if kernel > stride { (kernel - stride) / 2 } else { 0 };
    let attributes = Attributes::new()
        .with_ints("kernel_shape", list(kernel, 2))
        .with_ints("strides", list(stride, 2))
        .with_ints("pads", list(pad, 4));
    n.b.op(&name, OpKind::ConvTranspose, attributes, &[x, weight])
}

fn pool(
    n: &mut Network,
    x: ValueId,
    kind: OpKind,
    kernel: usize,
    stride: usize,
    pad: usize,
) -> Built {
    let name = n.name();
    let attributes = Attributes::new()
        .with_ints("kernel_shape", vec![kernel as i64; 2])
        .with_ints("strides", vec![stride as i64; 2])
        .with_ints("pads", vec![pad as i64; 4]);
    n.b.op(&name, kind, attributes, &[x])
}

/// The mean of a whole image by a window as large as it is.
pub(super) fn average_whole(n: &mut Network, x: ValueId) -> Built {
    let shape = n.b.tensor(x).map(|t| t.shape.clone()).unwrap_or_default();
    let window = Attributes::new()
        .with_ints("kernel_shape", shape.iter().skip(2).map(|&d| d as i64).collect::<Vec<_>>())
        .with_ints("strides", vec![1; 2]);
    let name = n.name();
    n.b.op(&name, OpKind::AveragePool, window, &[x])
}

fn max_pool(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 512)?;
    let (kernel, stride, pad) = pick(g, &[(2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 1, 2)]);
    let y = pool(n, x, OpKind::MaxPool, kernel, stride, pad)?;
    conv(n, y, c, 1, 1, 1)
}

fn average_pool(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 512)?;
    let (kernel, stride, pad) = pick(g, &[(2, 2, 0), (3, 1, 1), (3, 2, 1), (4, 4, 0), (5, 1, 2)]);
    let y = pool(n, x, OpKind::AveragePool, kernel, stride, pad)?;
    if g.unit() < 0.5 {
        return conv(n, y, c, 1, 1, 1);
    }
    unary(n, OpKind::Sigmoid, y)
}

fn squeeze_excite(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 768)?;
    let pooled = if g.unit() < 0.5 {
        unary(n, OpKind::GlobalAveragePool, x)?
    } else {
        let name = n.name();
        n.b.reduce_mean(&name, x, &[2, 3], true)?
    };
    let reduction = pick(g, &[4, 8, 16]);
    let y = conv(n, pooled, (c / reduction).max(8), 1, 1, 1)?;
    let y = unary(n, OpKind::Relu, y)?;
    let y = conv(n, y, c, 1, 1, 1)?;
    let gate = unary(n, pick(g, &[Gate::Sigmoid, Gate::Hard]).kind(), y)?;
    let y = binary(n, OpKind::Mul, x, gate)?;
    conv(n, y, c, 1, 1, 1)
}

#[derive(Clone, Copy, Default)]
enum Gate {
    #[default]
    Sigmoid,
    Hard,
}

impl Gate {
    fn kind(self) -> OpKind {
        match self {
            Self::Sigmoid => OpKind::Sigmoid,
            Self::Hard => OpKind::HardSigmoid,
        }
    }
}

fn resize(n: &mut Network, g: &mut Generator) -> Built {
    let c = channels(g, 256);
    let (h, factor) = (between(g, 6, 40), pick(g, &[2usize, 2, 4]));
    let x = n.b.input("x", TensorSpec::f32([1, c, h, h]));
    let x = conv(n, x, c, 1, 1, 1)?;
    let mode = pick(g, &["nearest", "linear", "linear"]);
    let transformation = if mode == "nearest" {
        "asymmetric"
    } else {
        pick(g, &["half_pixel", "align_corners", "pytorch_half_pixel"])
    };
    let y = resized(n, x, h * factor, mode, transformation)?;
    conv(n, y, c, 1, 1, 1)
}

/// How a resized image is interpolated: mode and transformation of coordinates.
pub(super) fn interpolation(g: &mut Generator) -> (&'static str, &'static str) {
    pick(
        g,
        &[
            ("nearest", "asymmetric"),
            ("linear", "pytorch_half_pixel"),
            ("linear", "half_pixel"),
            ("linear", "align_corners"),
        ],
    )
}

/// A square image at another size; `mode` and `transformation` as the field names them.
pub(super) fn resized(
    n: &mut Network,
    x: ValueId,
    side: usize,
    mode: &str,
    transformation: &str,
) -> Built {
    let name = n.name();
    n.b.resize(&name, x, [side, side], mode, transformation)
}

fn activation(n: &mut Network, g: &mut Generator) -> Built {
    let c = channels(g, 512);
    let x = image(n, g, c);
    let x = unary(n, OpKind::Abs, x)?;
    let y = match g.below(6) {
        0 => unary(n, OpKind::Tanh, x)?,
        1 => unary(n, OpKind::Sigmoid, x)?,
        2 => unary(n, OpKind::Sqrt, x)?,
        3 => unary(n, OpKind::Softplus, x)?,
        _ => activate(n, g, x)?,
    };
    unary(n, OpKind::Abs, y)
}

/// Two images, an image and a scale per channel, an image and a number.
fn arithmetic(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 512)?;
    let kind = [OpKind::Add, OpKind::Mul, OpKind::Sub, OpKind::Div][g.below(4) as usize].clone();
    let other = match g.below(3) {
        0 => conv(n, x, c, 3, 1, c)?,
        1 => n.b.weight("scale", TensorSpec::f32([1, c, 1, 1])),
        _ => n.b.scalar("number", x, 1.5)?,
    };
    let y = binary(n, kind, x, other)?;
    unary(n, OpKind::Sigmoid, y)
}

fn concat(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 256)?;
    let mut parts = vec![x];
    for _ in 0..pick(g, &[1, 1, 2, 3]) {
        let last = parts[parts.len() - 1];
        parts.push(conv(n, last, c, 1, 1, 1)?);
    }
    let name = n.name();
    let y = n.b.concat(&name, &parts, 1)?;
    conv(n, y, c, 1, 1, 1)
}

fn split(n: &mut Network, g: &mut Generator) -> Built {
    let parts = pick(g, &[2usize, 3, 4]);
    let c = 8 * between(g, 1, 64);
    let x = image(n, g, c * parts);
    let x = conv(n, x, c * parts, 1, 1, 1)?;
    let name = n.name();
    let attributes =
        Attributes::new().with_int("axis", 1).with_ints("split", vec![c as i64; parts]);
    let pieces = n.b.op_many(&name, OpKind::Split, attributes, &[x])?;
    let mut sum = pieces[0];
    for &piece in &pieces[1..] {
        sum = binary(n, OpKind::Add, sum, piece)?;
    }
    conv(n, sum, c, 1, 1, 1)
}

fn pad(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 384)?;
    let (before, after) = pick(g, &[(0i64, 1i64), (1, 1), (2, 2), (3, 3)]);
    let name = n.name();
    let attributes = Attributes::new()
        .with_ints("pads", vec![0, 0, before, before, 0, 0, after, after])
        .with("mode", Attribute::Text("constant".to_owned()));
    let y = n.b.op(&name, OpKind::Pad, attributes, &[x])?;
    let y = unary(n, OpKind::Sigmoid, y)?;
    conv(n, y, c, 1, 1, 1)
}

/// `[1, C, H, W]` to `[1, HW, C]` and back.
fn to_tokens(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 768)?;
    let shape = n.b.tensor(x).map(|t| t.shape.clone()).unwrap_or_default();
    let (h, w) = (shape[2], shape[3]);
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let y = n.b.reshape(&a, x, &[1, c, h * w])?;
    let y = n.b.transpose(&b, y, &[0, 2, 1])?;
    let y = unary(n, OpKind::Abs, y)?;
    let y = n.b.transpose(&e, y, &[0, 2, 1])?;
    let y = n.b.reshape(&f, y, &[1, c, h, w])?;
    conv(n, y, c, 1, 1, 1)
}

/// Windows of tokens, as in Swin: `[1, H, W, C]` to `[windows, side * side, C]`.
fn windows(n: &mut Network, g: &mut Generator) -> Built {
    let (side, across) = (pick(g, &[4usize, 7, 7, 8]), between(g, 1, 8));
    let c = channels(g, 512);
    let h = side * across;
    let x = n.b.input("x", TensorSpec::f32([1, h, h, c]));
    let x = unary(n, OpKind::Abs, x)?;
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.reshape(&a, x, &[1, across, side, across, side, c])?;
    let y = n.b.transpose(&b, y, &[0, 1, 3, 2, 4, 5])?;
    let y = n.b.reshape(&e, y, &[across * across, side * side, c])?;
    unary(n, OpKind::Abs, y)
}

fn batch_norm(n: &mut Network, g: &mut Generator) -> Built {
    let c = channels(g, 768);
    let x = image(n, g, c);
    let x = unary(n, OpKind::Abs, x)?;
    let name = n.name();
    let y = n.b.batch_norm(&name, x)?;
    unary(n, OpKind::Abs, y)
}

/// Group normalisation as exporters spell it: Reshape, InstanceNormalization, Reshape, Mul, Add.
fn group_norm(n: &mut Network, g: &mut Generator) -> Built {
    let (x, c) = convolved(n, g, 512)?;
    let shape = n.b.tensor(x).map(|t| t.shape.clone()).unwrap_or_default();
    let groups = if g.unit() < 0.5 { 1 } else { pick(g, &[2, 4]) };
    let [a, b, e, m, p] = [n.name(), n.name(), n.name(), n.name(), n.name()];
    let y = n.b.reshape(&a, x, &[1, groups, c / groups * shape[2] * shape[3]])?;
    let (scale, bias) = (
        n.b.weight(format!("{b}.scale"), TensorSpec::f32([groups])),
        n.b.weight(format!("{b}.bias"), TensorSpec::f32([groups])),
    );
    let y = n.b.op(&b, OpKind::InstanceNorm, Attributes::new(), &[y, scale, bias])?;
    let y = n.b.reshape(&e, y, &shape)?;
    let (scale, bias) = (
        n.b.weight(format!("{m}.scale"), TensorSpec::f32([c, 1, 1])),
        n.b.weight(format!("{p}.bias"), TensorSpec::f32([c, 1, 1])),
    );
    let y = n.b.binary(&m, OpKind::Mul, y, scale)?;
    let y = n.b.binary(&p, OpKind::Add, y, bias)?;
    conv(n, y, c, 1, 1, 1)
}
