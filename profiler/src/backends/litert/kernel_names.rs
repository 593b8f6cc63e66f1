//! XNNPACK's names of its kernels (`Fully Connected (NC, F32) GEMM`): which operators of a model
//! each may run, and in which element type.

use vitempo_graph::Precision;

/// Names up to the first bracket, with the TensorFlow Lite operators they run.
const FAMILIES: &[(&str, &[&str])] = &[
    ("Convolution", &["CONV_2D", "DEPTHWISE_CONV_2D"]),
    ("Fully Connected", &["FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL"]),
    ("Dynamic Fully Connected", &["FULLY_CONNECTED", "BATCH_MATMUL"]),
    ("Batch Matrix Multiply", &["BATCH_MATMUL"]),
    ("Deconvolution", &["TRANSPOSE_CONV"]),
    ("Max Pooling", &["MAX_POOL_2D"]),
    ("Average Pooling", &["AVERAGE_POOL_2D"]),
    ("Global Average Pooling", &["AVERAGE_POOL_2D", "MEAN"]),
    ("Mean", &["MEAN"]),
    ("Mean Squared", &["MEAN"]),
    ("Sum", &["SUM"]),
    ("Sum Squared", &["SUM"]),
    // XNNPACK's word for a sum of squares.
    ("Normalize", &["SUM"]),
    ("Reduce Max", &["REDUCE_MAX"]),
    ("Reduce Min", &["REDUCE_MIN"]),
    ("Softmax", &["SOFTMAX"]),
    ("Static Reshape", &["RESHAPE"]),
    ("Copy", &["CONCATENATION", "SPLIT", "RESHAPE", "SLICE", "STRIDED_SLICE"]),
    ("Slice", &["SLICE", "STRIDED_SLICE", "SPLIT"]),
    ("Transpose", &["TRANSPOSE"]),
    ("Constant Pad", &["PAD"]),
    ("Resize Bilinear", &["RESIZE_BILINEAR"]),
    ("Depth To Space", &["DEPTH_TO_SPACE"]),
    ("Space To Depth", &["SPACE_TO_DEPTH"]),
    ("Add", &["ADD"]),
    ("Subtract", &["SUB"]),
    ("Multiply", &["MUL"]),
    ("Divide", &["DIV"]),
    ("Maximum", &["MAXIMUM"]),
    ("Minimum", &["MINIMUM"]),
    ("Squared Difference", &["SQUARED_DIFFERENCE"]),
    ("PReLU", &["PRELU"]),
    ("Clamp", &["RELU", "RELU6", "RELU_N1_TO_1", "MAXIMUM", "MINIMUM"]),
    ("Sigmoid", &["LOGISTIC"]),
    ("HardSwish", &["HARD_SWISH"]),
    ("TanH", &["TANH"]),
    ("GELU", &["GELU"]),
    ("ApproxGELU", &["GELU"]),
    ("ELU", &["ELU"]),
    ("LeakyReLU", &["LEAKY_RELU"]),
    ("Exp", &["EXP"]),
    ("Log", &["LOG"]),
    ("Abs", &["ABS"]),
    ("Negate", &["NEG"]),
    ("Sine", &["SIN"]),
    ("Cosine", &["COS"]),
    ("Floor", &["FLOOR"]),
    ("Ceiling", &["CEIL"]),
    ("Bankders Rounding", &["ROUND"]),
    ("Bankers Rounding", &["ROUND"]),
    ("Square", &["SQUARE", "MUL"]),
    ("Square Root", &["SQRT"]),
    ("Reciprocal Square Root", &["RSQRT"]),
    ("Convert", &["QUANTIZE", "DEQUANTIZE", "CAST"]),
    // A table of 256 results instead of a chain of elementwise operators on 8-bit values.
    (
        "Invalid Unary Op",
        &[
            "LOGISTIC",
            "MUL",
            "TANH",
            "ELU",
            "LEAKY_RELU",
            "HARD_SWISH",
            "GELU",
            "EXP",
            "LOG",
            "SQRT",
            "RSQRT",
            "SQUARE",
            "ABS",
            "NEG",
            "RELU",
            "RELU6",
            "ADD",
        ],
    ),
];

/// Whether a kernel of that name may run that operator.
pub(super) fn runs(kernel: &str, operator: &str) -> bool {
    let family = family(kernel);
    FAMILIES.iter().any(|(name, operators)| *name == family && operators.contains(&operator))
}

/// Whether a kernel converts between element types.
pub(super) fn converts(kernel: &str) -> bool {
    family(kernel) == "Convert"
}

/// The element type a kernel's name says that it computes in.
pub(super) fn precision(kernel: &str) -> Option<Precision> {
    let inside = kernel.split_once('(')?.1.split(')').next()?;
    inside.split(", ").find_map(|word| match word {
        "F16" => Some(Precision::F16),
        "F32" => Some(Precision::F32),
        "QS8" | "QC8" => Some(Precision::I8),
        _ => None,
    })
}

fn family(kernel: &str) -> &str {
    kernel.split(" (").next().unwrap_or(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_operator_and_precision() {
        assert!(
            runs("Convolution (NHWC, F32) IGEMM", "CONV_2D")
                && runs("Fully Connected (NC, F32) GEMM", "CONV_2D")
        );
        assert!(
            runs("Copy (NC, X32)", "CONCATENATION")
                && !runs("Copy (NC, X32)", "ADD")
                && !runs("Mystery (NC)", "ADD")
        );
        assert_eq!(precision("Fully Connected (NC, F16) GEMM"), Some(Precision::F16));
        assert_eq!(precision("Convolution (NHWC, QC8) IGEMM"), Some(Precision::I8));
        assert_eq!(precision("Sigmoid (NC)"), None);
        assert!(converts("Convert (NC)"));
    }
}
