//! Operators on tokens `[1, N, C]`, and on heads of tokens `[1, heads, N, d]`.

use super::{
    Built, MOST_ELEMENTS, Network, Template, between, binary, channels, pick, rearrangements::cut,
    transposed, unary,
};
use crate::Generator;
use vitempo_graph::{Attribute, Attributes, OpKind, TensorSpec, ValueId};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("layer-norm", layer_norm),
    ("residual-norm", residual_norm),
    ("softmax", softmax),
    ("channel-attention", channel_attention),
    ("product", product),
    ("scores", scores),
    ("linear", linear),
    ("small-linear", small_linear),
    ("token-activation", activation),
    ("token-arithmetic", arithmetic),
    ("permutation", permutation),
    ("heads", heads),
    ("reduction", reduction),
    ("l2-norm", l2_norm),
    ("expand", expand),
    ("slice", slice),
    ("class-token", class_token),
    ("relative-position", relative_position),
];

fn tokens(n: &mut Network, g: &mut Generator, high: usize) -> (ValueId, usize, usize) {
    let c = channels(g, high);
    let count = between(g, 16, (MOST_ELEMENTS / c).clamp(17, 9216));
    (n.b.input("x", TensorSpec::f32([1, count, c])), count, c)
}

/// Tokens that were just written.
fn warm(
    n: &mut Network,
    g: &mut Generator,
    high: usize,
) -> Result<(ValueId, usize, usize), vitempo_graph::GraphError> {
    let (x, count, c) = tokens(n, g, high);
    Ok((unary(n, OpKind::Abs, x)?, count, c))
}

fn layer_norm(n: &mut Network, g: &mut Generator) -> Built {
    let (x, _, _) = warm(n, g, 1024)?;
    let name = n.name();
    let y = n.b.layer_norm(&name, x)?;
    unary(n, OpKind::Abs, y)
}

fn residual_norm(n: &mut Network, g: &mut Generator) -> Built {
    let (x, _, c) = warm(n, g, 1024)?;
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let y = n.b.linear(&a, x, c, true)?;
    let y = n.b.binary(&b, OpKind::Add, x, y)?;
    let z = n.b.layer_norm(&e, y)?;
    let z = n.b.linear(&f, z, c, true)?;
    let name = n.name();
    if g.unit() < 0.5 { n.b.binary(&name, OpKind::Add, y, z) } else { Ok(z) }
}

/// Heads of scores `[1, heads, N, M]`.
fn score_shape(g: &mut Generator) -> [usize; 4] {
    let heads = between(g, 1, 16);
    let rows = between(g, 9, 3136);
    let columns = between(g, 9, (2 * MOST_ELEMENTS / (heads * rows)).clamp(10, 3136));
    [1, heads, rows, columns]
}

fn softmax(n: &mut Network, g: &mut Generator) -> Built {
    let shape = score_shape(g);
    let x = n.b.input("x", TensorSpec::f32(shape));
    let x = unary(n, OpKind::Abs, x)?;
    let name = n.name();
    let y = n.b.softmax(&name, x, pick(g, &[3, 3, 2, 1]))?;
    unary(n, OpKind::Abs, y)
}

/// Attention over channels: small products over long rows.
fn channel_attention(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d, count) = (between(g, 1, 8), 8 * between(g, 1, 12), between(g, 49, 4096));
    let x = n.b.input("x", TensorSpec::f32([1, heads, d, count]));
    let x = unary(n, OpKind::Abs, x)?;
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let t = n.b.transpose(&a, x, &[0, 1, 3, 2])?;
    let scores = n.b.matmul(&b, x, t)?;
    let weights = n.b.softmax(&e, scores, 3)?;
    n.b.matmul(&f, weights, x)
}

fn product(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d) = (between(g, 1, 16), 8 * between(g, 1, 16));
    let (rows, columns) = (between(g, 9, 1024), between(g, 9, 1024));
    let a = n.b.input("a", TensorSpec::f32([1, heads, rows, columns]));
    let b = n.b.input("b", TensorSpec::f32([1, heads, columns, d]));
    let (a, b) = (unary(n, OpKind::Abs, a)?, unary(n, OpKind::Abs, b)?);
    let name = n.name();
    let y = n.b.matmul(&name, a, b)?;
    unary(n, OpKind::Abs, y)
}

/// Queries times transposed keys, scaled.
fn scores(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d) = (between(g, 1, 16), 8 * between(g, 1, 16));
    let (rows, columns) = (between(g, 9, 1024), between(g, 9, 1024));
    let q = n.b.input("q", TensorSpec::f32([1, rows, heads, d]));
    let k = n.b.input("k", TensorSpec::f32([1, columns, heads, d]));
    let (q, k) = (unary(n, OpKind::Abs, q)?, unary(n, OpKind::Abs, k)?);
    let [a, b, e, f, s] = [n.name(), n.name(), n.name(), n.name(), n.name()];
    let q = n.b.transpose(&a, q, &[0, 2, 1, 3])?;
    let k = n.b.transpose(&b, k, &[0, 2, 3, 1])?;
    let y = n.b.matmul(&e, q, k)?;
    let scale = n.b.scalar(&s, y, 0.125)?;
    let y = n.b.binary(&f, OpKind::Mul, y, scale)?;
    let name = n.name();
    n.b.softmax(&name, y, 3)
}

