//! Costs of a model's operators as a bundle forecasts them, ns.
//!
//! A bundle forecasts the kernels that a framework runs, and end to end what the model takes. Each
//! operator gets the share of the end-to-end forecast and of its interval that its kernels have of
//! their sum, so that the costs of all operators add up to the forecast of the model.

use vitempo_graph::{Graph, GraphPrediction, Latency, LatencyModel, PredictionError};
use vitempo_planners::cost::{Attribution, Interval};

/// What a bundle forecasts for a model, by operator of the model.
#[derive(Clone, Debug)]
pub struct OperatorCosts {
    /// Latency of each operator, ns, and the operators that stay together.
    pub attribution: Attribution,
    /// The forecast for the kernels.
    pub prediction: GraphPrediction,
}

/// Forecasts the operators of `graph`.
///
/// # Errors
/// [`PredictionError`] as [`LatencyModel::predict`] and [`LatencyModel::lowered`].
pub fn of_operators(
    graph: &Graph,
    bundle: &dyn LatencyModel,
) -> Result<OperatorCosts, PredictionError> {
    let prediction = bundle.predict(graph)?;
    let kernels = bundle.lowered(graph)?;
    let attribution = Attribution::of(graph, &kernels, &shares(&prediction));
    Ok(OperatorCosts { attribution, prediction })
}

/// What each kernel has of the end-to-end forecast, in proportion to its latency; equal shares
/// where no kernel takes any time.
fn shares(prediction: &GraphPrediction) -> Vec<Interval> {
    let kernels: Vec<f64> = prediction.operators.iter().map(|o| o.latency_ns.ns()).collect();
    let sum: f64 = kernels.iter().sum();
    let whole = prediction.latency;
    let interval = |&ns: &f64| {
        let share = if sum > 0.0 { ns / sum } else { 1.0 / kernels.len() as f64 };
        let part = |end: Latency| (end.ns() * share).round() as u64;
        let (point, lower, upper) = (part(whole.point), part(whole.lower), part(whole.upper));
        Interval::new(point, lower.min(point), upper.max(point)).unwrap_or(Interval::exact(point))
    };
    kernels.iter().map(interval).collect()
}
