//! Operators that pick, order, count and choose elements, products by subscripts, and broadcasts.

use super::super::{
    Built, Network, Template, between, binary, channels, pick, reshaped, unary, written,
};
use crate::Generator;
use vitempo_graph::{
    Attribute, Attributes, ConstantData, GraphError, OpKind, Precision, TensorSpec, ValueId,
};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("einsum", einsum),
    ("gather-nd", gather_nd),
    ("gather-elements", gather_elements),
    ("scatter-nd", scatter_nd),
    ("best-tokens", best_tokens),
    ("top-k", top_k),
    ("arg-max", arg_max),
    ("running-sum", running_sum),
    ("choice", choice),
    ("triangle", triangle),
    ("any-broadcast", any_broadcast),
    ("unfold", unfold),
    ("fold", fold),
    ("rare-function", rare_function),
    ("rare-reduction", rare_reduction),
];

/// Numbers of a list of indices in a file.
const MOST_INDICES: usize = 1 << 13;

/// Random indices as a constant, the last dimension one index each below these extents.
fn indices(n: &mut Network, g: &mut Generator, shape: &[usize], below: &[usize]) -> ValueId {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|i| g.below(below[i % below.len()] as u64) as i64).collect();
    let name = n.name();
    n.b.constant(name, TensorSpec::new(shape, Precision::I64), ConstantData::Ints(values))
}

/// Products as models spell them by subscripts: scores, mixes of values, and mixes along a
/// dimension that is not the last.
fn einsum(n: &mut Network, g: &mut Generator) -> Built {
    let (h, d) = (between(g, 1, 12), pick(g, &[16usize, 32, 48, 64]));
    let (i, j) = (between(g, 16, 1024), between(g, 16, 1024));
    let (c, side) = (channels(g, 256), between(g, 7, 56));
    let (equation, left, right): (_, Vec<usize>, Vec<usize>) = match g.below(6) {
        0 => ("bhid,bhjd->bhij", vec![1, h, i, d], vec![1, h, j, d]),
        1 => ("bhij,bhjd->bhid", vec![1, h, i, j], vec![1, h, j, d]),
        2 => ("bihd,bjhd->bhij", vec![1, i, h, d], vec![1, j, h, d]),
        3 => ("bchw,bkc->bkhw", vec![1, c, side, side], vec![1, between(g, 4, 128), c]),
        4 => ("bchw,cd->bdhw", vec![1, c, side, side], vec![c, channels(g, 256)]),
        _ => ("bnc,bnd->bcd", vec![1, i, c], vec![1, i, d]),
    };
    let x = written(n, left)?;
    let y = n.b.input("y", TensorSpec::f32(right));
    let y = unary(n, OpKind::Neg, y)?;
    let name = n.name();
    let equation = Attributes::new().with("equation", Attribute::Text(equation.to_owned()));
    let z = n.b.op(&name, OpKind::Einsum, equation, &[x, y])?;
    unary(n, OpKind::Abs, z)
}

/// Vectors at positions of an image of tokens.
fn gather_nd(n: &mut Network, g: &mut Generator) -> Built {
    let (side, c, count) = (between(g, 7, 64), channels(g, 384), between(g, 4, MOST_INDICES / 2));
    let x = written(n, [side, side, c])?;
    let at = indices(n, g, &[count, 2], &[side, side]);
    let name = n.name();
    let y = n.b.op(&name, OpKind::GatherNd, Attributes::new(), &[x, at])?;
    unary(n, OpKind::Abs, y)
}

/// For each row or column its own indices.
fn gather_elements(n: &mut Network, g: &mut Generator) -> Built {
    let (rows, columns) = (between(g, 8, 1024), between(g, 8, 1024));
    let axis = g.below(2) as usize;
    let (other, extent) = if axis == 0 { (columns, rows) } else { (rows, columns) };
    let kept = between(g, 1, (MOST_INDICES / other).max(1));
    let shape = if axis == 0 { [kept, columns] } else { [rows, kept] };
    let x = written(n, [rows, columns])?;
    let at = indices(n, g, &shape, &[extent]);
    let name = n.name();
    let along = Attributes::new().with_int("axis", axis as i64);
    let y = n.b.op(&name, OpKind::GatherElements, along, &[x, at])?;
    unary(n, OpKind::Abs, y)
}

/// Rows of tokens that others replace.
fn scatter_nd(n: &mut Network, g: &mut Generator) -> Built {
    let (rows, c) = (between(g, 16, 8192), channels(g, 384));
    let count = between(g, 1, rows.min(MOST_INDICES));
    let x = written(n, [rows, c])?;
    let updates = n.b.input("updates", TensorSpec::f32([count, c]));
    let updates = unary(n, OpKind::Neg, updates)?;
    let at = indices(n, g, &[count, 1], &[rows]);
    let name = n.name();
    let y = n.b.op(&name, OpKind::ScatterNd, Attributes::new(), &[x, at, updates])?;
    unary(n, OpKind::Abs, y)
}

