//! Other precisions of a model: static int8 with Q/DQ pairs ([`qdq`]), integer products with ranges
//! computed at run time ([`integer`]), f16 ([`half`]).
//!
//! [`qdq`] writes the same operators as static quantisers of ONNX models, so that engines fuse them
//! into their int8 kernels:
//!
//! | tensor | type | scale |
//! |---|---|---|
//! | read by a convolution or matrix product | u8, one scale and zero point | of its range (`moments`) |
//! | read by a product of two computed tensors | u8, around 0 unless never negative (`symmetry`) | of its largest magnitude |
//! | written by a convolution, or by a ReLU or clip behind a product | u8, one scale and zero point | of its range |
//! | weight | i8, symmetric, one scale per output channel | largest magnitude / 127 |
//! | bias of a convolution or linear layer | i32 | scale of the input x scale of the weight |
//!
//! [`qdq_results`] quantises what every product writes.
//!
//! All other readers of a quantised tensor read it dequantised. A model that already has quantised
//! operators is not changed. There is no calibration: ranges follow from the weights by propagating
//! means and variances. Weights without values are the seeded ones that [`crate::onnx::to_bytes`]
//! writes. The formula is that of ONNX's QuantizeLinear and DequantizeLinear.

mod draft;
mod half;
mod integer;
pub(crate) mod moments;
mod pairs;
pub(crate) mod scale;
mod sites;
mod symmetry;

pub use half::{half, half_within};
pub use integer::{integer, integer_within};
pub use pairs::{qdq, qdq_results, qdq_results_within, qdq_within};

use crate::{Budget, Graph, GraphError, Limits, OpKind, onnx};

/// Which values the constants of a quantised graph get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// None: the graph's structure, for forecasts.
    Shapes,
    /// Those that follow from the weights' own values; weights without get seeded ones.
    Seeded(u64),
}

/// How to quantise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Values of the constants.
    pub values: Values,
    /// Least and greatest value of the model's inputs.
    pub input: (f64, f64),
}

impl Default for Options {
    fn default() -> Self {
        Self { values: Values::Shapes, input: (-1.0, 1.0) }
    }
}

impl Options {
    /// With values, weights that have none from this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { values: Values::Seeded(seed), ..Self::default() }
    }
}

/// The conversion of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// [`qdq`].
    Qdq,
    /// [`qdq_results`].
    QdqResults,
    /// [`integer`].
    Integer,
    /// [`half`].
    Half,
}

impl Conversion {
    /// The converted graph.
    ///
    /// # Errors
    /// [`GraphError`] when the graph cannot be put together; not for any graph that a reader or
    /// builder made.
    pub fn apply(self, graph: &Graph, options: &Options) -> Result<Graph, GraphError> {
        self.apply_within(graph, options, &Budget::new(Limits::NONE))
    }

    /// [`Conversion::apply`] within a budget.
    ///
    /// # Errors
    /// As [`Conversion::apply`], and [`GraphError::Exceeded`] with the node at which the budget
    /// ended.
    pub fn apply_within(
        self,
        graph: &Graph,
        options: &Options,
        budget: &Budget,
    ) -> Result<Graph, GraphError> {
        match self {
            Self::Qdq => qdq_within(graph, options, budget),
            Self::QdqResults => qdq_results_within(graph, options, budget),
            Self::Integer => integer_within(graph, options, budget),
            Self::Half => half_within(graph, budget),
        }
    }

    /// The converted model as an ONNX file, weights included. `graph` may hold the values of its
    /// weights ([`onnx::read_weights`]).
    ///
    /// # Errors
    /// A sentence with the node's name where something has no ONNX form.
    pub fn model_bytes(
        self,
        graph: &Graph,
        seed: u64,
        input: (f64, f64),
    ) -> Result<Vec<u8>, String> {
        let options = Options { values: Values::Seeded(seed), input };
        let converted = self.apply(graph, &options).map_err(|e| e.to_string())?;
        onnx::to_bytes(&converted, &onnx::WriteOptions::seeded(seed)).map_err(|e| e.to_string())
    }
}

/// Whether a model computes on quantised tensors already.
#[must_use]
pub fn is_quantized(graph: &Graph) -> bool {
    graph.nodes().iter().any(|n| {
        matches!(n.op.kind, OpKind::Quantize | OpKind::Dequantize | OpKind::DynamicQuantize)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
