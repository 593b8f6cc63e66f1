//! Lowering: which kernels a framework really runs for a graph. Data and rules; no engine is
//! needed.

pub mod compare;
mod elimination;
pub mod litert;
pub mod onnxruntime;
pub mod openvino;
pub mod precision;
pub mod rten;
pub mod torch;

use crate::{Environment, Framework, Graph, Precision, quantize};

/// Frameworks there are rules for.
pub const FRAMEWORKS: &[&str] = &[
    Framework::LiteRt.name(),
    Framework::LiteRtBuiltin.name(),
    Framework::OnnxRuntime.name(),
    Framework::OpenVino.name(),
    Framework::Rten.name(),
    Framework::Torch.name(),
];

/// The kernels the environment's framework runs for `graph`, as a graph whose nodes are kernels;
/// `None` when there are no rules for it.
#[must_use]
pub fn lower(graph: &Graph, environment: &Environment) -> Option<Graph> {
    match Framework::named(&environment.framework)? {
        Framework::LiteRt => litert::lower(graph, true, environment.precision).ok(),
        Framework::LiteRtBuiltin => litert::lower(graph, false, environment.precision).ok(),
        Framework::OnnxRuntime => onnxruntime::lower_for(graph, environment).ok(),
        Framework::OpenVino => match environment.precision {
            Precision::I8 => quantize::qdq(graph, &quantize::Options::default())
                .and_then(|graph| openvino::lower(&graph, openvino::Settings::of(environment)))
                .ok(),
            _ => openvino::lower(graph, openvino::Settings::of(environment)).ok(),
        },
        Framework::Rten => match environment.precision {
            Precision::I8 => quantize::integer(graph, &quantize::Options::default())
                .ok()
                .map(|graph| rten::lower(&graph)),
            _ => Some(rten::lower(graph)),
        },
        Framework::Torch => Some(torch::lower(graph, environment)),
        Framework::Null => Some(graph.clone()),
        Framework::Qnn | Framework::Tract => None,
    }
}
