//! Slowdowns of pairs of processors from the slowdown models of their bundles. The planner has one
//! factor for a pair, so that it is a mean: over all subgraphs that may run on the first, weighted
//! by their time, beside the mean demand of all that may run on the second.

use super::Slowdown;
use crate::{Bundle, plan::stitch::forecasts::Processor, zoo::variants::Variants};
use vitempo_graph::{Environment, Graph, LatencyModel, PredictionError};
use vitempo_predictors::contention::{Demand, Kernel};

/// A subgraph on one processor.
struct Part<'b> {
    bundle: &'b Bundle,
    kernels: Vec<Kernel>,
    demand: Demand,
    ns: f64,
}

impl<'b> Part<'b> {
    fn of(bundle: &'b Bundle, graph: &Graph) -> Result<Self, PredictionError> {
        let (lowered, forecast) = bundle.predict_known(graph)?;
        let ns = forecast.latency.point().ns();
        let kernels = Kernel::of_forecast(&lowered, &forecast);
        Ok(Self { bundle, kernels, demand: Demand::of_kernels(&lowered, ns), ns })
    }

    fn environment(&self) -> &Environment {
        self.bundle.environment()
    }
}

/// The slowdowns of every pair of processors, both ways round; empty where one is not known.
///
/// # Errors
/// [`PredictionError`] for a subgraph that a bundle does not forecast.
pub(crate) fn forecast(
    tasks: &[Variants],
    processors: &[Processor],
) -> Result<Vec<Slowdown>, PredictionError> {
    let all_known = processors.iter().all(|p| p.bundles().all(|b| b.contention().is_some()));
    if !all_known || processors.len() < 2 {
        return Ok(Vec::new());
    }
    let parts = processors
        .iter()
        .map(|processor| parts_on(processor, tasks))
        .collect::<Result<Vec<Vec<Part<'_>>>, _>>()?;
    let mut slowdowns = Vec::new();
    for (one, own) in processors.iter().zip(&parts) {
        for (other, theirs) in processors.iter().zip(&parts) {
            if one.name == other.name {
                continue;
            }
            let Some(factor) = factor(own, theirs) else { return Ok(Vec::new()) };
            let (processor, beside) = (one.name.clone(), other.name.clone());
            slowdowns.push(Slowdown { processor, beside, factor });
        }
    }
    Ok(slowdowns)
}

/// Every subgraph that a bundle of the processor forecasts.
fn parts_on<'b>(
    processor: &'b Processor,
    tasks: &[Variants],
) -> Result<Vec<Part<'b>>, PredictionError> {
    let mut parts = Vec::new();
    for task in tasks {
        for (variant, quantized) in task.quantized.iter().enumerate() {
            let Some(bundle) = processor.bundle(*quantized) else { continue };
            for graph in task.subgraphs.iter().filter_map(|row| row.get(variant)) {
                parts.push(Part::of(bundle, graph)?);
            }
        }
    }
    Ok(parts)
}

/// The mean slowdown of `own` beside `theirs`; `None` where it is not known.
fn factor(own: &[Part<'_>], theirs: &[Part<'_>]) -> Option<f64> {
    let demands: Vec<(f64, Demand)> = theirs.iter().map(|part| (part.ns, part.demand)).collect();
    let (beside, other) = (Demand::mean(&demands)?, theirs.first()?.environment());
    let (mut alone, mut slower) = (0.0, 0.0);
    for part in own {
        let model = part.bundle.contention_with(other).ok()?;
        alone += part.ns;
        slower += part.ns * model.of_kernels(&part.kernels, &beside).point();
    }
    (alone > 0.0).then(|| (slower / alone).max(1.0))
}
