//! Operators that move whole tensors.

use super::super::call::{Call, Outcome, Refusal, operator};
use crate::{Attributes, OpKind};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    match call.node.op_type {
        "Transpose" => operator(call, OpKind::Transpose, call.attributes(&["#perm"]), [0]),
        "Reshape" => {
            let shape = call.ints_or_input("shape", 1)?.ok_or_else(|| missing("shape"))?;
            operator(
                call,
                OpKind::Reshape,
                call.attributes(&["allowzero"]).with_ints("shape", shape),
                [0],
            )
        }
        "Flatten" => reshape(call, flattened(call)?),
        "Squeeze" => reshape(call, squeezed(call)?),
        "Unsqueeze" => reshape(call, unsqueezed(call)?),
        "Concat" => {
            operator(call, OpKind::Concat, call.attributes(&["axis"]), 0..call.inputs.len())
        }
        "Split" => {
            let parts = split(call)?;
            operator(call, OpKind::Split, call.attributes(&["axis"]).with_ints("split", parts), [0])
        }
        "Expand" => {
            let shape = call.steer_ints(1, "shape")?.ok_or_else(|| missing("shape"))?;
            operator(call, OpKind::Expand, Attributes::new().with_ints("shape", shape), [0])
        }
        "Tile" => {
            let repeats = call.steer_ints(1, "repeats")?.ok_or_else(|| missing("repeats"))?;
            operator(call, OpKind::Tile, Attributes::new().with_ints("repeats", repeats), [0])
        }
        _ => Ok(None),
    }
}

fn missing(input: &str) -> Refusal {
    Refusal::Invalid(format!("its input {input} is missing"))
}

fn reshape(call: &Call<'_>, shape: Vec<i64>) -> Outcome {
    operator(call, OpKind::Reshape, Attributes::new().with_ints("shape", shape), [0])
}

/// `axis` counted from the front, at most `limit`.
fn axis(axis: i64, limit: usize) -> Result<usize, Refusal> {
    let from_front = if axis < 0 { i128::from(axis) + limit as i128 } else { i128::from(axis) };
    let inside = usize::try_from(from_front).ok().filter(|&a| a < limit);
    inside.ok_or_else(|| Refusal::Invalid(format!("axis {axis} is outside of {limit} dimensions")))
}

fn flattened(call: &Call<'_>) -> Result<Vec<i64>, Refusal> {
    let shape = &call.tensor(0)?.shape;
    let given = call.node.int("axis").unwrap_or(1);
    let at = if given == shape.len() as i64 { shape.len() } else { axis(given, shape.len())? };
    let product = |dims: &[usize]| dims.iter().product::<usize>() as i64;
    Ok(vec![product(&shape[..at]), product(&shape[at..])])
}

fn squeezed(call: &Call<'_>) -> Result<Vec<i64>, Refusal> {
    let shape = &call.tensor(0)?.shape;
    let mut gone: Vec<bool> = shape.iter().map(|&d| d == 1).collect();
    if let Some(axes) = call.ints_or_input("axes", 1)? {
        gone = vec![false; shape.len()];
        for along in axes {
            let along = axis(along, shape.len())?;
            if shape[along] != 1 {
                return Err(Refusal::Invalid(format!(
                    "dimension {along} is {}, not 1",
                    shape[along]
                )));
            }
            gone[along] = true;
        }
    }
    Ok(shape.iter().zip(gone).filter(|(_, gone)| !gone).map(|(&d, _)| d as i64).collect())
}

fn unsqueezed(call: &Call<'_>) -> Result<Vec<i64>, Refusal> {
    let shape = &call.tensor(0)?.shape;
    let axes = call.ints_or_input("axes", 1)?.ok_or_else(|| missing("axes"))?;
    let rank = shape.len() + axes.len();
    let mut inserted = vec![false; rank];
    for &along in &axes {
        let slot = &mut inserted[axis(along, rank)?];
        if std::mem::replace(slot, true) {
            return Err(Refusal::Invalid(format!("axes {axes:?} name a dimension twice")));
        }
    }
    let mut old = shape.iter();
    Ok(inserted
        .iter()
        .map(|&new| if new { 1 } else { old.next().map_or(1, |&d| d as i64) })
        .collect())
}

/// Sizes of the parts: given, or equal but for a smaller last one (which operator set 18 allows).
fn split(call: &Call<'_>) -> Result<Vec<i64>, Refusal> {
    if let Some(parts) = call.ints_or_input("split", 1)? {
        return Ok(parts);
    }
    let shape = &call.tensor(0)?.shape;
    let extent = shape[axis(call.node.int("axis").unwrap_or(0), shape.len())?] as i64;
    let n = call.node.output.len() as i64;
    let uneven = || Refusal::Invalid(format!("{extent} cannot be split into {n} parts"));
    let chunk = if n > 0 { (extent + n - 1) / n } else { return Err(uneven()) };
    let last = extent - chunk * (n - 1);
    if last < 0 || (last != chunk && call.opset < 18) {
        return Err(uneven());
    }
    Ok((0..n).map(|i| if i + 1 < n { chunk } else { last }).collect())
}
