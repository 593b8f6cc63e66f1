//! [`ListedModel`]: a model whose latency a bundle was adapted from, and what the bundle forecasts
//! of its graph.

use serde::{Deserialize, Serialize};
use vitempo_graph::{Graph, Prediction, Work};

/// Work and parameters of two graphs of one model agree within this share.
const SAME_WORK: f64 = 0.01;

/// One measured model. Files before version 5 have name and latency alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct ListedModel {
    /// Its name.
    pub name: String,
    /// Its latency, ns.
    pub latency_ns: f64,
    /// The graph it was adapted from.
    pub graph: Option<ListedGraph>,
    /// What the bundle forecasts of that graph.
    pub forecast: Option<Prediction>,
    /// What is forecast of that graph from the other measured models (cross-validation).
    pub from_others: Option<Prediction>,
}

/// What identifies the graph of a measured model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedGraph {
    /// Digest of the architecture.
    pub architecture: String,
    /// Number of operators.
    pub operators: usize,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Parameters.
    pub params: u64,
}

/// How a graph at hand relates to a listed model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Match<'a> {
    /// The latency was measured on this graph.
    SameGraph(&'a ListedModel),
    /// The name, or work and parameters, are those of the listed model, but the operators differ:
    /// the listed latency is that of another graph.
    OtherGraph(&'a ListedModel),
}

/// What a file has: the pair of versions before 5, or everything.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Pair(String, f64),
    Whole {
        name: String,
        latency_ns: f64,
        graph: Option<ListedGraph>,
        forecast: Option<Prediction>,
        from_others: Option<Prediction>,
    },
}

impl From<Stored> for ListedModel {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Pair(name, latency_ns) => {
                Self { name, latency_ns, graph: None, forecast: None, from_others: None }
            }
            Stored::Whole { name, latency_ns, graph, forecast, from_others } => {
                Self { name, latency_ns, graph, forecast, from_others }
            }
        }
    }
}

impl ListedModel {
    /// Of a measured model and its graph; forecasts are added by who makes the bundle.
    #[must_use]
    pub fn new(name: &str, latency_ns: f64, graph: &Graph) -> Self {
        Self {
            name: name.to_owned(),
            latency_ns,
            graph: Some(ListedGraph::of(graph)),
            forecast: None,
            from_others: None,
        }
    }

    /// Whether every number in it is one.
    pub(crate) fn is_sane(&self) -> bool {
        let in_range = |p: &Prediction| 0.0 <= p.lower().ns() && p.upper().ns().is_finite();
        self.latency_ns > 0.0
            && self.latency_ns.is_finite()
            && self.forecast.iter().chain(&self.from_others).all(in_range)
    }
}

impl ListedGraph {
    fn of(graph: &Graph) -> Self {
        let work = Work::of_graph(graph);
        Self {
            architecture: graph.architecture(),
            operators: graph.nodes().len(),
            macs: work.macs,
            params: work.params,
        }
    }

    /// Whether both compute as much with as many parameters.
    fn has_work_of(&self, other: &Self) -> bool {
        let close = |a: u64, b: u64| (a as f64 - b as f64).abs() <= SAME_WORK * a.max(b) as f64;
        close(self.macs, other.macs) && close(self.params, other.params)
    }
}

/// The listed model that `graph` is, or is another form of; `None` where neither is known.
pub(crate) fn find<'a>(listed: &'a [ListedModel], name: &str, graph: &Graph) -> Option<Match<'a>> {
    let this = ListedGraph::of(graph);
    let with_graph = || listed.iter().filter_map(|m| Some((m, m.graph.as_ref()?)));
    if let Some((m, _)) = with_graph().find(|(_, g)| g.architecture == this.architecture) {
        return Some(Match::SameGraph(m));
    }
    let named = with_graph().find(|(m, _)| m.name == name);
    named
        .or_else(|| with_graph().find(|(_, g)| g.has_work_of(&this)))
        .map(|(m, _)| Match::OtherGraph(m))
}
