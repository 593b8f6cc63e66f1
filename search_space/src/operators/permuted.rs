//! Operators that read a permuted tensor. An engine that permutes only the strides copies the
//! tensor first, or reads it in strides.

use super::{
    Built, MOST_ELEMENTS, Network, Template, between, binary, channels, concat,
    extremes::{MOST, MOST_MACS},
    images::{activate, conv, interpolation, resized},
    linear, longest_side, pick, reshaped,
    tokens::normalized,
    transposed, unary, written,
};
use crate::Generator;
use vitempo_graph::{OpKind, TensorSpec};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("permuted-linear", permuted_linear),
    ("permuted-reshape", permuted_reshape),
    ("permuted-image", permuted_image),
    ("permuted-fusion", permuted_fusion),
    ("permuted-windows", permuted_windows),
    ("permuted-norms", permuted_norms),
    ("narrow-attention", narrow_attention),
];

/// The orders in which attention and mixing over tokens, channels and windows leave four
/// dimensions.
const ORDERS: [[usize; 4]; 5] =
    [[0, 1, 3, 2], [0, 2, 1, 3], [0, 2, 3, 1], [0, 3, 1, 2], [0, 3, 2, 1]];

/// One of these orders, and extents that it suits: of the first of them heads or windows, of the
/// last channels of a head or a token.
fn drawn(g: &mut Generator) -> ([usize; 4], [usize; 4]) {
    let order = ORDERS[g.below(ORDERS.len() as u64) as usize];
    let few = between(g, 2, 64);
    let last = between(g, 4, 384);
    let middle = between(g, 7, (MOST_ELEMENTS / 4 / (few * last)).clamp(7, 1024));
    let mut shape = if g.unit() < 0.5 { [1, few, middle, last] } else { [1, middle, few, last] };
    if g.unit() < 0.3 {
        shape.swap(2, 3);
    }
    (shape, order)
}

fn permuted(n: &mut Network, shape: [usize; 4], order: [usize; 4]) -> Built {
    let x = written(n, shape)?;
    transposed(n, x, &order)
}

fn permuted_linear(n: &mut Network, g: &mut Generator) -> Built {
    let (shape, order) = drawn(g);
    let x = permuted(n, shape, order)?;
    let rows: usize = order[..3].iter().map(|axis| shape[*axis]).product();
    let (features, name) = (shape[order[3]], n.name());
    let most = (MOST_MACS / (rows * features)).min(4 * MOST_ELEMENTS / rows).clamp(2, 512);
    let out = if g.unit() < 0.3 { features.min(most) } else { between(g, 2, most) };
    let y = n.b.linear(&name, x, out, g.unit() < 0.7)?;
    unary(n, OpKind::Abs, y)
}

/// Two dimensions of a permuted tensor become one; what reads it next is as often a linear layer as
/// an elementwise operator.
fn permuted_reshape(n: &mut Network, g: &mut Generator) -> Built {
    let (shape, order) = drawn(g);
    let x = permuted(n, shape, order)?;
    let [_, a, b, c] = order.map(|axis| shape[axis]);
    let joined = if pick(g, &[0, 1]) == 0 { [1, a * b, c] } else { [1, a, b * c] };
    let y = reshaped(n, x, &joined)?;
    if g.unit() < 0.5 {
        return unary(n, OpKind::Abs, y);
    }
    let most = ((1usize << 28) / (a * b * c)).clamp(2, 256);
    linear(n, y, between(g, 2, most))
}

/// An image of `c` channels, computed token by token: its channels are contiguous in memory.
fn image_of_tokens(
    n: &mut Network,
    g: &mut Generator,
    input: &str,
    c: usize,
    side: usize,
) -> Built {
    if g.unit() < 0.3 {
        let x = n.b.input(input, TensorSpec::f32([1, side, side, c]));
        let x = unary(n, OpKind::Abs, x)?;
        return transposed(n, x, &[0, 3, 1, 2]);
    }
    let wide = if g.unit() < 0.5 { c } else { channels(g, 512) };
    let x = n.b.input(input, TensorSpec::f32([1, side * side, wide]));
    let x = if wide == c { unary(n, OpKind::Abs, x)? } else { linear(n, x, c)? };
    let x = transposed(n, x, &[0, 2, 1])?;
    reshaped(n, x, &[1, c, side, side])
}

/// An image made of tokens is resized or convolved.
fn permuted_image(n: &mut Network, g: &mut Generator) -> Built {
    let c = channels(g, 512);
    let factor = pick(g, &[1usize, 2, 2, 4, 8]);
    let most = (longest_side(MOST, c) / factor).max(4);
    let side = between(g, 4, most.clamp(7, 96).min(most));
    let x = image_of_tokens(n, g, "x", c, side)?;
    let macs_of_one = c * side * side;
    let out = between(g, 8, (MOST_MACS / macs_of_one / 9).clamp(8, 512)).next_multiple_of(8);
    let y = match g.below(6) {
        0 => conv(n, x, out, 1, 1, 1)?,
        1 => conv(n, x, out, 3, pick(g, &[1, 2]), 1)?,
        2 => conv(n, x, c, pick(g, &[3, 5]), 1, c)?,
        _ => {
            let (mode, transformation) = interpolation(g);
            resized(n, x, side * factor, mode, transformation)?
        }
    };
    let c = n.channels(y);
    if g.unit() < 0.5 { conv(n, y, c.min(32), 1, 1, 1) } else { activate(n, g, y) }
}