fn linear(n: &mut Network, g: &mut Generator) -> Built {
    let (x, _, c) = warm(n, g, 4096)?;
    let out = channels(g, if c > 1536 { 1536 } else { 4096 });
    let name = n.name();
    let y = n.b.linear(&name, x, out, g.unit() < 0.8)?;
    token_activation(n, g, y)
}

/// Few rows: heads of classifiers, gates, queries of a decoder.
fn small_linear(n: &mut Network, g: &mut Generator) -> Built {
    let (rows, c) = (between(g, 1, 24), channels(g, 2048));
    let x = n.b.input(
        "x",
        if rows == 1 { TensorSpec::f32([1, c]) } else { TensorSpec::f32([1, rows, c]) },
    );
    let x = unary(n, OpKind::Abs, x)?;
    let out = if g.unit() < 0.3 { 1000 } else { channels(g, 2048) };
    let name = n.name();
    let y = n.b.linear(&name, x, out, true)?;
    unary(n, OpKind::Abs, y)
}

fn token_activation(n: &mut Network, g: &mut Generator, x: ValueId) -> Built {
    let name = n.name();
    match g.below(6) {
        0 => n.b.unary(&name, OpKind::Relu, x),
        1 => n.b.silu(&name, x),
        2 => n.b.gelu_erf(&name, x),
        3 => n.b.unary(&name, OpKind::Tanh, x),
        4 => n.b.unary(&name, OpKind::Sigmoid, x),
        _ => n.b.unary(&name, OpKind::Abs, x),
    }
}

fn activation(n: &mut Network, g: &mut Generator) -> Built {
    let (x, _, _) = warm(n, g, 2048)?;
    let y = match g.below(8) {
        0 => unary(n, OpKind::Exp, x)?,
        1 => unary(n, OpKind::Sqrt, x)?,
        2 => unary(n, OpKind::HardSwish, x)?,
        3 => {
            let [name, exponent] = [n.name(), n.name()];
            let two = n.b.scalar(&exponent, x, pick(g, &[2.0, 3.0]))?;
            n.b.binary(&name, OpKind::Pow, x, two)?
        }
        4 => {
            let name = n.name();
            n.b.op(
                &name,
                OpKind::Clip,
                Attributes::new().with("min", Attribute::Float(1e-12)),
                &[x],
            )?
        }
        _ => token_activation(n, g, x)?,
    };
    unary(n, OpKind::Abs, y)
}

/// Two tensors of tokens, tokens and a vector, a column or a number.
fn arithmetic(n: &mut Network, g: &mut Generator) -> Built {
    let (x, count, c) = warm(n, g, 1024)?;
    let kind = [OpKind::Add, OpKind::Mul, OpKind::Sub, OpKind::Div, OpKind::Mul, OpKind::Add]
        [g.below(6) as usize]
        .clone();
    let other = match g.below(5) {
        0 => unary(n, OpKind::Neg, x)?,
        1 => n.b.weight("vector", TensorSpec::f32([c])),
        2 => n.b.weight("tokens", TensorSpec::f32([1, count, c])),
        3 => {
            let name = n.name();
            n.b.reduce_mean(&name, x, &[2], true)?
        }
        _ => n.b.scalar("number", x, 1.5)?,
    };
    let y = binary(n, kind, x, other)?;
    unary(n, OpKind::Abs, y)
}

/// Permutations of three to five dimensions.
fn permutation(n: &mut Network, g: &mut Generator) -> Built {
    const PERMUTATIONS: [&[usize]; 12] = [
        &[0, 2, 1],
        &[1, 0, 2],
        &[0, 2, 1, 3],
        &[0, 2, 3, 1],
        &[0, 3, 1, 2],
        &[0, 1, 3, 2],
        &[2, 0, 1, 3],
        &[2, 0, 3, 1, 4],
        &[0, 2, 1, 3, 4],
        &[0, 3, 2, 1, 4],
        &[0, 2, 4, 1, 3],
        &[0, 1, 3, 2, 4],
    ];
    let perm = PERMUTATIONS[g.below(PERMUTATIONS.len() as u64) as usize];
    let mut shape = vec![1; perm.len()];
    let mut left = MOST_ELEMENTS;
    for extent in shape.iter_mut().skip(usize::from(perm[0] == 0)).rev() {
        *extent = between(g, 2, (left / 8).clamp(2, 256));
        left /= *extent;
    }
    let x = n.b.input("x", TensorSpec::f32(shape));
    let x = unary(n, OpKind::Abs, x)?;
    let y = transposed(n, x, perm)?;
    unary(n, OpKind::Abs, y)
}

