//! [`Forecaster`]: forecasts many models at once with one bundle, and describes each result.

use super::{
    problem::Problem,
    registry::RegisteredBundle,
    request::{Question, Settings},
    table_cache::Sum,
};
use axum::http::StatusCode;
use serde::Serialize;
use std::{borrow::Cow, sync::Arc};
use vitempo::forecast::Coverage;
use vitempo::graph::{
    Graph, GraphPrediction, Latency, LatencyModel, OperatorPrediction, Prediction, PredictionError,
    onnx::ReadOptions,
};
use vitempo::memory::MemoryForecast;
use vitempo::predictors::PredictorBundle;
use vitempo::search_space::{Architecture, Space};

/// One model with one bundle. Latencies in ns.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// End to end.
    pub latency_ns: Prediction,
    /// Overhead, added to the sum over operators.
    pub overhead_ns: Latency,
    /// Whether an operator lies outside the training range of its predictor.
    pub extrapolating: bool,
    /// How many operators are forecast in which way.
    pub coverage: Coverage,
    /// Every operator that will run, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operators: Option<Vec<OperatorPrediction>>,
    /// Memory, if requested; `null` where that of the engine is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Option<MemoryForecast>>,
}

/// What a bundle says of one graph.
type OfGraph = (GraphPrediction, Option<MemoryForecast>);

/// A bundle that was asked for.
#[derive(Debug)]
pub struct Forecaster {
    /// The bundle, as it is now.
    pub registered: Arc<RegisteredBundle>,
    /// Its environment.
    pub environment: String,
    breakdown: bool,
    memory: bool,
}

impl Forecaster {
    /// With the detail of these settings.
    pub fn new(registered: Arc<RegisteredBundle>, settings: &Settings) -> Self {
        let Settings { breakdown, memory, .. } = *settings;
        Self { environment: registered.bundle.environment().id(), registered, breakdown, memory }
    }

    /// Forecasts for the valid models, in that order; the others keep their problems. Architectures
    /// are of `space`; each graph is lowered within the limits of `options`.
    pub fn forecasts(
        &self,
        questions: &[Result<Question, Problem>],
        space: &Space,
        options: &ReadOptions,
    ) -> Vec<Result<Forecast, Problem>> {
        let architectures: Vec<Architecture> =
            questions.iter().flatten().filter_map(Question::architecture).collect();
        let mut sums = self.sums(space, &architectures).map(Vec::into_iter);
        let looked_up = sums.is_some();
        let graphs: Vec<Result<Cow<'_, Graph>, Problem>> =
            questions.iter().flatten().filter_map(|question| question.graph(looked_up)).collect();
        let mut predictions = self.of_each(graphs.iter().flatten(), options).into_iter();
        let mut graphs = graphs.iter();
        let mut forecast = |question: &Result<Question, Problem>| match question {
            Err(problem) => Err(problem.clone()),
            Ok(Question::Architecture(_)) if looked_up => {
                sums.as_mut().and_then(Iterator::next).ok_or_else(missing)?
            }
            Ok(_) => {
                let graph = graphs.next().ok_or_else(missing)?.as_ref().map_err(Problem::clone)?;
                self.of_graph(graph, predictions.next().ok_or_else(missing)??)
            }
        };
        questions.iter().map(&mut forecast).collect()
    }

    /// Forecasts by tables; `None` if graphs are needed, as for adapted bundles, whose forecasts
    /// are not sums over kernels.
    fn sums(
        &self,
        space: &Space,
        architectures: &[Architecture],
    ) -> Option<Vec<Result<Forecast, Problem>>> {
        let bundle = self.registered.bundle.trained()?;
        let sums = self.registered.table_cache.sums(bundle, space, architectures)?;
        Some(sums.iter().map(|sum| of_sum(bundle, sum)).collect())
    }

    fn of_each<'g>(
        &self,
        graphs: impl Iterator<Item = &'g Cow<'g, Graph>>,
        options: &ReadOptions,
    ) -> Vec<Result<OfGraph, PredictionError>> {
        let (bundle, graphs) = (&self.registered.bundle, graphs.map(|graph| &**graph));
        if self.memory {
            return graphs.map(|g| bundle.predict_with_memory(g, &options.budget())).collect();
        }
        let predictions = bundle.predict_each_within(graphs, &|| options.budget());
        predictions.into_iter().map(|prediction| Ok((prediction?, None))).collect()
    }

    fn of_graph(&self, graph: &Graph, (prediction, memory): OfGraph) -> Result<Forecast, Problem> {
        let coverage = Coverage::of(graph, &prediction);
        finite(Forecast {
            latency_ns: prediction.latency,
            overhead_ns: prediction.overhead,
            extrapolating: coverage.extrapolating > 0,
            coverage,
            operators: self.breakdown.then_some(prediction.operators),
            memory: self.memory.then_some(memory),
        })
    }
}

fn of_sum(bundle: &PredictorBundle, sum: &Sum) -> Result<Forecast, Problem> {
    let latency = bundle.end_to_end(&sum.tally);
    let kernels = i64::from(sum.tally.kernels);
    let [operators, fallback, extrapolating] =
        [kernels, sum.fallback, sum.extrapolating].map(|count| usize::try_from(count).unwrap_or(0));
    finite(Forecast {
        latency_ns: latency,
        overhead_ns: Latency::from_ns(latency.point().ns() - sum.tally.sum_ns),
        extrapolating: extrapolating > 0,
        coverage: Coverage {
            operators,
            trained: operators.saturating_sub(fallback),
            fallback,
            extrapolating,
            unsupported: Vec::new(),
        },
        operators: None,
        memory: None,
    })
}

fn missing() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a forecast is missing")
}

/// JSON has no number for the latency of a model with impossibly large tensors. An upper end is
/// missing, too, where an operator is not known.
fn finite(forecast: Forecast) -> Result<Forecast, Problem> {
    let latency = forecast.latency_ns;
    let upper = match forecast.coverage.unsupported.is_empty() {
        true => latency.upper(),
        false => latency.lower(),
    };
    let numbers = [latency.point(), latency.lower(), upper, forecast.overhead_ns];
    if numbers.iter().all(|l| l.is_finite()) {
        Ok(forecast)
    } else {
        Err(Problem::unprocessable(
            "the forecast exceeds the range of numbers: this model has impossibly large tensors",
        ))
    }
}
