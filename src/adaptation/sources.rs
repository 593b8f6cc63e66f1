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

/// A bundle or a dataset that gives no new source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A model that a bundle cannot forecast.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
    /// A dataset without a run to learn from.
    #[error("it is no source: of its {runs} runs of models, none has both a latency and a graph")]
    NothingUsable {
        /// Successful runs of models.
        runs: usize,
    },
    /// What is a source already.
    #[error("it is a source already: {name}")]
    Repeated {
        /// The source.
        name: String,
    },
}

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
    ) -> Result<(), SourceError> {
        let environment = bundle.environment();
        if is_of(environment, target) {
            self.own.insert(environment.describe());
            return Ok(());
        }
        let mut latencies_ns = BTreeMap::new();
        for (index, graph) in models {
            latencies_ns.insert(index, bundle.predict(graph)?.latency.point().ns());
        }
        self.add(format!("{} (forecasts)", environment.describe()), environment, latencies_ns)
    }

    /// A source, which is not one that is there already.
    fn add(
        &mut self,
        name: String,
        environment: &Environment,
        latencies_ns: BTreeMap<usize, f64>,
    ) -> Result<(), SourceError> {
        let (device, kind) = (environment.device.clone(), kind(environment));
        let source = Source { device, kind, latencies_ns };
        if self.sources.contains(&source) {
            return Err(SourceError::Repeated { name });
        }
        self.names.push(name);
        self.sources.push(source);
        Ok(())
    }

    /// One source per environment: models whose graphs and latencies the dataset has.
    pub fn add_dataset(
        &mut self,
        dataset: &Dataset,
        workloads: &mut Workloads,
        target: &Environment,
    ) -> Result<(), SourceError> {
        let (mut runs, mut own) = (0, 0);
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let mut samples: BTreeMap<String, (&Environment, BTreeMap<usize, Vec<f64>>)> =
            BTreeMap::new();
        let usable = |p: &&ModelProfile| p.status == Status::Ok && !p.model.is_operator();
        for profile in dataset.profiles.iter().filter(usable) {
            runs += 1;
            if profile.is_of_memory_alone() {
                continue;
            }
            if is_of(&profile.environment, target) {
                own += 1;
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
        if samples.is_empty() && own == 0 {
            return Err(SourceError::NothingUsable { runs });
        }
        for (environment, of) in samples.into_values() {
            let latencies_ns: BTreeMap<usize, f64> = of
                .into_iter()
                .filter_map(|(model, ns)| Some((model, metrics::median(&ns)?)))
                .collect();
            let name = format!("{} ({} models)", environment.describe(), latencies_ns.len());
            self.add(name, environment, latencies_ns)?;
        }
        Ok(())
    }
}

/// Whether an environment is one of the target's device, in whatever precision and on whatever
/// cores.
fn is_of(environment: &Environment, target: &Environment) -> bool {
    device_of(&environment.device).eq_ignore_ascii_case(device_of(&target.device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        adaptation::NewDevice,
        model_runs::{of_memory_alone, run},
    };

    fn board() -> Environment {
        let device = NewDevice {
            name: Some("board".to_owned()),
            processor: vitempo_graph::Processor::Cpu,
            framework: "rten".to_owned(),
            threads: 1,
            precision: vitempo_graph::Precision::F32,
        };
        device.environment("".as_ref())
    }

    #[test]
    fn nothing_is_a_source_twice() {
        let environment = board();
        let mut sources = Sources::default();
        let mut add = |ns: f64| sources.add("one".into(), &environment, [(0, ns)].into());
        assert!(add(1e6).is_ok());
        assert!(matches!(add(1e6), Err(SourceError::Repeated { name }) if name == "one"));
        assert!(add(2e6).is_ok(), "another bundle of the same environment");
        assert_eq!(sources.sources.len(), 2);
    }

    #[test]
    fn measurements_of_memory_alone_are_no_latencies() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models/mobilevit_xxs.onnx");
        let options = vitempo_graph::onnx::ReadOptions::default();
        let graph = vitempo_graph::onnx::read_file(file.as_ref(), &options).expect("a model");
        let of_memory = of_memory_alone("m", 9_000_000);
        let dataset = |profiles: &[ModelProfile]| Dataset {
            profiles: profiles.to_vec(),
            graphs: [("m".to_owned(), graph.clone())].into(),
            ..Dataset::default()
        };
        let added = |profiles: &[ModelProfile]| {
            let (mut sources, mut workloads) = (Sources::default(), Workloads::default());
            sources.add_dataset(&dataset(profiles), &mut workloads, &board())?;
            Ok::<_, SourceError>(sources.sources[0].latencies_ns.clone())
        };
        let both = added(&[of_memory.clone(), run("m", 2_000_000)]).expect("a source");
        assert_eq!(both, [(0, 2e6)].into());
        let refused = added(&[of_memory]);
        assert!(matches!(refused, Err(SourceError::NothingUsable { runs: 1 })), "{refused:?}");
    }

    #[test]
    fn a_dataset_without_runs_is_no_source() {
        let (mut sources, mut workloads) = (Sources::default(), Workloads::default());
        let refused = sources.add_dataset(&Dataset::default(), &mut workloads, &board());
        assert!(matches!(refused, Err(SourceError::NothingUsable { runs: 0 })), "{refused:?}");
    }
}
