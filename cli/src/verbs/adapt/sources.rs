//! `--from`: what is known of other devices. A bundle is asked for the models at hand; a dataset
//! brings models and latencies of its own.

use super::super::{bundle, dataset, error::CliResult, models::Model};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo::graph::{Environment, Graph, LatencyModel, ModelProfile, Status};
use vitempo::predictors::{
    adapt::{Source, Trait, Workload},
    metrics,
};

/// Workloads, each architecture once.
#[derive(Default)]
pub struct Models {
    pub workloads: Vec<Workload>,
    pub by_architecture: BTreeMap<String, usize>,
}

impl Models {
    /// The index of a graph's architecture, which is taken in where it is new.
    pub fn index(&mut self, graph: &Graph) -> usize {
        let next = self.workloads.len();
        let index = *self.by_architecture.entry(graph.architecture()).or_insert(next);
        if index == next {
            self.workloads.push(Workload::of(graph));
        }
        index
    }
}

/// What was read.
#[derive(Default)]
pub struct Sources {
    pub sources: Vec<Source>,
    pub names: Vec<String>,
}

/// What is known of a device beforehand: its software, precision and kind of processor.
pub fn kind(environment: &Environment) -> Trait {
    Trait(format!("{} {} {}", environment.framework, environment.precision, environment.processor))
}

/// Reads them all; `indices`: the files' workloads. What a dataset has of `target`'s device itself
/// is left out.
pub fn read(
    from: &[PathBuf],
    files: &[Model],
    indices: &[usize],
    models: &mut Models,
    target: &Environment,
) -> CliResult<Sources> {
    let mut sources = Sources::default();
    for path in from {
        if path.is_dir() {
            of_dataset(path, models, target, &mut sources)?;
        } else {
            of_bundle(path, files, indices, &mut sources)?;
        }
    }
    Ok(sources)
}

fn of_bundle(path: &Path, files: &[Model], indices: &[usize], sources: &mut Sources) -> CliResult {
    let model = bundle::open(path)?;
    let mut latencies_ns = BTreeMap::new();
    for (file, index) in files.iter().zip(indices) {
        latencies_ns.insert(*index, model.predict(&file.graph)?.latency.point.ns());
    }
    let environment = model.environment();
    sources.sources.push(Source {
        device: environment.device.clone(),
        kind: kind(environment),
        latencies_ns,
    });
    sources.names.push(format!("{} (forecasts)", environment.describe()));
    Ok(())
}

/// One source per environment: models whose graphs the dataset has.
fn of_dataset(
    path: &Path,
    models: &mut Models,
    target: &Environment,
    sources: &mut Sources,
) -> CliResult {
    let dataset = dataset::load(path)?;
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut samples: BTreeMap<String, (Environment, BTreeMap<usize, Vec<f64>>)> = BTreeMap::new();
    let told = |p: &&ModelProfile| {
        p.status == Status::Ok && !p.model.is_operator() && p.environment.device != target.device
    };
    for profile in dataset.profiles.iter().filter(told) {
        let (Some(graph), Some(ns)) =
            (dataset.graphs.get(&profile.model.architecture), profile.e2e.median_ns())
        else {
            continue;
        };
        let of = samples
            .entry(profile.environment.id())
            .or_insert_with(|| (profile.environment.clone(), BTreeMap::new()));
        let model = *known
            .entry(profile.model.architecture.as_str())
            .or_insert_with(|| models.index(graph));
        of.1.entry(model).or_default().push(ns);
    }
    for (environment, of) in samples.into_values() {
        let latencies_ns: BTreeMap<usize, f64> =
            of.into_iter().filter_map(|(model, ns)| Some((model, metrics::median(&ns)?))).collect();
        sources.names.push(format!("{} ({} models)", environment.describe(), latencies_ns.len()));
        sources.sources.push(Source {
            device: environment.device.clone(),
            kind: kind(&environment),
            latencies_ns,
        });
    }
    Ok(())
}
