//! Folding of elementwise operators, casts and reductions. Floats are rounded to 32 bits where the
//! model computes in them; integer overflow and division by zero give no value.

use super::{Known, broadcast_strides, offsets, pick};
use crate::{Attributes, ConstantData, OpKind, Precision, TensorSpec};

pub(super) fn evaluate(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Known<'_>],
    output: &TensorSpec,
) -> Option<ConstantData> {
    let first = *inputs.first()?;
    let data = match kind {
        OpKind::Cast => cast(first.data, output.precision),
        OpKind::ReduceProd
        | OpKind::ReduceSum
        | OpKind::ReduceMax
        | OpKind::ReduceMin
        | OpKind::ReduceMean => reduce(kind, a, first, output)?,
        OpKind::Where => choose(inputs, output)?,
        OpKind::Clip => ConstantData::Floats(clipped(a, &floats(first.data))),
        OpKind::Pow if inputs.len() == 1 => {
            let exponent = a.float("exponent")?;
            ConstantData::Floats(floats(first.data).into_iter().map(|x| x.powf(exponent)).collect())
        }
        _ if inputs.len() == 1 => unary(kind, a, first.data)?,
        _ => {
            let mut folded = spread(first, output)?;
            for other in &inputs[1..] {
                folded = binary(kind, a, &folded, &spread(*other, output)?)?;
            }
            folded
        }
    };
    Some(cast(&data, output.precision))
}

/// An input as large as the output it is broadcast to.
fn spread(known: Known<'_>, output: &TensorSpec) -> Option<ConstantData> {
    pick(
        known.data,
        &offsets(&output.shape, &broadcast_strides(&known.tensor.shape, &output.shape)?, 0)?,
    )
}

fn floats(data: &ConstantData) -> Vec<f64> {
    match data {
        ConstantData::Ints(v) => v.iter().map(|&i| i as f64).collect(),
        ConstantData::Floats(v) => v.clone(),
    }
}

fn cast(data: &ConstantData, to: Precision) -> ConstantData {
    match (data, to) {
        (_, Precision::F64) => ConstantData::Floats(floats(data)),
        (_, p) if p.is_float() => {
            ConstantData::Floats(floats(data).into_iter().map(|v| f64::from(v as f32)).collect())
        }
        (_, Precision::Bool) => {
            ConstantData::Ints(floats(data).into_iter().map(|v| i64::from(v != 0.0)).collect())
        }
        (ConstantData::Ints(v), _) => ConstantData::Ints(v.clone()),
        (ConstantData::Floats(v), _) => ConstantData::Ints(v.iter().map(|&f| f as i64).collect()),
    }
}

fn clipped(a: &Attributes, values: &[f64]) -> Vec<f64> {
    let (low, high) =
        (a.float("min").unwrap_or(f64::NEG_INFINITY), a.float("max").unwrap_or(f64::INFINITY));
    values.iter().map(|v| v.max(low).min(high)).collect()
}

fn unary(kind: &OpKind, a: &Attributes, data: &ConstantData) -> Option<ConstantData> {
    let op: fn(f64) -> f64 = match (kind, a.text("op")) {
        (OpKind::Neg, _) => |x| -x,
        (OpKind::Abs, _) => f64::abs,
        (OpKind::Sqrt, _) => f64::sqrt,
        (OpKind::Exp, _) => f64::exp,
        (OpKind::Log, _) => f64::ln,
        (OpKind::Sin, _) => f64::sin,
        (OpKind::Cos, _) => f64::cos,
        (OpKind::Tanh, _) => f64::tanh,
        (OpKind::Sigmoid, _) => |x| 1.0 / (1.0 + (-x).exp()),
        (OpKind::Reciprocal, _) => f64::recip,
        (OpKind::Relu, _) => |x| x.max(0.0),
        (OpKind::Round, Some("Floor")) => f64::floor,
        (OpKind::Round, Some("Ceil")) => f64::ceil,
        (OpKind::Round, Some("Round")) => f64::round_ties_even,
        (OpKind::Round, Some("Sign")) => |x| if x == 0.0 { 0.0 } else { x.signum() },
        (OpKind::Logical, Some("Not")) => |x| f64::from(u8::from(x == 0.0)),
        (OpKind::Add | OpKind::Min | OpKind::Max, _) => |x| x,
        _ => return None,
    };
    Some(ConstantData::Floats(floats(data).into_iter().map(op).collect()))
}

fn binary(
    kind: &OpKind,
    a: &Attributes,
    left: &ConstantData,
    right: &ConstantData,
) -> Option<ConstantData> {
    match (left, right) {
        (ConstantData::Ints(l), ConstantData::Ints(r)) => Some(ConstantData::Ints(
            l.iter().zip(r).map(|(&x, &y)| integer(kind, a, x, y)).collect::<Option<_>>()?,
        )),
        _ => Some(ConstantData::Floats(
            floats(left)
                .into_iter()
                .zip(floats(right))
                .map(|(x, y)| float(kind, a, x, y))
                .collect::<Option<_>>()?,
        )),
    }
}

