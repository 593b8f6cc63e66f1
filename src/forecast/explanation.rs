//! [`explain`]: how the forecast of one node of a model comes about: the kernels that compute it,
//! the nodes that run in the same kernel, features, regressor and latency.
//!
//! Lowering keeps the names of values. A kernel covers the nodes of the file between its outputs
//! and the values that other kernels provide. Values without a name of the file, which lowering
//! adds in another memory format or element type, join their kernels to one. Kernels of LiteRT
//! have no values of the file, but the name of one of their nodes.

use crate::{
    Bundle,
    bundle::{
        Contents,
        near::{near, similar},
    },
};
use std::collections::{BTreeSet, HashMap};
use vitempo_graph::{
    Budget, Graph, GraphPrediction, Latency, LatencyModel, OpKind, OpSpec, OperatorPrediction,
    Prediction, PredictionError, ValueId, ValueSource,
};
use vitempo_predictors::{Calibration, Explanation, WorkingSet, adapt::Demand};

/// How the forecast of one node comes about.
#[derive(Clone, Debug)]
pub struct NodeExplanation {
    /// Name of the node, or of the kernel.
    pub node: String,
    /// What it computes; `None` where the name is that of a kernel which no node of the file has.
    pub kind: Option<OpKind>,
    /// The forecast of the whole model.
    pub model: Prediction,
    /// Kernels of the whole model.
    pub kernels_of_model: usize,
    /// What turns the sum over kernels into the latency of the model; `None` of adapted bundles.
    pub calibration: Option<Calibration>,
    /// The kernels that compute it, with changes of memory format around them, in the order in
    /// which they run; none where lowering removes it, so that it takes no time.
    pub kernels: Vec<KernelExplanation>,
    /// All nodes of the file that these kernels compute, in the order of the file.
    pub covers: Vec<CoveredNode>,
    /// Whether kernels were found by the values that they provide. If not, they were found by
    /// their names, and the other nodes that they compute are not known.
    pub by_values: bool,
}

/// How the forecast of one kernel comes about.
#[derive(Clone, Debug)]
pub struct KernelExplanation {
    /// Its name.
    pub name: String,
    /// Kind, attributes and tensors.
    pub op: OpSpec,
    /// The forecast.
    pub prediction: OperatorPrediction,
    /// Share of the sum over kernels, 0 to 1.
    pub share: f64,
    /// What the forecast comes from.
    pub cause: Cause,
}

/// A node of the file inside of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredNode {
    /// Its name.
    pub name: String,
    /// What it computes.
    pub kind: OpKind,
}

/// What the forecast of a kernel comes from.
#[derive(Clone, Debug)]
pub enum Cause {
    /// Features and a regressor, or a fallback.
    Trained(Box<Explanation>),
    /// Unit costs of an adapted device.
    Adapted {
        /// Demands on the device; empty where it costs nothing.
        demands: Vec<Demand>,
        /// Counted as part of the operator before it.
        merged: bool,
    },
}

/// Why a node is not explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// Neither a node nor a kernel has the name.
    #[error("model `{model}` has no node `{node}`{}", similar(near))]
    UnknownNode {
        /// Name of the model.
        model: String,
        /// As it was given.
        node: String,
        /// Similar names of nodes and kernels, the most similar first.
        near: Vec<String>,
    },
    /// There is no forecast.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
}

/// Explains the forecast of a node of a model's file, or of a kernel by its name.
///
/// # Errors
/// [`ExplainError::UnknownNode`] with similar names, [`ExplainError::Prediction`] where there is no
/// forecast.
pub fn explain(
    bundle: &Bundle,
    graph: &Graph,
    node: &str,
    budget: &Budget,
) -> Result<NodeExplanation, ExplainError> {
    let (lowered, prediction) = bundle.predict_lowered(graph, budget)?;
    let places = Places::new(graph, &lowered);
    let in_file = graph.nodes().iter().position(|n| n.name == node);
    let by_values = places.has_values_of_the_file();
    let kernels = match in_file {
        Some(index) if by_values => places.kernels_of(index),
        _ => places.kernels_named(node),
    };
    if in_file.is_none() && kernels.is_empty() {
        let names = graph.nodes().iter().chain(lowered.nodes()).map(|n| n.name.as_str());
        let names: BTreeSet<&str> = names.collect();
        let near = near(node, names);
        return Err(ExplainError::UnknownNode {
            model: graph.name().to_owned(),
            node: node.to_owned(),
            near,
        });
    }
    let covered = |index: usize| {
        let node = &graph.nodes()[index];
        CoveredNode { name: node.name.clone(), kind: node.op.kind.clone() }
    };
    let covers = match in_file {
        Some(index) if !by_values && !kernels.is_empty() => vec![covered(index)],
        _ => places.covered_by(&kernels).into_iter().map(covered).collect(),
    };
    let explainer = Explainer { bundle, lowered: &lowered, prediction: &prediction };
    Ok(NodeExplanation {
        node: node.to_owned(),
        kind: in_file.map(|index| graph.nodes()[index].op.kind.clone()),
        model: prediction.latency,
        kernels_of_model: lowered.nodes().len(),
        calibration: bundle.trained().map(|bundle| bundle.calibration),
        kernels: kernels.into_iter().filter_map(|kernel| explainer.kernel(kernel)).collect(),
        covers,
        by_values,
    })
}

