//! Biases, scales and batch normalisations that move into matrix products and convolutions.

use super::{
    normalization::channel_count,
    pattern::{Match, Pattern, binary, engine_name, unary, with_number},
    program::{Fusion, Op, Program},
};
use crate::{Attributes, OpKind, TensorSpec, ValueId};

/// A product plus a constant.
pub(super) fn bias_pattern() -> Pattern {
    binary("Add", binary("MatMul", Pattern::Any("a"), Pattern::Any("b")), Pattern::Constant("bias"))
}

/// The bias must be a vector.
pub(super) fn bias(found: &Match, program: &Program, op: &Op) -> Option<Fusion> {
    let (a, b, bias) = (found.value("a")?, found.value("b")?, found.value("bias")?);
    if program.tensor(bias)?.rank() != 1 {
        return None;
    }
    Fusion::kernel(op.replaced_by(
        "FusedMatMul",
        kind(program, b),
        Attributes::new(),
        vec![a, b, bias],
    ))
}

/// A product whose inputs or output are multiplied or divided by constant scalars.
pub(super) fn scale(program: &Program, index: usize) -> Option<Fusion> {
    let op = program.op(index)?;
    let mut alpha = 1.0;
    let product = if matches!(engine_name(op), "Mul" | "Div") {
        let (factor, scaled) = scale_factor(program, op)?;
        alpha *= factor;
        program.source(scaled)?.1
    } else {
        op
    };
    let (true, &[a, b]) = (engine_name(product) == "MatMul", product.inputs.as_slice()) else {
        return None;
    };
    let mut unscaled = |input: ValueId| {
        let scaled = program.source(input).and_then(|(_, source)| scale_factor(program, source));
        scaled.map_or(input, |(factor, inner)| {
            alpha *= factor;
            inner
        })
    };
    let inputs = vec![unscaled(a), unscaled(b)];
    if alpha == 1.0 {
        return None;
    }
    let attributes = with_number(Attributes::new(), "alpha", alpha);
    let mut fused =
        product.replaced_by("FusedMatMul", kind(program, inputs[1]), attributes, inputs);
    fused.outputs.clone_from(&op.outputs);
    Fusion::kernel(fused)
}

/// The factor of a product or quotient with one constant scalar, and its other input.
fn scale_factor(program: &Program, op: &Op) -> Option<(f32, ValueId)> {
    let &[a, b] = op.inputs.as_slice() else { return None };
    match (engine_name(op), program.scalar(a), program.scalar(b)) {
        ("Mul", Some(factor), None) => Some((factor, b)),
        ("Mul", None, Some(factor)) => Some((factor, a)),
        ("Div", None, Some(divisor)) => Some((1.0 / divisor, a)),
        _ => None,
    }
}

/// A product with a constant matrix on the right is `linear`, as the reader has it.
pub(super) fn kind(program: &Program, right: ValueId) -> OpKind {
    let matrix = program.tensor(right).is_some_and(|tensor| tensor.rank() == 2);
    if matrix && program.is_constant(right) { OpKind::Linear } else { OpKind::MatMul }
}

/// An integer product, cast to floats and scaled.
pub(super) fn integer_pattern(product: &'static str) -> Pattern {
    let inputs = ["a", "b", "a_zero", "b_zero"].map(Pattern::Any);
    binary(
        "Mul",
        unary("Cast", Pattern::Op(product, inputs.to_vec(), Some("product"))),
        Pattern::Any("scale"),
    )
}

/// The scale must be a vector at most, of a convolution a number.
pub(super) fn integer(found: &Match, program: &Program, op: &Op) -> Option<Fusion> {
    let product = found.op("product", program)?;
    let scale = found.value("scale")?;
    let tensor = program.tensor(scale)?;
    let convolution = product.kind == OpKind::Conv;
    if tensor.rank() > 1 || (convolution && tensor.elements() != 1) {
        return None;
    }
    let inputs = product.inputs.iter().copied().chain([scale]).collect();
    let name = if convolution { "ConvIntegerToFloat" } else { "MatMulIntegerToFloat" };
    Fusion::kernel(op.replaced_by(name, product.kind.clone(), product.attributes.clone(), inputs))
}

/// A convolution without bias plus a constant `[1, C, 1, ...]`.
pub(super) fn conv_bias(program: &Program, index: usize) -> Option<Fusion> {
    let op = program.op(index)?;
    let (true, &[a, b]) = (engine_name(op) == "Add", op.inputs.as_slice()) else { return None };
    let conv =
        |value| program.source(value).map(|(_, op)| op).filter(|op| engine_name(op) == "Conv");
    let (conv, bias) = conv(a).map(|op| (op, b)).or_else(|| conv(b).map(|op| (op, a)))?;
    let &[x, weight] = conv.inputs.as_slice() else { return None };
    let (weights, constant) = (program.tensor(weight)?, program.tensor(bias)?);
    let channels = *weights.shape.first()?;
    if !program.is_constant(bias)
        || constant.rank() != weights.rank()
        || channel_count(constant) != Some(channels)
    {
        return None;
    }
    let vector = TensorSpec::new([channels], constant.precision);
    let mut fused = op.replaced_by("Conv", OpKind::Conv, conv.attributes.clone(), vec![x, weight]);
    fused.fused = None;
    Some(Fusion::Kernel { op: fused, weights: vec![vector] })
}

/// A convolution with constant weights, then a batch normalisation.
pub(super) fn conv_batch_norm(program: &Program, index: usize) -> Option<Fusion> {
    let op = program.op(index)?;
    let (true, [input, statistics @ ..]) =
        (engine_name(op) == "BatchNormalization", op.inputs.as_slice())
    else {
        return None;
    };
    let (_, conv) = program.source(*input).filter(|(_, op)| engine_name(op) == "Conv")?;
    let (x, weight) = (*conv.inputs.first()?, *conv.inputs.get(1)?);
    let weights = program.tensor(weight)?.clone();
    let channels = *weights.shape.first()?;
    let vectors = statistics.iter().chain(conv.inputs.get(2));
    let per_channel = |value: &ValueId| {
        program.is_constant(*value)
            && program.tensor(*value).is_some_and(|t| *t.shape == [channels])
    };
    if statistics.len() != 4
        || !program.is_constant(weight)
        || !vectors.into_iter().all(per_channel)
    {
        return None;
    }
    let vector = TensorSpec::new([channels], weights.precision);
    let mut fused = op.replaced_by("Conv", OpKind::Conv, conv.attributes.clone(), vec![x]);
    fused.fused = None;
    Some(Fusion::Kernel { op: fused, weights: vec![weights, vector] })
}
