//! Lowering: rewrites a graph into the kernels that a framework runs for it, by rules. No engine is
//! needed.

pub mod compare;
mod elimination;
pub mod litert;
pub mod onnxruntime;
pub mod openvino;
pub mod precision;
pub mod rten;
pub mod torch;

use crate::{Budget, Environment, Exceeded, Framework, Graph, GraphError, tflite::TfliteError};
use precision::UnsupportedPrecision;

/// Frameworks there are rules for.
pub const FRAMEWORKS: &[&str] = &[
    Framework::LiteRt.name(),
    Framework::LiteRtBuiltin.name(),
    Framework::OnnxRuntime.name(),
    Framework::OpenVino.name(),
    Framework::Rten.name(),
    Framework::Torch.name(),
];

/// Why the kernels of a model are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoweringError {
    /// The framework has no rules.
    #[error(
        "the framework `{framework}` has no lowering rules, so the kernels that it runs are not \
        known (there are rules for {})",
        FRAMEWORKS.join(", ")
    )]
    NoRules {
        /// Name of the framework.
        framework: String,
    },
    /// The framework has no kernel for an operator in its element type.
    #[error(transparent)]
    Precision(#[from] UnsupportedPrecision),
    /// The framework cannot express an operator.
    #[error("model `{model}` cannot run in {framework}: {source}")]
    Inexpressible {
        /// Name of the framework.
        framework: String,
        /// Name of the model.
        model: String,
        /// The node and the reason.
        source: Box<TfliteError>,
    },
    /// The lowering takes more than its budget.
    #[error(
        "the lowering of model `{model}` for {framework} ended early{}: {source}",
        node.as_ref().map_or_else(String::new, |node| format!(" at node `{node}`"))
    )]
    Exceeded {
        /// Name of the framework.
        framework: String,
        /// Name of the model.
        model: String,
        /// The node at which the budget ran out, where it is one.
        node: Option<String>,
        /// The exceeded limit, and its value.
        source: Exceeded,
    },
    /// The rewritten graph is not sound.
    #[error("the lowering of model `{model}` for {framework} fails: {source}")]
    Graph {
        /// Name of the framework.
        framework: String,
        /// Name of the model.
        model: String,
        /// The node and the reason.
        source: Box<GraphError>,
    },
}

impl LoweringError {
    /// The node that the framework cannot run, where it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::NoRules { .. } => None,
            Self::Exceeded { node, .. } => node.as_deref(),
            Self::Precision(refusal) => Some(&refusal.node),
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
    lower_within(graph, environment, &Budget::default())
}

/// [`lower`] within a budget: the requester can stop it, and gets an error soon after.
///
/// # Errors
/// As [`lower`], and [`LoweringError::Exceeded`] when the budget is spent or the work was stopped.
pub fn lower_within(
    graph: &Graph,
    environment: &Environment,
    budget: &Budget,
) -> Result<Graph, LoweringError> {
    let framework = || environment.framework.clone();
    let Some(known) = Framework::named(&environment.framework) else {
        return Err(LoweringError::NoRules { framework: framework() });
    };
    precision::check(graph, environment)?;
    let refusal = Refusal { framework: &environment.framework, model: graph.name() };
    let litert = |xnnpack| {
        litert::lower_within(graph, xnnpack, environment.precision, budget)
            .map_err(|error| refusal.inexpressible(error))
    };
    let kernels = match known {
        Framework::LiteRt => return litert(true),
        Framework::LiteRtBuiltin => return litert(false),
        Framework::OnnxRuntime => onnxruntime::lower_for(graph, environment, budget),
        Framework::OpenVino => openvino::lower_for(graph, environment, budget),
        Framework::Rten => rten::lower_for(graph, environment, budget),
        Framework::Torch => torch::lower(graph, environment, budget),
        Framework::Null => Ok(graph.clone()),
        Framework::Qnn | Framework::Tract => {
            return Err(LoweringError::NoRules { framework: framework() });
        }
    };
    kernels.map_err(|error| refusal.unsound(error))
}

/// Names the framework and the model in an error.
struct Refusal<'a> {
    framework: &'a str,
    model: &'a str,
}

impl Refusal<'_> {
    fn inexpressible(&self, error: TfliteError) -> LoweringError {
        match error {
            TfliteError::Exceeded { node, source } => self.exceeded(node, source),
            other => LoweringError::Inexpressible {
                framework: self.framework.to_owned(),
                model: self.model.to_owned(),
                source: Box::new(other),
            },
        }
    }

    fn unsound(&self, error: GraphError) -> LoweringError {
        match error {
            GraphError::Exceeded { node, source } => self.exceeded(node, source),
            other => LoweringError::Graph {
                framework: self.framework.to_owned(),
                model: self.model.to_owned(),
                source: Box::new(other),
            },
        }
    }

    fn exceeded(&self, node: Option<String>, source: Exceeded) -> LoweringError {
        let (framework, model) = (self.framework.to_owned(), self.model.to_owned());
        LoweringError::Exceeded { framework, model, node, source }
    }
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
            beside: None,
            settings: Vec::new(),
            host: None,
        }
    }

    /// A model of one operator that vitempo does not support.
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
