//! Sparse variants of a model: magnitude masks ([`masked`]), and structured pruning that makes
//! tensors smaller ([`structured`]).
//!
//! | variant | weights | shapes |
//! |---|---|---|
//! | [`masked`] | the smallest of each product become 0 | do not change |
//! | [`structured`] | whole channels and features are removed | inner ones shrink; inputs, results and named tensors do not |
//!
//! Nothing is trained. Names of nodes and tensors do not change, so that variants of one model can
//! be cut at the same tensors. Masks need the weights' values ([`crate::onnx::read_weights`]).
//! Structured pruning uses values where they exist; without them it gives the structure alone, for
//! forecasts.

mod channels;
mod dimensions;
mod masks;

pub use channels::structured;
pub use masks::masked;

use crate::{Graph, GraphError, OpKind, ValueId, ValueSource};
use std::collections::BTreeSet;

/// Why there is no such variant.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum SparsifyError {
    /// The share is out of its range.
    #[error("a share of {share} cannot be taken out; it lies above 0 and below 1")]
    Share {
        /// The requested share.
        share: f64,
    },
    /// A weight has no values.
    #[error("model `{model}`: weight `{weight}` has no values to go by")]
    NoValues {
        /// Name of the model.
        model: String,
        /// Name of the weight.
        weight: String,
    },
    /// There is nothing to take out.
    #[error("model `{model}`: {reason}")]
    Nothing {
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// There is no tensor of this name.
    #[error("model `{model}`: there is no tensor `{tensor}` whose shape could be kept")]
    NoTensor {
        /// Name of the model.
        model: String,
        /// Name of the tensor.
        tensor: String,
    },
    /// The nodes make up no graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

fn check_share(share: f64) -> Result<(), SparsifyError> {
    if share > 0.0 && share < 1.0 { Ok(()) } else { Err(SparsifyError::Share { share }) }
}

/// The matrices and kernels of convolutions and matrix products: floating-point constants of at
/// least two dimensions.
fn product_weights(graph: &Graph) -> BTreeSet<ValueId> {
    let products = graph.nodes().iter().filter(|node| {
        matches!(
            node.op.kind,
            OpKind::Conv | OpKind::ConvTranspose | OpKind::Linear | OpKind::MatMul
        )
    });
    let is_weight = |id: &ValueId| {
        let value = graph.value(*id);
        matches!(value.source, ValueSource::Constant(_))
            && value.tensor.as_ref().is_some_and(|t| t.precision.is_float() && t.rank() >= 2)
    };
    products.flat_map(|node| node.inputs.iter().take(2).copied()).filter(is_weight).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
