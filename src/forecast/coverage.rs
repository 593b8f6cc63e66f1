//! [`Coverage`]: how many operators of a forecast come from trained predictors, and which of the
//! model's operators vitempo does not support.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vitempo_graph::{Graph, GraphPrediction, Node, OpKind};

/// How many operators are forecast in which way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Kernels that will run.
    pub operators: usize,
    /// Of these, by a trained predictor.
    pub trained: usize,
    /// Of these, from their work alone.
    pub fallback: usize,
    /// Of the trained ones, outside the range of the training data.
    pub extrapolating: usize,
    /// Operators that vitempo does not support.
    pub unsupported: Vec<Unsupported>,
}

/// A node of the model whose operator vitempo does not support.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// Name of the node.
    pub node: String,
    /// Name of the operator.
    pub operator: String,
    /// Why it is not supported, where more is known than its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Unsupported {
    fn of(node: &Node) -> Option<Self> {
        let OpKind::Unsupported(operator) = &node.op.kind else { return None };
        let reason = node.op.attributes.text("reason").map(str::to_owned);
        Some(Self { node: node.name.clone(), operator: operator.clone(), reason })
    }
}

/// The operators of a model that vitempo does not support, by name, and how many there are of each.
/// A forecast has the bytes of their tensors and nothing of what they compute.
#[must_use]
pub fn unsupported_operators(graph: &Graph) -> BTreeMap<&str, usize> {
    let mut operators = BTreeMap::new();
    for (_, operator) in graph.unsupported() {
        *operators.entry(operator).or_default() += 1;
    }
    operators
}

/// Why operators of a model are not supported, by name: the reason of the first of each.
#[must_use]
pub fn unsupported_reasons(graph: &Graph) -> BTreeMap<String, String> {
    let mut reasons = BTreeMap::new();
    for Unsupported { operator, reason, .. } in graph.nodes().iter().filter_map(Unsupported::of) {
        if let Some(reason) = reason {
            reasons.entry(operator).or_insert(reason);
        }
    }
    reasons
}

impl Coverage {
    /// Of the forecast for a model as its file has it.
    #[must_use]
    pub fn of(graph: &Graph, prediction: &GraphPrediction) -> Self {
        let (operators, fallback) = (prediction.operators.len(), prediction.fallbacks().count());
        Self {
            operators,
            trained: operators - fallback,
            fallback,
            extrapolating: prediction.extrapolating().count(),
            unsupported: graph.nodes().iter().filter_map(Unsupported::of).collect(),
        }
    }
}
