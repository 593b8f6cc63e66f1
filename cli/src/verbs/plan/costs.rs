//! Costs for plans: from a file, or from bundles for a model.

use super::super::{
    bundle,
    error::{CliError, CliResult},
    models::{Model, ModelArgs},
};
use std::{collections::BTreeMap, path::Path};
use vitempo::graph::Graph;
use vitempo::plan;
use vitempo::planners::cost::{Attribution, CostError, Costs, CostsFile, Link, ProcessorCosts};

impl From<CostError> for CliError {
    fn from(error: CostError) -> Self {
        Self::user(error)
    }
}

/// Reads a costs file.
pub fn of_file(path: &Path) -> CliResult<Costs> {
    Ok(CostsFile::read(path)?.check()?)
}

/// The one model of a command that plans one.
pub fn one_model(models: &ModelArgs) -> CliResult<Model> {
    let mut read = models.read()?;
    match read.len() {
        1 => Ok(read.swap_remove(0)),
        count => {
            Err(CliError::user(format!("{count} models: a plan is for one"))
                .hint("give one ONNX file"))
        }
    }
}

/// A processor of a plan and what forecasts its latencies.
pub struct Forecast<'a> {
    pub processor: ProcessorCosts,
    pub bundle: &'a Path,
}

/// Costs of a model's operators, forecast by one bundle per processor. The end-to-end interval and
/// calibration are spread over operators in proportion.
pub fn of_bundles(
    graph: &Graph,
    forecasts: Vec<Forecast>,
    links: BTreeMap<(usize, usize), Link>,
) -> CliResult<Costs> {
    let mut latencies = Vec::new();
    let mut together = Vec::new();
    for forecast in &forecasts {
        let attribution = attributed(graph, forecast.bundle, &forecast.processor.name)?;
        latencies.push(attribution.latency_ns);
        together.extend(attribution.together);
    }
    let processors = forecasts.into_iter().map(|f| f.processor).collect();
    let latency = |node: usize, processor: usize| latencies[processor].get(node).copied();
    Ok(Costs::of_graph(graph, processors, links, latency, together)?)
}

fn attributed(graph: &Graph, path: &Path, processor: &str) -> CliResult<Attribution> {
    let opened = bundle::open(path)?;
    let costs = plan::costs::of_operators(graph, &opened)
        .map_err(|error| CliError::from(error).about(processor))?;
    bundle::warn_of_estimates(
        processor,
        costs.prediction.fallbacks().count(),
        costs.prediction.operators.len(),
    );
    Ok(costs.attribution)
}
