//! Folding of operators that exporters write for computed weights and position embeddings:
//! normalisations, softmax, resizes, products, pointwise convolutions, running sums.

use super::super::payload::in_range;
use super::{Known, strides};
use crate::numbers::nearest;
use crate::resampling::Sampling;
use crate::{Attributes, ConstantData, OpKind, TensorSpec};

/// The values of an operator of these kinds; `None` where an input is not a float tensor.
pub(super) fn evaluate(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Known<'_>],
    output: &TensorSpec,
) -> Option<ConstantData> {
    let shape = &inputs.first()?.tensor.shape;
    let values = match kind {
        OpKind::BatchNorm => batch_norm(a, shape, inputs)?,
        OpKind::Softmax => softmax(a, shape, floats(inputs.first()?)?)?,
        OpKind::Linear | OpKind::MatMul => product(a, inputs, output)?,
        OpKind::Conv => pointwise(a, shape, inputs)?,
        OpKind::CumSum => return running_sum(a, inputs.first()?),
        _ => resize(a, shape, output, floats(inputs.first()?)?)?,
    };
    let rounded = values.into_iter().map(|v| nearest(v, output.precision));
    Some(ConstantData::Floats(rounded.collect()))
}

fn floats<'a>(known: &Known<'a>) -> Option<&'a [f64]> {
    match known.data {
        ConstantData::Floats(v) => Some(v),
        ConstantData::Ints(_) => None,
    }
}

