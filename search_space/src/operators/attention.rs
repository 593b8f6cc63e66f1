//! Attention in its variants: windows, talking heads, shared keys, masks, softmax over any
//! dimension.

use super::{Built, MOST_ELEMENTS, Network, Template, between, linear, pick, unary, written};
use crate::Generator;
use vitempo_graph::{OpKind, TensorSpec};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("talking-heads", talking_heads),
    ("any-softmax", any_softmax),
    ("window-attention", window_attention),
    ("shared-keys", shared_keys),
    ("gate", gate),
];

/// A linear layer across the heads of every score: many rows, hardly any columns.
fn talking_heads(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, count) = (between(g, 2, 16), between(g, 16, 256));
    let x = written(n, [1, heads, count, count])?;
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let y = n.b.transpose(&a, x, &[0, 2, 3, 1])?;
    let y = n.b.linear(&b, y, heads, g.unit() < 0.7)?;
    let y = n.b.transpose(&e, y, &[0, 3, 1, 2])?;
    n.b.softmax(&f, y, 3)
}

/// Softmax over any dimension of three to five.
fn any_softmax(n: &mut Network, g: &mut Generator) -> Built {
    let rank = pick(g, &[3usize, 4, 4, 5]);
    let mut shape = vec![1; rank];
    let mut left = MOST_ELEMENTS;
    for extent in shape.iter_mut().skip(1).rev() {
        *extent = between(g, 2, (left / 4).clamp(2, 512));
        left /= *extent;
    }
    let axis = 1 + g.below(rank as u64 - 1) as usize;
    let x = written(n, shape)?;
    let name = n.name();
    let y = n.b.softmax(&name, x, axis)?;
    unary(n, OpKind::Abs, y)
}

/// Many small products: one for each window and head, with a bias for each pair of places and a
/// mask for each window.
fn window_attention(n: &mut Network, g: &mut Generator) -> Built {
    let (windows, heads, d) =
        (between(g, 1, 64), between(g, 1, 8), pick(g, &[16usize, 32, 32, 64]));
    let count = pick(g, &[16usize, 49, 49, 64, 144]);
    let shape = [windows, heads, count, d];
    let [q, k, v] = ["q", "k", "v"].map(|name| n.b.input(name, TensorSpec::f32(shape)));
    let (q, k, v) =
        (unary(n, OpKind::Abs, q)?, unary(n, OpKind::Abs, k)?, unary(n, OpKind::Abs, v)?);
    let [a, b, e, f, s, t] = [n.name(), n.name(), n.name(), n.name(), n.name(), n.name()];
    let k = n.b.transpose(&a, k, &[0, 1, 3, 2])?;
    let mut y = n.b.matmul(&b, q, k)?;
    let bias = n.b.weight("bias", TensorSpec::f32([1, heads, count, count]));
    y = n.b.binary(&e, OpKind::Add, y, bias)?;
    if g.unit() < 0.5 {
        let mask = n.b.weight("mask", TensorSpec::f32([windows, 1, count, count]));
        y = n.b.binary(&f, OpKind::Add, y, mask)?;
    }
    let y = n.b.softmax(&s, y, 3)?;
    n.b.matmul(&t, y, v)
}

/// Keys and values that all heads share.
fn shared_keys(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d, rows, columns) =
        (between(g, 2, 16), 8 * between(g, 2, 16), between(g, 16, 784), between(g, 9, 400));
    let q = n.b.input("q", TensorSpec::f32([1, heads, rows, d]));
    let k = n.b.input("k", TensorSpec::f32([1, 1, d, columns]));
    let v = n.b.input("v", TensorSpec::f32([1, 1, columns, d]));
    let (q, k, v) =
        (unary(n, OpKind::Abs, q)?, unary(n, OpKind::Abs, k)?, unary(n, OpKind::Abs, v)?);
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.matmul(&a, q, k)?;
    let y = n.b.softmax(&b, y, 3)?;
    n.b.matmul(&e, y, v)
}

/// A linear layer of which one half gates the other.
fn gate(n: &mut Network, g: &mut Generator) -> Built {
    let (count, c, hidden) = (between(g, 16, 1024), 8 * between(g, 4, 96), 8 * between(g, 4, 128));
    let x = n.b.input("x", TensorSpec::f32([1, count, c]));
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.linear(&a, x, 2 * hidden, true)?;
    let parts = n.b.op_many(
        &b,
        OpKind::Split,
        vitempo_graph::Attributes::new()
            .with_int("axis", 2)
            .with_ints("split", vec![hidden as i64; 2]),
        &[y],
    )?;
    let gate =
        if g.unit() < 0.5 { n.b.silu("gate", parts[0])? } else { n.b.gelu_erf("gate", parts[0])? };
    let y = n.b.binary(&e, OpKind::Mul, gate, parts[1])?;
    linear(n, y, c)
}
