//! Operators on tensors from megabytes to more than a hundred, which leave every cache, and long
//! concatenations.
//!
//! What they read was written just before by another operator: where that tensor is larger than the
//! last-level cache it comes from memory.

use super::super::{
    Built, Network, Template, between, binary, concat, layer_norm, pick, rearrangements::cut,
    transposed, unary, written,
};
use crate::Generator;
use vitempo_graph::{Attribute, Attributes, OpKind};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("large-activation", activation),
    ("large-arithmetic", arithmetic),
    ("large-concat", large_concat),
    ("long-concat", long_concat),
    ("large-transpose", transpose),
    ("large-softmax", softmax),
    ("large-norm", norm),
    ("large-reduction", reduction),
    ("large-slice", slice),
    ("large-pad", pad),
];

/// Elements of the largest tensor.
pub(super) const MOST: usize = 1 << 25;

/// A shape `[1, rows, columns]` from half a million elements on; sums of `times` such tensors stay
/// within bounds.
fn shape(g: &mut Generator, times: usize) -> [usize; 3] {
    let elements = between(g, 1 << 19, MOST / times);
    let columns = 8 * between(g, 1, 512);
    [1, (elements / columns).max(1), columns]
}

fn activation(n: &mut Network, g: &mut Generator) -> Built {
    let x = written(n, shape(g, 1))?;
    let kinds = [OpKind::Relu, OpKind::Sigmoid, OpKind::Neg, OpKind::Tanh, OpKind::HardSwish];
    let y = unary(n, kinds[g.below(kinds.len() as u64) as usize].clone(), x)?;
    unary(n, OpKind::Abs, y)
}

/// Two large tensors, or a large one and a row or column.
fn arithmetic(n: &mut Network, g: &mut Generator) -> Built {
    let shape = shape(g, 1);
    let x = written(n, shape)?;
    let other = match g.below(3) {
        0 => unary(n, OpKind::Neg, x)?,
        1 => n.b.weight("row", vitempo_graph::TensorSpec::f32([shape[2]])),
        _ => n.b.weight("column", vitempo_graph::TensorSpec::f32([shape[1], 1])),
    };
    let kinds = [OpKind::Add, OpKind::Mul, OpKind::Sub];
    let y = binary(n, kinds[g.below(3) as usize].clone(), x, other)?;
    unary(n, OpKind::Sigmoid, y)
}

/// A few tensors along any dimension.
fn large_concat(n: &mut Network, g: &mut Generator) -> Built {
    let x = written(n, shape(g, 4))?;
    let mut parts = vec![x];
    for _ in 0..pick(g, &[1, 1, 2, 3]) {
        parts.push(unary(n, OpKind::Neg, x)?);
    }
    let y = concat(n, &parts, pick(g, &[1, 2]))?;
    unary(n, OpKind::Abs, y)
}

/// Many small tensors along any dimension, of different extents there.
fn long_concat(n: &mut Network, g: &mut Generator) -> Built {
    let (count, c, rank) = (between(g, 4, 48), 4 * between(g, 2, 128), pick(g, &[3usize, 4]));
    let axis = 1 + g.below(rank as u64 - 1) as usize;
    let mut shape = if rank == 3 {
        vec![1, between(g, 8, 512), c]
    } else {
        vec![1, c, between(g, 4, 32), between(g, 4, 32)]
    };
    let total: usize = shape.iter().product();
    if total * count > MOST / 4 {
        shape[1] = (shape[1] * (MOST / 4) / (total * count)).max(2);
    }
    let x = written(n, &shape)?;
    let mut parts = vec![x];
    for _ in 1..count {
        let extent = between(g, 1, shape[axis]);
        let part = if extent < shape[axis] { cut(n, x, &[(axis, 0, extent, 1)])? } else { x };
        parts.push(unary(n, OpKind::Neg, part)?);
    }
    let y = concat(n, &parts, axis)?;
    unary(n, OpKind::Abs, y)
}

fn transpose(n: &mut Network, g: &mut Generator) -> Built {
    let elements = between(g, 1 << 19, MOST);
    let (heads, d) = (between(g, 1, 16), 8 * between(g, 1, 32));
    let x = written(n, [1, (elements / (heads * d)).max(1), heads, d])?;
    let perm: &[usize] = pick(g, &[&[0usize, 2, 1, 3][..], &[0, 2, 3, 1], &[0, 3, 1, 2]]);
    let y = transposed(n, x, perm)?;
    unary(n, OpKind::Abs, y)
}

fn softmax(n: &mut Network, g: &mut Generator) -> Built {
    let x = written(n, shape(g, 1))?;
    let name = n.name();
    let y = n.b.softmax(&name, x, 2)?;
    unary(n, OpKind::Abs, y)
}

fn norm(n: &mut Network, g: &mut Generator) -> Built {
    let x = written(n, shape(g, 1))?;
    let y = layer_norm(n, x)?;
    unary(n, OpKind::Abs, y)
}

fn reduction(n: &mut Network, g: &mut Generator) -> Built {
    let x = written(n, shape(g, 1))?;
    let kinds = [OpKind::ReduceMean, OpKind::ReduceSum, OpKind::ReduceMax];
    let attributes =
        Attributes::new().with_ints("axes", vec![pick(g, &[1, 2])]).with_int("keepdims", 1);
    let name = n.name();
    let y = n.b.op(&name, kinds[g.below(3) as usize].clone(), attributes, &[x])?;
    unary(n, OpKind::Abs, y)
}

fn slice(n: &mut Network, g: &mut Generator) -> Built {
    let shape = shape(g, 1);
    let x = written(n, shape)?;
    let axis = pick(g, &[1usize, 2]);
    let (extent, step) = (shape[axis], pick(g, &[1usize, 1, 2]));
    let end = between(g, extent.div_ceil(2), extent);
    let y = cut(n, x, &[(axis, 0, end, step)])?;
    unary(n, OpKind::Abs, y)
}

fn pad(n: &mut Network, g: &mut Generator) -> Built {
    let x = written(n, shape(g, 2))?;
    let by = between(g, 1, 16) as i64;
    let attributes = Attributes::new()
        .with_ints("pads", vec![0, by, 0, 0, 0, 0])
        .with("mode", Attribute::Text("constant".to_owned()));
    let name = n.name();
    let y = n.b.op(&name, OpKind::Pad, attributes, &[x])?;
    unary(n, OpKind::Abs, y)
}
