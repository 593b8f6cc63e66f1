//! Folding of operators that move elements.

use super::{Known, broadcast_strides, offsets, pick, strides};
use crate::{Attributes, ConstantData, OpKind, TensorSpec};

pub(super) fn evaluate(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Known<'_>],
    output: &TensorSpec,
) -> Option<ConstantData> {
    let x = *inputs.first()?;
    let shape = &x.tensor.shape;
    let own = strides(shape);
    let places = match kind {
        OpKind::Transpose => {
            let permuted: Vec<i64> = a
                .ints("perm")
                .iter()
                .map(|&p| own.get(p as usize).copied())
                .collect::<Option<_>>()?;
            offsets(&output.shape, &permuted, 0)?
        }
        OpKind::Slice => sliced(a, &own, output)?,
        OpKind::Expand => offsets(&output.shape, &broadcast_strides(shape, &output.shape)?, 0)?,
        OpKind::Tile => tiled(shape, &own, output),
        OpKind::Gather => gathered(a, inputs)?,
        OpKind::GatherNd => gathered_nd(a, inputs, output)?,
        OpKind::ScatterNd if a.text("reduction").is_none() => return scattered(inputs),
        OpKind::ScatterNd => return None,
        _ => return joined(a, inputs),
    };
    pick(x.data, &places)
}

fn sliced(a: &Attributes, own: &[i64], output: &TensorSpec) -> Option<Vec<usize>> {
    let (mut steps, mut offset) = (own.to_vec(), 0);
    for (i, &axis) in a.ints("axes").iter().enumerate() {
        let stride = *own.get(axis as usize)?;
        offset += a.ints("starts").get(i)? * stride;
        steps[axis as usize] = stride.saturating_mul(*a.ints("steps").get(i)?);
    }
    // An empty or one-element axis is never stepped along, however large the step is.
    for (step, &d) in steps.iter_mut().zip(&output.shape) {
        if d <= 1 {
            *step = 0;
        }
    }
    offsets(&output.shape, &steps, offset)
}

fn tiled(shape: &[usize], own: &[i64], output: &TensorSpec) -> Vec<usize> {
    let place = |mut index: usize| {
        let mut place = 0;
        for i in (0..shape.len()).rev() {
            place += index % output.shape[i] % shape[i] * own[i] as usize;
            index /= output.shape[i];
        }
        place
    };
    (0..output.shape.iter().product()).map(place).collect()
}