fn integer(kind: &OpKind, a: &Attributes, x: i64, y: i64) -> Option<i64> {
    match kind {
        OpKind::Add => x.checked_add(y),
        OpKind::Sub => x.checked_sub(y),
        OpKind::Mul => x.checked_mul(y),
        OpKind::Div => x.checked_div(y),
        OpKind::Mod => {
            x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r })
        }
        OpKind::Pow => x.checked_pow(u32::try_from(y).ok()?),
        OpKind::Min => Some(x.min(y)),
        OpKind::Max => Some(x.max(y)),
        OpKind::Compare => Some(i64::from(compare(a, x.cmp(&y))?)),
        OpKind::Logical => {
            let (x, y) = (x != 0, y != 0);
            Some(i64::from(match a.text("op")? {
                "And" => x && y,
                "Or" => x || y,
                "Xor" => x != y,
                _ => return None,
            }))
        }
        _ => None,
    }
}

fn float(kind: &OpKind, a: &Attributes, x: f64, y: f64) -> Option<f64> {
    Some(match kind {
        OpKind::Add => x + y,
        OpKind::Sub => x - y,
        OpKind::Mul => x * y,
        OpKind::Div => x / y,
        OpKind::Pow => x.powf(y),
        OpKind::Min => x.min(y),
        OpKind::Max => x.max(y),
        OpKind::Compare => f64::from(u8::from(compare(a, x.partial_cmp(&y)?)?)),
        _ => return None,
    })
}

fn compare(a: &Attributes, order: std::cmp::Ordering) -> Option<bool> {
    Some(match a.text("op")? {
        "Equal" => order.is_eq(),
        "Greater" => order.is_gt(),
        "Less" => order.is_lt(),
        "GreaterOrEqual" => order.is_ge(),
        "LessOrEqual" => order.is_le(),
        _ => return None,
    })
}

fn choose(inputs: &[Known<'_>], output: &TensorSpec) -> Option<ConstantData> {
    let [condition, yes, no] = inputs else { return None };
    let (condition, yes, no) =
        (floats(&spread(*condition, output)?), spread(*yes, output)?, spread(*no, output)?);
    Some(match (yes, no) {
        (ConstantData::Ints(y), ConstantData::Ints(n)) => ConstantData::Ints(
            condition
                .iter()
                .zip(y.into_iter().zip(n))
                .map(|(&c, (y, n))| if c != 0.0 { y } else { n })
                .collect(),
        ),
        (y, n) => ConstantData::Floats(
            condition
                .iter()
                .zip(floats(&y).into_iter().zip(floats(&n)))
                .map(|(&c, (y, n))| if c != 0.0 { y } else { n })
                .collect(),
        ),
    })
}

/// A reduction over some dimensions. Products and sums of integers that overflow have no value.
fn reduce(
    kind: &OpKind,
    a: &Attributes,
    x: Known<'_>,
    output: &TensorSpec,
) -> Option<ConstantData> {
    let axes = a.ints("axes");
    if axes.is_empty() {
        return Some(x.data.clone());
    }
    let shape = &x.tensor.shape;
    let kept: Vec<usize> = shape
        .iter()
        .enumerate()
        .map(|(d, &extent)| if axes.contains(&(d as i64)) { 1 } else { extent })
        .collect();
    let into = offsets(shape, &broadcast_strides(&kept, shape)?, 0)?;
    let count = output.elements() as usize;
    if let (ConstantData::Ints(v), OpKind::ReduceProd | OpKind::ReduceSum) = (x.data, kind) {
        let (start, op) =
            if *kind == OpKind::ReduceProd { (1, OpKind::Mul) } else { (0, OpKind::Add) };
        let mut results = vec![start; count];
        for (&value, &at) in v.iter().zip(&into) {
            let slot = results.get_mut(at)?;
            *slot = integer(&op, a, *slot, value)?;
        }
        return Some(ConstantData::Ints(results));
    }
    let v = floats(x.data);
    let (start, op): (f64, fn(f64, f64) -> f64) = match kind {
        OpKind::ReduceProd => (1.0, |a, b| a * b),
        OpKind::ReduceMax => (f64::NEG_INFINITY, f64::max),
        OpKind::ReduceMin => (f64::INFINITY, f64::min),
        _ => (0.0, |a, b| a + b),
    };
    let mut results = vec![start; count];
    for (&value, &at) in v.iter().zip(&into) {
        let slot = results.get_mut(at)?;
        *slot = op(*slot, value);
    }
    if *kind == OpKind::ReduceMean {
        let each = v.len() as f64 / count.max(1) as f64;
        results.iter_mut().for_each(|r| *r /= each);
    }
    Some(ConstantData::Floats(results))
}
