//! [`Forecaster`]: one bundle, asked for many models at once; and what is said of each.

use super::{problem::Problem, shelf::Shelved};
use serde::Serialize;
use std::sync::Arc;
use vitempo_graph::{Graph, GraphPrediction, Latency, LatencyModel, OperatorPrediction, Prediction};

/// One model with one bundle. Latencies in ns.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// End to end.
    pub latency_ns: Prediction,
    /// What is added to the sum over operators.
    pub overhead_ns: Latency,
    /// Whether an operator lies outside what its predictor was trained on.
    pub extrapolating: bool,
    /// What it rests on.
    pub coverage: Coverage,
    /// Every operator that will run, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operators: Option<Vec<OperatorPrediction>>,
}

/// How many operators are forecast in which way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Coverage {
    /// Kernels that will run.
    pub operators: usize,
    /// Of these, by a trained predictor.
    pub trained: usize,
    /// Of these, from their work alone.
    pub fallback: usize,
    /// Of the trained ones, outside the training data.
    pub extrapolating: usize,
    /// What vitempo does not know.
    pub unsupported: Vec<Unsupported>,
}

impl Coverage {
    fn of(graph: &Graph, prediction: &GraphPrediction) -> Self {
        let (operators, fallback) = (prediction.operators.len(), prediction.fallbacks().count());
        let unsupported = graph.unsupported().map(|(node, operator)| Unsupported { node: node.to_owned(), operator: operator.to_owned() });
        Self { operators, trained: operators - fallback, fallback, extrapolating: prediction.extrapolating().count(), unsupported: unsupported.collect() }
    }
}

/// A node of the model whose operator vitempo does not know.
#[derive(Clone, Debug, Serialize)]
pub struct Unsupported {
    node: String,
    operator: String,
}

/// A bundle that was asked for.
#[derive(Debug)]
pub struct Forecaster {
    /// The bundle, as it is now.
    pub shelved: Arc<Shelved>,
    /// Where its forecasts hold.
    pub environment: String,
    breakdown: bool,
}

impl Forecaster {
    /// With or without a row per operator.
    pub fn new(shelved: Arc<Shelved>, breakdown: bool) -> Self {
        Self { environment: shelved.bundle.environment.id(), shelved, breakdown }
    }

    /// Forecasts for the graphs there are, in their order; the others keep their problem.
    pub fn forecasts(&self, graphs: &[Result<Graph, Problem>]) -> Vec<Result<Forecast, Problem>> {
        graphs.iter().map(|graph| self.forecast(graph.as_ref().map_err(Problem::clone)?)).collect()
    }

    fn forecast(&self, graph: &Graph) -> Result<Forecast, Problem> {
        let bundle = &self.shelved.bundle;
        let prediction = bundle.predict(graph)?;
        let coverage = Coverage::of(graph, &prediction);
        finite(Forecast {
            latency_ns: prediction.latency,
            overhead_ns: prediction.overhead,
            extrapolating: coverage.extrapolating > 0,
            coverage,
            operators: self.breakdown.then_some(prediction.operators),
        })
    }
}

/// JSON has no number for what a model with impossibly large tensors may come to.
fn finite(forecast: Forecast) -> Result<Forecast, Problem> {
    let Prediction { point, lower, upper, .. } = forecast.latency_ns;
    if [point, lower, upper, forecast.overhead_ns].iter().all(|l| l.ns().is_finite()) {
        Ok(forecast)
    } else {
        Err(Problem::unprocessable("the forecast is beyond every number: tensors of this model are too large to be"))
    }
}
