//! Operators that change spatial extents: pad, resize, grid sample, depth to space and back.

use super::{
    default_int, default_text, dimension, drop_default, like, operand, round_operand, sizes, text,
};
use crate::{Attribute, Attributes, Ints, OpKind, Operand, Shape, TensorSpec};

pub(super) fn canonical(
    kind: &OpKind,
    a: &mut Attributes,
    inputs: &[Operand],
) -> Result<(), String> {
    let x = operand(inputs, 0)?;
    match kind {
        OpKind::Pad => {
            default_text(a, "mode", "constant");
            round_operand(a, "value", x);
            drop_default(a, "value", 0.0);
        }
        OpKind::GridSample => {
            default_text(a, "mode", "linear");
            default_text(a, "padding_mode", "zeros");
            default_int(a, "align_corners", 0);
        }
        OpKind::DepthToSpace => default_text(a, "mode", "DCR"),
        OpKind::Col2Im => {
            let n = a.ints("image_shape").len();
            for (name, default, count) in
                [("strides", 1, n), ("dilations", 1, n), ("pads", 0, 2 * n)]
            {
                if a.ints(name).is_empty() {
                    a.set(name, Attribute::Ints(Ints::from_elem(default, count)));
                }
            }
        }
        _ => resize_canonical(a, x)?,
    }
    Ok(())
}

/// `sizes` is always written; `scales` is kept only if it differs from `sizes` divided by the
/// input's shape.
fn resize_canonical(a: &mut Attributes, x: &TensorSpec) -> Result<(), String> {
    default_text(a, "mode", "nearest");
    default_text(a, "coordinate_transformation_mode", "half_pixel");
    match a.text("mode") {
        Some("nearest") => {
            default_text(a, "nearest_mode", "round_prefer_floor");
            a.0.remove("cubic_coeff_a");
        }
        mode => {
            let cubic = mode == Some("cubic");
            a.0.remove("nearest_mode");
            match a.float("cubic_coeff_a") {
                None if cubic => drop(a.set("cubic_coeff_a", Attribute::Float(-0.75))),
                Some(_) if !cubic => drop(a.0.remove("cubic_coeff_a")),
                _ => {}
            }
        }
    }
    drop_default(a, "antialias", 0.0);
    // Only a cubic or antialiased resize reads outside.
    if a.text("mode") != Some("cubic") && !a.has("antialias") {
        a.0.remove("exclude_outside");
    }
    drop_default(a, "exclude_outside", 0.0);
    let scales = match a.0.remove("scales") {
        Some(Attribute::Floats(scales)) if !scales.is_empty() => Some(scales),
        _ => None,
    };
    if let (Some(scales), true) = (&scales, a.ints("sizes").is_empty()) {
        let sizes = scaled(&x.shape, scales)?;
        a.set("sizes", Attribute::Ints(sizes.into()));
    }
    let sizes = a.ints("sizes");
    if sizes.len() != x.rank() {
        return Err(format!("{} sizes or scales do not fit {}", sizes.len(), text(&x.shape)));
    }
    if let Some(scales) = scales {
        let exact = sizes
            .iter()
            .zip(&x.shape)
            .zip(&scales)
            .all(|((&out, &d), &s)| (out as f64 / d as f64 - s).abs() < 1e-6);
        if !exact {
            a.set("scales", Attribute::Floats(scales));
        }
    }
    Ok(())
}

fn scaled(shape: &[usize], scales: &[f64]) -> Result<Vec<i64>, String> {
    if scales.len() != shape.len() {
        return Err(format!("`scales` has {} numbers, {} are needed", scales.len(), shape.len()));
    }
    let one = |(&d, &s): (&usize, &f64)| {
        // Scales are f32 in the file, and engines multiply so: 3 x f32(7/3) is 7, not 6.99.
        let size = f64::from((d as f32 * s as f32).floor());
        if size >= 0.0 && size <= super::MAX_ELEMENTS as f64 {
            Ok(size as i64)
        } else {
            Err(format!("a dimension of {d} cannot be scaled by {s}"))
        }
    };
    shape.iter().zip(scales).map(one).collect()
}

