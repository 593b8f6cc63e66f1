//! [`GraphLatency`]: models of one graph under several names are one model; their latencies are
//! samples of it.

use super::{
    Model,
    latencies::{ModelLatency, Sample},
};
use crate::predictors::metrics;
use std::collections::BTreeMap;

/// What was measured of one graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GraphLatency {
    /// Indices of its models, in their order.
    pub models: Vec<usize>,
    /// With the index of the first, and the median of all samples.
    pub latency: ModelLatency,
}

impl GraphLatency {
    /// Of each graph, in the order of the first models; `graph_of` numbers the graphs of models.
    pub fn each(latencies: &[ModelLatency], graph_of: impl Fn(usize) -> usize) -> Vec<Self> {
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        let mut graphs: Vec<Self> = Vec::new();
        for latency in latencies {
            let place = *places.entry(graph_of(latency.model)).or_insert(graphs.len());
            match graphs.get_mut(place) {
                Some(known) => known.add(latency),
                None => {
                    graphs.push(Self { models: vec![latency.model], latency: latency.clone() });
                }
            }
        }
        graphs
    }

    fn add(&mut self, other: &ModelLatency) {
        self.models.push(other.model);
        self.latency.samples.extend_from_slice(&other.samples);
        let ns: Vec<f64> = self.latency.samples.iter().map(|s| s.latency_ns).collect();
        self.latency.latency_ns = metrics::median(&ns).unwrap_or(self.latency.latency_ns);
    }

    /// The models of the shortest and the longest sample, and these samples.
    pub fn extremes(&self, latencies: &[ModelLatency]) -> Option<[(usize, Sample); 2]> {
        let (least, most) = self.latency.extremes()?;
        let of = |sample: Sample| {
            let model = latencies.iter().find(|m| m.samples.contains(&sample))?;
            Some((model.model, sample))
        };
        Some([of(least)?, of(most)?])
    }
}

/// By model: the index of the first model of the same graph.
pub(super) fn first_of_graph(models: &[Model<'_>]) -> Vec<usize> {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let index = |(index, model): (usize, &Model<'_>)| {
        *first.entry(model.graph.architecture()).or_insert(index)
    };
    models.iter().enumerate().map(index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_graph_are_of_one_model() {
        let of = |model: usize, line: usize, latency_ns: f64| ModelLatency {
            model,
            latency_ns,
            samples: vec![Sample { line, latency_ns }],
        };
        let latencies = [of(0, 4, 9e6), of(1, 2, 3e6), of(2, 3, 7e6), of(3, 5, 8e6)];
        let graphs = GraphLatency::each(&latencies, |model| if model == 1 { 1 } else { 0 });
        assert_eq!(graphs.len(), 2);
        assert_eq!((&graphs[0].models, graphs[0].latency.latency_ns), (&vec![0, 2, 3], 8e6));
        assert_eq!((&graphs[1].models, graphs[1].latency.latency_ns), (&vec![1], 3e6));
        let ends = graphs[0].extremes(&latencies).map(|ends| ends.map(|(m, s)| (m, s.line)));
        assert_eq!(ends, Some([(2, 3), (0, 4)]));
    }
}