/// Rows of indices, each the place of a stretch of elements.
fn gathered_nd(a: &Attributes, inputs: &[Known<'_>], output: &TensorSpec) -> Option<Vec<usize>> {
    let [x, indices] = inputs else { return None };
    if a.int("batch_dims").unwrap_or(0) != 0 {
        return None;
    }
    places(&x.tensor.shape, indices, output.elements() as usize)
}

/// The first input with the stretches of elements that the rows of indices name replaced by the
/// third's, one after the other.
fn scattered(inputs: &[Known<'_>]) -> Option<ConstantData> {
    let [x, indices, updates] = inputs else { return None };
    let places = places(&x.tensor.shape, indices, updates.tensor.elements() as usize)?;
    let pairs = || places.iter().copied().enumerate();
    let mut data = x.data.clone();
    match (&mut data, updates.data) {
        (ConstantData::Ints(to), ConstantData::Ints(from)) => pairs()
            .try_for_each(|(i, at)| to.get_mut(at).zip(from.get(i)).map(|(to, &v)| *to = v))?,
        (ConstantData::Floats(to), ConstantData::Floats(from)) => pairs()
            .try_for_each(|(i, at)| to.get_mut(at).zip(from.get(i)).map(|(to, &v)| *to = v))?,
        _ => return None,
    }
    Some(data)
}

/// Where the stretches of elements are that rows of indices name in a tensor of `shape`, one place
/// per element.
fn places(shape: &[usize], indices: &Known<'_>, count: usize) -> Option<Vec<usize>> {
    let ConstantData::Ints(rows) = indices.data else { return None };
    let depth = *indices.tensor.shape.last()?;
    if depth == 0 || depth > shape.len() {
        return None;
    }
    let own = strides(shape);
    let stretch: usize = shape[depth..].iter().product();
    if (rows.len() / depth).checked_mul(stretch) != Some(count) {
        return None;
    }
    let mut places = Vec::with_capacity(count);
    for row in rows.chunks(depth) {
        let mut start = 0;
        for (d, &index) in row.iter().enumerate() {
            let index = if index < 0 { index + shape[d] as i64 } else { index };
            start += usize::try_from(index).ok().filter(|&i| i < shape[d])? * own[d] as usize;
        }
        places.extend(start..start + stretch);
    }
    Some(places)
}

fn gathered(a: &Attributes, inputs: &[Known<'_>]) -> Option<Vec<usize>> {
    let shape = &inputs.first()?.tensor.shape;
    let axis = a.int("axis")? as usize;
    let (extent, outer): (usize, usize) = (*shape.get(axis)?, shape[..axis].iter().product());
    let inner: usize = shape[axis + 1..].iter().product();
    let given = match (a.int("index"), inputs.get(1).map(|i| i.data)) {
        (Some(index), _) => vec![index],
        (None, Some(ConstantData::Ints(v))) => v.clone(),
        _ => return None,
    };
    let one = |&i: &i64| {
        usize::try_from(if i < 0 { i.checked_add(extent as i64)? } else { i })
            .ok()
            .filter(|&i| i < extent)
    };
    let indices: Vec<usize> = given.iter().map(one).collect::<Option<_>>()?;
    let rows = (0..outer).flat_map(|o| indices.iter().map(move |i| o * extent + i));
    Some(rows.flat_map(|row| (0..inner).map(move |j| row * inner + j)).collect())
}

fn joined(a: &Attributes, inputs: &[Known<'_>]) -> Option<ConstantData> {
    let axis = a.int("axis")? as usize;
    let outer: usize = inputs.first()?.tensor.shape.get(..axis)?.iter().product();
    let run = |known: &Known<'_>| known.tensor.shape[axis..].iter().product::<usize>();
    let mut ints = Vec::new();
    let mut floats = Vec::new();
    for o in 0..outer {
        for known in inputs {
            let here = o * run(known)..(o + 1) * run(known);
            match known.data {
                ConstantData::Ints(v) => ints.extend_from_slice(v.get(here)?),
                ConstantData::Floats(v) => floats.extend_from_slice(v.get(here)?),
            }
        }
    }
    match (ints.is_empty(), floats.is_empty()) {
        (_, true) => Some(ConstantData::Ints(ints)),
        (true, false) => Some(ConstantData::Floats(floats)),
        _ => None,
    }
}

/// The parts of a Split.
pub(super) fn split(
    a: &Attributes,
    x: Known<'_>,
    outputs: &[TensorSpec],
) -> Option<Vec<ConstantData>> {
    let axis = a.int("axis")? as usize;
    let own = strides(&x.tensor.shape);
    let mut begin = 0;
    let mut parts = Vec::with_capacity(outputs.len());
    for output in outputs {
        parts.push(pick(x.data, &offsets(&output.shape, &own, begin * own.get(axis)?)?)?);
        begin += output.shape[axis] as i64;
    }
    Some(parts)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Precision;

    #[test]
    fn elements_are_put_where_the_indices_say() {
        let tensor = |shape: &[usize]| TensorSpec::new(shape, Precision::I64);
        let x = ConstantData::Ints(vec![0; 6]);
        let rows = ConstantData::Ints(vec![2, 0]);
        let updates = ConstantData::Ints(vec![5, 6, 7, 8]);
        let (of_x, of_rows, of_updates) = (tensor(&[3, 2]), tensor(&[2, 1]), tensor(&[2, 2]));
        let inputs = [
            Known { tensor: &of_x, data: &x },
            Known { tensor: &of_rows, data: &rows },
            Known { tensor: &of_updates, data: &updates },
        ];
        let put =
            |inputs: &[Known<'_>]| evaluate(&OpKind::ScatterNd, &Attributes::new(), inputs, &of_x);
        assert_eq!(put(&inputs), Some(ConstantData::Ints(vec![7, 8, 0, 0, 5, 6])));
        let many = ConstantData::Ints(vec![0; 4096]);
        let of_many = tensor(&[4096, 1]);
        let beyond = Known { tensor: &of_many, data: &many };
        assert_eq!(put(&[inputs[0], beyond, inputs[2]]), None, "more rows than updates");
        let outside = ConstantData::Ints(vec![3, 0]);
        assert_eq!(put(&[inputs[0], Known { tensor: &of_rows, data: &outside }, inputs[2]]), None);
    }
}