/// Tokens of several resolutions, brought to one width and one resolution, joined and convolved: a
/// decoder of segmentation.
fn permuted_fusion(n: &mut Network, g: &mut Generator) -> Built {
    let (c, levels) = (channels(g, 256), pick(g, &[2usize, 3, 4]));
    let side = (between(g, 8, longest_side(MOST, levels * c).clamp(9, 128)) / 8).max(1) * 8;
    let (mode, transformation) = interpolation(g);
    let mut parts = Vec::new();
    for (level, input) in ["a", "b", "d", "e"].into_iter().enumerate().take(levels) {
        let x = image_of_tokens(n, g, input, c, side >> level)?;
        parts.push(resized(n, x, side, mode, transformation)?);
    }
    let y = concat(n, &parts, 1)?;
    let out = channels(g, (MOST_MACS / (levels * c * side * side)).clamp(8, 256));
    let y = conv(n, y, out, 1, 1, 1)?;
    let y = activate(n, g, y)?;
    conv(n, y, pick(g, &[1, 8, 21]), 1, 1, 1)
}

/// Linear layers over the windows of an image, in permuted strides or copied.
fn permuted_windows(n: &mut Network, g: &mut Generator) -> Built {
    let (window, c) = (pick(g, &[4usize, 7, 7, 8, 12, 14, 16]), channels(g, 512));
    let most = longest_side(MOST_ELEMENTS / 4, c) / window;
    let [rows, columns] = [between(g, 1, most.clamp(1, 12)), between(g, 1, most.clamp(1, 12))];
    let x = n.b.input("x", TensorSpec::f32([1, rows * window, columns * window, c]));
    let x = if g.unit() < 0.5 { unary(n, OpKind::Abs, x)? } else { linear(n, x, c)? };
    let y = reshaped(n, x, &[1, rows, window, columns, window, c])?;
    let y = transposed(n, y, &[0, 1, 3, 2, 4, 5])?;
    let y = if g.unit() < 0.5 { y } else { reshaped(n, y, &[rows * columns, window * window, c])? };
    let out = (channels(g, 1024))
        .min((MOST_MACS / (rows * columns * window * window * c)).next_multiple_of(8));
    let out = if g.unit() < 0.4 { c } else { out };
    let y = linear(n, y, out)?;
    let y = reshaped(n, y, &[1, rows, columns, window, window, out])?;
    let y = transposed(n, y, &[0, 1, 3, 2, 4, 5])?;
    let y = reshaped(n, y, &[1, rows * window, columns * window, out])?;
    if out == c { binary(n, OpKind::Add, x, y) } else { unary(n, OpKind::Abs, y) }
}

/// Queries or keys: tokens whose heads, or whose channels of a head, were turned to the front.
fn turned_heads(
    n: &mut Network,
    g: &mut Generator,
    input: &str,
    [tokens, heads, d]: [usize; 3],
    order: &[usize],
) -> Built {
    let shape = TensorSpec::f32([1, tokens, heads * d]);
    let x = n.b.input(input, shape);
    let x = if g.unit() < 0.5 { linear(n, x, heads * d)? } else { unary(n, OpKind::Abs, x)? };
    let x = reshaped(n, x, &[1, tokens, heads, d])?;
    transposed(n, x, order)
}

/// Cosines between queries and keys, or between the channels of both, sharpened by a factor for
/// each head.
fn permuted_norms(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d) = (between(g, 1, 16), pick(g, &[16usize, 24, 32, 32, 48, 64]));
    let (order, most) = if g.unit() < 0.5 { ([0, 2, 1, 3], 512) } else { ([0, 2, 3, 1], 4096) };
    let size = [between(g, 16, (MOST_ELEMENTS / (heads * d)).min(most)), heads, d];
    let mut cosines = Vec::new();
    for input in ["q", "k"] {
        let x = turned_heads(n, g, input, size, &order)?;
        cosines.push(normalized(n, x, 3)?);
    }
    let keys = transposed(n, cosines[1], &[0, 1, 3, 2])?;
    let [a, b] = [n.name(), n.name()];
    let y = n.b.matmul(&a, cosines[0], keys)?;
    let sharpness = n.b.weight("sharpness", TensorSpec::f32([1, heads, 1, 1]));
    let y = binary(n, OpKind::Mul, y, sharpness)?;
    n.b.softmax(&b, y, 3)
}

/// Attention whose keys are narrow and whose values are wide, with a bias for each pair of places
/// and an activation before it ends.
fn narrow_attention(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d, queries) =
        (between(g, 2, 16), pick(g, &[8usize, 16, 16, 24, 32]), between(g, 9, 400));
    let (wide, keys) =
        (d * pick(g, &[1, 2, 2, 4]), if g.unit() < 0.7 { queries } else { between(g, 9, 400) });
    let q = turned_heads(n, g, "q", [queries, heads, d], &[0, 2, 1, 3])?;
    let k = turned_heads(n, g, "k", [keys, heads, d], &[0, 2, 3, 1])?;
    let v = turned_heads(n, g, "v", [keys, heads, wide], &[0, 2, 1, 3])?;
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.matmul(&a, q, k)?;
    let scale = n.b.scalar("scale", y, 0.25)?;
    let y = binary(n, OpKind::Mul, y, scale)?;
    let bias = n.b.weight("bias", TensorSpec::f32([1, heads, queries, keys]));
    let y = binary(n, OpKind::Add, y, bias)?;
    let y = n.b.softmax(&b, y, 3)?;
    let y = n.b.matmul(&e, y, v)?;
    let y = transposed(n, y, &[0, 2, 1, 3])?;
    let y = reshaped(n, y, &[1, queries, heads * wide])?;
    let y = activate(n, g, y)?;
    linear(n, y, channels(g, 512))
}
