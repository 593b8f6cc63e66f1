//! [`LatencyModel`]: the interface of everything that forecasts latencies. Bundles of trained
//! predictors and of adapted devices implement it. Planners take costs, which callers derive from
//! forecasts.

use crate::{
    Budget, Environment, Exceeded, Graph, Latency, OpKind, OpSpec, lowering::LoweringError,
};
use serde::{Deserialize, Serialize};

/// Where a forecast comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredictionSource {
    /// A predictor trained on operators of this kind.
    Model,
    /// No predictor for this kind: an estimate from its work alone.
    Fallback,
}

/// A latency with an interval that covers the truth with probability `level`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The forecast itself.
    pub point: Latency,
    /// Lower end of the interval.
    pub lower: Latency,
    /// Upper end of the interval.
    pub upper: Latency,
    /// Share of forecasts whose latency lies in the interval, 0 to 1.
    pub level: f64,
}

/// The forecast for one operator of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorPrediction {
    /// Name of the node.
    pub name: String,
    /// What it computes.
    pub kind: OpKind,
    /// How long it takes.
    pub latency_ns: Latency,
    /// What the forecast comes from.
    pub source: PredictionSource,
    /// Whether it lies outside the measured range of its kind.
    pub extrapolating: bool,
}

/// The forecast for a whole model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphPrediction {
    /// End to end.
    pub latency: Prediction,
    /// One row per operator that the framework will run; their sum and the overhead make up the
    /// point forecast.
    pub operators: Vec<OperatorPrediction>,
    /// Overhead, added to the sum over operators.
    pub overhead: Latency,
}

impl GraphPrediction {
    /// Operators without a predictor of their own.
    pub fn fallbacks(&self) -> impl Iterator<Item = &OperatorPrediction> {
        self.operators.iter().filter(|o| o.source == PredictionSource::Fallback)
    }

    /// Operators outside the range of what their predictor was fitted to.
    pub fn extrapolating(&self) -> impl Iterator<Item = &OperatorPrediction> {
        self.operators.iter().filter(|o| o.extrapolating && o.source != PredictionSource::Fallback)
    }
}

/// Why there is no forecast.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictionError {
    /// The kernels that the framework runs are not known, or it refuses the model.
    #[error(transparent)]
    Lowering(#[from] LoweringError),
    /// The kernels of the model take more than its budget.
    #[error("the forecast of model `{model}` ended early: {source}")]
    Exceeded {
        /// Name of the model.
        model: String,
        /// The exceeded limit, and its value.
        source: Exceeded,
    },
}

impl PredictionError {
    /// The node that there is no forecast for, where it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Lowering(error) => error.node(),
            Self::Exceeded { .. } => None,
        }
    }
}

/// Anything that forecasts latencies in one environment.
pub trait LatencyModel {
    /// The environment its forecasts hold for.
    fn environment(&self) -> &Environment;

    /// One operator as the framework runs it (after lowering). An operator without a predictor is
    /// estimated from its work and marked as a fallback.
    fn predict_operator(&self, op: &OpSpec) -> (Latency, PredictionSource);

    /// A whole model as its file has it; lowering to the framework's kernels happens inside.
    ///
    /// # Errors
    /// [`PredictionError`] when the kernels are not known, or the model takes more than a
    /// [`Budget::default`].
    fn predict(&self, graph: &Graph) -> Result<GraphPrediction, PredictionError> {
        self.predict_within(graph, &Budget::default())
    }

    /// [`LatencyModel::predict`] within a budget. A [`Budget::stopped_by`] question ends it early:
    /// that of a deadline, or of a client that left.
    ///
    /// # Errors
    /// [`PredictionError`] when the kernels are not known, or the budget is spent.
    fn predict_within(
        &self,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<GraphPrediction, PredictionError>;

    /// The graph whose nodes [`LatencyModel::predict`] lists as operators, in its order: the
    /// kernels that the framework runs for a model as its file has it.
    ///
    /// # Errors
    /// [`PredictionError::Lowering`] when the kernels are not known.
    fn lowered(&self, graph: &Graph) -> Result<Graph, PredictionError>;
}
