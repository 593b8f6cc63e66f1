//! Which operators of a model the interpreter gives to XNNPACK, derived from the delegate's source
//! (LiteRT 2.3) and from models of one operator each.

use crate::{Graph, Node, Precision};

/// The largest number of dimensions XNNPACK takes.
const MAX_RANK: usize = 6;

/// Operators that XNNPACK takes with any attributes, if they compute on floats.
const TAKEN: &[&str] = &[
    "ABS",
    "ADD",
    "AVERAGE_POOL_2D",
    "BATCH_MATMUL",
    "CEIL",
    "CONV_2D",
    "COS",
    "DEPTHWISE_CONV_2D",
    "DEPTH_TO_SPACE",
    "DEQUANTIZE",
    "DIV",
    "ELU",
    "EXP",
    "FLOOR",
    "FULLY_CONNECTED",
    "GELU",
    "HARD_SWISH",
    "LEAKY_RELU",
    "LOG",
    "LOGISTIC",
    "MAXIMUM",
    "MAX_POOL_2D",
    "MEAN",
    "MINIMUM",
    "MUL",
    "NEG",
    "PAD",
    "PRELU",
    "QUANTIZE",
    "REDUCE_MAX",
    "REDUCE_MIN",
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "RESHAPE",
    "RESIZE_BILINEAR",
    "ROUND",
    "RSQRT",
    "SIN",
    "SLICE",
    "SOFTMAX",
    "SPACE_TO_DEPTH",
    "SQRT",
    "SQUARE",
    "SQUARED_DIFFERENCE",
    "SUB",
    "SUM",
    "TANH",
    "TRANSPOSE",
    "TRANSPOSE_CONV",
];

/// Whether XNNPACK takes an operator of that name.
pub(super) fn taken(code: &str, node: &Node) -> bool {
    let numbers = |p: Precision| matches!(p, Precision::F32 | Precision::I8);
    let tensors =
        || node.op.inputs.iter().filter(|i| !i.constant).map(|i| &i.tensor).chain(&node.op.outputs);
    if tensors().any(|t| !numbers(t.precision) || t.rank() > MAX_RANK) {
        return false;
    }
    match code {
        "CONCATENATION" => (2..=5).contains(&node.inputs.len()),
        "SPLIT" => (2..=4).contains(&node.outputs.len()),
        "STRIDED_SLICE" => node.op.attributes.ints("steps").iter().all(|&s| s == 1),
        // XNNPACK transforms constant filters while it prepares: those that are computed it
        // refuses.
        "CONV_2D" | "DEPTHWISE_CONV_2D" | "TRANSPOSE_CONV" => {
            node.op.inputs.iter().skip(1).all(|i| i.constant || i.tensor.rank() == 4)
        }
        _ => TAKEN.binary_search(&code).is_ok(),
    }
}

/// For each operator whether it runs in a kernel of the interpreter.
pub(super) fn builtin(operators: &Graph, codes: &[&str]) -> Vec<bool> {
    operators.nodes().iter().zip(codes).map(|(node, code)| !taken(code, node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(TAKEN.is_sorted());
    }
}
