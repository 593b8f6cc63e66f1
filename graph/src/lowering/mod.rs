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

use crate::{Environment, Graph, Precision, quantize};

/// Frameworks there are rules for.
pub const FRAMEWORKS: &[&str] =
    &["litert", "litert-builtin", "onnxruntime", "openvino", "rten", "torch"];

/// The kernels the environment's framework runs for `graph`, as a graph whose nodes are kernels;
/// `None` when there are no rules for it.
#[must_use]
pub fn lower(graph: &Graph, environment: &Environment) -> Option<Graph> {
    match environment.framework.as_str() {
        "litert" => litert::lower(graph, true, environment.precision).ok(),
        "litert-builtin" => litert::lower(graph, false, environment.precision).ok(),
        "onnxruntime" => onnxruntime::lower_for(graph, environment).ok(),
        "openvino" => match environment.precision {
            Precision::I8 => quantize::qdq(graph, &quantize::Options::default())
                .and_then(|graph| openvino::lower(&graph, openvino::Settings::of(environment)))
                .ok(),
            _ => openvino::lower(graph, openvino::Settings::of(environment)).ok(),
        },
        "rten" => match environment.precision {
            Precision::I8 => quantize::integer(graph, &quantize::Options::default())
                .ok()
                .map(|graph| rten::lower(&graph)),
            _ => Some(rten::lower(graph)),
        },
        "torch" => Some(torch::lower(graph, environment)),
        "null" => Some(graph.clone()),
        _ => None,
    }
}
