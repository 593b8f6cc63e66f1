//! Operators that only move elements: permutations of any kind, rolls, shuffles, strided cuts,
//! gathers, padding and masks.

use super::{
    Built, MOST_ELEMENTS, Network, Template, between, channels, concat, convolved, longest_side,
    pick, transposed, unary, written,
};
use crate::Generator;
use vitempo_graph::{
    Attribute, Attributes, ConstantData, GraphError, OpKind, Precision, TensorSpec, ValueId,
};

pub(super) const TEMPLATES: &[(&str, Template)] = &[
    ("any-permutation", any_permutation),
    ("patch-merging", patch_merging),
    ("roll", roll),
    ("gather-many", gather_many),
    ("channel-shuffle", channel_shuffle),
    ("depth-to-space", depth_to_space),
    ("space-to-depth", space_to_depth),
    ("image-layer-norm", image_layer_norm),
    ("token-pad", token_pad),
    ("tile", tile),
    ("mask", mask),
    ("token-concat", token_concat),
];

/// `[1, H, W, C]`, H and W even.
fn image_of_tokens(
    n: &mut Network,
    g: &mut Generator,
) -> Result<(ValueId, [usize; 4]), GraphError> {
    let c = channels(g, 512);
    let most = longest_side(MOST_ELEMENTS, c) / 2;
    let side = 2 * between(g, 3, most.clamp(4, 48));
    let shape = [1, side, side, c];
    Ok((written(n, shape)?, shape))
}

/// A permutation of three to six dimensions, drawn at random; the batch mostly stays in front.
fn any_permutation(n: &mut Network, g: &mut Generator) -> Built {
    let rank = pick(g, &[3usize, 4, 4, 5, 5, 5, 6]);
    let still = usize::from(g.unit() < 0.7);
    let mut perm: Vec<usize> = (0..rank).collect();
    for i in (still + 1..rank).rev() {
        perm.swap(i, still + g.below((i - still + 1) as u64) as usize);
    }
    let mut shape = vec![1; rank];
    let mut left = MOST_ELEMENTS;
    for extent in shape.iter_mut().skip(still).rev() {
        *extent = if g.unit() < 0.1 { 1 } else { between(g, 2, (left / 4).clamp(2, 256)) };
        left /= *extent;
    }
    let x = written(n, shape)?;
    let y = transposed(n, x, &perm)?;
    unary(n, OpKind::Abs, y)
}

/// Every `step`-th element of these dimensions `(axis, start, end, step)`.
pub(super) fn cut(n: &mut Network, x: ValueId, axes: &[(usize, usize, usize, usize)]) -> Built {
    let name = n.name();
    n.b.slice(&name, x, axes)
}

/// Four neighbours become one token of four times the channels.
fn patch_merging(n: &mut Network, g: &mut Generator) -> Built {
    let (x, [_, h, w, _]) = image_of_tokens(n, g)?;
    let mut parts = Vec::new();
    for (row, column) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        parts.push(cut(n, x, &[(1, row, h, 2), (2, column, w, 2)])?);
    }
    let y = concat(n, &parts, 3)?;
    unary(n, OpKind::Abs, y)
}

/// Rows, then columns, shifted cyclically.
fn roll(n: &mut Network, g: &mut Generator) -> Built {
    let (mut x, shape) = image_of_tokens(n, g)?;
    for axis in [1, 2] {
        let by = between(g, 1, shape[axis] / 2);
        let (head, tail) =
            (cut(n, x, &[(axis, 0, by, 1)])?, cut(n, x, &[(axis, by, shape[axis], 1)])?);
        x = concat(n, &[tail, head], axis)?;
    }
    unary(n, OpKind::Abs, x)
}

/// A list of indices along any dimension.
fn gather_many(n: &mut Network, g: &mut Generator) -> Built {
    let (count, c) = (between(g, 16, 1024), channels(g, 384));
    let shape = if g.unit() < 0.5 {
        vec![1, count, c]
    } else {
        vec![1, between(g, 2, 12), count, (c / 8).max(4)]
    };
    let axis = 1 + g.below(shape.len() as u64 - 1) as usize;
    let indices: Vec<i64> =
        (0..between(g, 2, 256)).map(|_| g.below(shape[axis] as u64) as i64).collect();
    let x = written(n, shape)?;
    let list = n.b.constant(
        "indices",
        TensorSpec::new([indices.len()], Precision::I64),
        ConstantData::Ints(indices),
    );
    let name = n.name();
    let y =
        n.b.op(&name, OpKind::Gather, Attributes::new().with_int("axis", axis as i64), &[x, list])?;
    unary(n, OpKind::Abs, y)
}

