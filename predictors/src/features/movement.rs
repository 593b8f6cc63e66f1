//! Operators that move data or only change its description: transposes, concatenations, splits,
//! slices, gathers, casts, reorders, reshapes. The class is the copying loop: whole, in contiguous
//! runs, one axis moved, or element by element.

use super::{LANES, axis, flag, order, product};
use std::borrow::Cow;
use vitempo_graph::{MemoryFormat, OpKind, OpSpec};

pub(super) const COLUMNS: &[&str] = &[
    "run_bytes",
    "runs",
    "run_remainder",
    "collapsed_rank",
    "moved_rows",
    "moved_columns",
    "stride_bytes",
    "movement_code",
    "index_elements",
    "padding",
    "step",
    "element_bytes_in",
    "strided_elements",
];

pub(super) const BASELINE: &[&str] = &[
    "bytes_out",
    "bytes_in",
    "runs",
    "strided_elements",
    "bytes_beyond_l2",
    "index_elements",
    "outputs",
];

/// How data moves: the length of contiguous runs, in elements, and the pattern.
struct Motion {
    run: f64,
    pattern: Pattern,
    rank: f64,
    rows: f64,
    columns: f64,
    stride: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Free,
    Whole,
    Runs,
    OneAxis,
    Scattered,
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Self::Free => "",
            Self::Whole => "whole",
            Self::Runs => "runs",
            Self::OneAxis => "one-axis",
            Self::Scattered => "scattered",
        }
    }
}

/// Extents and permutation with dimensions of extent 1 left out and those that stay together
/// merged.
fn collapse(shape: &[usize], perm: &[i64]) -> (Vec<f64>, Vec<usize>) {
    let kept: Vec<usize> = perm
        .iter()
        .filter_map(|&p| usize::try_from(p).ok())
        .filter(|&p| shape.get(p).is_some_and(|&d| d != 1))
        .collect();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let next = |a: usize, b: usize| b > a && (a + 1..b).all(|i| shape.get(i) == Some(&1));
    for axis in kept {
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|&l| next(l, axis)) => group.push(axis),
            _ => groups.push(vec![axis]),
        }
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&g| groups[g][0]);
    let extents =
        order.iter().map(|&g| groups[g].iter().map(|&a| shape[a] as f64).product()).collect();
    let mut rank = vec![0; groups.len()];
    for (position, &g) in order.iter().enumerate() {
        rank[g] = position;
    }
    (extents, rank)
}

fn one_axis_moved(perm: &[usize]) -> bool {
    (0..perm.len())
        .any(|i| perm.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, p)| *p).is_sorted())
}

fn transpose(op: &OpSpec) -> Motion {
    let shape = super::first_shape(op);
    let given = op.attributes.ints("perm");
    let reversed: Vec<i64> = (0..shape.len() as i64).rev().collect();
    let (extents, perm) = collapse(shape, if given.is_empty() { &reversed } else { given });
    let rank = perm.len();
    let last = perm.last().copied().unwrap_or(0);
    let kept = last + 1 == rank;
    let stride: f64 = extents.iter().skip(last + 1).product();
    let run = if kept { extents.last().copied().unwrap_or(1.0) } else { 1.0 };
    let pattern = match () {
        () if rank <= 1 => Pattern::Whole,
        () if kept => Pattern::Runs,
        () if one_axis_moved(&perm) => Pattern::OneAxis,
        () => Pattern::Scattered,
    };
    let run = if pattern == Pattern::Whole { product(shape) } else { run };
    let columns = extents.get(last).copied().unwrap_or(1.0);
    Motion {
        run,
        pattern,
        rank: rank as f64,
        rows: extents.last().copied().unwrap_or(1.0),
        columns,
        stride,
    }
}

/// Copies along one axis: a run is the part of the smaller side behind that axis.
fn along(shape: &[usize], from: usize, extent: f64) -> Motion {
    let outer = product(&shape[..from.min(shape.len())]);
    let inner = product(shape.get(from + 1..).unwrap_or(&[]));
    let run = inner * extent;
    let pattern = if outer <= 1.0 { Pattern::Whole } else { Pattern::Runs };
    Motion { run, pattern, rank: shape.len() as f64, rows: outer, columns: extent, stride: inner }
}

fn smallest(shapes: impl Iterator<Item = f64>) -> f64 {
    let least = shapes.fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 1.0 }
}

