//! A machine of the fleet: one environment of a dataset, and the bundle trained on it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo::{
    datasets::{Dataset, DatasetError, Split},
    graph::{Environment, Graph, ModelProfile, Precision},
    predictors::{
        Drift, MeasuredModel, Method, PredictorBundle, PredictorError, TrainOptions, TrainingRows,
        metrics,
    },
    training::{self, TrainingError},
};

use crate::active::wall_seconds;

/// Why a machine cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Its dataset.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Its environment, or its bundle.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// The file of its bundle.
    #[error(transparent)]
    Predictors(#[from] PredictorError),
}

/// A model of a machine, measured end to end.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub name: String,
    pub graph: Graph,
    /// Median over rounds of the median over repeats, corrected to the machine's usual speed.
    pub latency_ns: f64,
    /// Wall time of its measurement, s.
    pub seconds: f64,
    /// Mean difference of one round and the next, as a share; `None`: one round.
    pub noise: Option<f64>,
}

/// A machine.
pub struct Machine {
    /// Name of its dataset's folder; the device of its environment is called so too, because
    /// processors of several machines have one name.
    pub name: String,
    /// Its environment.
    pub environment: Environment,
    pub(super) dataset: Dataset,
    split: Split,
    /// Networks around operators, with what measuring each took, s.
    pub(super) networks: Vec<(ModelProfile, f64)>,
    /// Wall time of each measurement, s.
    took: Vec<f64>,
    has_real: bool,
}

impl Machine {
    /// The environment of an engine in f32 with one thread, without a load; `None` where the
    /// dataset has none.
    ///
    /// # Errors
    /// [`MachineError`] where the dataset cannot be read.
    pub fn read(folder: &Path, engine: &str) -> Result<Option<Self>, MachineError> {
        let is_wanted = |e: &Environment| {
            e.framework == engine
                && e.precision == Precision::F32
                && (e.threads, &e.memory_format, &e.beside) == (1, &None, &None)
                && e.settings.is_empty()
        };
        let described = Dataset::described_environments(folder)?;
        let Some(id) = described.iter().find(|(_, e)| is_wanted(e)).map(|(id, _)| id) else {
            return Ok(None);
        };
        let mut dataset = training::load_environment(folder, Some(id))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for profile in &mut dataset.profiles {
            profile.environment.device.clone_from(&name);
        }
        let split = training::default_split(&dataset, TrainOptions::default().seed)?;
        let took = wall_seconds(&dataset.profiles);
        let networks = dataset.profiles.iter().zip(&took).filter(|(p, _)| p.model.is_operator());
        let networks = networks.map(|(p, s)| (p.clone(), *s)).collect();
        let has_real = dataset.profiles.iter().any(|p| p.model.space.is_none());
        let environment = dataset.profiles[0].environment.without_host();
        Ok(Some(Self { name, environment, dataset, split, networks, took, has_real }))
    }

    /// Whether the models that forecasts are judged by are real.
    #[must_use]
    pub const fn has_real(&self) -> bool {
        self.has_real
    }

    /// Wall time of all its measurements, s.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.took.iter().sum()
    }

    /// The models that forecasts are judged by: real ones, else synthetic ones that its own bundle
    /// was not trained on. Their latencies are those that its own bundle is evaluated by: corrected
    /// by `drift`.
    ///
    /// # Errors
    /// [`PredictorError`] where none of them has samples.
    pub(super) fn judged(&self, drift: Drift) -> Result<Vec<Truth>, PredictorError> {
        let is_judged = |profile: &ModelProfile| match self.has_real {
            true => profile.model.space.is_none(),
            false => self.split.test.contains(&profile.model.architecture),
        };
        let judged = || self.dataset.profiles.iter().zip(&self.took).filter(|(p, _)| is_judged(p));
        let profiles: Vec<ModelProfile> = judged().map(|(profile, _)| profile.clone()).collect();
        let truth = |model: MeasuredModel| {
            let took = judged().filter(|(p, _)| p.model.name == model.name).map(|(_, took)| took);
            let pairs = model.runs.windows(2).map(|pair| (pair[1].1 / pair[0].1 - 1.0).abs());
            let pairs: Vec<f64> = pairs.collect();
            Some(Truth {
                graph: self.dataset.graphs.get(&model.architecture)?.clone(),
                latency_ns: model.e2e_ns?,
                seconds: took.sum(),
                noise: metrics::mean(&pairs),
                name: model.name,
            })
        };
        let models = TrainingRows::with_drift(&profiles, drift)?.models;
        Ok(models.into_iter().filter_map(truth).collect())
    }

    pub(super) fn graphs(&self) -> &BTreeMap<String, Graph> {
        &self.dataset.graphs
    }

    /// Its bundle from this folder, trained on synthetic models and networks where it is absent.
    ///
    /// # Errors
    /// [`MachineError`] where it cannot be trained or read.
    pub fn bundle(&self, folder: &Path) -> Result<PredictorBundle, MachineError> {
        let file: PathBuf =
            folder.join(format!("{}-{}.vtb", self.name, self.environment.framework));
        if file.exists() {
            return Ok(PredictorBundle::load(&file)?);
        }
        let options = TrainOptions::default();
        let bundle =
            training::train(&self.dataset, &self.split, Method::Gbdt, &options, &mut |_| ())?;
        bundle.save(&file)?;
        Ok(bundle)
    }
}