struct Explainer<'a> {
    bundle: &'a Bundle,
    lowered: &'a Graph,
    prediction: &'a GraphPrediction,
}

impl Explainer<'_> {
    fn kernel(&self, index: usize) -> Option<KernelExplanation> {
        let node = self.lowered.nodes().get(index)?;
        let prediction = self.prediction.operators.get(index)?.clone();
        let sum: Latency = self.prediction.operators.iter().map(|o| o.latency_ns).sum();
        Some(KernelExplanation {
            name: node.name.clone(),
            op: node.op.clone(),
            share: prediction.latency_ns.ns() / sum.ns().max(f64::MIN_POSITIVE),
            cause: self.cause(index, &node.op, &prediction),
            prediction,
        })
    }

    fn cause(&self, index: usize, op: &OpSpec, prediction: &OperatorPrediction) -> Cause {
        match self.bundle.contents() {
            Contents::Trained(bundle) => {
                let kernels = self.lowered.nodes().iter().map(|node| &node.op);
                let working_set =
                    bundle.working_sets(kernels).get(index).copied().unwrap_or(WorkingSet::LARGE);
                Cause::Trained(Box::new(bundle.explain(op, working_set)))
            }
            Contents::Adapted(bundle) => {
                let demands = bundle.demands(op);
                let merged = prediction.latency_ns == Latency::ZERO && !demands.is_empty();
                Cause::Adapted { demands, merged }
            }
        }
    }
}

/// Where the nodes of a file are among the kernels that it is lowered to.
struct Places<'g> {
    graph: &'g Graph,
    lowered: &'g Graph,
    /// The kernel that provides a value, by the value's name.
    provides: HashMap<&'g str, usize>,
    /// The node of the file that provides a value, by the value's name.
    node_of: HashMap<&'g str, usize>,
    consumers: Vec<Vec<usize>>,
}

impl<'g> Places<'g> {
    fn new(graph: &'g Graph, lowered: &'g Graph) -> Self {
        let mut provides = HashMap::new();
        for (index, kernel) in lowered.nodes().iter().enumerate() {
            for output in &kernel.outputs {
                provides.insert(lowered.value(*output).name.as_str(), index);
            }
        }
        let provided = graph.values().iter().filter_map(|value| match value.source {
            ValueSource::Node(node) => Some((value.name.as_str(), node as usize)),
            _ => None,
        });
        let node_of = provided.collect();
        Self { graph, lowered, provides, node_of, consumers: graph.consumers() }
    }

    fn provider(&self, value: ValueId) -> Option<usize> {
        self.provides.get(self.graph.value(value).name.as_str()).copied()
    }

    fn has_values_of_the_file(&self) -> bool {
        self.provides.keys().any(|name| self.node_of.contains_key(name))
    }

    fn kernels_named(&self, name: &str) -> Vec<usize> {
        let nodes = self.lowered.nodes().iter().enumerate();
        nodes.filter(|(_, node)| node.name == name).map(|(index, _)| index).collect()
    }

    /// The kernels whose results the node is part of, and those that lead to them by values that
    /// the file does not have; sorted.
    fn kernels_of(&self, node: usize) -> Vec<usize> {
        let (mut kernels, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![node]);
        while let Some(index) = open.pop() {
            if !seen.insert(index) {
                continue;
            }
            for output in &self.graph.nodes()[index].outputs {
                match self.provider(*output) {
                    Some(kernel) => {
                        kernels.insert(kernel);
                    }
                    None => open.extend(&self.consumers[output.0 as usize]),
                }
            }
        }
        self.with_added(kernels).into_iter().collect()
    }

    /// These kernels, and those that provide them with values that the file does not have.
    fn with_added(&self, mut kernels: BTreeSet<usize>) -> BTreeSet<usize> {
        let mut open: Vec<usize> = kernels.iter().copied().collect();
        while let Some(index) = open.pop() {
            for input in &self.lowered.nodes()[index].inputs {
                let value = self.lowered.value(*input);
                if let ValueSource::Node(before) = value.source
                    && !self.node_of.contains_key(value.name.as_str())
                    && kernels.insert(before as usize)
                {
                    open.push(before as usize);
                }
            }
        }
        kernels
    }

