//! [`Costs`]: the input of planners. Operators with their latency, energy and memory on each
//! processor; tensors with their size; links between processors.
//!
//! Planners take costs, not models: the numbers may come from bundles, from a measured file
//! ([`CostsFile`]), or from a table in a test. Nodes are in topological order. The energy of a node
//! is the given one, else the processor's `active_w` times the node's latency.

mod engine_memory;
mod file;
mod from_graph;
mod kernels;
mod link;
mod loads;

pub use engine_memory::EngineMemory;
pub use file::{CostsFile, LinkEntry, NodeEntry, TensorEntry};
pub use kernels::Attribution;
pub use link::Link;
pub use loads::Loads;
pub use vitempo_graph::End;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A cost and its interval, in whole units: nanoseconds, nanojoules or bytes per second, as the
/// field's name says.
pub type Interval = vitempo_graph::Interval<u64>;

/// Why costs are invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// A file of costs cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A name is used twice.
    #[error("{what} `{name}` is listed twice")]
    Twice {
        /// The kind of object with that name.
        what: &'static str,
        /// Their name.
        name: String,
    },
    /// A name that is not listed.
    #[error("{owner} names {what} `{name}`, which is not listed")]
    Unknown {
        /// The object that refers to the name.
        owner: String,
        /// The kind of object that the name should refer to.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A node with an invalid cost.
    #[error("node `{node}`: {reason}")]
    Node {
        /// Its name.
        node: String,
        /// What is wrong.
        reason: String,
    },
    /// A processor with an invalid constant.
    #[error("processor `{processor}`: {reason}")]
    Processor {
        /// Its name.
        processor: String,
        /// What is wrong.
        reason: String,
    },
    /// A required list is empty.
    #[error("the costs have no {what}")]
    Empty {
        /// The kind of object that is missing.
        what: &'static str,
    },
    /// Nodes that are not in topological order.
    #[error(
        "tensor `{tensor}` is read by node `{node}`, which comes before its producer: nodes must \
        be in topological order"
    )]
    Order {
        /// The tensor that is read too early.
        tensor: String,
        /// The node that reads it.
        node: String,
    },
    /// A tensor without a static size.
    #[error("model `{model}`: the size of tensor `{tensor}` is not known")]
    UnknownSize {
        /// Name of the model.
        model: String,
        /// Name of the tensor.
        tensor: String,
    },
}

/// A processor on which operators can run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorCosts {
    /// Unique name.
    pub name: String,
    /// Limit on memory, bytes; `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Power while it computes, W.
    #[serde(default)]
    pub active_w: f64,
    /// Power while it waits, W.
    #[serde(default)]
    pub idle_w: f64,
}

impl ProcessorCosts {
    /// A processor without limits and without known power.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), memory_bytes: None, active_w: 0.0, idle_w: 0.0 }
    }
}

/// One operator, or several that run as one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeCosts {
    /// Unique name.
    pub name: String,
    /// Latency on each processor, ns; `None` where it cannot run.
    pub latency_ns: Vec<Option<Interval>>,
    /// Energy on each processor, nJ; `None`: power times latency.
    pub energy_nj: Vec<Option<Interval>>,
    /// Memory of the weights, bytes. Where the memory of a processor's engine is known, that counts
    /// instead ([`EngineMemory`]).
    pub memory_bytes: u64,
}

/// One tensor that operators read or provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorCosts {
    /// Unique name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Index of the node that provides it; `None` for an input of the model.
    pub producer: Option<usize>,
    /// Indices of the nodes that read it.
    pub consumers: Vec<usize>,
    /// Whether it is an output of the model.
    pub output: bool,
    /// Whether it must stay on the device at which inputs arrive.
    pub confined: bool,
}

/// Checked costs of one model on several processors.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    model: String,
    processors: Vec<ProcessorCosts>,
    links: BTreeMap<(usize, usize), Link>,
    nodes: Vec<NodeCosts>,
    tensors: Vec<TensorCosts>,
    together: Vec<Vec<usize>>,
    /// By processor, where it is known.
    engine_memory: BTreeMap<usize, EngineMemory>,
}