/// The `k` largest along a dimension, and where they are.
fn largest(n: &mut Network, x: ValueId, k: usize, axis: i64) -> Result<[ValueId; 2], GraphError> {
    let name = n.name();
    let attributes = Attributes::new().with_int("k", k as i64).with_int("axis", axis);
    let outputs = n.b.op_many(&name, OpKind::TopK, attributes, &[x])?;
    Ok([outputs[0], outputs[1]])
}

/// The tokens of the best scores, as detectors choose their queries.
fn best_tokens(n: &mut Network, g: &mut Generator) -> Built {
    let (count, c) = (between(g, 64, 20_000), channels(g, 256));
    let k = between(g, 1, count.min(900));
    let scores = written(n, [1, count])?;
    let [_, at] = largest(n, scores, k, 1)?;
    let at = reshaped(n, at, &[k])?;
    let x = n.b.input("tokens", TensorSpec::f32([1, count, c]));
    let name = n.name();
    let y = n.b.op(&name, OpKind::Gather, Attributes::new().with_int("axis", 1), &[x, at])?;
    unary(n, OpKind::Abs, y)
}

fn top_k(n: &mut Network, g: &mut Generator) -> Built {
    let (rows, columns) = (between(g, 1, 4096), between(g, 8, 4096));
    let rows = rows.min((1 << 20) / columns).max(1);
    let x = written(n, [1, rows, columns])?;
    let k = between(g, 1, columns.min(300));
    let [y, _] = largest(n, x, k, 2)?;
    unary(n, OpKind::Abs, y)
}

/// The class of each pixel.
fn arg_max(n: &mut Network, g: &mut Generator) -> Built {
    let (classes, side) = (between(g, 2, 150), between(g, 8, 256));
    let side = side.min(super::super::longest_side(1 << 22, classes));
    let last = g.unit() < 0.3;
    let shape = if last { [1, side, side, classes] } else { [1, classes, side, side] };
    let x = written(n, shape)?;
    let [a, b] = [n.name(), n.name()];
    let attributes = Attributes::new()
        .with_int("axis", if last { 3 } else { 1 })
        .with_int("keepdims", i64::from(g.unit() < 0.5));
    let y = n.b.op(&a, OpKind::ArgMax, attributes, &[x])?;
    let float = Attributes::new().with("to", Attribute::Text("f32".to_owned()));
    n.b.op(&b, OpKind::Cast, float, &[y])
}

fn running_sum(n: &mut Network, g: &mut Generator) -> Built {
    let (h, w, c) = (between(g, 8, 128), between(g, 8, 128), between(g, 1, 128));
    let x = written(n, [1, h, w, c])?;
    let along = Attributes::new().with_int("axis", pick(g, &[1, 2, 3]));
    let name = n.name();
    let y = n.b.op(&name, OpKind::CumSum, along, &[x])?;
    unary(n, OpKind::Abs, y)
}

/// `x` compared with a constant or a tensor.
fn compared(n: &mut Network, op: &str, x: ValueId, with: ValueId) -> Built {
    let name = n.name();
    let attributes = Attributes::new().with("op", Attribute::Text(op.to_owned()));
    n.b.op(&name, OpKind::Compare, attributes, &[x, with])
}

/// One of two tensors, by a comparison of both, with a number for each row, or within two bounds.
fn choice(n: &mut Network, g: &mut Generator) -> Built {
    let (rows, c) = (between(g, 16, 9216), channels(g, 384));
    let x = written(n, [1, rows, c])?;
    let y = unary(n, OpKind::Neg, x)?;
    let op = pick(g, &["Greater", "Less", "Equal"]);
    let chosen = match g.below(4) {
        0 => compared(n, op, x, y)?,
        1 => {
            let threshold = n.b.weight("threshold", TensorSpec::f32([rows, 1]));
            compared(n, op, x, threshold)?
        }
        2 => {
            let number = n.b.scalar("number", x, 0.5)?;
            compared(n, op, x, number)?
        }
        _ => {
            let (low, high) = (n.b.scalar("low", x, 0.2)?, n.b.scalar("high", x, 0.8)?);
            let (above, below) = (compared(n, "Greater", x, low)?, compared(n, "Less", x, high)?);
            let name = n.name();
            let both = Attributes::new().with("op", Attribute::Text("And".to_owned()));
            n.b.op(&name, OpKind::Logical, both, &[above, below])?
        }
    };
    let name = n.name();
    let z = n.b.op(&name, OpKind::Where, Attributes::new(), &[chosen, x, y])?;
    unary(n, OpKind::Abs, z)
}

/// Scores of which one triangle is kept.
fn triangle(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, count) = (between(g, 1, 12), between(g, 8, 512));
    let x = written(n, [heads, count, count])?;
    let name = n.name();
    let side = Attributes::new().with_int("upper", pick(g, &[0, 1]));
    let y = n.b.op(&name, OpKind::Trilu, side, &[x])?;
    unary(n, OpKind::Abs, y)
}

