//! Costs of a model's operators as bundles forecast them, ns: [`of_operators`] with one bundle,
//! [`of_graph`] with a bundle per processor and the links between processors, as planners take
//! them. [`confined`] marks tensors that may not leave the processor that computes them.
//!
//! A bundle forecasts the kernels that a framework runs, and the end-to-end latency of the model.
//! Each operator gets the share of the end-to-end forecast and of its interval that its kernels
//! have of their sum, so that the costs of all operators add up to the forecast of the model.

use super::memory;
use std::collections::BTreeMap;
use vitempo_graph::{Graph, GraphPrediction, Latency, LatencyModel, PredictionError};
use vitempo_planners::cost::{
    Attribution, CostError, Costs, CostsFile, EngineMemory, Interval, Link, ProcessorCosts,
};

/// Links between processors, by the indices of sender and receiver.
pub type Links = BTreeMap<(usize, usize), Link>;

/// A processor of a plan, and the bundle that forecasts its latencies.
#[derive(Clone)]
pub struct ForecastProcessor<'a> {
    /// Its name, power and memory.
    pub processor: ProcessorCosts,
    /// The bundle that forecasts its latencies.
    pub bundle: &'a dyn LatencyModel,
}

impl<'a> ForecastProcessor<'a> {
    /// A processor of which only the name is known.
    #[must_use]
    pub fn named(name: impl Into<String>, bundle: &'a dyn LatencyModel) -> Self {
        Self { processor: ProcessorCosts::named(name), bundle }
    }
}

/// Kernels of a model that have no trained predictor: their latency is an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimated {
    /// Kernels without a predictor of their own.
    pub kernels: usize,
    /// All kernels of the model.
    pub of: usize,
}

impl Estimated {
    /// The kernels of a forecast.
    #[must_use]
    pub fn of(prediction: &GraphPrediction) -> Self {
        Self { kernels: prediction.fallbacks().count(), of: prediction.operators.len() }
    }

    /// Adds the kernels of another forecast.
    pub fn add(&mut self, other: Self) {
        self.kernels += other.kernels;
        self.of += other.of;
    }
}

/// Costs of a model on several processors.
#[derive(Clone, Debug)]
pub struct ForecastCosts {
    /// The input of planners.
    pub costs: Costs,
    /// By processor, how many kernels were forecast without a predictor of their own.
    pub estimated: Vec<Estimated>,
}

/// Why costs of a model cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanCostsError {
    /// A bundle does not forecast the model.
    #[error("{processor}: {source}")]
    Prediction {
        /// The processor that the bundle is for.
        processor: String,
        /// The error of the bundle.
        source: PredictionError,
    },
    /// The costs are not consistent.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// A tensor that is to be confined does not exist.
    #[error("the model has no tensor `{tensor}`")]
    UnknownTensor {
        /// The given name.
        tensor: String,
        /// Names of the model's inputs.
        inputs: Vec<String>,
    },
    /// The costs are of another model.
    #[error("the costs are of another model: {reason}")]
    OtherModel {
        /// The node that only one of them has.
        reason: String,
    },
}

/// A bundle's forecast of a model, by operator of the model.
#[derive(Clone, Debug)]
pub struct OperatorCosts {
    /// Latency of each operator, ns, and the operators that stay together.
    pub attribution: Attribution,
    /// The forecast for the kernels.
    pub prediction: GraphPrediction,
    /// Memory of the engine, where it is known.
    pub memory: Option<EngineMemory>,
}

/// Forecasts the operators of `graph`.
///
/// # Errors
/// As [`LatencyModel::predict_known`].
pub fn of_operators(
    graph: &Graph,
    bundle: &dyn LatencyModel,
) -> Result<OperatorCosts, PredictionError> {
    let (kernels, prediction) = bundle.predict_known(graph)?;
    let attribution = Attribution::of(graph, &kernels, &shares(&prediction));
    let memory = memory::of_engine(bundle.environment(), graph, &kernels);
    Ok(OperatorCosts { attribution, prediction, memory })
}

