//! Rewrites operator attributes that depend on the image's size for another size.

use super::extent::{Dimension, Extent, Known, Side};
use crate::{Attribute, Attributes, OpKind, OpSpec};
use std::collections::VecDeque;

type Inputs<'a> = [Option<&'a [Dimension]>];

/// Adapts attributes; if that gives the dimensions of the (only) output, they are returned.
pub fn adapt(
    op: &OpSpec,
    attributes: &mut Attributes,
    inputs: &Inputs,
    known: &Known,
) -> Result<Option<Vec<Dimension>>, String> {
    match op.kind {
        OpKind::Reshape => return reshape(op, attributes, inputs, known).map(Some),
        OpKind::Slice => slice(attributes, inputs),
        OpKind::Split => split(attributes, inputs)?,
        OpKind::Resize => resize(op, attributes, inputs, known)?,
        OpKind::Expand | OpKind::ConstantOfShape => expand(op, attributes, inputs, known),
        OpKind::AveragePool | OpKind::MaxPool => pool(op, attributes, inputs),
        OpKind::Gather => gather(attributes, inputs),
        _ => {}
    }
    Ok(None)
}

fn ints(values: impl IntoIterator<Item = usize>) -> Attribute {
    Attribute::Ints(values.into_iter().map(|v| v as i64).collect())
}

/// The input's dimensions, or those of a constant, which does not change.
fn dimensions(op: &OpSpec, inputs: &Inputs) -> Vec<Dimension> {
    let constant = || {
        op.inputs.first().map(|i| {
            i.tensor.shape.iter().map(|&d| Dimension::of(Extent::new(d, d, None))).collect()
        })
    };
    inputs
        .first()
        .copied()
        .flatten()
        .map(<[Dimension]>::to_vec)
        .or_else(constant)
        .unwrap_or_default()
}

fn reshape(
    op: &OpSpec,
    attributes: &mut Attributes,
    inputs: &Inputs,
    known: &Known,
) -> Result<Vec<Dimension>, String> {
    let mut rest: VecDeque<Extent> =
        dimensions(op, inputs).into_iter().flat_map(|d| d.0).filter(|e| !e.is_one()).collect();
    let targets: Vec<usize> = attributes.ints("shape").iter().map(|&d| d as usize).collect();
    let out = targets.iter().map(|&d| known.cut(&mut rest, d)).collect::<Result<Vec<_>, _>>()?;
    if !rest.is_empty() {
        return Err("its elements cannot be shared out".to_owned());
    }
    let extents: Vec<Extent> = out.iter().map(Dimension::whole).collect();
    for cut in extents.windows(4) {
        if let [count, height, again, width] = cut
            && count.is_one()
            && again.is_one()
        {
            known.check_window(*height, *width)?;
        }
    }
    attributes.set("shape", ints(out.iter().map(|d| d.whole().new)));
    Ok(out)
}

/// A place counted from the end of the image keeps its distance to it; the middle stays the middle.
fn moved(place: i64, extent: Extent) -> i64 {
    let (old, new) = (extent.old as i64, extent.new as i64);
    match place {
        p if p < 0 => p - (new - old),
        p if 2 * p == old && old > 2 => new / 2,
        p if 2 * p > old => p + new - old,
        p => p,
    }
}

fn slice(attributes: &mut Attributes, inputs: &Inputs) {
    let Some(Some(dims)) = inputs.first() else { return };
    let axes = attributes.ints("axes").to_vec();
    for name in ["starts", "ends"] {
        let places = attributes
            .ints(name)
            .iter()
            .zip(&axes)
            .map(|(&place, &axis)| {
                dims.get(axis as usize).map_or(place, |d| moved(place, d.whole()))
            })
            .collect();
        attributes.set(name, Attribute::Ints(places));
    }
}

fn gather(attributes: &mut Attributes, inputs: &Inputs) {
    let (Some(Some(dims)), Some(index)) = (inputs.first(), attributes.int("index")) else { return };
    if let Some(dimension) = attributes.int("axis").and_then(|axis| dims.get(axis as usize)) {
        attributes.set("index", Attribute::Int(moved(index, dimension.whole())));
    }
}