/// Two tensors of one to five dimensions, each of them 1 in some.
fn any_broadcast(n: &mut Network, g: &mut Generator) -> Built {
    let rank = pick(g, &[1usize, 2, 3, 3, 4, 4, 5]);
    let mut shape = vec![1; rank];
    let mut left = super::super::MOST_ELEMENTS;
    for extent in shape.iter_mut().rev() {
        *extent = between(g, 2, (left / 4).clamp(2, 512));
        left /= *extent;
    }
    let narrowed = |g: &mut Generator, least: f64| -> Vec<usize> {
        shape.iter().map(|&d| if g.unit() < least { 1 } else { d }).collect()
    };
    let left = if g.unit() < 0.7 { shape.clone() } else { narrowed(g, 0.3) };
    let right = narrowed(g, 0.5);
    let x = written(n, left)?;
    let y = n.b.input("y", TensorSpec::f32(right));
    let y = unary(n, OpKind::Abs, y)?;
    let kinds =
        [OpKind::Add, OpKind::Mul, OpKind::Sub, OpKind::Div, OpKind::Max, OpKind::Min, OpKind::Pow];
    let kind = kinds[g.below(kinds.len() as u64) as usize].clone();
    let z = binary(n, kind, x, y)?;
    unary(n, OpKind::Sigmoid, z)
}

/// Overlapping windows of an image side by side, by gathers of rows and columns, as exporters spell
/// unfolding.
fn unfold(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 192), between(g, 8, 40));
    let (kernel, stride) = pick(g, &[(3usize, 1usize), (3, 2), (2, 1), (5, 1)]);
    let x = written(n, [1, c, side, side])?;
    let windows = (side - kernel) / stride + 1;
    let at: Vec<i64> =
        (0..kernel).flat_map(|k| (0..windows).map(move |w| (k + w * stride) as i64)).collect();
    let list = n.b.constant(
        "at",
        TensorSpec::new([kernel, windows], Precision::I64),
        ConstantData::Ints(at),
    );
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.op(&a, OpKind::Gather, Attributes::new().with_int("axis", 2), &[x, list])?;
    let y = n.b.op(&b, OpKind::Gather, Attributes::new().with_int("axis", 4), &[y, list])?;
    let y = n.b.transpose(&e, y, &[0, 1, 2, 4, 3, 5])?;
    reshaped(n, y, &[1, c * kernel * kernel, windows * windows])
}

/// Windows added up to an image, as outlook attention does with its values.
fn fold(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 192), between(g, 8, 56));
    let (kernel, stride, pad) =
        pick(g, &[(2usize, 2usize, 0usize), (3, 1, 1), (3, 2, 1), (4, 4, 0)]);
    let across = (side + 2 * pad - kernel) / stride + 1;
    let x = written(n, [1, c * kernel * kernel, across * across])?;
    let name = n.name();
    let attributes = Attributes::new()
        .with_ints("image_shape", vec![side as i64; 2])
        .with_ints("block_shape", vec![kernel as i64; 2])
        .with_ints("strides", vec![stride as i64; 2])
        .with_ints("pads", vec![pad as i64; 4]);
    let y = n.b.op(&name, OpKind::Col2Im, attributes, &[x])?;
    unary(n, OpKind::Abs, y)
}

/// Functions of one element that networks rarely have on large tensors.
fn rare_function(n: &mut Network, g: &mut Generator) -> Built {
    let (rows, c) = (between(g, 16, 4096), channels(g, 512));
    let x = written(n, [1, rows, c])?;
    let kinds = [
        OpKind::Log,
        OpKind::Reciprocal,
        OpKind::Sin,
        OpKind::Cos,
        OpKind::Erf,
        OpKind::Exp,
        OpKind::Round,
    ];
    let kind = kinds[g.below(kinds.len() as u64) as usize].clone();
    let attributes = if kind == OpKind::Round {
        let op = pick(g, &["Floor", "Ceil", "Round", "Sign"]).to_owned();
        Attributes::new().with("op", Attribute::Text(op))
    } else {
        Attributes::new()
    };
    let name = n.name();
    let y = n.b.op(&name, kind, attributes, &[x])?;
    unary(n, OpKind::Abs, y)
}

/// Reductions other than sums, means and maxima of tokens.
fn rare_reduction(n: &mut Network, g: &mut Generator) -> Built {
    let (c, side) = (channels(g, 512), between(g, 5, 56));
    let x = written(n, [1, c, side, side])?;
    let kinds = [OpKind::GlobalMaxPool, OpKind::ReduceMin, OpKind::ReduceProd, OpKind::LpNorm];
    let kind = kinds[g.below(kinds.len() as u64) as usize].clone();
    let attributes = match kind {
        OpKind::GlobalMaxPool => Attributes::new(),
        OpKind::LpNorm => Attributes::new().with_int("axis", pick(g, &[1, 3])),
        _ => Attributes::new()
            .with_ints("axes", vec![pick(g, &[1, 2, 3])])
            .with_int("keepdims", pick(g, &[0, 1])),
    };
    let name = n.name();
    let y = n.b.op(&name, kind, attributes, &[x])?;
    unary(n, OpKind::Abs, y)
}
