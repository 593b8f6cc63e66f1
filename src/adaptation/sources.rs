//! The sources of an adaptation: a bundle forecasts the given models; a dataset has models and
//! latencies of its own.

use crate::{
    datasets::{Dataset, published::device_of},
    graph::{Environment, Graph, LatencyModel, ModelProfile, PredictionError, Status},
    predictors::{
        adapt::{Source, Trait, Workload},
        metrics,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Workloads, each architecture once.
#[derive(Clone, Debug, Default)]
pub(super) struct Workloads {
    pub all: Vec<Workload>,
    pub by_architecture: BTreeMap<String, usize>,
}

impl Workloads {
    /// The index of a graph's architecture, which is added where it is new.
    pub fn index(&mut self, graph: &Graph) -> usize {
        let next = self.all.len();
        let index = *self.by_architecture.entry(graph.architecture()).or_insert(next);
        if index == next {
            self.all.push(Workload::of(graph));
        }
        index
    }
}

/// What is known of a device beforehand: its software and settings, precision and kind of
/// processor. Sources that share all of it count for more.
#[must_use]
pub fn kind(environment: &Environment) -> Trait {
    let Environment { framework, precision, processor, .. } = environment;
    let settings = environment.settings_after(" ");
    Trait(format!("{framework} {precision} {processor}{settings}"))
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    pub sources: Vec<Source>,
    pub names: Vec<String>,
    /// Environments of the target device itself.
    pub own: BTreeSet<String>,
}

impl Sources {
    /// The forecasts of a bundle.
    pub fn add_bundle<'a>(
        &mut self,
        bundle: &dyn LatencyModel,
        models: impl IntoIterator<Item = (usize, &'a Graph)>,
        target: &Environment,
    ) -> Result<(), PredictionError> {
        let environment = bundle.environment();
        if is_of(environment, target) {
            self.own.insert(environment.describe());
            return Ok(());
        }
        let mut latencies_ns = BTreeMap::new();
        for (index, graph) in models {
            latencies_ns.insert(index, bundle.predict(graph)?.latency.point().ns());
        }
        self.names.push(format!("{} (forecasts)", environment.describe()));
        self.sources.push(Source {
            device: environment.device.clone(),
            kind: kind(environment),
            latencies_ns,
        });
        Ok(())
    }

    /// One source per environment: models whose graphs the dataset has.
    pub fn add_dataset(
        &mut self,
        dataset: &Dataset,
        workloads: &mut Workloads,
        target: &Environment,
    ) {
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let mut samples: BTreeMap<String, (&Environment, BTreeMap<usize, Vec<f64>>)> =
            BTreeMap::new();
        let usable = |p: &&ModelProfile| p.status == Status::Ok && !p.model.is_operator();
        for profile in dataset.profiles.iter().filter(usable) {
            if is_of(&profile.environment, target) {
                self.own.insert(profile.environment.describe());
                continue;
            }
            let (Some(graph), Some(ns)) =
                (dataset.graphs.get(&profile.model.architecture), profile.e2e.median_ns())
            else {
                continue;
            };
            let model = *known
                .entry(profile.model.architecture.as_str())
                .or_insert_with(|| workloads.index(graph));
            let of = samples
                .entry(profile.environment.id())
                .or_insert_with(|| (&profile.environment, BTreeMap::new()));
            of.1.entry(model).or_default().push(ns);
        }
        for (environment, of) in samples.into_values() {
            let latencies_ns: BTreeMap<usize, f64> = of
                .into_iter()
                .filter_map(|(model, ns)| Some((model, metrics::median(&ns)?)))
                .collect();
            self.names.push(format!("{} ({} models)", environment.describe(), latencies_ns.len()));
            self.sources.push(Source {
                device: environment.device.clone(),
                kind: kind(environment),
                latencies_ns,
            });
        }
    }
}

/// Whether an environment is one of the target's device, in whatever precision and on whatever
/// cores.
fn is_of(environment: &Environment, target: &Environment) -> bool {
    device_of(&environment.device).eq_ignore_ascii_case(device_of(&target.device))
}
