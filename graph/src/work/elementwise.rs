//! FLOPs of everything except MACs. Every function of one number (+, /, max, exp, erf, tanh...)
//! counts as one operation, so that a kind's figure is the number of steps of its formula:
//!
//! | per output element | kinds |
//! |---|---|
//! | 1 | add, min, max (of more than two operands: one less than these), sub, mul, div, pow, compare, logical, where, relu, neg, abs, round, sqrt, reciprocal, exp, log, erf, tanh, sin, cos |
//! | 2 | dequantize (-, x), clip (min, max), leaky_relu, prelu (x, max), mod, batch_norm (scale and shift, folded from four vectors) |
//! | 3 | elu (exp, -, x), softplus (exp, +, log), lp_norm (square, sum, /) |
//! | 4 | sigmoid (neg, exp, +, /), hard_sigmoid (x, +, min, max), rms_norm (square, sum, /, scale) |
//! | 5 | quantize (/, round, +, min, max), silu, hard_swish (their gate and x), gelu (/, erf, +, x, x), mish, softmax (max, -, exp, sum, /) |
//! | 6 | dynamic_quantize (quantize, and the range of the input) |
//! | 7 | layer_norm, instance_norm, group_norm (sum, -, square, sum, /, scale, bias) |
//! | 9 | gelu_tanh (x^3 twice x, x, +, x, tanh, +, x, x) |
//! | 2 taps - 1 | resize and grid_sample: 2 taps per spatial dimension linear, 4 cubic (4 and 16 of an image); nearest none |
//! | kernel elements | max_pool, average_pool |
//!
//! A chain of elementwise operators in one kernel: the sum of theirs. Per input element: 1 for
//! global pools, reductions, arg_max, top_k; 2 for reduce_l2. A bias, a mask, a residual and a
//! fused activation add theirs per output element. Movement of data counts as no FLOP.

use super::{macs, total};
use crate::{OpKind, OpSpec, TensorSpec};

/// FLOPs of an operator that are not MACs.
pub(super) fn flops(op: &OpSpec) -> u64 {
    let outputs = op.outputs.first().map_or(0, TensorSpec::elements);
    main_part(op, outputs).saturating_add(outputs.saturating_mul(fused(op)))
}

fn main_part(op: &OpSpec, outputs: u64) -> u64 {
    let inputs = op.inputs.first().map_or(0, |i| i.tensor.elements());
    match &op.kind {
        OpKind::Attention => macs::attention_scores(op).saturating_mul(5),
        OpKind::MaxPool | OpKind::AveragePool => outputs.saturating_mul(kernel(op)),
        OpKind::GlobalAveragePool | OpKind::GlobalMaxPool | OpKind::ArgMax | OpKind::TopK => inputs,
        OpKind::ReduceMean
        | OpKind::ReduceSum
        | OpKind::ReduceMax
        | OpKind::ReduceMin
        | OpKind::ReduceProd
        | OpKind::Col2Im => inputs,
        OpKind::ReduceL2 => inputs.saturating_mul(2),
        OpKind::Elementwise => outputs.saturating_mul(chain(op.attributes.text("ops"))),
        OpKind::Add | OpKind::Min | OpKind::Max if op.inputs.len() > 2 => {
            outputs.saturating_mul(op.inputs.len() as u64 - 1)
        }
        kind => outputs.saturating_mul(per_element(kind).unwrap_or_else(|| interpolation(op))),
    }
}

/// Operations per output element, for kinds where that is a fixed number.
fn per_element(kind: &OpKind) -> Option<u64> {
    use OpKind::*;
    Some(match kind {
        Add | Sub | Mul | Div | Pow | Min | Max | Compare | Logical | Where | CumSum => 1,
        Relu | Neg | Abs | Round | Sqrt | Reciprocal | Exp | Log | Erf | Tanh | Sin | Cos => 1,
        Dequantize | Clip | LeakyRelu | PRelu | Mod | BatchNorm => 2,
        Elu | Softplus | LpNorm => 3,
        Sigmoid | HardSigmoid | RmsNorm => 4,
        Quantize | Silu | HardSwish | Gelu | Mish | Softmax => 5,
        DynamicQuantize => 6,
        LayerNorm | InstanceNorm | GroupNorm => 7,
        GeluTanh => 9,
        Resize | GridSample => return None,
        _ => 0,
    })
}

/// Weighted sum of the taps an interpolation reads: along each spatial dimension, those after batch
/// and channels. A tensor without these is an image.
fn interpolation(op: &OpSpec) -> u64 {
    let rank = op.inputs.first().map_or(4, |x| x.tensor.rank());
    let dimensions = if rank < 3 { 2 } else { rank as u32 - 2 };
    let each: u64 = match op.attributes.text("mode").unwrap_or("linear") {
        "nearest" => return 0,
        "cubic" | "bicubic" => 4,
        _ => 2,
    };
    each.saturating_pow(dimensions).saturating_mul(2).saturating_sub(1)
}

fn kernel(op: &OpSpec) -> u64 {
    op.attributes
        .ints("kernel_shape")
        .iter()
        .fold(1, |n, &k| n.saturating_mul(u64::try_from(k).unwrap_or(0)))
}

/// Operations per output element of a kernel's fused parts.
fn fused(op: &OpSpec) -> u64 {
    let bias = match op.kind {
        OpKind::Conv | OpKind::ConvTranspose | OpKind::Linear | OpKind::MatMul => u64::from(
            op.inputs.len() > 2 && !residual_only(op) && op.attributes.int("integer") != Some(1),
        ),
        OpKind::Gelu | OpKind::GeluTanh => u64::from(op.attributes.int("bias") == Some(1)),
        OpKind::Softmax => u64::from(op.attributes.int("mask") == Some(1)),
        _ => 0,
    };
    total([bias, u64::from(residual(op)), chain(op.attributes.text("activation"))].into_iter())
}

