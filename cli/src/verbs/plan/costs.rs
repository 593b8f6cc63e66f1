//! Costs for plans: from a file, or from bundles for a model.

use super::super::{
    bundle,
    error::{CliError, CliResult},
    models::{Model, ModelArgs},
};
use std::{collections::BTreeMap, path::Path};
use vitempo::graph::{Graph, LatencyModel};
use vitempo::planners::cost::{
    Attribution, CostError, Costs, CostsFile, Interval, Link, ProcessorCosts,
};

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
    let prediction = opened.predict(graph)?;
    let kernels = opened.kernels(graph)?;
    bundle::warn_of_estimates(
        processor,
        prediction.fallbacks().count(),
        prediction.operators.len(),
    );
    let whole = prediction.latency;
    let sum: f64 = prediction.operators.iter().map(|o| o.latency_ns.ns()).sum();
    let share = |end: vitempo::graph::Latency| end.ns() / sum.max(f64::MIN_POSITIVE);
    let interval = |ns: f64| {
        let [point, lower, upper] =
            [whole.point, whole.lower, whole.upper].map(|end| (ns * share(end)).round() as u64);
        Interval::new(point, lower.min(point), upper.max(point)).unwrap_or(Interval::exact(point))
    };
    let latencies: Vec<Interval> =
        prediction.operators.iter().map(|o| interval(o.latency_ns.ns())).collect();
    Ok(Attribution::of(graph, &kernels, &latencies))
}
