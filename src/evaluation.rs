//! Errors of a bundle's forecasts on measured models outside its training data: [`Evaluator`]
//! evaluates bundles on a dataset, one after the other, [`check_mape`] is the gate.

use crate::training::{self, TrainingError};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo_datasets::{Dataset, DatasetError, Warning};
use vitempo_graph::ModelProfile;
use vitempo_predictors::{Evaluation, PredictorBundle, PredictorError, evaluate_part};

/// One bundle evaluated: on all test models, and on the synthetic and the real ones apart.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// The bundle's name.
    pub name: String,
    /// On every test model.
    pub all: Evaluation,
    /// On those sampled from a search space.
    pub synthetic: Option<Evaluation>,
    /// On the others.
    pub real: Option<Evaluation>,
    /// Names of measured models outside the training data that are in none of these.
    pub left_out: BTreeSet<String>,
    /// By what the measured latencies are divided, because the reference workload took longer or
    /// less long beside them than beside the bundle's data: the median; 1 where nothing is
    /// corrected.
    pub correction: f64,
}

/// Why a bundle was not evaluated, or fails the gate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// No model is left to test on.
    #[error("{bundle} was trained on every model of {}", .data.display())]
    NothingHeldOut {
        /// The bundle's name.
        bundle: String,
        /// The dataset.
        data: PathBuf,
    },
    /// The dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The dataset has no measurement of the bundle's environment.
    #[error("{bundle}: the bundle is for another environment: {source}")]
    Environment {
        /// The bundle's name.
        bundle: String,
        /// What is there.
        source: Box<TrainingError>,
    },
    /// A measurement that cannot be compared.
    #[error(transparent)]
    Predictors(#[from] PredictorError),
    /// The gate was not met.
    #[error("{bundle}: end-to-end MAPE {mape:.2} % on {set} models is above {limit} %")]
    AboveLimit {
        /// The bundle's name.
        bundle: String,
        /// `synthetic` or `real`.
        set: &'static str,
        /// In percent; not a number where no model could be forecast.
        mape: f64,
        /// In percent.
        limit: f64,
    },
}

/// Evaluates bundles, each on the measurements of its own environment in one dataset.
///
/// The measurements of the last environment stay in memory, so that several bundles of one
/// environment read them once.
#[derive(Debug)]
pub struct Evaluator {
    folder: PathBuf,
    /// With the environment's identity.
    read: Option<(String, Dataset)>,
}

impl Evaluator {
    /// On the dataset in this folder.
    ///
    /// # Errors
    /// [`EvaluationError::Dataset`] where it cannot be read.
    pub fn new(folder: &Path) -> Result<Self, EvaluationError> {
        Dataset::environments(folder)?;
        Ok(Self { folder: folder.to_owned(), read: None })
    }

    /// Evaluates the bundle of that name. `warn` receives what is left out of the measurements of
    /// an environment, when they are read.
    ///
    /// # Errors
    /// [`EvaluationError::Environment`] where the dataset has no measurement of the bundle's
    /// environment; the others as of [`Evaluated::new`].
    pub fn evaluate(
        &mut self,
        name: String,
        bundle: &PredictorBundle,
        warn: &mut dyn FnMut(&Warning),
    ) -> Result<Evaluated, EvaluationError> {
        let id = bundle.environment.id();
        let dataset = match self.read.take().filter(|(read, _)| *read == id) {
            Some((_, dataset)) => dataset,
            None => match training::load_environment(&self.folder, Some(&id)) {
                Ok(dataset) => {
                    dataset.warnings.iter().for_each(&mut *warn);
                    dataset
                }
                Err(TrainingError::Dataset(error)) => return Err(error.into()),
                Err(error) => {
                    let source = Box::new(error);
                    return Err(EvaluationError::Environment { bundle: name, source });
                }
            },
        };
        let evaluated = Evaluated::new(name, bundle, &dataset.profiles, &dataset);
        self.read = Some((id, dataset));
        evaluated
    }
}

impl Evaluated {
    /// Evaluates a bundle on the measurements of its environment whose architectures it was not
    /// trained on.
    ///
    /// # Errors
    /// [`EvaluationError::NothingHeldOut`] where it was trained on all of them.
    pub fn new(
        name: String,
        bundle: &PredictorBundle,
        profiles: &[ModelProfile],
        dataset: &Dataset,
    ) -> Result<Self, EvaluationError> {
        let trained: BTreeSet<&str> =
            bundle.provenance.trained_on.iter().map(String::as_str).collect();
        let held_out = |p: &&ModelProfile| {
            !p.model.is_operator() && !trained.contains(p.model.architecture.as_str())
        };
        let test: Vec<ModelProfile> = profiles.iter().filter(held_out).cloned().collect();
        if test.is_empty() {
            return Err(EvaluationError::NothingHeldOut {
                bundle: name,
                data: dataset.path.clone(),
            });
        }
        let evaluate = |is_part: &dyn Fn(&ModelProfile) -> bool| {
            evaluate_part(bundle, &test, &dataset.graphs, is_part)
        };
        let some = |is_part: &dyn Fn(&ModelProfile) -> bool| match evaluate(is_part) {
            Err(PredictorError::NoRows { .. }) => Ok(None),
            found => found.map(Some),
        };
        let all = evaluate(&|_| true)?;
        let evaluated: BTreeSet<&str> = all.models.iter().map(|m| m.name.as_str()).collect();
        let names = test.iter().map(|profile| profile.model.name.as_str());
        let left_out = names.filter(|name| !evaluated.contains(name)).map(str::to_owned).collect();
        Ok(Self {
            left_out,
            all,
            synthetic: some(&|p| p.model.space.is_some())?,
            real: some(&|p| p.model.space.is_none())?,
            correction: bundle.drift.correction(&test),
            name,
        })
    }

    /// The sets that have models: synthetic first.
    pub fn sets(&self) -> impl Iterator<Item = (&'static str, &Evaluation)> {
        [("synthetic", &self.synthetic), ("real", &self.real)]
            .into_iter()
            .filter_map(|(name, e)| e.as_ref().map(|e| (name, e)))
    }

    /// As the program and the Python package write it: the summary of all models, that of each set,
    /// and every model.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut json = self.all.summary();
        json["bundle"] = json!(self.name);
        json["sets"] = self.sets().map(|(set, e)| (set.to_owned(), e.summary())).collect();
        json["models"] = json!(self.all.models);
        json["correction"] = json!(self.correction);
        json
    }
}

/// The gate of a build: every set's end-to-end MAPE is at most `limit` percent.
///
/// # Errors
/// [`EvaluationError::AboveLimit`] names the first set that misses it.
pub fn check_mape(evaluated: &[Evaluated], limit: f64) -> Result<(), EvaluationError> {
    for one in evaluated {
        for (set, evaluation) in one.sets() {
            let end_to_end = evaluation.e2e.as_ref().or(evaluation.e2e_executed.as_ref());
            let mape = end_to_end.map_or(f64::NAN, |e| e.mape);
            if mape.is_nan() || limit.is_nan() || mape > limit {
                let bundle = one.name.clone();
                return Err(EvaluationError::AboveLimit { bundle, set, mape, limit });
            }
        }
    }
    Ok(())
}