/// Operations per output element of operators whose kinds are joined by `+`.
fn chain(kinds: Option<&str>) -> u64 {
    total(
        kinds
            .unwrap_or_default()
            .split('+')
            .filter_map(|name| per_element(&OpKind::from(name.to_owned()))),
    )
}

fn residual(op: &OpSpec) -> bool {
    op.attributes.int("residual").is_some_and(|r| r != 0)
}

/// Whether the third input of a product is the residual and not a bias.
fn residual_only(op: &OpSpec) -> bool {
    residual(op) && op.inputs.len() == 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attribute, Attributes, Operand, Work};

    fn op(kind: OpKind, attributes: Attributes, inputs: &[&[usize]], output: &[usize]) -> OpSpec {
        let inputs = inputs
            .iter()
            .map(|&shape| Operand { tensor: TensorSpec::f32(shape), constant: false })
            .collect();
        OpSpec { kind, attributes, inputs, outputs: vec![TensorSpec::f32(output)] }
    }

    #[test]
    fn by_hand() {
        let none = Attributes::new;
        let text = |name: &str, value: &str| none().with(name, Attribute::Text(value.to_owned()));
        let image: &[usize] = &[1, 4, 6, 6];
        // (operator, FLOPs)
        let cases = [
            (op(OpKind::Add, none(), &[image, &[4, 1, 1]], image), 144),
            (op(OpKind::Softmax, none(), &[&[3, 10]], &[3, 10]), 150),
            (op(OpKind::Softmax, none().with_int("mask", 1), &[&[3, 10], &[10]], &[3, 10]), 180),
            (op(OpKind::MatMul, none(), &[&[3, 10], &[10, 7], &[7]], &[3, 7]), 21 * 21),
            (op(OpKind::LayerNorm, none(), &[&[3, 10], &[10], &[10]], &[3, 10]), 210),
            (
                op(
                    OpKind::LayerNorm,
                    none().with_int("residual", 1),
                    &[&[3, 10], &[10], &[10], &[3, 10]],
                    &[3, 10],
                ),
                240,
            ),
            (op(OpKind::Gelu, none(), &[&[3, 10]], &[3, 10]), 150),
            (op(OpKind::Gelu, none().with_int("bias", 1), &[&[3, 10], &[10]], &[3, 10]), 180),
            (
                op(
                    OpKind::MaxPool,
                    none().with_ints("kernel_shape", [3, 3]),
                    &[image],
                    &[1, 4, 2, 2],
                ),
                16 * 9,
            ),
            (op(OpKind::GlobalAveragePool, none(), &[image], &[1, 4, 1, 1]), 144),
            (op(OpKind::ReduceL2, none(), &[&[3, 10]], &[3, 1]), 60),
            (op(OpKind::Resize, text("mode", "nearest"), &[image], &[1, 4, 12, 12]), 0),
            (op(OpKind::Resize, text("mode", "linear"), &[image], &[1, 4, 12, 12]), 576 * 7),
            (op(OpKind::Resize, text("mode", "linear"), &[&[1, 4, 6]], &[1, 4, 12]), 48 * 3),
            (
                op(OpKind::Resize, text("mode", "cubic"), &[&[1, 1, 2, 2, 2]], &[1, 1, 4, 4, 4]),
                64 * 127,
            ),
            (
                op(
                    OpKind::GridSample,
                    none(),
                    &[&[1, 1, 2, 2, 2], &[1, 4, 4, 4, 3]],
                    &[1, 1, 4, 4, 4],
                ),
                64 * 15,
            ),
            (op(OpKind::Add, none(), &[image, image, image, image], image), 3 * 144),
            (op(OpKind::Max, none(), &[image, image, image], image), 2 * 144),
            (op(OpKind::Transpose, none(), &[image], &[4, 1, 6, 6]), 0),
            // 36 MACs per output, then bias and relu
            (
                op(
                    OpKind::Conv,
                    text("activation", "relu"),
                    &[image, &[8, 4, 3, 3], &[8]],
                    &[1, 8, 6, 6],
                ),
                288 * (72 + 1 + 1),
            ),
            // residual without a bias, then hard_swish
            (
                op(
                    OpKind::Conv,
                    text("activation", "hard_swish").with_int("residual", 1),
                    &[image, &[8, 4, 3, 3], &[1, 8, 6, 6]],
                    &[1, 8, 6, 6],
                ),
                288 * (72 + 1 + 5),
            ),
            (op(OpKind::Linear, none(), &[&[3, 10], &[10, 7], &[7]], &[3, 7]), 21 * 21),
            // 6 x 10 x 7 scores: 16 MACs and a softmax each
            (
                op(
                    OpKind::Attention,
                    none(),
                    &[&[2, 3, 10, 8], &[2, 3, 7, 8], &[2, 3, 7, 8]],
                    &[2, 3, 10, 8],
                ),
                420 * (32 + 5),
            ),
            (
                op(
                    OpKind::Elementwise,
                    none().with("ops", Attribute::Text("mul+add+gelu".into())),
                    &[&[3, 10], &[10]],
                    &[3, 10],
                ),
                210,
            ),
            (op(OpKind::Unsupported("Foo".into()), none(), &[image], image), 0),
        ];
        for (op, expected) in cases {
            assert_eq!(Work::of_operator(&op).flops, expected, "{} {:?}", op.kind, op.inputs);
        }
    }
}