fn slice(op: &OpSpec) -> Motion {
    let (x, y) = (super::first_shape(op), super::output_shape(op));
    let cut = (0..x.len()).rev().find(|&i| x.get(i) != y.get(i));
    let stepped = op.attributes.ints("steps").iter().any(|&s| s != 1);
    match cut {
        Some(at) if x.len() == y.len() => {
            let mut motion = along(y, at, y[at] as f64);
            if stepped {
                motion.pattern = Pattern::Scattered;
                motion.run = motion.stride;
            }
            motion
        }
        _ => whole(op),
    }
}

fn whole(op: &OpSpec) -> Motion {
    let elements = product(super::output_shape(op));
    Motion {
        run: elements,
        pattern: Pattern::Whole,
        rank: 1.0,
        rows: 1.0,
        columns: elements,
        stride: 1.0,
    }
}

fn motion(op: &OpSpec) -> Motion {
    let motion = contiguous_motion(op);
    let rank = super::first_shape(op).len() as i64;
    let innermost = super::first_shape(op).last().map_or(1.0, |&d| d as f64);
    // An input read through a permutation (rten) is copied at most one innermost dimension at a
    // time.
    order::permutations(op).fold(motion, |motion, order| match order.last() {
        Some(&last) if last + 1 == rank => {
            Motion { run: motion.run.min(innermost), pattern: Pattern::Runs, ..motion }
        }
        _ => Motion { run: 1.0, pattern: Pattern::Scattered, ..motion },
    })
}

/// Of inputs that lie in memory in the order of their dimensions.
fn contiguous_motion(op: &OpSpec) -> Motion {
    let (x, y) = (super::first_shape(op), super::output_shape(op));
    let extent = |shape: &[usize], at: usize| shape.get(at).map_or(1.0, |&d| d as f64);
    match op.kind {
        OpKind::Transpose => transpose(op),
        OpKind::Concat => {
            let at = axis(op, "axis", 0, y.len());
            along(y, at, smallest(op.inputs.iter().map(|i| extent(&i.tensor.shape, at))))
        }
        OpKind::Split => {
            let at = axis(op, "axis", 0, x.len());
            along(x, at, smallest(op.outputs.iter().map(|o| extent(&o.shape, at))))
        }
        OpKind::Slice => slice(op),
        OpKind::Gather => along(x, axis(op, "axis", 0, x.len()), 1.0),
        OpKind::Pad => along(y, y.len().saturating_sub(1), extent(x, x.len().saturating_sub(1))),
        OpKind::Expand | OpKind::Tile => {
            let last_kept = extent(x, x.len().saturating_sub(1));
            Motion {
                run: last_kept,
                pattern: if last_kept > 1.0 { Pattern::Runs } else { Pattern::Scattered },
                ..whole(op)
            }
        }
        OpKind::Reorder => Motion {
            rows: extent(x, 1),
            columns: product(x.get(2..).unwrap_or(&[])),
            run: 1.0,
            ..whole(op)
        },
        OpKind::GatherElements
        | OpKind::GatherNd
        | OpKind::ScatterNd
        | OpKind::DepthToSpace
        | OpKind::SpaceToDepth
        | OpKind::Col2Im => Motion { run: 1.0, pattern: Pattern::Scattered, ..whole(op) },
        OpKind::Cast | OpKind::Quantize | OpKind::Dequantize | OpKind::DynamicQuantize => whole(op),
        // rten marks a reshape whose input has another reader.
        OpKind::Reshape if op.attributes.int("copy") == Some(1) => whole(op),
        _ => Motion { pattern: Pattern::Free, ..whole(op) },
    }
}

pub(super) fn class(op: &OpSpec) -> Cow<'static, str> {
    let precision =
        |t: Option<&vitempo_graph::TensorSpec>| t.map_or("none", |t| t.precision.name());
    match op.kind {
        OpKind::Cast | OpKind::Quantize | OpKind::Dequantize | OpKind::DynamicQuantize => {
            Cow::Owned(format!(
                "{}-to-{}",
                precision(op.inputs.first().map(|i| &i.tensor)),
                precision(op.outputs.first())
            ))
        }
        OpKind::Reorder => Cow::Borrowed(match op.outputs.first().map(|t| t.format) {
            None => "to-unknown",
            Some(MemoryFormat::ChannelsFirst) => "to-channels_first",
            Some(MemoryFormat::ChannelsLast) => "to-channels_last",
            Some(MemoryFormat::Blocked) => "to-blocked",
        }),
        OpKind::Pad => Cow::Owned(op.attributes.text("mode").unwrap_or("constant").to_owned()),
        OpKind::Gather => {
            Cow::Borrowed(if op.attributes.int("index").is_some() { "one" } else { "many" })
        }
        _ => Cow::Borrowed(motion(op).pattern.name()),
    }
}

