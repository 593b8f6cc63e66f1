//! What ONNX's specification says of operands, where shape inference does not need it: shapes of
//! biases and of Gemm's factors, and the element types that operators take, for those whose first
//! input decides. What is in no list takes any type here: engines read more than the specification
//! has.

use crate::{Operand, Precision, TensorSpec};

/// Take floating-point numbers only.
const FLOATS: &[&str] = &[
    "AveragePool",
    "BatchNormalization",
    "Celu",
    "Conv",
    "ConvTranspose",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Gelu",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "Mean",
    "Mish",
    "RMSNormalization",
    "Reciprocal",
    "Selu",
    "Sigmoid",
    "Sin",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tanh",
];

/// Take numbers, and no truth values.
const NUMBERS: &[&str] = &[
    "Abs", "Add", "Clip", "CumSum", "Div", "Gemm", "MatMul", "Mod", "Mul", "Neg", "PRelu", "Pow",
    "Relu", "Sign", "Sub", "Sum",
];

/// Whether an operator takes its first input; of Gemm, whether both factors are matrices.
///
/// # Errors
/// A sentence that says what it takes.
pub(super) fn check(operator: &str, inputs: &[Operand]) -> Result<(), String> {
    let Some(found) = inputs.first().map(|input| input.tensor.precision) else { return Ok(()) };
    if let Some(operand) = inputs.iter().take(2).find(|i| i.tensor.rank() != 2)
        && operator == "Gemm"
    {
        let rank = operand.tensor.rank();
        return Err(format!("an input has {rank} dimensions; it takes matrices only"));
    }
    let taken = if FLOATS.contains(&operator) && !found.is_float() {
        "floating-point numbers"
    } else if NUMBERS.contains(&operator) && found == Precision::Bool {
        "numbers"
    } else {
        return Ok(());
    };
    Err(format!("its input is {found}; it takes {taken} only"))
}

/// Whether the third input of a convolution or of Gemm can be added to the output.
///
/// # Errors
/// A sentence with both shapes.
pub(super) fn check_bias(
    operator: &str,
    inputs: &[Operand],
    outputs: &[TensorSpec],
) -> Result<(), String> {
    let (Some(bias), Some(output)) = (inputs.get(2), outputs.first()) else { return Ok(()) };
    let (bias, output) = (&bias.tensor.shape, &output.shape);
    let fits = match operator {
        "Conv" | "ConvTranspose" => output.get(1).is_none_or(|&channels| bias[..] == [channels]),
        "Gemm" => {
            let ends = bias.iter().rev().zip(output.iter().rev());
            bias.len() <= output.len() && ends.into_iter().all(|(&b, &o)| b == 1 || b == o)
        }
        _ => true,
    };
    if fits {
        return Ok(());
    }
    let text =
        |shape: &[usize]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    Err(format!("its bias of {} does not fit its output of {}", text(bias), text(output)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_fit_the_output() {
        let of = |operator: &str, bias: &[usize], output: &[usize]| {
            let operand =
                |shape: &[usize]| Operand { tensor: TensorSpec::f32(shape), constant: true };
            let inputs = [operand(&[1]), operand(&[1]), operand(bias)];
            check_bias(operator, &inputs, &[TensorSpec::f32(output)])
        };
        assert_eq!(of("Conv", &[8], &[1, 8, 4, 4]), Ok(()));
        assert_eq!(
            of("Conv", &[4], &[1, 8, 4, 4]),
            Err("its bias of 4 does not fit its output of 1x8x4x4".to_owned())
        );
        assert!(of("Conv", &[0], &[1, 8]).is_err() && of("Gemm", &[3], &[1, 1000]).is_err());
        for bias in [&[1000][..], &[1, 1000], &[1], &[2, 1], &[]] {
            assert_eq!(of("Gemm", bias, &[2, 1000]), Ok(()));
        }
    }

    #[test]
    fn first_inputs_are_of_a_type_that_the_operator_takes() {
        let of = |operator: &str, precision: Precision| {
            let tensor = TensorSpec::new([2], precision);
            check(operator, &[Operand { tensor, constant: false }])
        };
        assert_eq!(
            of("Swish", Precision::Bool),
            Err("its input is bool; it takes floating-point numbers only".to_owned())
        );
        assert!(of("Softmax", Precision::I64).is_err() && of("Add", Precision::Bool).is_err());
        for precision in [Precision::F32, Precision::F16, Precision::Bf16, Precision::F64] {
            assert_eq!(of("Swish", precision), Ok(()));
        }
        assert_eq!(
            of("Gemm", Precision::F32),
            Err("an input has 1 dimensions; it takes matrices only".to_owned())
        );
        assert_eq!(of("Relu", Precision::I8), Ok(()));
        assert_eq!(of("Where", Precision::Bool), Ok(()));
        assert!(FLOATS.is_sorted() && NUMBERS.is_sorted());
    }
}
