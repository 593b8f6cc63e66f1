//! Resize and grid sampling: the class is the mode, because each mode has loops of its own.

use std::borrow::Cow;
use vitempo_graph::OpSpec;

pub(super) const COLUMNS: &[&str] = &[
    "channels",
    "height_in",
    "width_in",
    "height_out",
    "width_out",
    "scale_height",
    "scale_width",
    "whole_scale",
    "coordinates",
];

pub(super) const BASELINE: &[&str] = &["elements_out", "bytes_in", "bytes_out", "bytes_beyond_l2"];

pub(super) fn class(op: &OpSpec) -> Cow<'static, str> {
    Cow::Owned(op.attributes.text("mode").unwrap_or("nearest").to_owned())
}

pub(super) fn push(op: &OpSpec, out: &mut Vec<f64>) {
    let (x, y) = (super::first_shape(op), super::output_shape(op));
    let at = |shape: &[usize], i: usize| shape.get(i).map_or(1.0, |&d| d as f64);
    let scale = |i: usize| at(y, i) / at(x, i).max(1.0);
    let coordinates = op
        .attributes
        .text("coordinate_transformation_mode")
        .and_then(|t| t.bytes().next())
        .map_or(0.0, f64::from);
    out.extend_from_slice(&[
        at(x, 1),
        at(x, 2),
        at(x, 3),
        at(y, 2),
        at(y, 3),
        scale(2),
        scale(3),
        super::flag(scale(2).fract() == 0.0 && scale(3).fract() == 0.0),
        coordinates,
    ]);
}
