//! Operators that move whole tensors: transpose, reshape, concat, split, expand, tile.

use super::{axis, broadcast, dimension, like, operand, sizes, text};
use crate::{Attribute, Attributes, Ints, OpKind, Operand, Shape, TensorSpec};

pub(super) fn canonical(
    kind: &OpKind,
    a: &mut Attributes,
    inputs: &[Operand],
) -> Result<(), String> {
    let x = operand(inputs, 0)?;
    match kind {
        OpKind::Transpose => {
            let rank = x.rank();
            let given = a.ints("perm");
            let perm: Ints =
                if given.is_empty() { (0..rank as i64).rev().collect() } else { given.into() };
            let mut seen = vec![false; rank];
            for &p in &perm {
                seen[axis(p, rank)?] = true;
            }
            if perm.len() != rank || seen.contains(&false) || perm.iter().any(|&p| p < 0) {
                return Err(format!("`perm` {perm:?} is not an order of {rank} dimensions"));
            }
            a.set("perm", Attribute::Ints(perm));
        }
        OpKind::Reshape => {
            let shape = resolve(a, x)?;
            a.0.remove("allowzero");
            a.set("shape", Attribute::Ints(shape));
        }
        OpKind::Expand => {
            let shape = broadcast(&x.shape, &sizes(a, "shape")?)?;
            a.set("shape", Attribute::Ints(shape.iter().map(|&d| d as i64).collect()));
        }
        OpKind::Split => {
            let along = front_axis(a, 0, x.rank())?;
            if a.ints("split").is_empty() {
                return Err("attribute `split` is missing".to_owned());
            }
            let total: i128 = a.ints("split").iter().map(|&s| i128::from(s)).sum();
            if total != x.shape[along] as i128 {
                return Err(format!(
                    "parts {:?} do not make up {} along axis {along}",
                    a.ints("split"),
                    text(&x.shape)
                ));
            }
        }
        _ => {
            front_axis(a, 0, x.rank())?;
        }
    }
    Ok(())
}

fn front_axis(a: &mut Attributes, default: i64, rank: usize) -> Result<usize, String> {
    let along = axis(a.int("axis").unwrap_or(default), rank)?;
    a.set("axis", Attribute::Int(along as i64));
    Ok(along)
}

/// The target of a reshape, without `0` (keep that dimension, unless `allowzero`) and `-1` (the
/// remaining extent).
fn resolve(a: &Attributes, x: &TensorSpec) -> Result<Ints, String> {
    let Some(Attribute::Ints(given)) = a.get("shape") else {
        return Err("attribute `shape` is missing".to_owned());
    };
    let misfit = || format!("{} cannot become {given:?}", text(&x.shape));
    let elements =
        x.shape.iter().try_fold(1i128, |n, &d| n.checked_mul(d as i128)).ok_or_else(misfit)?;
    let count = |shape: &[i64]| shape.iter().try_fold(1i128, |n, &d| n.checked_mul(i128::from(d)));
    if given.iter().all(|&d| d >= 0) && count(given) == Some(elements) {
        return Ok(given.clone());
    }
    let mut shape = given.clone();
    if a.int("allowzero").unwrap_or(0) == 0 {
        for (i, d) in shape.iter_mut().enumerate().filter(|(_, d)| **d == 0) {
            *d = *x.shape.get(i).ok_or_else(misfit)? as i64;
        }
    }
    let open = shape.iter().position(|&d| d == -1);
    if let Some(open) = open {
        shape[open] = 1;
        let rest = count(&shape).filter(|&r| r > 0).ok_or_else(misfit)?;
        shape[open] = i64::try_from(elements / rest).map_err(|_| misfit())?;
    }
    if shape.iter().any(|&d| d < 0) || count(&shape) != Some(elements) {
        return Err(misfit());
    }
    Ok(shape)
}

pub(super) fn infer(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let x = operand(inputs, 0)?;
    Ok(match kind {
        OpKind::Transpose => {
            vec![like(x, a.ints("perm").iter().map(|&p| x.shape[p as usize]).collect::<Vec<_>>())]
        }
        OpKind::Concat => vec![like(x, joined(a, inputs)?)],
        OpKind::Split => {
            let along = axis(a.int("axis").unwrap_or(0), x.rank())?;
            let part = |d: usize| {
                let mut shape = x.shape.clone();
                shape[along] = d;
                like(x, shape)
            };
            sizes(a, "split")?.into_iter().map(part).collect()
        }
        OpKind::Tile => vec![like(x, tiled(a, x)?)],
        _ => vec![like(x, sizes(a, "shape")?)],
    })
}

fn joined(a: &Attributes, inputs: &[Operand]) -> Result<Shape, String> {
    let mut shape = operand(inputs, 0)?.shape.clone();
    let along = axis(a.int("axis").unwrap_or(0), shape.len())?;
    for input in &inputs[1..] {
        let other = &input.tensor.shape;
        let fits = other.len() == shape.len()
            && (0..shape.len()).all(|i| i == along || shape[i] == other[i]);
        if !fits {
            return Err(format!(
                "{} and {} cannot be joined along axis {along}",
                text(&shape),
                text(other)
            ));
        }
        shape[along] = dimension(shape[along] as i128 + other[along] as i128)?;
    }
    Ok(shape)
}

fn tiled(a: &Attributes, x: &TensorSpec) -> Result<Shape, String> {
    let repeats = sizes(a, "repeats")?;
    if repeats.len() != x.rank() {
        return Err(format!("`repeats` has {} numbers, {} are needed", repeats.len(), x.rank()));
    }
    x.shape.iter().zip(repeats).map(|(&d, r)| dimension(d as i128 * r as i128)).collect()
}

/// The positions in `long` that are left over when `short` is laid over it, as far to the front as
/// can be; they must all have extent 1.
pub(crate) fn ones_added(short: &[usize], long: &[usize]) -> Option<Vec<usize>> {
    if long.len() <= short.len() {
        return None;
    }
    let (mut i, mut j, mut added) = (0, 0, Vec::new());
    loop {
        let ones = |dims: &[usize]| dims.iter().take_while(|&&d| d == 1).count();
        let (there, wanted) = (ones(&long[j..]), ones(&short[i..]));
        added.extend(j..j + there.checked_sub(wanted)?);
        (i, j) = (i + wanted, j + there);
        match (short.get(i), long.get(j)) {
            (None, None) => return Some(added),
            (Some(a), Some(b)) if a == b => (i, j) = (i + 1, j + 1),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_found_where_they_were_added() {
        assert_eq!(ones_added(&[3, 197, 64], &[1, 3, 197, 64]), Some(vec![0]));
        assert_eq!(ones_added(&[1, 3, 197, 64], &[1, 1, 3, 197, 64]), Some(vec![0]));
        assert_eq!(ones_added(&[1, 197, 3, 64], &[1, 197, 1, 3, 64]), Some(vec![2]));
        assert_eq!(ones_added(&[5], &[5, 1, 1]), Some(vec![1, 2]));
        assert_eq!(ones_added(&[6], &[2, 3]), None);
        assert_eq!(ones_added(&[2, 3], &[2, 3]), None);
    }
}