/// Queries, keys and values out of one product: `[1, N, 3, heads, d]`, permuted, split.
fn heads(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d, count) = (between(g, 1, 16), 8 * between(g, 1, 12), between(g, 16, 1024));
    let x = n.b.input("x", TensorSpec::f32([1, count, 3 * heads * d]));
    let x = unary(n, OpKind::Abs, x)?;
    let [a, b, e, f, h] = [n.name(), n.name(), n.name(), n.name(), n.name()];
    let y = n.b.reshape(&a, x, &[1, count, 3, heads, d])?;
    let y = n.b.transpose(&b, y, &[2, 0, 3, 1, 4])?;
    let parts = n.b.op_many(
        &e,
        OpKind::Split,
        Attributes::new().with_int("axis", 0).with_ints("split", vec![1, 1, 1]),
        &[y],
    )?;
    let y = n.b.binary(&f, OpKind::Add, parts[0], parts[1])?;
    n.b.binary(&h, OpKind::Mul, y, parts[2])
}

fn reduction(n: &mut Network, g: &mut Generator) -> Built {
    let (x, _, _) = warm(n, g, 1024)?;
    let kind = [OpKind::ReduceMean, OpKind::ReduceSum, OpKind::ReduceMax, OpKind::ReduceL2]
        [g.below(4) as usize]
        .clone();
    let attributes =
        Attributes::new().with_ints("axes", vec![pick(g, &[1, 2, 2])]).with_int("keepdims", 1);
    let name = n.name();
    let y = n.b.op(&name, kind, attributes, &[x])?;
    unary(n, OpKind::Abs, y)
}

fn l2_norm(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, d, count) = (between(g, 1, 12), 8 * between(g, 1, 12), between(g, 16, 2048));
    let shape = [1, heads, d, count];
    let x = n.b.input("x", TensorSpec::f32(shape));
    let x = unary(n, OpKind::Abs, x)?;
    normalized(n, x, pick(g, &[3, 3, 2]))
}

/// `x / max(|x|, eps)` along one dimension: norm, clip, expand, divide.
pub(super) fn normalized(n: &mut Network, x: ValueId, axis: i64) -> Built {
    let shape: Vec<i64> =
        n.b.tensor(x).map(|t| t.shape.iter().map(|&s| s as i64).collect()).unwrap_or_default();
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.op(
        &a,
        OpKind::ReduceL2,
        Attributes::new().with_ints("axes", vec![axis]).with_int("keepdims", 1),
        &[x],
    )?;
    let y =
        n.b.op(&b, OpKind::Clip, Attributes::new().with("min", Attribute::Float(1e-12)), &[y])?;
    let y = n.b.op(&e, OpKind::Expand, Attributes::new().with_ints("shape", shape), &[y])?;
    binary(n, OpKind::Div, x, y)
}

fn expand(n: &mut Network, g: &mut Generator) -> Built {
    let (count, c) = (between(g, 2, 1024), channels(g, 512));
    let (from, to) =
        if g.unit() < 0.5 { ([1, 1, c], [1, count, c]) } else { ([1, c, 1], [1, c, count]) };
    let x = n.b.input("x", TensorSpec::f32(from));
    let x = unary(n, OpKind::Abs, x)?;
    let name = n.name();
    let y = n.b.op(
        &name,
        OpKind::Expand,
        Attributes::new().with_ints("shape", to.map(|s| s as i64)),
        &[x],
    )?;
    unary(n, OpKind::Abs, y)
}

fn slice(n: &mut Network, g: &mut Generator) -> Built {
    let (x, count, c) = warm(n, g, 1024)?;
    let (axis, extent) = pick(g, &[(1, count), (2, c), (2, c)]);
    let (start, end) = pick(g, &[(1, extent), (0, extent.div_ceil(2)), (extent / 2, extent)]);
    let y = cut(n, x, &[(axis, start, end.max(start + 1), 1)])?;
    unary(n, OpKind::Abs, y)
}

/// A token put in front, and taken out again.
fn class_token(n: &mut Network, g: &mut Generator) -> Built {
    let (x, _, c) = warm(n, g, 1024)?;
    let token = n.b.weight("token", TensorSpec::f32([1, 1, c]));
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.concat(&a, &[token, x], 1)?;
    let y = n.b.unary(&b, OpKind::Neg, y)?;
    n.b.op(&e, OpKind::Gather, Attributes::new().with_int("axis", 1).with_int("index", 0), &[y])
}

/// Scores and a bias that is the same for all windows.
fn relative_position(n: &mut Network, g: &mut Generator) -> Built {
    let (windows, heads, count) =
        (between(g, 1, 64), between(g, 1, 12), pick(g, &[16, 49, 49, 64, 144]));
    let x = n.b.input("x", TensorSpec::f32([windows, heads, count, count]));
    let x = unary(n, OpKind::Abs, x)?;
    let bias = n.b.weight("bias", TensorSpec::f32([1, heads, count, count]));
    let [a, b] = [n.name(), n.name()];
    let y = n.b.binary(&a, OpKind::Add, x, bias)?;
    n.b.softmax(&b, y, 3)
}
