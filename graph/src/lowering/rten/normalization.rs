//! LayerNormalization, RMSNormalization and BatchNormalization from the elementary operators that
//! exporters write for them.

use super::{
    pattern::{Match, Pattern, binary, number, unary, with_number},
    program::{Fusion, Op, Program},
};
use crate::{Attributes, OpKind, TensorSpec};

/// (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale, and + bias where there is one.
pub(super) fn layer_norm_pattern() -> Pattern {
    let x = || Pattern::Any("x");
    let centred = binary("Sub", x(), unary("ReduceMean", x()).named("mean"));
    let variance =
        unary("ReduceMean", binary("Pow", centred.clone(), number(2.0))).named("variance");
    let normal = binary(
        "Div",
        centred,
        unary("Sqrt", binary("Add", Pattern::Constant("epsilon"), variance)),
    );
    let scaled = binary("Mul", normal, Pattern::Constant("scale"));
    Pattern::Either(vec![binary("Add", scaled.clone(), Pattern::Constant("bias")), scaled])
}

pub(super) fn layer_norm(found: &Match, program: &Program, op: &Op) -> Option<Fusion> {
    let x = found.value("x")?;
    let axis = last_axis(program, found.op("variance", program)?)?;
    last_axis(program, found.op("mean", program)?)?;
    let epsilon = program.scalar(found.value("epsilon")?)?;
    let mut inputs = vec![x, found.value("scale")?];
    inputs.extend(found.value("bias"));
    let attributes = with_number(Attributes::new().with_int("axis", axis), "epsilon", epsilon);
    Fusion::kernel(op.replaced_by("LayerNormalization", OpKind::LayerNorm, attributes, inputs))
}

/// x * (1 / sqrt(mean(x^2) + epsilon)) * scale.
pub(super) fn rms_norm_pattern() -> Pattern {
    let x = || Pattern::Any("x");
    let square = unary("ReduceMean", binary("Pow", x(), number(2.0))).named("variance");
    let inverse =
        unary("Reciprocal", unary("Sqrt", binary("Add", Pattern::Constant("epsilon"), square)));
    binary("Mul", binary("Mul", x(), inverse), Pattern::Constant("scale"))
}

pub(super) fn rms_norm(found: &Match, program: &Program, op: &Op) -> Option<Fusion> {
    let axis = last_axis(program, found.op("variance", program)?)?;
    let epsilon = program.scalar(found.value("epsilon")?)?;
    let attributes = with_number(Attributes::new().with_int("axis", axis), "epsilon", epsilon);
    Fusion::kernel(op.replaced_by(
        "RMSNormalization",
        OpKind::RmsNorm,
        attributes,
        vec![found.value("x")?, found.value("scale")?],
    ))
}

/// x * scale + bias with constants `[1, C, 1, ...]`.
pub(super) fn batch_norm_pattern() -> Pattern {
    binary(
        "Add",
        binary("Mul", Pattern::Any("x"), Pattern::Constant("scale")),
        Pattern::Constant("bias"),
    )
}

pub(super) fn batch_norm(found: &Match, program: &Program, op: &Op) -> Option<Fusion> {
    let x = found.value("x")?;
    let tensor = program.tensor(x)?;
    let channels = *tensor.shape.get(1)?;
    for part in ["scale", "bias"] {
        let part = program.tensor(found.value(part)?)?;
        if part.rank() != tensor.rank() || channel_count(part) != Some(channels) {
            return None;
        }
    }
    let vector = TensorSpec::new([channels], tensor.precision);
    let attributes = with_number(Attributes::new(), "epsilon", 0.0);
    let op = op.replaced_by("BatchNormalization", OpKind::BatchNorm, attributes, vec![x]);
    Some(Fusion::Kernel { op, weights: vec![vector; 4] })
}

/// Of a shape `[1, C, 1, ...]`: C.
pub(super) fn channel_count(tensor: &TensorSpec) -> Option<usize> {
    let others = tensor.shape.iter().enumerate().all(|(axis, &size)| axis == 1 || size == 1);
    tensor.shape.get(1).copied().filter(|_| others)
}

/// The one dimension a ReduceMean runs over, if that is the last.
fn last_axis(program: &Program, mean: &Op) -> Option<i64> {
    let last = program.tensor(*mean.inputs.first()?)?.rank().checked_sub(1)? as i64;
    matches!(mean.attributes.ints("axes"), &[axis] if axis == last || axis == -1).then_some(last)
}
