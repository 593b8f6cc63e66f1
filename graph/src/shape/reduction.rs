//! Operators along some axes: reductions, softmax, normalisations, ArgMax, TopK, CumSum.

use super::{axis, default_int, default_text, dimension, drop_default, like, operand};
use crate::{Attribute, Attributes, Ints, OpKind, Operand, Precision, TensorSpec};

pub(super) fn canonical(
    kind: &OpKind,
    a: &mut Attributes,
    inputs: &[Operand],
) -> Result<(), String> {
    let rank = operand(inputs, 0)?.rank();
    match kind {
        OpKind::Softmax => {
            one_axis(a, -1, rank)?;
            drop_default(a, "log", 0.0);
        }
        OpKind::LayerNorm | OpKind::RmsNorm => {
            one_axis(a, -1, rank)?;
            default_epsilon(a);
        }
        OpKind::BatchNorm | OpKind::InstanceNorm | OpKind::GroupNorm => default_epsilon(a),
        OpKind::LpNorm => {
            one_axis(a, -1, rank)?;
            drop_default(a, "p", 2.0);
        }
        OpKind::TopK => {
            one_axis(a, -1, rank)?;
            drop_default(a, "largest", 1.0);
            drop_default(a, "sorted", 1.0);
        }
        OpKind::CumSum => {
            one_axis(a, 0, rank)?;
            drop_default(a, "exclusive", 0.0);
            drop_default(a, "reverse", 0.0);
        }
        OpKind::ArgMax => {
            one_axis(a, 0, rank)?;
            drop_default(a, "select_last_index", 0.0);
            default_int(a, "keepdims", 1);
            default_text(a, "op", "ArgMax");
        }
        _ => {
            let mut axes: Ints = a
                .ints("axes")
                .iter()
                .map(|&x| axis(x, rank).map(|x| x as i64))
                .collect::<Result<_, _>>()?;
            if axes.is_empty() {
                axes = (0..rank as i64).collect();
            }
            axes.sort_unstable();
            axes.dedup();
            a.set("axes", Attribute::Ints(axes));
            default_int(a, "keepdims", 1);
        }
    }
    Ok(())
}

fn default_epsilon(a: &mut Attributes) {
    if a.float("epsilon").is_none() {
        a.set("epsilon", Attribute::Float(f64::from(1e-5f32)));
    }
}

fn one_axis(a: &mut Attributes, default: i64, rank: usize) -> Result<(), String> {
    let given = a.int("axis").unwrap_or(default);
    // A scalar is normalised as if it had one dimension.
    a.set("axis", Attribute::Int(axis(given, rank.max(1))? as i64));
    Ok(())
}

pub(super) fn infer(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let x = operand(inputs, 0)?;
    let keep = a.int("keepdims").unwrap_or(1) != 0;
    let along = a.int("axis").unwrap_or(0);
    Ok(match kind {
        OpKind::ArgMax => vec![TensorSpec::new(reduced(&x.shape, &[along], keep), Precision::I64)],
        OpKind::TopK => {
            let k = dimension(i128::from(a.int("k").ok_or("attribute `k` is missing")?))?;
            let mut shape = x.shape.clone();
            let extent =
                shape.get_mut(axis(along, x.rank())?).ok_or("a scalar has no largest elements")?;
            if k > *extent {
                return Err(format!("the {k} largest of {extent} elements are asked for"));
            }
            *extent = k;
            vec![like(x, shape.clone()), TensorSpec::new(shape, Precision::I64)]
        }
        _ => vec![like(x, reduced(&x.shape, a.ints("axes"), keep))],
    })
}

fn reduced(shape: &[usize], axes: &[i64], keep: bool) -> Vec<usize> {
    let is_reduced = |i: usize| axes.contains(&(i as i64));
    let kept = |(i, &d): (usize, &usize)| match is_reduced(i) {
        false => Some(d),
        true => keep.then_some(1),
    };
    shape.iter().enumerate().filter_map(kept).collect()
}
