//! Elementwise operators.

use super::super::call::{Call, Outcome, Refusal, operator};
use super::super::payload;
use crate::{Attribute, Attributes, ConstantData, OpKind, ValueSource};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    let op = call.node.op_type;
    if let Some(kind) = plain(op) {
        return operator(call, kind, Attributes::new(), 0..call.inputs.len());
    }
    let with_op = |kind| {
        operator(
            call,
            kind,
            Attributes::new().with("op", Attribute::Text(op.to_owned())),
            0..call.inputs.len(),
        )
    };
    match op {
        "Equal" | "Greater" | "Less" | "GreaterOrEqual" | "LessOrEqual" => with_op(OpKind::Compare),
        "And" | "Or" | "Xor" | "Not" => with_op(OpKind::Logical),
        "Floor" | "Ceil" | "Round" | "Sign" => with_op(OpKind::Round),
        "Dropout" => operator(call, OpKind::Identity, Attributes::new(), [0]),
        "Pow" => pow(call),
        "Mod" => operator(call, OpKind::Mod, call.attributes(&["fmod"]), 0..2),
        "Clip" => clip(call),
        "Cast" | "CastLike" => cast(call),
        "LeakyRelu" => parameters(call, OpKind::LeakyRelu, &[("alpha", 0.01)]),
        "HardSigmoid" => parameters(call, OpKind::HardSigmoid, &[("alpha", 0.2), ("beta", 0.5)]),
        "Elu" => parameters(call, OpKind::Elu, &[("alpha", 1.0)]),
        "Selu" => activation(call, &[("alpha", 1.673_263_2), ("gamma", 1.050_701)]),
        "Celu" => activation(call, &[("alpha", 1.0)]),
        "Gelu" => operator(
            call,
            if call.node.text("approximate") == Some("tanh") {
                OpKind::GeluTanh
            } else {
                OpKind::Gelu
            },
            Attributes::new(),
            [0],
        ),
        _ => Ok(None),
    }
}

fn plain(op: &str) -> Option<OpKind> {
    Some(match op {
        "Add" | "Sum" => OpKind::Add,
        "Mul" => OpKind::Mul,
        "Sub" => OpKind::Sub,
        "Div" => OpKind::Div,
        "Min" => OpKind::Min,
        "Max" => OpKind::Max,
        "Where" => OpKind::Where,
        "Relu" => OpKind::Relu,
        "PRelu" => OpKind::PRelu,
        "Sigmoid" => OpKind::Sigmoid,
        "HardSwish" => OpKind::HardSwish,
        "Mish" => OpKind::Mish,
        "Softplus" => OpKind::Softplus,
        "Tanh" => OpKind::Tanh,
        "Erf" => OpKind::Erf,
        "Exp" => OpKind::Exp,
        "Log" => OpKind::Log,
        "Sqrt" => OpKind::Sqrt,
        "Reciprocal" => OpKind::Reciprocal,
        "Neg" => OpKind::Neg,
        "Abs" => OpKind::Abs,
        "Sin" => OpKind::Sin,
        "Cos" => OpKind::Cos,
        "Identity" => OpKind::Identity,
        _ => return None,
    })
}

fn parameters(call: &Call<'_>, kind: OpKind, defaults: &[(&str, f64)]) -> Outcome {
    let attributes = defaults.iter().fold(Attributes::new(), |a, (name, default)| {
        a.with(name, Attribute::Float(call.node.float(name).unwrap_or(*default)))
    });
    operator(call, kind, attributes, [0])
}

/// Selu and Celu are kinds of Elu.
fn activation(call: &Call<'_>, defaults: &[(&str, f64)]) -> Outcome {
    let named = Attributes::new().with("op", Attribute::Text(call.node.op_type.to_owned()));
    let attributes = defaults.iter().fold(named, |a, (name, default)| {
        a.with(name, Attribute::Float(call.node.float(name).unwrap_or(*default)))
    });
    operator(call, OpKind::Elu, attributes, [0])
}

/// An exponent that is one constant is an attribute.
fn pow(call: &Call<'_>) -> Outcome {
    let (x, exponent) = (call.tensor(0)?, call.tensor(1)?);
    let value = match call.input(1).map(|v| &v.source) {
        Some(ValueSource::Constant(Some(ConstantData::Floats(v)))) if v.len() == 1 => Some(v[0]),
        Some(ValueSource::Constant(Some(ConstantData::Ints(v)))) if v.len() == 1 => {
            Some(v[0] as f64)
        }
        _ => None,
    };
    match value {
        Some(v) if exponent.rank() <= x.rank() => operator(
            call,
            OpKind::Pow,
            Attributes::new().with("exponent", Attribute::Float(v)),
            [0],
        ),
        _ => operator(call, OpKind::Pow, Attributes::new(), [0, 1]),
    }
}

/// A bound without effect is left out. A bound that is computed makes it the lesser or greater of
/// two operands; with another bound beside it, it is not supported.
fn clip(call: &Call<'_>) -> Outcome {
    let mut attributes = Attributes::new();
    let given = |&index: &usize| call.input(index).is_some();
    if let Some(computed) = [1, 2].into_iter().find(|&i| given(&i) && !call.is_constant(i)) {
        let kind = if computed == 1 { OpKind::Max } else { OpKind::Min };
        let alone = [1, 2].iter().filter(|i| given(i)).count() == 1;
        return if alone { operator(call, kind, attributes, [0, computed]) } else { Ok(None) };
    }
    for (name, index) in [("min", 1), ("max", 2)] {
        if let Some(bound) = call.number(name, index) {
            attributes.set(name, Attribute::Float(bound));
        }
    }
    operator(call, OpKind::Clip, attributes, [0])
}

fn cast(call: &Call<'_>) -> Outcome {
    let to = match call.node.op_type {
        "CastLike" => call.tensor(1)?.precision,
        _ => {
            let to = call.node.int("to").unwrap_or(0);
            let known = i32::try_from(to).ok().and_then(payload::precision);
            known.ok_or_else(|| Refusal::RunTime(format!("element type {to} is not supported")))?
        }
    };
    operator(
        call,
        OpKind::Cast,
        Attributes::new().with("to", Attribute::Text(to.name().to_owned())),
        [0],
    )
}
