//! Modes of operators that the inventory of single operators leaves out and networks use: halves of
//! a rotation, cubic resizing, products by subscripts, sums over branches, softmax down a long
//! column, heads whose tokens come last, attention without softmax.

use super::{
    Built, Network, Template, between, binary, channels, concat, convolved,
    images::{conv, resized},
    pick,
    rearrangements::cut,
    reshaped, transposed, unary, written,
};
use crate::Generator;
use vitempo_graph::{Attribute, Attributes, OpKind, TensorSpec};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("rotary", rotary),
    ("cubic-resize", cubic_resize),
    ("subscripts", subscripts),
    ("branch-sum", branch_sum),
    ("long-softmax", long_softmax),
    ("tokens-last", tokens_last),
    ("linear-attention", linear_attention),
];

/// Pairs of neighbours rotated by angles that depend on the token.
fn rotary(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, count, d) =
        (between(g, 1, 16), between(g, 16, 1024), pick(g, &[32usize, 48, 64, 64, 80, 96]));
    let x = written(n, [1, heads, count, d])?;
    let (even, odd) = (cut(n, x, &[(3, 0, d, 2)])?, cut(n, x, &[(3, 1, d, 2)])?);
    let odd = unary(n, OpKind::Neg, odd)?;
    let [a, b, e, f, h, i, j] =
        [n.name(), n.name(), n.name(), n.name(), n.name(), n.name(), n.name()];
    let odd = n.b.reshape(&a, odd, &[1, heads, count, d / 2, 1])?;
    let even = n.b.reshape(&b, even, &[1, heads, count, d / 2, 1])?;
    let turned = n.b.concat(&e, &[odd, even], 4)?;
    let turned = n.b.reshape(&f, turned, &[1, heads, count, d])?;
    let [sine, cosine] =
        ["sine", "cosine"].map(|name| n.b.weight(name, TensorSpec::f32([count, d])));
    let turned = n.b.binary(&h, OpKind::Mul, turned, sine)?;
    let straight = n.b.binary(&i, OpKind::Mul, x, cosine)?;
    n.b.binary(&j, OpKind::Add, straight, turned)
}

fn cubic_resize(n: &mut Network, g: &mut Generator) -> Built {
    let (c, from) = (pick(g, &[1usize, 3, 3, 8, 16, 64]), between(g, 7, 96));
    let to = (from as f64 * pick(g, &[0.5, 0.93, 1.5, 2.0, 2.0])).ceil() as usize;
    let x = if c < 8 { written(n, [1, c, from, from])? } else { convolved(n, [1, c, from, from])? };
    let transformation = pick(g, &["half_pixel", "pytorch_half_pixel", "align_corners"]);
    let y = resized(n, x, to, "cubic", transformation)?;
    unary(n, OpKind::Abs, y)
}

/// Queries on a grid times what belongs to their row, as decomposed relative positions do.
fn subscripts(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, side, d) = (between(g, 1, 8), between(g, 7, 56), pick(g, &[32usize, 64, 96]));
    let x = written(n, [1, heads, side, side, d])?;
    let keys = n.b.weight("keys", TensorSpec::f32([side, side, d]));
    let equation = Attribute::Text(pick(g, &["byhwc,hkc->byhwk", "byhwc,wkc->byhwk"]).to_owned());
    let name = n.name();
    let y =
        n.b.op(&name, OpKind::Einsum, Attributes::new().with("equation", equation), &[x, keys])?;
    unary(n, OpKind::Abs, y)
}

/// Branches side by side in a dimension of their own, summed.
fn branch_sum(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 512), between(g, 5, 48));
    let x = convolved(n, [1, c, side, side])?;
    let y = unary(n, OpKind::Relu, x)?;
    let mut parts = Vec::new();
    for part in [x, y] {
        parts.push(reshaped(n, part, &[1, 1, c, side, side])?);
    }
    let [a, b] = [n.name(), n.name()];
    let y = n.b.concat(&a, &parts, 1)?;
    let kind = if g.unit() < 0.7 { OpKind::ReduceSum } else { OpKind::ReduceMean };
    let y = n.b.op(
        &b,
        kind,
        Attributes::new().with_ints("axes", vec![1]).with_int("keepdims", 0),
        &[y],
    )?;
    unary(n, OpKind::Abs, y)
}

/// Over the tokens, for each channel of each head.
fn long_softmax(n: &mut Network, g: &mut Generator) -> Built {
    let (count, heads, d) = (between(g, 49, 4096), between(g, 1, 8), between(g, 4, 64));
    let shape = if g.unit() < 0.5 { vec![1, count, heads, d] } else { vec![1, heads, count, d] };
    let axis = if shape[1] == count { 1 } else { 2 };
    let x = written(n, shape)?;
    let name = n.name();
    let y = n.b.softmax(&name, x, axis)?;
    unary(n, OpKind::Abs, y)
}

/// Queries, keys and values with the tokens in the last dimension, as attention over channels needs
/// them.
fn tokens_last(n: &mut Network, g: &mut Generator) -> Built {
    let (count, heads, d) =
        (between(g, 49, 1024), between(g, 1, 12), pick(g, &[16usize, 32, 32, 48, 64]));
    let parts = pick(g, &[1usize, 2, 3, 3]);
    let x = written(n, [1, count, parts, heads, d])?;
    let y = transposed(n, x, &[2, 0, 3, 4, 1])?;
    unary(n, OpKind::Abs, y)
}

/// Keys times values first, which costs no square of tokens: at one or two scales, the other by
/// depthwise and grouped convolutions.
fn linear_attention(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d, side) =
        (between(g, 1, 12), pick(g, &[8usize, 16, 16, 24, 32]), between(g, 5, 40));
    let all = 3 * heads * d;
    let c = channels(g, 384);
    let x = n.b.input("x", TensorSpec::f32([1, c, side, side]));
    let near = conv(n, x, all, 1, 1, 1)?;
    let (mut y, mut groups) = (near, heads);
    if g.unit() < 0.7 {
        let far = conv(n, near, all, pick(g, &[3, 5]), 1, all)?;
        let far = conv(n, far, all, 1, 1, 3 * heads)?;
        (y, groups) = (concat(n, &[near, far], 1)?, 2 * heads);
    }
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let y = n.b.reshape(&a, y, &[1, groups, 3 * d, side * side])?;
    let y = transposed(n, y, &[0, 1, 3, 2])?;
    let [q, k, v] = [
        cut(n, y, &[(3, 0, d, 1)])?,
        cut(n, y, &[(3, d, 2 * d, 1)])?,
        cut(n, y, &[(3, 2 * d, 3 * d, 1)])?,
    ];
    let (q, k) = (unary(n, OpKind::Relu, q)?, unary(n, OpKind::Relu, k)?);
    let k = transposed(n, k, &[0, 1, 3, 2])?;
    let summed = n.b.matmul(&b, k, v)?;
    let y = n.b.matmul(&e, q, summed)?;
    let by = cut(n, y, &[(3, d - 1, d, 1)])?;
    let y = binary(n, OpKind::Div, y, by)?;
    let y = transposed(n, y, &[0, 1, 3, 2])?;
    let y = n.b.reshape(&f, y, &[1, groups * d, side, side])?;
    conv(n, y, c, 1, 1, 1)
}
