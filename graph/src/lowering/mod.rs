//! Lowering: which kernels a framework really runs for a graph. Data and rules; no engine is
//! needed.

pub mod compare;
mod elimination;
pub mod litert;
pub mod onnxruntime;
pub mod openvino;
pub mod rten;
pub mod torch;

use crate::{Environment, Graph, GraphError, tflite::TfliteError};

/// Frameworks there are rules for.
pub const FRAMEWORKS: &[&str] =
    &["litert", "litert-builtin", "onnxruntime", "openvino", "rten", "torch"];

/// Why the kernels of a model are not known.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LoweringError {
    #[error(
        "the framework `{framework}` has no lowering rules, so the kernels that it runs are not \
        known (there are rules for {})",
        FRAMEWORKS.join(", ")
    )]
    NoRules { framework: String },
    #[error("model `{model}` cannot run in {framework}: {source}")]
    Inexpressible { framework: String, model: String, source: Box<TfliteError> },
    #[error("the lowering of model `{model}` for {framework} fails: {source}")]
    Graph { framework: String, model: String, source: Box<GraphError> },
}

impl LoweringError {
    /// The node that the framework cannot run, where it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::NoRules { .. } => None,
            Self::Inexpressible { source, .. } => source.node(),
            Self::Graph { source, .. } => source.node(),
        }
    }
}

/// The kernels the environment's framework runs for `graph`, as a graph whose nodes are kernels.
///
/// # Errors
/// [`LoweringError`]: there are no rules for the framework, or it cannot express the model; with
/// the node and the reason.
pub fn lower(graph: &Graph, environment: &Environment) -> Result<Graph, LoweringError> {
    let (framework, model) = (|| environment.framework.clone(), || graph.name().to_owned());
    let litert = |xnnpack| {
        litert::lower(graph, xnnpack, environment.precision).map_err(|source| {
            let source = Box::new(source);
            LoweringError::Inexpressible { framework: framework(), model: model(), source }
        })
    };
    let kernels = match environment.framework.as_str() {
        "litert" => return litert(true),
        "litert-builtin" => return litert(false),
        "onnxruntime" => onnxruntime::lower_for(graph, environment),
        "openvino" => openvino::lower_for(graph, environment),
        "rten" => rten::lower_for(graph, environment),
        "torch" => torch::lower(graph, environment),
        "null" => Ok(graph.clone()),
        _ => return Err(LoweringError::NoRules { framework: framework() }),
    };
    kernels.map_err(|source| LoweringError::Graph {
        framework: framework(),
        model: model(),
        source: Box::new(source),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        Attributes, Node, OpKind, Precision, Processor, TensorSpec, Value, ValueId, ValueSource,
    };

    fn environment(framework: &str) -> Environment {
        Environment {
            device: "test".to_owned(),
            processor: Processor::Cpu,
            cores_available: 1,
            cores: vec![],
            framework: framework.to_owned(),
            framework_version: "1".to_owned(),
            threads: 1,
            precision: Precision::F32,
            memory_format: None,
            power_mode: None,
            isa: String::new(),
            os: String::new(),
        }
    }

    /// A model of one operator that nobody knows.
    fn strange() -> Graph {
        let value = |name: &str, source| {
            let tensor = Some(TensorSpec::f32([1, 4]));
            Value { name: name.to_owned(), tensor, source }
        };
        let values = vec![value("x", ValueSource::Input), value("y", ValueSource::Node(0))];
        let (x, y) = (vec![ValueId(0)], vec![ValueId(1)]);
        let kind = OpKind::Unsupported("Strange".to_owned());
        let node = Node::new("odd", kind, Attributes::new(), &values, x.clone(), y.clone());
        Graph::new("m", values, vec![node], x, y).unwrap()
    }

    #[test]
    fn a_model_that_the_framework_cannot_express_is_told_from_a_framework_without_rules() {
        let message =
            |framework| lower(&strange(), &environment(framework)).unwrap_err().to_string();
        let inexpressible = message("litert");
        assert!(
            inexpressible.starts_with("model `m` cannot run in litert: node `odd` cannot be"),
            "{inexpressible}"
        );
        assert!(inexpressible.contains("Strange"), "{inexpressible}");
        let error = lower(&strange(), &environment("litert")).unwrap_err();
        assert_eq!(error.node(), Some("odd"));
        let none = message("abacus");
        assert!(none.contains("`abacus` has no lowering rules"), "{none}");
    }
}
