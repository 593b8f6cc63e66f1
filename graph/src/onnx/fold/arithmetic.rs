//! Folding of elementwise operators, casts and reductions. Every step has a number of the output's
//! element type: integers wrap, floats are rounded. What engines do not agree on gives no value: an
//! overflow of 64 bits, a float beyond the integers it is cast to, a division by zero.

use super::super::payload::in_range;
use super::{Known, broadcast_strides, offsets, pick};
use crate::numbers::nearest;
use crate::{Attributes, ConstantData, OpKind, Precision, TensorSpec};

/// All integers up to here are 64-bit floats.
const EXACT: f64 = (1u64 << 53) as f64;

pub(super) fn evaluate(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Known<'_>],
    output: &TensorSpec,
) -> Option<ConstantData> {
    let first = *inputs.first()?;
    let to = output.precision;
    let data = match kind {
        OpKind::Cast => cast(first.data, to)?,
        OpKind::ReduceProd
        | OpKind::ReduceSum
        | OpKind::ReduceMax
        | OpKind::ReduceMin
        | OpKind::ReduceMean => reduce(kind, a, first, output)?,
        OpKind::Where => choose(inputs, output)?,
        OpKind::Clip => clipped(a, first.data)?,
        OpKind::Pow if inputs.len() == 1 => {
            let exponent = a.float("exponent")?;
            mapped(first.data, |x| x.powf(exponent))?
        }
        _ if inputs.len() == 1 => unary(kind, a, first.data)?,
        // Engines without 16-bit kernels round the sum of several once.
        _ if inputs.len() > 2 && matches!(to, Precision::F16 | Precision::Bf16) => return None,
        _ => {
            let mut folded = spread(first, output)?;
            for other in &inputs[1..] {
                let exact = binary(kind, a, &folded, &spread(*other, output)?)?;
                folded = cast(&exact, to)?;
                // Engines compute powers of integers as floats.
                if *kind == OpKind::Pow && matches!(exact, ConstantData::Ints(_)) && exact != folded
                {
                    return None;
                }
            }
            folded
        }
    };
    cast(&data, to)
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

/// The numbers as that element type has them.
fn cast(data: &ConstantData, to: Precision) -> Option<ConstantData> {
    Some(match data {
        _ if to.is_float() => {
            ConstantData::Floats(floats(data).into_iter().map(|v| nearest(v, to)).collect())
        }
        ConstantData::Ints(v) => ConstantData::Ints(v.iter().map(|&i| in_range(i, to)).collect()),
        ConstantData::Floats(v) => {
            ConstantData::Ints(v.iter().map(|&f| truncated(f, to)).collect::<Option<_>>()?)
        }
    })
}

/// A float as an integer; `None` beyond those of that type.
fn truncated(value: f64, to: Precision) -> Option<i64> {
    if to == Precision::Bool {
        return Some(i64::from(value != 0.0));
    }
    let integer = value.trunc();
    let is_inside =
        integer.abs() < -(i64::MIN as f64) && in_range(integer as i64, to) as f64 == integer;
    is_inside.then_some(integer as i64)
}

/// Each number by itself; `None` for an integer that is not a 64-bit float before or after.
fn mapped(data: &ConstantData, op: impl Fn(f64) -> f64) -> Option<ConstantData> {
    let is_exact = |v: f64| v.abs() <= EXACT;
    let integers = matches!(data, ConstantData::Ints(_));
    let one = |x: f64| {
        let y = op(x);
        (!integers || (is_exact(x) && is_exact(y))).then_some(y)
    };
    Some(ConstantData::Floats(floats(data).into_iter().map(one).collect::<Option<_>>()?))
}

/// Bounds are 32-bit floats: of integers, those that are not exact give no value.
fn clipped(a: &Attributes, data: &ConstantData) -> Option<ConstantData> {
    let (low, high) =
        (a.float("min").unwrap_or(f64::NEG_INFINITY), a.float("max").unwrap_or(f64::INFINITY));
    let is_exact = |bound: f64| bound.is_infinite() || bound.abs() < f64::from(1 << 24);
    if matches!(data, ConstantData::Ints(_)) && !(is_exact(low) && is_exact(high)) {
        return None;
    }
    mapped(data, |v| v.max(low).min(high))
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
        (OpKind::Add | OpKind::Min | OpKind::Max, _) => return Some(data.clone()),
        _ => return None,
    };
    mapped(data, op)
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
        OpKind::Mod if a.int("fmod") == Some(1) => x.checked_rem(y),
        OpKind::Mod => {
            x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r })
        }
        OpKind::Pow => x
            .checked_pow(u32::try_from(y).ok()?)
            .filter(|power| power.unsigned_abs() <= EXACT as u64),
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
        OpKind::Mod => x % y,
        OpKind::Min | OpKind::Max if x.is_nan() || y.is_nan() => f64::NAN,
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

/// A reduction over some dimensions.
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
    let steps = match kind {
        OpKind::ReduceProd => Some((1, OpKind::Mul)),
        OpKind::ReduceSum => Some((0, OpKind::Add)),
        OpKind::ReduceMax => Some((i64::MIN, OpKind::Max)),
        OpKind::ReduceMin => Some((i64::MAX, OpKind::Min)),
        _ => None,
    };
    if let (ConstantData::Ints(v), Some((start, op))) = (x.data, steps) {
        let mut results = vec![start; count];
        for (&value, &at) in v.iter().zip(&into) {
            let slot = results.get_mut(at)?;
            *slot = in_range(integer(&op, a, *slot, value)?, x.tensor.precision);
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
    if v.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut results = vec![start; count];
    for (&value, &at) in v.iter().zip(&into) {
        let slot = results.get_mut(at)?;
        *slot = op(*slot, value);
    }
    // A mean of integers whose sum is beyond them.
    if matches!(x.data, ConstantData::Ints(_)) {
        results.iter().try_for_each(|&sum| truncated(sum, x.tensor.precision).map(drop))?;
    }
    if *kind == OpKind::ReduceMean {
        let each = v.len() as f64 / count.max(1) as f64;
        results.iter_mut().for_each(|r| *r /= each);
    }
    Some(ConstantData::Floats(results))
}
