//! Element types for which an engine has no kernel. The engine refuses to load such a model, so it
//! has no forecast.
//!
//! | engine | refuses |
//! |---|---|
//! | ONNX Runtime on the CPU | bf16 in all operators except those that move elements, Cast and LayerNormalization; f64 in convolutions, pooling and some activations. f16 is cast to f32 and back. |
//! | rten | bf16 (f16 and f64 become f32 when the file is read) |
//! | LiteRT | bf16; f64 in products |
//!
//! ONNX Runtime: kernels registered for the CPU (`docs/OperatorKernels.md`), confirmed by loading
//! one model per operator and type with version 1.32. OpenVINO and torch take every floating-point
//! type.

use crate::{Environment, Framework, Graph, OpKind, OpSpec, Precision, Processor};

/// A node that the engine has no kernel for in this element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "node `{node}`: {framework} has no {processor} kernel for `{kind}` in {precision} and refuses \
    to load the model"
)]
pub struct UnsupportedPrecision {
    /// Name of the node.
    pub node: String,
    /// Its kind.
    pub kind: OpKind,
    /// The element type.
    pub precision: Precision,
    /// Name of the engine.
    pub framework: String,
    /// The processor.
    pub processor: Processor,
}

/// Whether the environment's engine has kernels for the element types of a model as its file has
/// it. Engines of which nothing is known take everything.
///
/// # Errors
/// The first node without a kernel.
pub fn check(graph: &Graph, environment: &Environment) -> Result<(), UnsupportedPrecision> {
    let Some(refuses) = rules(environment) else { return Ok(()) };
    let refused = |op: &OpSpec| {
        [Precision::Bf16, Precision::F64]
            .into_iter()
            .find(|&precision| touches(op, precision) && refuses(op, precision))
    };
    for node in graph.nodes() {
        if let Some(precision) = refused(&node.op) {
            return Err(UnsupportedPrecision {
                node: node.name.clone(),
                kind: node.op.kind.clone(),
                precision,
                framework: environment.framework.clone(),
                processor: environment.processor,
            });
        }
    }
    Ok(())
}

/// Whether an operator in an element type is refused.
type Refuses = fn(&OpSpec, Precision) -> bool;

fn rules(environment: &Environment) -> Option<Refuses> {
    match (Framework::named(&environment.framework)?, environment.processor) {
        (Framework::OnnxRuntime, Processor::Cpu) => Some(onnxruntime),
        (Framework::Rten, _) => Some(|_, precision| precision == Precision::Bf16),
        (Framework::LiteRt | Framework::LiteRtBuiltin, _) => Some(litert),
        _ => None,
    }
}

fn touches(op: &OpSpec, precision: Precision) -> bool {
    op.activations().chain(&op.outputs).any(|tensor| tensor.precision == precision)
}

fn litert(op: &OpSpec, precision: Precision) -> bool {
    precision == Precision::Bf16 || op.kind.is_product()
}

fn onnxruntime(op: &OpSpec, precision: Precision) -> bool {
    use OpKind as K;
    let kind = &op.kind;
    if precision == Precision::F64 {
        return matches!(
            kind,
            K::Conv
                | K::ConvTranspose
                | K::AveragePool
                | K::GlobalAveragePool
                | K::GlobalMaxPool
                | K::InstanceNorm
                | K::Resize
                | K::PRelu
                | K::LeakyRelu
                | K::Elu
                | K::HardSigmoid
                | K::HardSwish
                | K::Gelu
                | K::Mish
                | K::Softplus
                | K::Erf
                | K::Quantize
        );
    }
    let is_sign = *kind == K::Round && op.attributes.text("op") == Some("Sign");
    let is_taken = matches!(
        kind,
        K::Transpose
            | K::Reshape
            | K::Concat
            | K::Split
            | K::Slice
            | K::Gather
            | K::GatherNd
            | K::GatherElements
            | K::ScatterNd
            | K::Pad
            | K::Cast
            | K::Identity
            | K::Shape
            | K::ConstantOfShape
            | K::LayerNorm
            | K::Unsupported(_)
    );
    !is_taken && !is_sign
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, Node, TensorSpec, Value, ValueId, ValueSource};

    fn model(kind: OpKind, from: Precision, to: Precision) -> Graph {
        let value = |name: &str, precision, source| Value {
            name: name.to_owned(),
            tensor: Some(TensorSpec::new([1, 4, 8, 8], precision)),
            source,
        };
        let values =
            vec![value("x", from, ValueSource::Input), value("y", to, ValueSource::Node(0))];
        let (inputs, outputs) = (vec![ValueId(0)], vec![ValueId(1)]);
        let node =
            Node::new("here", kind, Attributes::new(), &values, inputs.clone(), outputs.clone());
        Graph::new("g", values, vec![node], inputs, outputs).unwrap_or_else(|e| panic!("{e}"))
    }

    fn environment(framework: &str, processor: Processor) -> Environment {
        Environment {
            device: String::new(),
            processor,
            cores_available: 1,
            cores: Vec::new(),
            framework: framework.to_owned(),
            framework_version: String::new(),
            threads: 1,
            precision: Precision::F32,
            memory_format: None,
            power_mode: None,
            isa: String::new(),
            os: String::new(),
            beside: None,
            settings: Vec::new(),
            host: None,
        }
    }

    #[test]
    fn each_engine_refuses_what_it_has_no_kernel_for() {
        use OpKind as K;
        use Precision::{Bf16, F16, F32, F64};
        use Processor::{Cpu, Gpu};
        // (framework, processor, kind, element types read and written, whether it is refused)
        for (framework, processor, kind, from, to, refused) in [
            ("onnxruntime", Cpu, K::Conv, Bf16, Bf16, true),
            ("onnxruntime", Cpu, K::MatMul, Bf16, Bf16, true),
            ("onnxruntime", Cpu, K::Compare, Bf16, Precision::Bool, true),
            ("onnxruntime", Cpu, K::Transpose, Bf16, Bf16, false),
            ("onnxruntime", Cpu, K::Cast, Bf16, F32, false),
            ("onnxruntime", Cpu, K::Conv, F16, F16, false),
            ("onnxruntime", Cpu, K::Conv, F32, F32, false),
            ("onnxruntime", Cpu, K::Conv, F64, F64, true),
            ("onnxruntime", Cpu, K::MatMul, F64, F64, false),
            ("onnxruntime", Gpu, K::Conv, Bf16, Bf16, false),
            ("rten", Cpu, K::Relu, Bf16, Bf16, true),
            ("rten", Cpu, K::Conv, F64, F64, false),
            ("litert", Cpu, K::Relu, Bf16, Bf16, true),
            ("litert-builtin", Cpu, K::Conv, F64, F64, true),
            ("openvino", Cpu, K::Conv, Bf16, Bf16, false),
            ("torch", Cpu, K::Conv, Bf16, Bf16, false),
            ("another", Processor::Npu, K::Conv, Bf16, Bf16, false),
        ] {
            let result = check(&model(kind.clone(), from, to), &environment(framework, processor));
            assert_eq!(result.is_err(), refused, "{framework} {kind} {from}");
        }
        let error = check(&model(K::Conv, Bf16, Bf16), &environment("onnxruntime", Cpu));
        assert_eq!(
            error.map_err(|e| e.to_string()),
            Err("node `here`: onnxruntime has no cpu kernel for `conv` in bf16 and refuses to \
                load the model"
                .to_owned())
        );
    }
}
