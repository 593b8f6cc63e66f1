//! Element types that operators of ONNX's own domain take, as its specification lists them, for
//! operators whose first input decides. What is in no list takes any type here: engines read more
//! than the specification has.

use crate::{Operand, Precision};

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
    "Relu", "Sign", "Sub",
];

/// Whether an operator takes its first input.
///
/// # Errors
/// A sentence that says what it takes.
pub(super) fn check(operator: &str, inputs: &[Operand]) -> Result<(), String> {
    let Some(found) = inputs.first().map(|input| input.tensor.precision) else { return Ok(()) };
    let taken = if FLOATS.contains(&operator) && !found.is_float() {
        "floating-point numbers"
    } else if NUMBERS.contains(&operator) && found == Precision::Bool {
        "numbers"
    } else {
        return Ok(());
    };
    Err(format!("its input is {found}; it takes {taken} only"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorSpec;

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
        assert_eq!(of("Relu", Precision::I8), Ok(()));
        assert_eq!(of("Where", Precision::Bool), Ok(()));
        assert!(FLOATS.is_sorted() && NUMBERS.is_sorted());
    }
}