/// Forecasts a model with one bundle per processor. The interval of the end-to-end forecast is
/// spread over the operators in proportion to their latencies. Where the memory of a bundle's engine
/// is known, that is the memory of its processor; elsewhere it is that of the weights.
///
/// # Errors
/// [`PlanCostsError::Prediction`] naming the processor, or [`PlanCostsError::Cost`] where the links
/// do not fit the processors or a tensor has no static shape.
pub fn of_graph(
    graph: &Graph,
    processors: &[ForecastProcessor<'_>],
    links: Links,
) -> Result<ForecastCosts, PlanCostsError> {
    let (mut latencies, mut together) = (Vec::new(), Vec::new());
    let mut memories = Vec::with_capacity(processors.len());
    let mut estimated = Vec::with_capacity(processors.len());
    for ForecastProcessor { processor, bundle } in processors {
        let refused = |source| {
            let processor = processor.name.clone();
            PlanCostsError::Prediction { processor, source }
        };
        let OperatorCosts { attribution, prediction, memory } =
            of_operators(graph, *bundle).map_err(refused)?;
        memories.push(memory);
        estimated.push(Estimated::of(&prediction));
        latencies.push(attribution.latency_ns);
        together.extend(attribution.together);
    }
    let processors = processors.iter().map(|forecast| forecast.processor.clone()).collect();
    let latency_ns = |node: usize, processor: usize| latencies[processor].get(node).copied();
    let mut costs = Costs::of_graph(graph, processors, links, latency_ns, together)?;
    for (processor, memory) in memories.into_iter().enumerate() {
        if let Some(memory) = memory {
            costs = costs.with_engine_memory(processor, memory)?;
        }
    }
    Ok(ForecastCosts { costs, estimated })
}

/// The same link between all pairs of this number of processors.
#[must_use]
pub fn between_all(processors: usize, link: Link) -> Links {
    let pairs = (0..processors).flat_map(|from| (0..processors).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to).map(|pair| (pair, link)).collect()
}

/// The same costs with these tensors confined: none of them may leave the processor that computes
/// it, or the first processor for an input of the model.
///
/// # Errors
/// [`PlanCostsError::UnknownTensor`] for a name that no tensor has.
pub fn confined<S: AsRef<str>>(costs: Costs, tensors: &[S]) -> Result<Costs, PlanCostsError> {
    if tensors.is_empty() {
        return Ok(costs);
    }
    let mut file = CostsFile::from(&costs);
    for name in tensors.iter().map(AsRef::as_ref) {
        match file.tensors.iter_mut().find(|tensor| tensor.name == name) {
            Some(tensor) => tensor.confined = true,
            None => {
                let (tensor, inputs) = (name.to_owned(), inputs(&costs));
                return Err(PlanCostsError::UnknownTensor { tensor, inputs });
            }
        }
    }
    Ok(file.check()?)
}

/// The index of each node of a model in costs from another source, by its name.
///
/// # Errors
/// [`PlanCostsError::OtherModel`] naming a node that only one of them has.
pub fn nodes_of(costs: &Costs, graph: &Graph) -> Result<Vec<usize>, PlanCostsError> {
    let other = |reason: String| PlanCostsError::OtherModel { reason };
    let places: BTreeMap<&str, usize> =
        costs.nodes().iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let place = |node: &vitempo_graph::Node| {
        let found = places.get(node.name.as_str()).copied();
        found.ok_or_else(|| other(format!("they lack its node `{}`", node.name)))
    };
    let nodes = graph.nodes().iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let named: std::collections::BTreeSet<usize> = nodes.iter().copied().collect();
    match (0..costs.nodes().len()).find(|at| !named.contains(at)) {
        Some(at) => Err(other(format!("it lacks their node `{}`", costs.nodes()[at].name))),
        None => Ok(nodes),
    }
}

/// Names of the tensors that no node computes.
fn inputs(costs: &Costs) -> Vec<String> {
    let inputs = costs.tensors().iter().filter(|tensor| tensor.producer.is_none());
    inputs.map(|tensor| tensor.name.clone()).collect()
}

/// The share of each kernel in the end-to-end forecast, in proportion to its latency; equal shares
/// if no kernel takes any time.
fn shares(prediction: &GraphPrediction) -> Vec<Interval> {
    let kernels: Vec<f64> = prediction.operators.iter().map(|o| o.latency_ns.ns()).collect();
    let sum: f64 = kernels.iter().sum();
    let whole = prediction.latency;
    let interval = |&ns: &f64| {
        let share = if sum > 0.0 { ns / sum } else { 1.0 / kernels.len() as f64 };
        whole.interval.map(|end: Latency| (end.ns() * share).round() as u64)
    };
    kernels.iter().map(interval).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn confining_an_unknown_tensor_names_the_inputs() {
        let file = r#"{"model": "m", "processors": [{"name": "a"}, {"name": "b"}],
            "nodes": [{"name": "n", "latency_ns": {"a": 5}}],
            "tensors": [{"name": "image", "size_bytes": 1, "consumers": ["n"]}]}"#;
        let costs = serde_json::from_str::<CostsFile>(file).unwrap().check().unwrap();
        let error = confined(costs.clone(), &["pixels"]).unwrap_err();
        assert_eq!(error.to_string(), "the model has no tensor `pixels`");
        let PlanCostsError::UnknownTensor { inputs, .. } = error else { panic!("{error}") };
        assert_eq!(inputs, ["image"]);
        assert!(confined(costs, &["image"]).unwrap().tensors()[0].confined);
    }

    #[test]
    fn every_processor_is_linked_to_every_other() {
        let links = between_all(3, Link::of_bandwidth(1));
        let pairs: Vec<(usize, usize)> = links.into_keys().collect();
        assert_eq!(pairs, [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
    }
}
