//! The rules in rten's order, and the short ones: operators that do nothing, activations.

use super::{
    normalization,
    pattern::{Match, Pattern, binary, number, unary, with_number},
    product,
    program::{Fusion, Op, Program, Rule},
    transpose,
};
use crate::{Attributes, OpKind, Precision, ValueId};

/// Builds the kernel for a match at an operator.
type Build = fn(&Match, &Program, &Op) -> Option<Fusion>;

/// All rules, patterns built once.
pub(super) struct Rules(Vec<Box<Rule<'static>>>);

impl Rules {
    /// rten tries them in this order and takes the first that fits.
    pub fn new() -> Self {
        let patterns = [
            (binary("Div", number(1.0), Pattern::Any("x")), reciprocal as Build),
            (silu_pattern(), silu),
            (swish_pattern(), swish),
            (gelu_pattern(), gelu),
            (gelu_tanh_pattern(), gelu_tanh),
            (normalization::layer_norm_pattern(), normalization::layer_norm),
            (normalization::rms_norm_pattern(), normalization::rms_norm),
            (normalization::batch_norm_pattern(), normalization::batch_norm),
            (product::bias_pattern(), product::bias),
        ];
        let mut rules: Vec<Box<Rule<'static>>> = vec![Box::new(identity)];
        for (pattern, build) in patterns {
            rules.push(Box::new(move |program, index| {
                build(&pattern.test(program, index)?, program, program.op(index)?)
            }));
        }
        rules.push(Box::new(product::scale));
        for name in ["MatMulInteger", "ConvInteger"] {
            let pattern = product::integer_pattern(name);
            rules.push(Box::new(move |program, index| {
                product::integer(&pattern.test(program, index)?, program, program.op(index)?)
            }));
        }
        rules.push(Box::new(product::conv_bias));
        rules.push(Box::new(product::conv_batch_norm));
        let masked = unary("Softmax", binary("Add", Pattern::Any("qk"), Pattern::Any("mask")));
        rules.push(Box::new(move |program, index| {
            masked_softmax(&masked.test(program, index)?, program, program.op(index)?)
        }));
        rules.push(Box::new(transpose::into_reader));
        Self(rules)
    }

    /// The rules.
    pub fn in_order(&self) -> Vec<&Rule<'_>> {
        self.0.iter().map(|rule| rule.as_ref() as &Rule).collect()
    }
}

/// Identity, `x + 0`, `x - 0`, `x * 1` and `x / 1`.
pub(super) fn identity(program: &Program, index: usize) -> Option<Fusion> {
    let op = program.op(index)?;
    let neutral = |value: ValueId, wanted: f32| program.scalar(value) == Some(wanted);
    let input = match (&op.kind, op.inputs.as_slice()) {
        (OpKind::Identity, &[x]) => x,
        (OpKind::Add, &[x, c]) if neutral(c, 0.0) => x,
        (OpKind::Add, &[c, x]) if neutral(c, 0.0) => x,
        (OpKind::Sub, &[x, c]) if neutral(c, 0.0) => x,
        (OpKind::Mul, &[x, c]) if neutral(c, 1.0) => x,
        (OpKind::Mul, &[c, x]) if neutral(c, 1.0) => x,
        (OpKind::Div, &[x, c]) if neutral(c, 1.0) => x,
        _ => return None,
    };
    match op.outputs.as_slice() {
        &[output] if op.fused.is_none() => Some(Fusion::Identity { input, output }),
        _ => None,
    }
}

/// A cast between types that rten stores in the same type: it has only f32, i32, i8 and u8.
pub(super) fn cast(program: &Program, index: usize) -> Option<Fusion> {
    let op = program.op(index)?;
    let (&[input], &[output]) = (op.inputs.as_slice(), op.outputs.as_slice()) else { return None };
    let held = |value: ValueId| {
        program.tensor(value).map(|tensor| match tensor.precision {
            Precision::F64 | Precision::F32 | Precision::F16 => Precision::F32,
            Precision::I64 | Precision::I32 | Precision::Bool => Precision::I32,
            other => other,
        })
    };
    (op.kind == OpKind::Cast && held(input)? == held(output)?)
        .then_some(Fusion::Identity { input, output })
}

fn reciprocal(found: &Match, _: &Program, op: &Op) -> Option<Fusion> {
    Fusion::kernel(op.replaced_by(
        "Reciprocal",
        OpKind::Reciprocal,
        Attributes::new(),
        vec![found.value("x")?],
    ))
}

fn silu_pattern() -> Pattern {
    binary("Mul", Pattern::Any("x"), unary("Sigmoid", Pattern::Any("x")))
}

fn silu(found: &Match, _: &Program, op: &Op) -> Option<Fusion> {
    Fusion::kernel(op.replaced_by("Silu", OpKind::Silu, Attributes::new(), vec![found.value("x")?]))
}

fn swish_pattern() -> Pattern {
    binary(
        "Mul",
        Pattern::Any("x"),
        unary("Sigmoid", binary("Mul", Pattern::Constant("alpha"), Pattern::Any("x"))),
    )
}

fn swish(found: &Match, program: &Program, op: &Op) -> Option<Fusion> {
    let alpha = program.scalar(found.value("alpha")?)?;
    Fusion::kernel(op.replaced_by(
        "Swish",
        OpKind::Silu,
        with_number(Attributes::new(), "alpha", alpha),
        vec![found.value("x")?],
    ))
}

fn gelu_pattern() -> Pattern {
    let x = || Pattern::Any("x");
    let root = std::f32::consts::SQRT_2;
    let scaled = Pattern::Either(vec![
        binary("Div", x(), number(root)),
        binary("Mul", x(), number(1.0 / root)),
    ]);
    binary("Mul", binary("Mul", x(), binary("Add", unary("Erf", scaled), number(1.0))), number(0.5))
}

fn gelu(found: &Match, _: &Program, op: &Op) -> Option<Fusion> {
    Fusion::kernel(op.replaced_by("Gelu", OpKind::Gelu, Attributes::new(), vec![found.value("x")?]))
}

fn gelu_tanh_pattern() -> Pattern {
    let x = || Pattern::Any("x");
    let cube = binary("Mul", binary("Pow", x(), number(3.0)), number(0.044_715));
    let inner =
        binary("Mul", number((2.0 / std::f32::consts::PI).sqrt()), binary("Add", x(), cube));
    binary("Mul", binary("Mul", x(), number(0.5)), binary("Add", number(1.0), unary("Tanh", inner)))
}

fn gelu_tanh(found: &Match, _: &Program, op: &Op) -> Option<Fusion> {
    Fusion::kernel(op.replaced_by(
        "Gelu",
        OpKind::GeluTanh,
        Attributes::new(),
        vec![found.value("x")?],
    ))
}

/// `Softmax(qk + mask)` along the last dimension.
fn masked_softmax(found: &Match, program: &Program, op: &Op) -> Option<Fusion> {
    let last = program.tensor(*op.inputs.first()?)?.rank().checked_sub(1)? as i64;
    if op.attributes.int("axis") != Some(last) {
        return None;
    }
    let attributes = Attributes::new().with_int("axis", last).with_int("mask", 1);
    Fusion::kernel(op.replaced_by(
        "AddSoftmax",
        OpKind::Softmax,
        attributes,
        vec![found.value("qk")?, found.value("mask")?],
    ))
}
