//! [`Meaning`]: what an operation of TensorFlow Lite (`CONV_2D`) or PyTorch (`aten::relu`,
//! `vulkan_prepack::run_conv2d_context`) computes.

use vitempo_graph::OpKind;

/// What an operation computes, and so how its features are to be read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// `depthwise`: the number of filters is that per channel.
    Convolution {
        depthwise: bool,
    },
    Linear,
    MatMul,
    /// Two inputs of one shape: the features give only one.
    Binary(OpKind),
    /// One input, one output of the same shape.
    Unary(OpKind),
    /// `max(0, min(x, upper))`.
    ClippedRelu {
        upper: f64,
    },
    Pool(OpKind),
    /// To one element per channel.
    GlobalPool,
    /// Over height and width.
    Reduce(OpKind),
    Concat,
    Pad,
    Resize {
        mode: &'static str,
    },
    LayerNorm,
    BatchNorm,
    Reshape,
    Transpose,
    Quantize,
    Dequantize,
}

/// The meaning of an operation; `None`: vitempo does not support it, or its features never give its
/// shapes.
pub(super) fn meaning(operation: &str) -> Option<Meaning> {
    use Meaning as M;
    use OpKind as K;
    let lower = operation.to_lowercase();
    let name = lower.rsplit("::").next().unwrap_or(&lower).trim_end_matches('_');
    let name = name.strip_prefix("run_").unwrap_or(name);
    let name = name.strip_suffix("_context").unwrap_or(name);
    Some(match name {
        "depthwise_conv_2d" => M::Convolution { depthwise: true },
        "conv_2d" | "conv_2d_group" => M::Convolution { depthwise: false },
        "conv2d" | "convolution" | "conv2d_relu" | "conv2d_clamp" | "conv2d_clamp_run"
        | "prepack_conv2d" => M::Convolution { depthwise: false },
        "fully_connected" | "linear" | "addmm" | "linear_relu" | "linear_clamp_run"
        | "linear_dynamic" => M::Linear,
        "batch_matmul" | "matmul" | "bmm" | "baddbmm" | "mm" => M::MatMul,
        "add" | "add_relu" => M::Binary(K::Add),
        "sub" | "rsub" => M::Binary(K::Sub),
        "mul" => M::Binary(K::Mul),
        "div" => M::Binary(K::Div),
        "maximum" => M::Binary(K::Max),
        "minimum" => M::Binary(K::Min),
        "relu" => M::Unary(K::Relu),
        "relu6" => M::ClippedRelu { upper: 6.0 },
        "relu_n1_to_1" | "clamp" | "hardtanh" | "clip" => M::Unary(K::Clip),
        "leaky_relu" => M::Unary(K::LeakyRelu),
        "elu" => M::Unary(K::Elu),
        "logistic" | "sigmoid" => M::Unary(K::Sigmoid),
        "hard_swish" | "hardswish" => M::Unary(K::HardSwish),
        "hardsigmoid" => M::Unary(K::HardSigmoid),
        "silu" => M::Unary(K::Silu),
        "gelu" => M::Unary(K::Gelu),
        "mish" => M::Unary(K::Mish),
        "tanh" => M::Unary(K::Tanh),
        "erf" => M::Unary(K::Erf),
        "exp" => M::Unary(K::Exp),
        "log" => M::Unary(K::Log),
        "sqrt" => M::Unary(K::Sqrt),
        "abs" => M::Unary(K::Abs),
        "neg" => M::Unary(K::Neg),
        "sin" => M::Unary(K::Sin),
        "cos" => M::Unary(K::Cos),
        "softmax" => M::Unary(K::Softmax),
        "max_pool_2d" | "max_pool2d" => M::Pool(K::MaxPool),
        "average_pool_2d" | "avg_pool2d" => M::Pool(K::AveragePool),
        "adaptive_avg_pool2d" => M::GlobalPool,
        "mean" => M::Reduce(K::ReduceMean),
        "sum" => M::Reduce(K::ReduceSum),
        "reduce_max" => M::Reduce(K::ReduceMax),
        "concatenation" | "cat" => M::Concat,
        "pad" | "padv2" | "mirror_pad" | "constant_pad_nd" | "zero_pad2d" => M::Pad,
        "resize_bilinear" | "upsample_bilinear2d" => M::Resize { mode: "linear" },
        "resize_nearest_neighbor" | "upsample_nearest2d" => M::Resize { mode: "nearest" },
        "layer_norm" | "native_layer_norm" => M::LayerNorm,
        "batch_norm" | "native_batch_norm" | "batchnorm" => M::BatchNorm,
        "reshape" | "view" | "flatten" | "squeeze" | "unsqueeze" | "expand_dims" => M::Reshape,
        "transpose" | "permute" => M::Transpose,
        "quantize" | "quantize_per_tensor" => M::Quantize,
        "dequantize" => M::Dequantize,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_frameworks_are_known() {
        let cases = [
            ("CONV_2D_GROUP", Meaning::Convolution { depthwise: false }),
            ("DEPTHWISE_CONV_2D", Meaning::Convolution { depthwise: true }),
            ("vulkan_prepack::run_conv2d_context", Meaning::Convolution { depthwise: false }),
            ("vulkan_prepack::run_linear_context", Meaning::Linear),
            ("quantized::linear_relu", Meaning::Linear),
            ("vulkan_prepack::run_batchnorm_context", Meaning::BatchNorm),
            ("aten::add_", Meaning::Binary(OpKind::Add)),
            ("LOGISTIC", Meaning::Unary(OpKind::Sigmoid)),
            ("BATCH_MATMUL", Meaning::MatMul),
        ];
        for (name, expected) in cases {
            assert_eq!(meaning(name), Some(expected), "{name}");
        }
        assert_eq!((meaning("aten::roll"), meaning(""), meaning("::")), (None, None, None));
    }
}
