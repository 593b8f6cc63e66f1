//! What a dataset has to choose from: each network and model with what measuring it took.

use super::Record;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use vitempo::{
    campaign::active::{ActiveError, Candidate, Targets},
    datasets::{DatasetError, SplitSize, split},
    graph::{Environment, Graph, ModelProfile},
    training::{self, TrainingError},
};

/// Share of the synthetic models that is held out.
const HELD_OUT: f64 = 0.4;
/// Seed of the split.
const SEED: u64 = 1;
/// A pause between two model runs that is longer than this is none of the first one's.
const LONGEST_S: f64 = 60.0;

/// Why a dataset cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// It cannot be read, or has several environments.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// It cannot be divided.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// It has nothing to choose from.
    #[error("the dataset has no networks around operators or no synthetic models")]
    Nothing,
}

/// A network or a model that can be measured.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its graph in [`Pool::graphs`].
    architecture: String,
    /// What measuring it brought.
    pub profiles: Vec<ModelProfile>,
    /// Whether it is a model, not a network around operators.
    pub is_whole: bool,
    /// Recorded wall time of it, s.
    pub seconds: f64,
}

/// A dataset to replay.
#[derive(Debug)]
pub struct Pool {
    /// Name of its folder.
    pub dataset: String,
    /// Where it was measured.
    pub environment: Environment,
    /// What can be measured.
    pub entries: Vec<Entry>,
    /// Runs of synthetic models that nothing is trained on.
    pub held_out: Vec<ModelProfile>,
    /// Runs of real models.
    pub real: Vec<ModelProfile>,
    /// Graphs by architecture.
    pub graphs: BTreeMap<String, Graph>,
}

impl Pool {
    /// Reads the measurements of one environment of a dataset.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn read(folder: &Path, environment: Option<&str>) -> Result<Self, PoolError> {
        let dataset = training::load_environment(folder, environment)?;
        let divided = split(&dataset, SplitSize::TestFraction(HELD_OUT), SEED)?;
        let train: BTreeSet<&String> = divided.train.iter().collect();
        let seconds = wall_seconds(&dataset.profiles);
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        let (mut held_out, mut real) = (Vec::new(), Vec::new());
        let described = dataset.profiles.first().map(|p| p.environment.without_host());
        for (profile, seconds) in dataset.profiles.into_iter().zip(seconds) {
            let architecture = &profile.model.architecture;
            if profile.model.space.is_none() {
                real.push(profile);
            } else if train.contains(architecture) {
                let is_whole = !profile.model.is_operator();
                let empty = || Entry {
                    architecture: architecture.clone(),
                    profiles: Vec::new(),
                    is_whole,
                    seconds: 0.0,
                };
                let entry = entries.entry(architecture.clone()).or_insert_with(empty);
                entry.seconds += seconds;
                entry.profiles.push(profile);
            } else {
                held_out.push(profile);
            }
        }
        let graphs = dataset.graphs;
        let has_graph = |entry: &Entry| graphs.contains_key(&entry.architecture);
        let entries: Vec<Entry> = entries.into_values().filter(has_graph).collect();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match described {
            Some(environment) if entries.iter().any(|e| !e.is_whole) && !held_out.is_empty() => {
                Ok(Self { dataset: name, environment, entries, held_out, real, graphs })
            }
            _ => Err(PoolError::Nothing),
        }
    }

    /// An empty record of it.
    pub(super) fn record(&self) -> Record {
        Record {
            dataset: self.dataset.clone(),
            environment: self.environment.id(),
            held_out: models(&self.held_out),
            real: models(&self.real),
            pool: (self.entries.len(), self.entries.iter().map(|e| e.seconds).sum()),
            points: Vec::new(),
        }
    }

    /// What can be chosen, in the order of the entries.
    pub(super) fn candidates(&self, targets: &Targets) -> Result<Vec<Candidate>, ActiveError> {
        let candidate = |entry: &Entry| {
            let protocol = entry.profiles.first().map(|p| &p.protocol);
            let runs = protocol.map_or(1, |p| p.warmups + 2 * p.min_repeats);
            targets.candidate(&self.graphs[&entry.architecture], entry.is_whole, runs)
        };
        self.entries.iter().map(candidate).collect()
    }
}

fn models(profiles: &[ModelProfile]) -> usize {
    let names: BTreeSet<&str> = profiles.iter().map(|p| p.model.name.as_str()).collect();
    names.len()
}

/// Wall time of each model run, s: until the next one of its session began; of the last one, the
/// median.
pub(crate) fn wall_seconds(profiles: &[ModelProfile]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..profiles.len()).collect();
    order.sort_by_key(|&i| profiles[i].started_unix_ms);
    let mut seconds = vec![f64::NAN; profiles.len()];
    for pair in order.windows(2) {
        let (this, next) = (&profiles[pair[0]], &profiles[pair[1]]);
        let elapsed = (next.started_unix_ms - this.started_unix_ms) as f64 / 1e3;
        if this.session == next.session && elapsed < LONGEST_S {
            seconds[pair[0]] = elapsed;
        }
    }
    let known: Vec<f64> = seconds.iter().copied().filter(|s| s.is_finite()).collect();
    let usual = vitempo::predictors::metrics::median(&known).unwrap_or(0.1);
    seconds.into_iter().map(|s| if s.is_finite() { s } else { usual }).collect()
}