fn batch_norm(a: &Attributes, shape: &[usize], inputs: &[Known<'_>]) -> Option<Vec<f64>> {
    let [x, scale, bias, mean, variance] =
        inputs.iter().map(floats).collect::<Option<Vec<_>>>()?[..]
    else {
        return None;
    };
    let (stride, channels) = (*strides(shape).get(1)? as usize, shape[1]);
    let epsilon = a.float("epsilon")?;
    let one = |(i, v): (usize, &f64)| {
        let c = i / stride.max(1) % channels.max(1);
        Some(
            (v - mean.get(c)?) / (variance.get(c)? + epsilon).sqrt() * scale.get(c)?
                + bias.get(c)?,
        )
    };
    x.iter().enumerate().map(one).collect()
}

fn softmax(a: &Attributes, shape: &[usize], x: &[f64]) -> Option<Vec<f64>> {
    let axis = usize::try_from(a.int("axis")?).ok()?;
    let extent = *shape.get(axis)?;
    let stride = strides(shape)[axis] as usize;
    if a.int("coerce").is_some() || a.int("log").is_some() {
        return None;
    }
    let mut values = x.to_vec();
    for start in (0..x.len()).filter(|i| (i / stride).is_multiple_of(extent)) {
        let at = |k: usize| start + k * stride;
        let most = (0..extent).map(|k| x[at(k)]).fold(f64::NEG_INFINITY, f64::max);
        (0..extent).for_each(|k| values[at(k)] = (x[at(k)] - most).exp());
        let sum: f64 = (0..extent).map(|k| values[at(k)]).sum();
        (0..extent).for_each(|k| values[at(k)] /= sum);
    }
    Some(values)
}

/// Matrices, batched on the left only.
fn product(a: &Attributes, inputs: &[Known<'_>], output: &TensorSpec) -> Option<Vec<f64>> {
    let [x, weight, rest @ ..] = inputs else { return None };
    let [rows, columns] = weight.tensor.shape[..] else { return None };
    if !a.0.keys().all(|name| name == "trans_b") || x.tensor.rank() < 2 {
        return None;
    }
    let flipped = a.int("trans_b") == Some(1);
    let (k, n) = if flipped { (columns, rows) } else { (rows, columns) };
    let (left, right) = (floats(x)?, floats(weight)?);
    let at = |i: usize, j: usize| if flipped { right[j * k + i] } else { right[i * n + j] };
    let sum =
        |row: &[f64], j: usize| row.iter().enumerate().map(|(i, v)| v * at(i, j)).sum::<f64>();
    let mut values: Vec<f64> = left
        .chunks(k.max(1))
        .flat_map(|row| (0..n).map(move |j| (row, j)))
        .map(|(row, j)| sum(row, j))
        .collect();
    if let [bias] = rest {
        let bias = floats(bias).filter(|b| b.len() == n)?;
        values.iter_mut().enumerate().for_each(|(i, v)| *v += bias[i % n]);
    }
    (values.len() as u64 == output.elements()).then_some(values)
}

/// A convolution whose window is one element: at every place a product over channels.
fn pointwise(a: &Attributes, shape: &[usize], inputs: &[Known<'_>]) -> Option<Vec<f64>> {
    let [x, weight, rest @ ..] = inputs else { return None };
    let all = |name: &str, value: i64| a.ints(name).iter().all(|&v| v == value);
    let ([batch, channels, space @ ..], [out, within, window @ ..]) =
        (shape, &weight.tensor.shape[..])
    else {
        return None;
    };
    if channels != within || window.iter().any(|&w| w != 1) || !all("strides", 1) || !all("pads", 0)
    {
        return None;
    }
    let (x, weight, bias) = (floats(x)?, floats(weight)?, rest.first().map(floats));
    let places: usize = space.iter().product();
    let mut values = Vec::with_capacity(batch * out * places);
    for n in 0..*batch {
        for o in 0..*out {
            let offset = bias.map_or(Some(0.0), |b| b?.get(o).copied())?;
            let sum = |p: usize| {
                (0..*channels)
                    .map(|c| x[(n * channels + c) * places + p] * weight[o * channels + c])
                    .sum::<f64>()
            };
            values.extend((0..places).map(|p| offset + sum(p)));
        }
    }
    Some(values)
}

fn running_sum(a: &Attributes, x: &Known<'_>) -> Option<ConstantData> {
    let axis = usize::try_from(a.int("axis")?).ok()?;
    let (extent, stride) = (*x.tensor.shape.get(axis)?, strides(&x.tensor.shape)[axis] as usize);
    let set = |name: &str| a.int(name).unwrap_or(0) != 0;
    let (exclusive, reverse) = (set("exclusive"), set("reverse"));
    let (extent, stride) = (extent.max(1), stride.max(1));
    let position = |i: usize| i / stride % extent;
    let before = |i: usize| match reverse {
        false => (position(i) > 0).then(|| i - stride),
        true => (position(i) + 1 < extent).then(|| i + stride),
    };
    Some(match x.data {
        ConstantData::Ints(v) => {
            let add = |a: i64, b: i64| Some(in_range(a.checked_add(b)?, x.tensor.precision));
            ConstantData::Ints(accumulated(v, 0, before, add, (exclusive, reverse))?)
        }
        ConstantData::Floats(v) => {
            let add = |a: f64, b: f64| Some(nearest(a + b, x.tensor.precision));
            ConstantData::Floats(accumulated(v, 0.0, before, add, (exclusive, reverse))?)
        }
    })
}

/// Sums of each element and those before it; exclusive: of those before it alone.
fn accumulated<T: Copy>(
    values: &[T],
    zero: T,
    before: impl Fn(usize) -> Option<usize>,
    add: impl Fn(T, T) -> Option<T>,
    (exclusive, reverse): (bool, bool),
) -> Option<Vec<T>> {
    let mut sums = vec![zero; values.len()];
    let mut one = |i: usize| {
        let (sum, own) = match before(i) {
            Some(e) => (sums[e], if exclusive { values[e] } else { values[i] }),
            None => (zero, if exclusive { zero } else { values[i] }),
        };
        sums[i] = add(sum, own)?;
        Some(())
    };
    match reverse {
        false => (0..values.len()).try_for_each(&mut one)?,
        true => (0..values.len()).rev().try_for_each(&mut one)?,
    }
    Some(sums)
}

/// One dimension after the other.
fn resize(a: &Attributes, shape: &[usize], output: &TensorSpec, x: &[f64]) -> Option<Vec<f64>> {
    // Whatever is read between elements, nothing is where the size stays.
    if *shape == *output.shape
        && a.text("coordinate_transformation_mode") != Some("tf_crop_and_resize")
    {
        return Some(x.to_vec());
    }
    let sampling = Sampling::of(a).ok()?;
    let nearest = a.text("mode") == Some("nearest");
    let (mut values, mut now) = (x.to_vec(), shape.to_vec());
    for (d, &to) in output.shape.iter().enumerate() {
        let from = now[d];
        if from == to {
            continue;
        }
        let matrix = if nearest {
            let mut rows = vec![0.0; from * to];
            (0..to).for_each(|i| rows[i * from + sampling.nearest(d, i, from, to)] = 1.0);
            rows
        } else {
            sampling.matrix(d, from, to).ok()?
        };
        let (outer, inner): (usize, usize) =
            (now[..d].iter().product(), now[d + 1..].iter().product());
        let mut next = Vec::with_capacity(outer * to * inner);
        for o in 0..outer {
            for row in matrix.chunks(from) {
                let sum = |i: usize| {
                    row.iter()
                        .enumerate()
                        .map(|(k, &w)| f64::from(w) * values[(o * from + k) * inner + i])
                        .sum::<f64>()
                };
                next.extend((0..inner).map(sum));
            }
        }
        now[d] = to;
        values = next;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attribute;

    fn value(
        kind: OpKind,
        a: Attributes,
        inputs: &[(&[usize], &[f64])],
        to: &[usize],
    ) -> Option<Vec<f64>> {
        let known: Vec<_> = inputs
            .iter()
            .map(|(shape, v)| (TensorSpec::f32(*shape), ConstantData::Floats(v.to_vec())))
            .collect();
        let known: Vec<_> = known.iter().map(|(tensor, data)| Known { tensor, data }).collect();
        match evaluate(&kind, &a, &known, &TensorSpec::f32(to))? {
            ConstantData::Floats(v) => Some(v),
            ConstantData::Ints(_) => None,
        }
    }

    #[test]
    fn computed_by_hand() {
        let norm = Attributes::new().with("epsilon", Attribute::Float(0.0));
        let inputs: [(&[usize], &[f64]); 5] = [
            (&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]),
            (&[2], &[2.0, 1.0]),
            (&[2], &[0.5, 0.0]),
            (&[2], &[1.0, 4.0]),
            (&[2], &[4.0, 1.0]),
        ];
        assert_eq!(
            value(OpKind::BatchNorm, norm, &inputs, &[1, 2, 2]),
            Some(vec![0.5, 1.5, -1.0, 0.0])
        );
        let axis = Attributes::new().with_int("axis", 0);
        assert_eq!(
            value(OpKind::Softmax, axis, &[(&[2, 2], &[0.0, 5.0, 0.0, 5.0])], &[2, 2]),
            Some(vec![0.5; 4])
        );
        let ones: (&[usize], &[f64]) = (&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(
            value(OpKind::MatMul, Attributes::new(), &[ones, ones], &[2, 2]),
            Some(vec![7.0, 10.0, 15.0, 22.0])
        );
        let flipped = Attributes::new().with_int("trans_b", 1);
        assert_eq!(
            value(OpKind::Linear, flipped, &[ones, ones, (&[2], &[1.0, 0.0])], &[2, 2]),
            Some(vec![6.0, 11.0, 12.0, 25.0])
        );
        assert_eq!(
            value(OpKind::CumSum, Attributes::new().with_int("axis", 0), &[ones], &[2, 2]),
            Some(vec![1.0, 2.0, 4.0, 6.0])
        );
        let backwards = Attributes::new().with_int("axis", 1).with_int("reverse", 1);
        for (attributes, sums) in [
            (backwards.clone(), [3.0, 2.0, 7.0, 4.0]),
            (backwards.with_int("exclusive", 1), [2.0, 0.0, 4.0, 0.0]),
        ] {
            assert_eq!(value(OpKind::CumSum, attributes, &[ones], &[2, 2]), Some(sums.to_vec()));
        }
        let convolution: [(&[usize], &[f64]); 3] =
            [(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]), (&[1, 2, 1], &[1.0, 10.0]), (&[1], &[0.5])];
        let convolved = value(OpKind::Conv, Attributes::new(), &convolution, &[1, 1, 2]);
        assert_eq!(convolved, Some(vec![31.5, 42.5]));
        let linear = Attributes::new().with("mode", Attribute::Text("linear".into()));
        assert_eq!(
            value(OpKind::Resize, linear, &[(&[1, 2], &[0.0, 4.0])], &[1, 4]),
            Some(vec![0.0, 1.0, 3.0, 4.0])
        );
        let cubic = Attributes::new().with("mode", Attribute::Text("cubic".into()));
        assert_eq!(
            value(OpKind::Resize, cubic, &[(&[1, 2], &[0.0, 4.0])], &[1, 2]),
            Some(vec![0.0, 4.0])
        );
    }
}
