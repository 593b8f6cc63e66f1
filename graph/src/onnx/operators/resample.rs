//! Operators that change spatial extents.

use super::super::call::{Call, Outcome, Refusal, operator};
use crate::{Attribute, Attributes, OpKind, Operand, shape};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    match call.node.op_type {
        "Pad" => pad(call),
        "Resize" => resize(call),
        "Upsample" => {
            let scales = match call.node.attribute("scales") {
                Some(a) => a.floats.iter().map(|&s| f64::from(s)).collect(),
                None => call.steer_floats(1, "scales")?.unwrap_or_default(),
            };
            operator(
                call,
                OpKind::Resize,
                floored(call, true).with("scales", Attribute::Floats(scales)),
                [0],
            )
        }
        "GridSample" => {
            let mode = match call.node.text("mode") {
                None | Some("bilinear") => "linear",
                Some("bicubic") => "cubic",
                Some(other) => other,
            };
            let attributes = call
                .attributes(&["$padding_mode", "align_corners"])
                .with("mode", Attribute::Text(mode.to_owned()));
            operator(call, OpKind::GridSample, attributes, [0, 1])
        }
        "DepthToSpace" => {
            operator(call, OpKind::DepthToSpace, call.attributes(&["blocksize", "$mode"]), [0])
        }
        "SpaceToDepth" => {
            operator(call, OpKind::SpaceToDepth, call.attributes(&["blocksize"]), [0])
        }
        "Col2Im" => col2im(call),
        _ => Ok(None),
    }
}

fn col2im(call: &Call<'_>) -> Outcome {
    let mut attributes = call.attributes(&["#strides", "#pads", "#dilations"]);
    for (input, name) in [(1, "image_shape"), (2, "block_shape")] {
        let given = call
            .steer_ints(input, name)?
            .ok_or_else(|| Refusal::Invalid(format!("its input {name} is missing")))?;
        attributes = attributes.with_ints(name, given);
    }
    operator(call, OpKind::Col2Im, attributes, [0])
}

/// Positions along which an operator works: its `axes`, counted from the front, or all.
fn axes(given: Option<Vec<i64>>, rank: usize) -> Result<Vec<usize>, Refusal> {
    let Some(given) = given else { return Ok((0..rank).collect()) };
    let outside =
        |axis: i64| Refusal::Invalid(format!("axis {axis} is outside of {rank} dimensions"));
    let one = |axis: i64| {
        let from_front = if axis < 0 { i128::from(axis) + rank as i128 } else { i128::from(axis) };
        usize::try_from(from_front).ok().filter(|&a| a < rank).ok_or_else(|| outside(axis))
    };
    given.into_iter().map(one).collect()
}

fn pad(call: &Call<'_>) -> Outcome {
    let rank = call.tensor(0)?.rank();
    let name = if call.node.attribute("paddings").is_some() { "paddings" } else { "pads" };
    let given = call
        .ints_or_input(name, 1)?
        .ok_or_else(|| Refusal::Invalid("its input pads is missing".to_owned()))?;
    let along = axes(call.steer_ints(3, "axes")?, rank)?;
    if given.len() != 2 * along.len() {
        return Err(Refusal::Invalid(format!(
            "it has {} pads, {} are needed",
            given.len(),
            2 * along.len()
        )));
    }
    let mut pads = vec![0; 2 * rank];
    for (i, &axis) in along.iter().enumerate() {
        pads[axis] = given[i];
        pads[rank + axis] = given[i + along.len()];
    }
    let mut attributes = call.attributes(&["$mode"]).with_ints("pads", pads);
    if let Some(value) = call.number("value", 2).filter(|v| v.is_finite()) {
        attributes.set("value", Attribute::Float(value));
    }
    operator(call, OpKind::Pad, attributes, [0])
}

/// The attributes of a Resize; before operator set 11 coordinates were asymmetric and rounded down.
fn floored(call: &Call<'_>, old: bool) -> Attributes {
    let mut attributes = call.attributes(&[
        "$mode",
        "$coordinate_transformation_mode",
        "$nearest_mode",
        "*cubic_coeff_a",
        "antialias",
        "exclude_outside",
    ]);
    if old {
        attributes.set("coordinate_transformation_mode", Attribute::Text("asymmetric".to_owned()));
        attributes.set("nearest_mode", Attribute::Text("floor".to_owned()));
    }
    attributes
}

fn resize(call: &Call<'_>) -> Outcome {
    let old = call.opset < 11;
    let (scales, sizes) = if old { (1, usize::MAX) } else { (2, 3) };
    let shape = &call.tensor(0)?.shape;
    let along = axes(call.node.attribute("axes").map(|a| a.ints.clone()), shape.len())?;
    let misfit = |n: usize| {
        Refusal::Invalid(format!("it has {n} sizes or scales, {} are needed", along.len()))
    };
    let attributes = floored(call, old);
    let resized = |attributes: Attributes| {
        if attributes.text("coordinate_transformation_mode") == Some(CROPPING) {
            return Err(cropping(call, &attributes)?);
        }
        operator(call, OpKind::Resize, attributes, [0])
    };
    if let Some(given) = call.steer_ints(sizes, "sizes")?.filter(|s| !s.is_empty()) {
        if given.len() != along.len() {
            return Err(misfit(given.len()));
        }
        let kept = kept_ratio(call, shape, &along, &given);
        let mut full: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
        for (&axis, size) in along.iter().zip(kept) {
            full[axis] = size;
        }
        return resized(attributes.with_ints("sizes", full));
    }
    let given = call.steer_floats(scales, "scales")?.unwrap_or_default();
    if given.len() != along.len() {
        return Err(misfit(given.len()));
    }
    let mut full = vec![1.0; shape.len()];
    for (&axis, scale) in along.iter().zip(given) {
        full[axis] = scale;
    }
    resized(attributes.with("scales", Attribute::Floats(full)))
}

/// Coordinates within a region of the input, with a value for what is outside.
const CROPPING: &str = "tf_crop_and_resize";

/// Why a resize of a region is not followed. Scales are those of the region.
fn cropping(call: &Call<'_>, attributes: &Attributes) -> Result<Refusal, Refusal> {
    let reason = format!("its coordinates `{CROPPING}` are not supported");
    if attributes.has("scales") {
        return Ok(Refusal::RunTime(reason));
    }
    let operand = Operand { tensor: call.tensor(0)?.clone(), constant: call.is_constant(0) };
    let mut outputs =
        shape::infer(&OpKind::Resize, attributes, &[operand]).map_err(Refusal::Invalid)?;
    Ok(match outputs.pop() {
        Some(output) => Refusal::Form(reason, output),
        None => Refusal::RunTime(reason),
    })
}

/// Sizes after `keep_aspect_ratio_policy`: one scale for all axes, the smallest or the largest of
/// the given ones.
fn kept_ratio(call: &Call<'_>, shape: &[usize], along: &[usize], sizes: &[i64]) -> Vec<i64> {
    let ratios =
        along.iter().zip(sizes).map(|(&axis, &size)| size as f64 / shape[axis].max(1) as f64);
    let scale = match call.node.text("keep_aspect_ratio_policy") {
        Some("not_larger") => ratios.fold(f64::INFINITY, f64::min),
        Some("not_smaller") => ratios.fold(f64::NEG_INFINITY, f64::max),
        _ => return sizes.to_vec(),
    };
    along.iter().map(|&axis| (shape[axis] as f64 * scale).round() as i64).collect()
}