pub(super) fn infer(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let x = operand(inputs, 0)?;
    let shape = match kind {
        OpKind::Pad => padded(a, x)?,
        OpKind::Resize => sizes(a, "sizes")?,
        OpKind::GridSample => grid(x, operand(inputs, 1)?)?,
        OpKind::Col2Im => summed_windows(a, x)?,
        _ => blocks(kind, a, x)?,
    };
    Ok(vec![like(x, shape)])
}

fn padded(a: &Attributes, x: &TensorSpec) -> Result<Shape, String> {
    let pads = a.ints("pads");
    if pads.len() != 2 * x.rank() {
        return Err(format!("`pads` has {} numbers, {} are needed", pads.len(), 2 * x.rank()));
    }
    let (begins, ends) = pads.split_at(x.rank());
    let one = |((&d, &b), &e): ((&usize, &i64), &i64)| {
        dimension(d as i128 + i128::from(b) + i128::from(e))
    };
    x.shape.iter().zip(begins).zip(ends).map(one).collect()
}

fn grid(x: &TensorSpec, grid: &TensorSpec) -> Result<Shape, String> {
    if x.rank() < 3 || grid.rank() != x.rank() {
        return Err(format!("the grid {} does not fit {}", text(&grid.shape), text(&x.shape)));
    }
    Ok([&x.shape[..2], &grid.shape[1..grid.rank() - 1]].into_iter().flatten().copied().collect())
}

/// The image that windows of all its positions, one per column, are added up to.
fn summed_windows(a: &Attributes, x: &TensorSpec) -> Result<Shape, String> {
    let &[n, columns, length] = x.shape.as_slice() else {
        return Err(format!("the windows {} are not `[N, C * block, L]`", text(&x.shape)));
    };
    let (image, block) = (sizes(a, "image_shape")?, sizes(a, "block_shape")?);
    let (strides, pads, dilations) = (a.ints("strides"), a.ints("pads"), a.ints("dilations"));
    let rank = image.len();
    if rank == 0
        || [block.len(), strides.len(), dilations.len()].iter().any(|&n| n != rank)
        || pads.len() != 2 * rank
    {
        return Err(
            "`image_shape`, `block_shape`, `strides`, `pads` and `dilations` do not belong \
                    together"
                .to_owned(),
        );
    }
    let mut windows: i128 = 1;
    for i in 0..rank {
        let reach = i128::from(dilations[i]) * (block[i] as i128 - 1) + 1;
        let room = image[i] as i128 + i128::from(pads[i]) + i128::from(pads[i + rank]) - reach;
        if strides[i] < 1 || dilations[i] < 1 || pads[i] < 0 || pads[i + rank] < 0 || room < 0 {
            return Err(format!("blocks {} do not fit the image {}", text(&block), text(&image)));
        }
        windows = windows.saturating_mul(room / i128::from(strides[i]) + 1);
    }
    if windows != length as i128 {
        return Err(format!("{} has {length} columns for {windows} windows", text(&x.shape)));
    }
    let each = block.iter().try_fold(1usize, |n, &b| n.checked_mul(b)).unwrap_or(0);
    if each == 0 || columns % each != 0 {
        return Err(format!("{columns} rows are not of blocks {}", text(&block)));
    }
    Ok([n, columns / each].into_iter().chain(image).collect())
}

fn blocks(kind: &OpKind, a: &Attributes, x: &TensorSpec) -> Result<Shape, String> {
    let misfit = || {
        format!(
            "{} cannot be rearranged in blocks of {}",
            text(&x.shape),
            a.int("blocksize").unwrap_or(0)
        )
    };
    let &[n, c, h, w] = x.shape.as_slice() else { return Err(misfit()) };
    let b = a
        .int("blocksize")
        .and_then(|b| usize::try_from(b).ok())
        .filter(|&b| b > 0)
        .ok_or_else(misfit)?;
    let square = b.checked_mul(b).ok_or_else(misfit)?;
    if *kind == OpKind::DepthToSpace {
        if c % square != 0 {
            return Err(misfit());
        }
        return Ok([
            n,
            c / square,
            dimension(h as i128 * b as i128)?,
            dimension(w as i128 * b as i128)?,
        ]
        .into());
    }
    if h % b != 0 || w % b != 0 {
        return Err(misfit());
    }
    Ok([n, dimension(c as i128 * square as i128)?, h / b, w / b].into())
}
