//! Pooling and reductions, which compute one element from many. The class of a reduction is whether
//! the reduced axes are the last ones.

use super::{LANES, product};
use std::borrow::Cow;
use vitempo_graph::{OpKind, OpSpec};

pub(super) const COLUMNS: &[&str] = &[
    "window",
    "window_elements",
    "stride",
    "reduced",
    "outer",
    "inner",
    "channels",
    "width_remainder",
    "padding",
];

pub(super) const BASELINE: &[&str] = &[
    "elements_in",
    "bytes_in",
    "bytes_out",
    "window_elements",
    "outer",
    "bytes_beyond_l2",
    "bytes_reordered",
];

fn attribute_product(op: &OpSpec, name: &str) -> f64 {
    op.attributes.ints(name).iter().map(|&v| v as f64).product()
}

/// Extents before, within and behind the reduced axes.
fn extents(op: &OpSpec) -> (f64, f64, f64) {
    let x = super::first_shape(op);
    let rank = x.len() as i64;
    let mut axes: Vec<usize> = op
        .attributes
        .ints("axes")
        .iter()
        .filter_map(|&a| usize::try_from(if a < 0 { a.saturating_add(rank) } else { a }).ok())
        .filter(|&a| a < x.len())
        .collect();
    if axes.is_empty() {
        let pooled = matches!(
            op.kind,
            OpKind::GlobalAveragePool
                | OpKind::GlobalMaxPool
                | OpKind::MaxPool
                | OpKind::AveragePool
        );
        axes = (if pooled { 2 } else { 0 }..x.len()).collect();
    }
    let (first, last) =
        (axes.iter().copied().min().unwrap_or(x.len()), axes.iter().copied().max().unwrap_or(0));
    let reduced = axes.iter().map(|&a| x[a] as f64).product();
    (product(&x[..first.min(x.len())]), reduced, product(x.get(last + 1..).unwrap_or(&[])))
}

pub(super) fn class(op: &OpSpec) -> Cow<'static, str> {
    match op.kind {
        OpKind::MaxPool
        | OpKind::AveragePool
        | OpKind::GlobalAveragePool
        | OpKind::GlobalMaxPool => Cow::Borrowed(""),
        _ => Cow::Borrowed(if extents(op).2 <= 1.0 { "last" } else { "strided" }),
    }
}

pub(super) fn push(op: &OpSpec, out: &mut Vec<f64>) {
    let (outer, reduced, inner) = extents(op);
    let x = super::first_shape(op);
    let window = if op.attributes.ints("kernel_shape").is_empty() {
        reduced
    } else {
        attribute_product(op, "kernel_shape")
    };
    let elements_out: f64 = op.outputs.iter().map(|t| t.elements() as f64).sum();
    out.extend_from_slice(&[
        window,
        window * elements_out,
        attribute_product(op, "strides"),
        reduced,
        outer,
        inner,
        x.get(1).map_or(1.0, |&c| c as f64),
        x.last().map_or(0.0, |&w| w as f64 % LANES),
        op.attributes.ints("pads").iter().map(|&p| p as f64).sum(),
    ]);
}
