//! Conversions between floats and 8-bit integers: same shape, another element type.

use super::{axis, like, operand, precision};
use crate::{Attribute, Attributes, OpKind, Operand, Precision, TensorSpec};

/// `axis` stays where the scale is a vector of more than one element; `to` says the type that the
/// zero point or its absence (u8) says.
pub(super) fn canonical(
    kind: &OpKind,
    a: &mut Attributes,
    inputs: &[Operand],
) -> Result<(), String> {
    let x = operand(inputs, 0)?;
    let scale = operand(inputs, 1)?;
    if scale.elements() > 1 {
        let along = axis(a.int("axis").unwrap_or(1), x.rank())?;
        if scale.rank() != 1 || scale.shape[0] != x.shape[along] {
            return Err(format!("{scale} is not a scale per slice of {x} along axis {along}"));
        }
        a.set("axis", Attribute::Int(along as i64));
    } else {
        a.0.remove("axis");
    }
    if *kind == OpKind::Quantize {
        let to = match inputs.get(2) {
            Some(zero) => zero.tensor.precision,
            None => precision(a)?.unwrap_or(Precision::U8),
        };
        a.set("to", Attribute::Text(to.name().to_owned()));
    }
    Ok(())
}

pub(super) fn infer(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let x = operand(inputs, 0)?;
    Ok(match kind {
        OpKind::Quantize => {
            vec![TensorSpec::new(x.shape.clone(), precision(a)?.unwrap_or(Precision::U8))]
        }
        OpKind::Dequantize => vec![like(operand(inputs, 1)?, x.shape.clone())],
        _ => vec![
            TensorSpec::new(x.shape.clone(), Precision::U8),
            TensorSpec::f32([]),
            TensorSpec::new([], Precision::U8),
        ],
    })
}