    /// The nodes between the outputs of kernels and what other kernels provide, sorted.
    fn covered_by(&self, kernels: &[usize]) -> BTreeSet<usize> {
        let outputs = kernels.iter().flat_map(|kernel| &self.lowered.nodes()[*kernel].outputs);
        let name = |output: &ValueId| self.lowered.value(*output).name.as_str();
        let mut open: Vec<usize> =
            outputs.filter_map(|output| self.node_of.get(name(output)).copied()).collect();
        let mut seen = BTreeSet::new();
        while let Some(index) = open.pop() {
            if !seen.insert(index) {
                continue;
            }
            for input in &self.graph.nodes()[index].inputs {
                if let ValueSource::Node(before) = self.graph.value(*input).source
                    && self.provider(*input).is_none()
                {
                    open.push(before as usize);
                }
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::SHIPPED;
    use std::path::Path;
    use vitempo_graph::PredictionSource;
    use vitempo_predictors::Basis;

    fn bundle(name: &str) -> Bundle {
        Bundle::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("a bundle that ships")
    }

    fn explained(bundle: &Bundle, graph: &Graph, node: &str) -> NodeExplanation {
        explain(bundle, graph, node, &Budget::default()).expect("a node of the model")
    }

    #[test]
    fn a_fused_node_is_in_the_kernel_that_computes_it() {
        let graph = SHIPPED[1].graph().expect("a model");
        let bundle = bundle("bundles/epyc-onnxruntime-f32-1t.vtb");
        let sigmoid = graph.nodes().iter().find(|n| n.op.kind == OpKind::Sigmoid).expect("a SiLU");
        let found = explained(&bundle, &graph, &sigmoid.name);
        assert_eq!(found.kind, Some(OpKind::Sigmoid));
        assert!(found.covers.len() > 1, "it runs with others: {:?}", found.covers);
        assert!(found.covers.iter().any(|node| node.name == sigmoid.name));
        let kernel = found.kernels.first().expect("a kernel");
        let Cause::Trained(cause) = &kernel.cause else { panic!("trained") };
        assert_eq!(cause.estimate.latency_ns, kernel.prediction.latency_ns.ns());
        assert!(matches!(cause.basis, Basis::Regressor { .. }));
        assert!(cause.features.iter().any(|f| f.name == "flops" && f.value > 0.0));
        assert!(kernel.share > 0.0 && kernel.share < 1.0);
    }

    #[test]
    fn every_node_is_explained_and_kernels_cover_what_they_are_named_for() {
        let graph = SHIPPED[0].graph().expect("a model");
        for (name, least) in [
            ("epyc-onnxruntime-f32-1t", 0.7),
            ("epyc-openvino-f32-1t", 0.7),
            ("epyc-rten-f32-1t", 0.7),
            ("epyc-torch-f32-1t", 0.7),
            ("epyc-litert-f32-1t", 0.2),
        ] {
            let bundle = bundle(&format!("bundles/{name}.vtb"));
            let mut with_kernels = 0;
            let nodes: Vec<_> = graph.nodes().iter().step_by(9).collect();
            for node in &nodes {
                let found = explained(&bundle, &graph, &node.name);
                with_kernels += usize::from(!found.kernels.is_empty());
                assert!(
                    found.kernels.is_empty() || found.covers.iter().any(|c| c.name == node.name),
                    "{name}: {}: {:?}",
                    node.name,
                    found.covers
                );
            }
            let share = with_kernels as f64 / nodes.len() as f64;
            assert!(share > least, "{name}: {with_kernels} of {} nodes", nodes.len());
        }
    }

    #[test]
    fn an_adapted_device_explains_by_demands() {
        let graph = SHIPPED[1].graph().expect("a model");
        let bundle = bundle("bundles/adapted/pixel4-tflite-cpu-f32.vtb");
        let conv = graph.nodes().iter().find(|n| n.op.kind == OpKind::Conv).expect("a convolution");
        let found = explained(&bundle, &graph, &conv.name);
        assert!(found.calibration.is_none());
        let [kernel] = &found.kernels[..] else { panic!("one kernel") };
        let Cause::Adapted { demands, merged: false } = &kernel.cause else { panic!("adapted") };
        assert!(demands.iter().filter_map(|d| d.share).sum::<f64>() > 0.99);
        assert_eq!(kernel.prediction.source, PredictionSource::Model);
    }

    #[test]
    fn an_unknown_node_is_refused_with_similar_names() {
        let graph = SHIPPED[0].graph().expect("a model");
        let bundle = bundle("bundles/epyc-rten-f32-1t.vtb");
        let name = &graph.nodes().iter().find(|n| n.op.kind == OpKind::MatMul).expect("one").name;
        let asked = format!("{name}x");
        let error = explain(&bundle, &graph, &asked, &Budget::default()).expect_err("no node");
        let ExplainError::UnknownNode { near, .. } = &error else { panic!("{error}") };
        assert!(near.contains(name), "{error}");
    }
}