pub(super) fn push(op: &OpSpec, out: &mut Vec<f64>) {
    let m = motion(op);
    let element_bytes = op.precision().size_bytes() as f64;
    let elements: f64 = op.outputs.iter().map(|t| t.elements() as f64).sum();
    let strided =
        matches!(m.pattern, Pattern::OneAxis | Pattern::Scattered) || op.kind == OpKind::Reorder;
    out.extend_from_slice(&[
        m.run * element_bytes,
        if m.pattern == Pattern::Free || m.run <= 0.0 { 0.0 } else { elements / m.run },
        m.run % LANES,
        m.rank,
        m.rows,
        m.columns,
        m.stride * element_bytes,
        f64::from(m.pattern as u8),
        if matches!(
            op.kind,
            OpKind::Gather | OpKind::GatherNd | OpKind::GatherElements | OpKind::ScatterNd
        ) {
            op.inputs.get(1).map_or(1.0, |i| i.tensor.elements() as f64)
        } else {
            0.0
        },
        op.attributes.ints("pads").iter().map(|&p| p as f64).sum(),
        op.attributes.ints("steps").iter().copied().map(|s| s as f64).fold(1.0, f64::max),
        op.inputs.first().map_or(0.0, |i| i.tensor.precision.size_bytes() as f64),
        flag(strided) * elements,
    ]);
}

#[cfg(test)]
mod tests {
    use super::super::{FeatureSchema, PredictorKey};
    use vitempo_graph::{Attributes, OpKind, OpSpec, Operand, TensorSpec};

    fn transpose(shape: &[usize], perm: &[i64]) -> OpSpec {
        let out: Vec<usize> = perm.iter().map(|&p| shape[p as usize]).collect();
        OpSpec {
            kind: OpKind::Transpose,
            attributes: Attributes::new().with_ints("perm", perm),
            inputs: vec![Operand { tensor: TensorSpec::f32(shape), constant: false }],
            outputs: vec![TensorSpec::f32(out)],
        }
    }

    #[test]
    fn permutations_fall_into_copying_loops() {
        for (shape, perm, class, run_bytes) in [
            (&[1usize, 197, 6, 64][..], &[0i64, 2, 1, 3][..], "runs", 256.0),
            (&[1, 196, 384], &[0, 2, 1], "one-axis", 4.0),
            (&[1, 6, 197, 64], &[0, 1, 3, 2], "one-axis", 4.0),
            (&[1, 1, 197, 64], &[0, 2, 1, 3], "whole", 197.0 * 256.0),
            (&[2, 197, 6, 64], &[0, 2, 3, 1], "one-axis", 4.0),
            (&[4, 5, 6, 7], &[3, 2, 1, 0], "scattered", 4.0),
            (&[1, 2, 7, 2, 7, 96], &[0, 1, 3, 2, 4, 5], "runs", 7.0 * 96.0 * 4.0),
        ] {
            let op = transpose(shape, perm);
            assert_eq!(PredictorKey::of(&op).class, class, "{perm:?}");
            assert_eq!(FeatureSchema::extract(&op).get("run_bytes"), Some(run_bytes), "{perm:?}");
        }
    }

    #[test]
    fn a_reshape_makes_no_runs() {
        let mut op = transpose(&[1, 4, 4], &[0, 1, 2]);
        op.kind = OpKind::Reshape;
        assert_eq!(FeatureSchema::extract(&op).get("runs"), Some(0.0));
        op.attributes = op.attributes.with_int("copy", 1);
        assert_eq!(FeatureSchema::extract(&op).get("runs"), Some(1.0));
    }

    #[test]
    fn inputs_read_through_a_permutation_are_copied_in_short_runs() {
        for (order, class, run_bytes) in [
            (None, "whole", 256.0),
            (Some([1i64, 0, 2]), "runs", 32.0),
            (Some([2, 1, 0]), "scattered", 4.0),
        ] {
            let mut op = transpose(&[3, 8, 8], &[0, 1, 2]);
            op.kind = OpKind::Split;
            op.attributes = Attributes::new().with_int("axis", 0).with_ints("split", [1; 3]);
            op.outputs = vec![TensorSpec::f32([1, 8, 8]); 3];
            if let Some(order) = order {
                op.attributes = op.attributes.with_ints("perm_0", order);
            }
            assert_eq!(PredictorKey::of(&op).class, class, "{order:?}");
            assert_eq!(FeatureSchema::extract(&op).get("run_bytes"), Some(run_bytes), "{order:?}");
        }
    }
}
