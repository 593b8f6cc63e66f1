//! Operators that pick elements: slice, gather in its forms, scatter.

use super::{axis, dimension, like, operand, text};
use crate::{Attribute, Attributes, OpKind, Operand, Shape, TensorSpec};

pub(super) fn canonical(
    kind: &OpKind,
    a: &mut Attributes,
    inputs: &[Operand],
) -> Result<(), String> {
    let x = operand(inputs, 0)?;
    match kind {
        OpKind::Slice => slice_canonical(a, x),
        OpKind::GatherNd => {
            super::default_int(a, "batch_dims", 0);
            Ok(())
        }
        _ => {
            let along = axis(a.int("axis").unwrap_or(0), x.rank())?;
            a.set("axis", Attribute::Int(along as i64));
            if let Some(index) = a.int("index") {
                let index = axis(index, x.shape[along]).map_err(|_| {
                    format!("index {index} is outside of {} along axis {along}", text(&x.shape))
                })?;
                a.set("index", Attribute::Int(index as i64));
            }
            Ok(())
        }
    }
}

/// One sliced axis: axis, start, end, step, clamped to the tensor. A negative step that runs over
/// the first element ends at `-(extent + 1)`, which ONNX clamps to "before the first".
type Cut = (usize, i64, i64, i64);

fn slice_canonical(a: &mut Attributes, x: &TensorSpec) -> Result<(), String> {
    let (starts, ends) = (a.ints("starts"), a.ints("ends"));
    let axes: Vec<i64> = if a.ints("axes").is_empty() {
        (0..starts.len() as i64).collect()
    } else {
        a.ints("axes").to_vec()
    };
    let steps =
        if a.ints("steps").is_empty() { vec![1; starts.len()] } else { a.ints("steps").to_vec() };
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err("`starts`, `ends`, `axes` and `steps` differ in length".to_owned());
    }
    let mut cuts: Vec<Cut> = Vec::with_capacity(axes.len());
    for (i, &along) in axes.iter().enumerate() {
        let along = axis(along, x.rank())?;
        cuts.push(cut(along, x.shape[along] as i64, starts[i], ends[i], steps[i])?);
    }
    cuts.sort_unstable();
    if cuts.windows(2).any(|w| w[0].0 == w[1].0) {
        return Err(format!("`axes` {axes:?} names a dimension twice"));
    }
    a.set("axes", Attribute::Ints(cuts.iter().map(|c| c.0 as i64).collect()));
    a.set("starts", Attribute::Ints(cuts.iter().map(|c| c.1).collect()));
    a.set("ends", Attribute::Ints(cuts.iter().map(|c| c.2).collect()));
    a.set("steps", Attribute::Ints(cuts.iter().map(|c| c.3).collect()));
    Ok(())
}

fn cut(along: usize, extent: i64, start: i64, end: i64, step: i64) -> Result<Cut, String> {
    let from_front = |v: i64| if v < 0 { v.saturating_add(extent) } else { v };
    match step {
        0 => Err("a step of 0 leads nowhere".to_owned()),
        1.. => {
            Ok((along, from_front(start).clamp(0, extent), from_front(end).clamp(0, extent), step))
        }
        _ => {
            let end = from_front(end).clamp(-1, extent - 1);
            Ok((
                along,
                from_front(start).clamp(0, (extent - 1).max(0)),
                if end < 0 { -(extent + 1) } else { end },
                step,
            ))
        }
    }
}

pub(super) fn infer(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let x = operand(inputs, 0)?;
    let shape = match kind {
        OpKind::Slice => sliced(a, x)?,
        OpKind::Gather => gathered(a, inputs)?,
        OpKind::GatherElements => operand(inputs, 1)?.shape.clone(),
        OpKind::GatherNd => gathered_nd(a, inputs)?,
        _ => x.shape.clone(),
    };
    Ok(vec![like(x, shape)])
}

fn sliced(a: &Attributes, x: &TensorSpec) -> Result<Shape, String> {
    let mut shape = x.shape.clone();
    let (starts, ends, steps) = (a.ints("starts"), a.ints("ends"), a.ints("steps"));
    for (i, &along) in a.ints("axes").iter().enumerate() {
        shape[along as usize] = dimension(count(starts[i], ends[i], steps[i]))?;
    }
    Ok(shape)
}

/// Number of elements between a canonical start and end.
pub(crate) fn count(start: i64, end: i64, step: i64) -> i128 {
    let (start, end, step) = (i128::from(start), i128::from(end), i128::from(step));
    if step > 0 {
        (end - start + step - 1).div_euclid(step).max(0)
    } else {
        ((start - end.max(-1) - step - 1) / -step).max(0)
    }
}

fn gathered(a: &Attributes, inputs: &[Operand]) -> Result<Shape, String> {
    let x = operand(inputs, 0)?;
    let along = axis(a.int("axis").unwrap_or(0), x.rank())?;
    let indices: &[usize] = match a.int("index") {
        Some(_) => &[],
        None => &operand(inputs, 1)?.shape,
    };
    Ok([&x.shape[..along], indices, &x.shape[along + 1..]].into_iter().flatten().copied().collect())
}

fn gathered_nd(a: &Attributes, inputs: &[Operand]) -> Result<Shape, String> {
    let (x, indices) = (operand(inputs, 0)?, operand(inputs, 1)?);
    let misfit = || format!("indices {} do not fit {}", text(&indices.shape), text(&x.shape));
    let batch = usize::try_from(a.int("batch_dims").unwrap_or(0)).map_err(|_| misfit())?;
    let (&depth, outer) = indices.shape.split_last().ok_or_else(misfit)?;
    let rest = depth.checked_add(batch).and_then(|from| x.shape.get(from..)).ok_or_else(misfit)?;
    if batch > outer.len() || outer[..batch] != x.shape[..batch] {
        return Err(misfit());
    }
    Ok([outer, rest].into_iter().flatten().copied().collect())
}