impl Costs {
    /// Checks and assembles costs. `links` go from one processor index to another; nodes listed in
    /// one group of `together` must run on the same processor (a framework runs them as one
    /// kernel).
    ///
    /// # Errors
    /// [`CostError`] naming the invalid node, tensor or processor.
    pub fn new(
        model: impl Into<String>,
        processors: Vec<ProcessorCosts>,
        links: BTreeMap<(usize, usize), Link>,
        nodes: Vec<NodeCosts>,
        tensors: Vec<TensorCosts>,
        together: Vec<Vec<usize>>,
    ) -> Result<Self, CostError> {
        let (model, engine_memory) = (model.into(), BTreeMap::new());
        let costs = Self { model, processors, links, nodes, tensors, together, engine_memory };
        costs.check_processors()?;
        costs.check_nodes()?;
        costs.check_tensors()?;
        Ok(costs)
    }

    fn check_processors(&self) -> Result<(), CostError> {
        if self.processors.is_empty() {
            return Err(CostError::Empty { what: "processor" });
        }
        unique("processor", self.processors.iter().map(|p| &p.name))?;
        for processor in &self.processors {
            let watts = [("active_w", processor.active_w), ("idle_w", processor.idle_w)];
            if let Some((field, value)) =
                watts.into_iter().find(|(_, w)| !w.is_finite() || *w < 0.0)
            {
                let reason = format!("{field} is {value}; power is a number of watts, 0 or more");
                return Err(CostError::Processor { processor: processor.name.clone(), reason });
            }
        }
        for (&(from, to), link) in &self.links {
            let name = |index: usize| {
                self.processors.get(index).map_or_else(|| index.to_string(), |p| p.name.clone())
            };
            let owner = format!("the link from {} to {}", name(from), name(to));
            let refuse = |reason: String| CostError::Processor { processor: name(from), reason };
            if from == to {
                return Err(refuse(format!("{owner} leads nowhere")));
            }
            if link.conversion_bytes_per_s == Some(0) {
                let reason = "conversion_bytes_per_s is 0; leave it out where nothing is converted";
                return Err(refuse(format!("{owner}: {reason}")));
            }
            if from.max(to) >= self.processors.len() {
                return Err(CostError::Unknown {
                    owner,
                    what: "processor",
                    name: name(from.max(to)),
                });
            }
            if !link.transmit_w.is_finite() || link.transmit_w < 0.0 {
                let reason = format!(
                    "{owner} draws {} W; power is a number of watts, 0 or more",
                    link.transmit_w
                );
                return Err(CostError::Processor { processor: name(from), reason });
            }
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<(), CostError> {
        if self.nodes.is_empty() {
            return Err(CostError::Empty { what: "node" });
        }
        unique("node", self.nodes.iter().map(|n| &n.name))?;
        for node in &self.nodes {
            let refuse = |reason: String| Err(CostError::Node { node: node.name.clone(), reason });
            let processors = self.processors.len();
            if node.latency_ns.len() != processors || node.energy_nj.len() != processors {
                return refuse(format!(
                    "{} latencies and {} energies for {processors} processors",
                    node.latency_ns.len(),
                    node.energy_nj.len()
                ));
            }
            if node.latency_ns.iter().all(Option::is_none) {
                return refuse(
                    "it has no latency on any processor: measure it, or predict it with \
                    a bundle that covers its kind"
                        .to_owned(),
                );
            }
        }
        match self.together.iter().flatten().find(|&&node| node >= self.nodes.len()) {
            Some(index) => Err(CostError::Unknown {
                owner: "a group of nodes".to_owned(),
                what: "node",
                name: index.to_string(),
            }),
            None => Ok(()),
        }
    }

    fn check_tensors(&self) -> Result<(), CostError> {
        unique("tensor", self.tensors.iter().map(|t| &t.name))?;
        for tensor in &self.tensors {
            for node in tensor.consumers.iter().chain(&tensor.producer) {
                if *node >= self.nodes.len() {
                    return Err(CostError::Unknown {
                        owner: format!("tensor `{}`", tensor.name),
                        what: "node",
                        name: node.to_string(),
                    });
                }
            }
            let early = tensor
                .consumers
                .iter()
                .find(|&&consumer| tensor.producer.is_some_and(|producer| consumer <= producer));
            if let Some(&node) = early {
                return Err(CostError::Order {
                    tensor: tensor.name.clone(),
                    node: self.nodes[node].name.clone(),
                });
            }
        }
        Ok(())
    }

    /// The model's name.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The processors.
    #[must_use]
    pub fn processors(&self) -> &[ProcessorCosts] {
        &self.processors
    }

    /// Index of a processor.
    ///
    /// # Errors
    /// [`CostError::Unknown`], listing the existing processors.
    pub fn processor(&self, name: &str) -> Result<usize, CostError> {
        self.processors.iter().position(|p| p.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.processors.iter().map(|p| p.name.as_str()).collect();
            CostError::Unknown {
                owner: format!("the question (processors are {})", names.join(", ")),
                what: "processor",
                name: name.to_owned(),
            }
        })
    }

    /// The link from one processor to another, if there is one.
    #[must_use]
    pub fn link(&self, from: usize, to: usize) -> Option<&Link> {
        self.links.get(&(from, to))
    }

    /// The same costs with another link between two processors.
    ///
    /// # Errors
    /// As [`Costs::new`].
    pub fn with_link(mut self, from: usize, to: usize, link: Link) -> Result<Self, CostError> {
        self.links.insert((from, to), link);
        self.check_processors()?;
        Ok(self)
    }

    /// Operators in topological order.
    #[must_use]
    pub fn nodes(&self) -> &[NodeCosts] {
        &self.nodes
    }

    /// The tensors.
    #[must_use]
    pub fn tensors(&self) -> &[TensorCosts] {
        &self.tensors
    }

    /// Groups of nodes that must run on the same processor.
    #[must_use]
    pub fn together(&self) -> &[Vec<usize>] {
        &self.together
    }

    /// Energy of a node on a processor, nJ: the given one, else power times latency; `None` where
    /// it cannot run.
    #[must_use]
    pub fn energy_nj(&self, node: usize, processor: usize) -> Option<Interval> {
        let costs = self.nodes.get(node)?;
        let latency = (*costs.latency_ns.get(processor)?)?;
        Some(
            costs
                .energy_nj
                .get(processor)
                .copied()
                .flatten()
                .unwrap_or_else(|| latency.times(self.processors[processor].active_w)),
        )
    }
}

fn unique<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), CostError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(CostError::Twice { what, name: name.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeCosts {
        NodeCosts {
            name: name.to_owned(),
            latency_ns: vec![Some(Interval::exact(1))],
            energy_nj: vec![None],
            memory_bytes: 0,
        }
    }

    fn costs(nodes: Vec<NodeCosts>, tensors: Vec<TensorCosts>) -> Result<Costs, CostError> {
        Costs::new(
            "m",
            vec![ProcessorCosts::named("cpu")],
            BTreeMap::new(),
            nodes,
            tensors,
            Vec::new(),
        )
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let message = |result: Result<Costs, CostError>| {
            result.map_or_else(|e| e.to_string(), |_| "accepted".to_owned())
        };
        let tensor = |producer, consumers| TensorCosts {
            name: "t".to_owned(),
            size_bytes: 1,
            producer,
            consumers,
            output: false,
            confined: false,
        };
        assert_eq!(message(costs(vec![], vec![])), "the costs have no node");
        assert_eq!(message(costs(vec![node("a"), node("a")], vec![])), "node `a` is listed twice");
        assert!(
            message(costs(vec![node("a"), node("b")], vec![tensor(Some(1), vec![0])]))
                .contains("node `a`, which comes before its producer")
        );
        assert!(
            message(costs(vec![node("a")], vec![tensor(None, vec![3])]))
                .contains("tensor `t` names node `3`")
        );
        let unmeasured = NodeCosts { latency_ns: vec![None], ..node("a") };
        assert!(
            message(costs(vec![unmeasured], vec![]))
                .contains("node `a`: it has no latency on any processor")
        );
    }

    #[test]
    fn energy_is_given_or_power_times_latency() {
        let mut processor = ProcessorCosts::named("cpu");
        processor.active_w = 2.5;
        let given = NodeCosts { energy_nj: vec![Some(Interval::exact(7))], ..node("b") };
        let costs = Costs::new(
            "m",
            vec![processor],
            BTreeMap::new(),
            vec![NodeCosts { latency_ns: vec![Some(Interval::exact(4))], ..node("a") }, given],
            vec![],
            vec![],
        );
        let costs = costs.expect("costs that fit");
        assert_eq!(costs.energy_nj(0, 0), Some(Interval::exact(10)));
        assert_eq!(costs.energy_nj(1, 0), Some(Interval::exact(7)));
    }
}