/// Equal parts remain equal; else the largest takes the difference.
fn split(attributes: &mut Attributes, inputs: &Inputs) -> Result<(), String> {
    let Some(Some(dims)) = inputs.first() else { return Ok(()) };
    let Some(extent) =
        attributes.int("axis").and_then(|axis| dims.get(axis as usize)).map(Dimension::whole)
    else {
        return Ok(());
    };
    let mut parts = attributes.ints("split").to_vec();
    if extent.old == extent.new || parts.is_empty() {
        return Ok(());
    }
    let (count, new) = (parts.len() as i64, extent.new as i64);
    if parts.iter().all(|p| *p == parts[0]) {
        if new % count != 0 {
            return Err(format!("{new} does not fall into {count} equal parts"));
        }
        parts.fill(new / count);
    } else if let Some(largest) =
        parts.iter().copied().max().and_then(|most| parts.iter().position(|p| *p == most))
    {
        parts[largest] += new - extent.old as i64;
    }
    attributes.set("split", Attribute::Ints(parts.into()));
    Ok(())
}

/// A resize goes to what another tensor of that old size became, or grows by the same whole or
/// simple ratio.
fn resize(
    op: &OpSpec,
    attributes: &mut Attributes,
    inputs: &Inputs,
    known: &Known,
) -> Result<(), String> {
    let dims = dimensions(op, inputs);
    let rank = dims.len();
    let sizes = attributes.ints("sizes").to_vec();
    let mut out = Vec::with_capacity(rank);
    for (axis, (dimension, &size)) in dims.iter().zip(&sizes).enumerate() {
        let (extent, size) = (dimension.whole(), size as usize);
        let by_place = match rank - axis {
            2 => Some(Side::Height),
            1 => Some(Side::Width),
            _ => None,
        };
        let stays = extent.old == extent.new && extent.old == size;
        let found = if stays { Some(size) } else { known.became(size, extent.side.or(by_place)) };
        let scaled = || {
            extent
                .new
                .checked_mul(size)
                .filter(|product| product.is_multiple_of(extent.old))
                .map(|product| product / extent.old)
        };
        let new = found.or_else(scaled).ok_or_else(|| {
            format!("{} grows to {size}; what {} grows to is not known", extent.old, extent.new)
        })?;
        out.push(new);
    }
    attributes.set("sizes", ints(out));
    attributes.0.remove("scales");
    Ok(())
}

/// A window as large as the image stays as large as the image: a mean over all of it.
fn pool(op: &OpSpec, attributes: &mut Attributes, inputs: &Inputs) {
    let dims = dimensions(op, inputs);
    let Some(sides) = dims.get(2..) else { return };
    let side = |of: fn(Extent) -> usize| sides.iter().map(move |d| of(d.whole()));
    let window = attributes.ints("kernel_shape").to_vec();
    let is_whole = side(|e| e.old).eq(window.iter().map(|&w| w as usize));
    if is_whole && attributes.ints("pads").iter().all(|p| *p == 0) {
        attributes.set("kernel_shape", ints(side(|e| e.new)));
    }
}

/// Becomes what the last tensor of the old shape became; failing that, broadcasting keeps the
/// input's extent, and otherwise uses the new value that an extent of that size has everywhere.
fn expand(op: &OpSpec, attributes: &mut Attributes, inputs: &Inputs, known: &Known) {
    let dims = if op.kind == OpKind::Expand { dimensions(op, inputs) } else { Vec::new() };
    let shape = attributes.ints("shape").to_vec();
    if let Some(new) = known.last_of(&shape) {
        attributes.set("shape", ints(new.iter().copied()));
        return;
    }
    let rank = shape.len();
    let one = |(axis, &size): (usize, &i64)| {
        let own = (axis + dims.len())
            .checked_sub(rank)
            .and_then(|at| dims.get(at))
            .map(Dimension::whole)
            .filter(|e| e.old != 1);
        own.map(|e| e.new).or_else(|| known.became(size as usize, None)).unwrap_or(size as usize)
    };
    let new: Vec<usize> = shape.iter().enumerate().map(one).collect();
    attributes.set("shape", ints(new));
}
