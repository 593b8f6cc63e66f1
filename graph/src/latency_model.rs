//! [`LatencyModel`]: the interface of everything that forecasts latencies. Bundles of trained
//! predictors and of adapted devices implement it. Planners take costs, which callers derive from
//! forecasts.

use crate::{
    Budget, Environment, Exceeded, Graph, Interval, IntervalError, Latency, OpKind, OpSpec,
    lowering::LoweringError,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;

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
#[serde(try_from = "Flat", into = "Flat")]
pub struct Prediction {
    /// The forecast itself, and the ends of the interval.
    pub interval: Interval<Latency>,
    /// Share of forecasts whose latency lies in the interval, 0 to 1.
    pub level: f64,
}

impl Prediction {
    /// A forecast whose interval covers the truth with probability `level`.
    #[must_use]
    pub const fn new(interval: Interval<Latency>, level: f64) -> Self {
        Self { interval, level }
    }

    /// The forecast itself.
    #[must_use]
    pub const fn point(&self) -> Latency {
        self.interval.point()
    }

    /// Lower end of the interval.
    #[must_use]
    pub const fn lower(&self) -> Latency {
        self.interval.lower()
    }

    /// Upper end of the interval; [`Latency::UNBOUNDED`] where it has none.
    #[must_use]
    pub const fn upper(&self) -> Latency {
        self.interval.upper()
    }

    /// The same, without an upper end where vitempo does not know an operator of `graph`: nothing
    /// of what that computes is in the forecast.
    #[must_use]
    pub fn bounded_for(self, graph: &Graph) -> Self {
        if graph.unsupported().next().is_none() {
            return self;
        }
        let ends = Interval::clamped(self.point(), self.lower(), Latency::UNBOUNDED);
        Self::new(ends, self.level)
    }
}

/// A prediction as JSON has it.
#[derive(Serialize, Deserialize)]
struct Flat {
    point: Latency,
    lower: Latency,
    #[serde(deserialize_with = "or_unbounded")]
    upper: Latency,
    level: f64,
}

/// An upper end, or the `null` of none.
fn or_unbounded<'de, D: Deserializer<'de>>(upper: D) -> Result<Latency, D::Error> {
    Ok(Option::deserialize(upper)?.unwrap_or(Latency::UNBOUNDED))
}

impl From<Prediction> for Flat {
    fn from(prediction: Prediction) -> Self {
        let Prediction { interval, level } = prediction;
        let (point, lower, upper) = (interval.point(), interval.lower(), interval.upper());
        Self { point, lower, upper, level }
    }
}

impl TryFrom<Flat> for Prediction {
    type Error = IntervalError;
    fn try_from(flat: Flat) -> Result<Self, IntervalError> {
        let Flat { point, lower, upper, level } = flat;
        Ok(Self::new(Interval::checked(point, lower, upper)?, level))
    }
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
    /// Whether it has a predictor, and lies outside the range of what that was fitted to.
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
        self.operators.iter().filter(|o| o.extrapolating)
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
    /// The forecast has nothing of what some operators compute, so that nothing is planned from it.
    #[error("model `{model}`: vitempo does not know {}: a plan would count them as nothing", .operators.join(", "))]
    Unknown {
        /// Name of the model.
        model: String,
        /// Names of the operators.
        operators: Vec<String>,
    },
}

impl PredictionError {
    /// The node that there is no forecast for, where it is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Lowering(error) => error.node(),
            Self::Exceeded { .. } | Self::Unknown { .. } => None,
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

    /// Both [`LatencyModel::lowered`] and [`LatencyModel::predict_within`].
    ///
    /// # Errors
    /// As [`LatencyModel::predict_within`].
    fn predict_lowered(
        &self,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<(Graph, GraphPrediction), PredictionError> {
        let prediction = self.predict_within(graph, budget)?;
        Ok((self.lowered(graph)?, prediction))
    }

    /// [`LatencyModel::predict_lowered`] for planners: of models whose operators are all known.
    ///
    /// # Errors
    /// As [`LatencyModel::predict`], and [`PredictionError::Unknown`].
    fn predict_known(&self, graph: &Graph) -> Result<(Graph, GraphPrediction), PredictionError> {
        let operators: BTreeSet<&str> = graph.unsupported().map(|(_, operator)| operator).collect();
        if operators.is_empty() {
            return self.predict_lowered(graph, &Budget::default());
        }
        let operators = operators.into_iter().map(str::to_owned).collect();
        Err(PredictionError::Unknown { model: graph.name().to_owned(), operators })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_one_flat_object_whose_ends_are_in_order() {
        let json = r#"{"point":2.5,"lower":2.0,"upper":4.0,"level":0.9}"#;
        let ends = Interval::clamped(2.5, 2.0, 4.0).map(Latency::from_ns);
        let prediction = Prediction::new(ends, 0.9);
        assert_eq!(serde_json::to_string(&prediction).ok().as_deref(), Some(json));
        assert_eq!(serde_json::from_str::<Prediction>(json).ok(), Some(prediction));
        let error = serde_json::from_str::<Prediction>(&json.replace("2.5", "1.5"));
        assert!(error.is_err_and(|e| e.to_string().contains("does not hold its point")));
    }

    #[test]
    fn an_interval_without_an_upper_end_has_null_there() {
        let json = r#"{"point":2.5,"lower":2.0,"upper":null,"level":0.9}"#;
        let prediction: Prediction = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(prediction.upper(), Latency::UNBOUNDED);
        assert_eq!(serde_json::to_string(&prediction).ok().as_deref(), Some(json));
        let without = json.replace(r#","upper":null"#, "");
        assert!(serde_json::from_str::<Prediction>(&without).is_err());
    }
}