/// Groups of channels, interleaved.
fn channel_shuffle(n: &mut Network, g: &mut Generator) -> Built {
    let (groups, width, side) =
        (pick(g, &[2usize, 2, 3, 4, 8]), 4 * between(g, 2, 48), between(g, 7, 56));
    let shape = [1, groups * width, side, side];
    let x = convolved(n, shape)?;
    let [a, b, e] = [n.name(), n.name(), n.name()];
    let y = n.b.reshape(&a, x, &[1, groups, width, side, side])?;
    let y = n.b.transpose(&b, y, &[0, 2, 1, 3, 4])?;
    let y = n.b.reshape(&e, y, &shape)?;
    let name = n.name();
    n.b.conv(&name, y, shape[1], 1, 1, 0, 1, true)
}

fn depth_to_space(n: &mut Network, g: &mut Generator) -> Built {
    let (block, c, side) = (pick(g, &[2usize, 2, 3, 4]), between(g, 3, 64), between(g, 7, 64));
    let x = convolved(n, [1, c * block * block, side, side])?;
    let mode = Attribute::Text(if g.unit() < 0.7 { "CRD" } else { "DCR" }.to_owned());
    let name = n.name();
    let y = n.b.op(
        &name,
        OpKind::DepthToSpace,
        Attributes::new().with_int("blocksize", block as i64).with("mode", mode),
        &[x],
    )?;
    unary(n, OpKind::Abs, y)
}

fn space_to_depth(n: &mut Network, g: &mut Generator) -> Built {
    let (block, c, side) = (pick(g, &[2usize, 2, 4]), between(g, 3, 128), between(g, 7, 48));
    let x = convolved(n, [1, c, side * block, side * block])?;
    let name = n.name();
    let y = n.b.op(
        &name,
        OpKind::SpaceToDepth,
        Attributes::new().with_int("blocksize", block as i64),
        &[x],
    )?;
    unary(n, OpKind::Abs, y)
}

/// Normalisation over the channels of an image: there and back by permutations.
fn image_layer_norm(n: &mut Network, g: &mut Generator) -> Built {
    let c = channels(g, 768);
    let side = between(g, 6, longest_side(MOST_ELEMENTS, c).clamp(7, 64));
    let x = convolved(n, [1, c, side, side])?;
    let [a, b, e, f] = [n.name(), n.name(), n.name(), n.name()];
    let y = n.b.transpose(&a, x, &[0, 2, 3, 1])?;
    let y = n.b.layer_norm(&b, y)?;
    let y = n.b.transpose(&e, y, &[0, 3, 1, 2])?;
    n.b.conv(&f, y, c, 1, 1, 0, 1, true)
}

/// Rows and columns of nothing after the last.
fn token_pad(n: &mut Network, g: &mut Generator) -> Built {
    let (x, _) = image_of_tokens(n, g)?;
    let by = between(g, 1, 6) as i64;
    let attributes = Attributes::new()
        .with_ints("pads", vec![0, 0, 0, 0, 0, by, by, 0])
        .with("mode", Attribute::Text("constant".to_owned()));
    let name = n.name();
    let y = n.b.op(&name, OpKind::Pad, attributes, &[x])?;
    unary(n, OpKind::Abs, y)
}

fn tile(n: &mut Network, g: &mut Generator) -> Built {
    let (count, c) = (between(g, 1, 256), channels(g, 384));
    let repeats = if g.unit() < 0.5 {
        vec![1, between(g, 2, 16) as i64, 1]
    } else {
        vec![between(g, 2, 16) as i64, 1, 1]
    };
    let x = written(n, [1, count, c])?;
    let name = n.name();
    let y = n.b.op(&name, OpKind::Tile, Attributes::new().with_ints("repeats", repeats), &[x])?;
    unary(n, OpKind::Abs, y)
}

/// Scores that a constant mask replaces.
fn mask(n: &mut Network, g: &mut Generator) -> Built {
    let (heads, count) = (between(g, 1, 16), between(g, 16, 400));
    let x = written(n, [1, heads, count, count])?;
    let kept = (0..count * count).map(|i| i64::from(i % count <= i / count)).collect();
    let keep = n.b.constant(
        "keep",
        TensorSpec::new([1, 1, count, count], Precision::Bool),
        ConstantData::Ints(kept),
    );
    let low = n.b.scalar("low", x, -1e4)?;
    let [a, b] = [n.name(), n.name()];
    let y = n.b.op(&a, OpKind::Where, Attributes::new(), &[keep, x, low])?;
    n.b.softmax(&b, y, 3)
}

/// Tokens of two origins, concatenated along tokens or channels.
fn token_concat(n: &mut Network, g: &mut Generator) -> Built {
    let (count, c) = (between(g, 16, 2048), channels(g, 384));
    let x = written(n, [1, count, c])?;
    let mut parts = vec![x];
    for _ in 0..pick(g, &[1, 1, 2, 3]) {
        parts.push(unary(n, OpKind::Neg, x)?);
    }
    let y = concat(n, &parts, pick(g, &[1, 2]))?;
    unary(n, OpKind::Abs, y)
}
