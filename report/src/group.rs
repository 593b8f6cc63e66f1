//! [`Group`]: kinds of models that figures are shown for apart.

use std::fmt;
use vitempo::graph::{Graph, ModelIdentity, Node, OpKind};

/// What kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Sampled from a search space.
    Synthetic,
    /// A real model with attention in its graph: a product of two computed tensors, or a softmax
    /// that something reads.
    Transformer,
    /// A real model whose graph does not.
    Convolutional,
    /// A real model without a graph.
    Real,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 4] =
        [Self::Synthetic, Self::Transformer, Self::Convolutional, Self::Real];

    /// `None` for a network around a single operator.
    pub fn of(model: &ModelIdentity, graph: Option<&Graph>) -> Option<Self> {
        let weighs = |g: &Graph, n: &Node| match n.op.kind {
            OpKind::MatMul | OpKind::Attention | OpKind::Einsum => true,
            OpKind::Softmax => !n.outputs.iter().any(|o| g.outputs().contains(o)),
            _ => false,
        };
        let attends = |g: &Graph| g.nodes().iter().any(|n| weighs(g, n));
        match (&model.space, graph) {
            _ if model.is_operator() => None,
            (Some(_), _) => Some(Self::Synthetic),
            (None, Some(graph)) => {
                Some(if attends(graph) { Self::Transformer } else { Self::Convolutional })
            }
            (None, None) => Some(Self::Real),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Synthetic => "synthetic",
            Self::Transformer => "real ViT",
            Self::Convolutional => "real CNN",
            Self::Real => "real",
        })
    }
}
