//! Elementwise operators: broadcasting as in numpy, and operators whose output has the shape of
//! their input.

use super::{like, operand, precision, round_operand, text};
use crate::{Attributes, OpKind, Operand, Precision, Shape, TensorSpec};

/// Bounds are numbers of the tensor's type; one that excludes no number is left out.
pub(super) fn canonical_clip(a: &mut Attributes, inputs: &[Operand]) -> Result<(), String> {
    let x = operand(inputs, 0)?;
    for name in ["min", "max"] {
        round_operand(a, name, x);
        if a.float(name).is_some_and(|bound| bound.abs() >= f64::from(f32::MAX)) {
            a.0.remove(name);
        }
    }
    Ok(())
}

/// `fmod` = 1, the sign of the dividend, is written of integers only: floats have no other.
pub(super) fn canonical_mod(a: &mut Attributes, inputs: &[Operand]) -> Result<(), String> {
    if operand(inputs, 0)?.precision.is_float() || a.int("fmod") != Some(1) {
        a.0.remove("fmod");
    }
    Ok(())
}

pub(super) fn infer(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let first = operand(inputs, 0)?;
    let shape = if is_broadcast(kind) { broadcast_all(inputs)? } else { first.shape.clone() };
    let output = match kind {
        OpKind::Compare | OpKind::Logical => TensorSpec::new(shape, Precision::Bool),
        OpKind::Where => like(operand(inputs, 1)?, shape),
        OpKind::Cast => TensorSpec::new(shape, precision(a)?.ok_or("attribute `to` is missing")?),
        _ => like(first, shape),
    };
    Ok(vec![output])
}

/// Whether inputs are brought to a common shape, which is the output's.
pub(crate) fn is_broadcast(kind: &OpKind) -> bool {
    let arithmetic = matches!(
        kind,
        OpKind::Add
            | OpKind::Sub
            | OpKind::Mul
            | OpKind::Div
            | OpKind::Pow
            | OpKind::Min
            | OpKind::Max
            | OpKind::Mod
    );
    arithmetic
        || matches!(kind, OpKind::Elementwise | OpKind::Compare | OpKind::Logical | OpKind::Where)
}

fn broadcast_all(inputs: &[Operand]) -> Result<Shape, String> {
    let (first, rest) = inputs.split_first().ok_or("it has no input")?;
    rest.iter().try_fold(first.tensor.shape.clone(), |shape, operand| {
        broadcast(&shape, &operand.tensor.shape)
    })
}

/// The shape two tensors have together after broadcasting.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Result<Shape, String> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let offset = long.len() - short.len();
    let mut shape = Shape::from_slice(long);
    for (d, &s) in shape[offset..].iter_mut().zip(short) {
        *d = match (*d, s) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return Err(format!("{} and {} cannot be broadcast together", text(a), text(b))),
        };
    }
    Ok(shape)
}
