//! Trains bundles on measurements: [`load_environment`] reads the measurements of one environment,
//! [`train`] fits predictors to the training side of a [`Split`] and evaluates them on the real
//! models of the dataset, which are never training data. [`transfer()`] corrects a bundle of another
//! machine instead. Both need the feature `train`.

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};
use vitempo_datasets::{Dataset, DatasetError, Split, SplitSize, Warning};
use vitempo_graph::{Environment, ModelProfile, Status};
use vitempo_predictors::PredictorError;
#[cfg(feature = "train")]
use vitempo_predictors::{
    Fitted, Method, PredictorBundle, Progress, Share, TrainOptions,
    contention::{self, ContentionError},
    transfer::{self, Transferred},
};

/// The share of synthetic architectures that is held out where no split is given.
pub const HELD_OUT: f64 = 0.2;

/// The levels that an interval may be trained for. A higher one needs more scores than datasets have
/// models, and a lower one is no interval.
pub const LEVELS: RangeInclusive<f64> = 0.01..=0.9999;

/// Why training failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The predictors cannot be fitted.
    #[error(transparent)]
    Predictors(#[from] PredictorError),
    /// An environment without measurements.
    #[error("no successful measurement of environment `{environment}` in {}", .folder.display())]
    UnknownEnvironment {
        /// As asked for.
        environment: String,
        /// The dataset.
        folder: PathBuf,
        /// Those that have measurements.
        known: Vec<String>,
    },
    /// Several environments, and none was chosen.
    #[error("{} holds {} environments", .folder.display(), .known.len())]
    SeveralEnvironments {
        /// The dataset.
        folder: PathBuf,
        /// Their identities.
        known: Vec<String>,
    },
    /// The split is of another dataset.
    #[error(
        "no successful measurement of the split's training architectures in {}", .0.display()
    )]
    NothingToTrain(PathBuf),
}

/// Reads the successful measurements of one environment: of the one asked for, or of the only one
/// without a load on other cores. Those of memory alone, and those with other values of inputs than
/// most have, are left out with a warning of the dataset.
///
/// # Errors
/// [`TrainingError`] where the environment has no measurement of latency, or must be chosen.
pub fn load_environment(
    folder: &Path,
    environment: Option<&str>,
) -> Result<Dataset, TrainingError> {
    let chosen = chosen_environment(folder, environment)?;
    with_latencies(successful(Dataset::load_environment(folder, |id| id == chosen)?))
}

/// The same, but of a sample of the architectures where all of them have more than `rows` rows of
/// operators ([`Dataset::load_sample`]).
///
/// # Errors
/// As [`load_environment`].
pub fn load_sample(
    folder: &Path,
    environment: Option<&str>,
    rows: u64,
    seed: u64,
) -> Result<Dataset, TrainingError> {
    let chosen = chosen_environment(folder, environment)?;
    with_latencies(successful(Dataset::load_sample(folder, |id| id == chosen, rows, seed)?))
}

/// Refuses a dataset whose successful measurements are of memory alone.
fn with_latencies(dataset: Dataset) -> Result<Dataset, TrainingError> {
    let of_memory = dataset.warnings.iter().find_map(|warning| match warning {
        Warning::MemoryAlone { runs } => Some(*runs),
        _ => None,
    });
    match of_memory {
        Some(runs) if dataset.profiles.is_empty() => {
            Err(DatasetError::NoLatencies { path: dataset.path, runs }.into())
        }
        _ => Ok(dataset),
    }
}

/// Without failures and measurements of memory alone, and without other inputs than the usual ones,
/// which a forecast does not know.
fn successful(mut dataset: Dataset) -> Dataset {
    dataset.profiles.retain(|profile| profile.status == Status::Ok);
    dataset.take_memory_runs();
    dataset.take_other_inputs();
    dataset
}

fn chosen_environment(folder: &Path, environment: Option<&str>) -> Result<String, TrainingError> {
    let mut known = Dataset::environments(folder)?;
    known.retain(|_, successful| *successful > 0);
    if environment.is_none() {
        let described = Dataset::described_environments(folder)?;
        let is_alone = |id: &String| described.get(id).is_none_or(|e| e.beside.is_none());
        if known.keys().any(is_alone) {
            known.retain(|id, _| is_alone(id));
        }
    }
    match environment {
        Some(id) if known.contains_key(id) => Ok(id.to_owned()),
        Some(id) => Err(TrainingError::UnknownEnvironment {
            environment: id.to_owned(),
            folder: folder.to_owned(),
            known: known.into_keys().collect(),
        }),
        None if known.len() > 1 => Err(TrainingError::SeveralEnvironments {
            folder: folder.to_owned(),
            known: known.into_keys().collect(),
        }),
        None => Ok(known.into_keys().next().unwrap_or_default()),
    }
}

/// The successful measurements of an environment beside loads on other cores; empty where there are
/// none.
///
/// # Errors
/// [`DatasetError`] where the dataset cannot be read.
pub fn load_beside(
    folder: &Path,
    environment: &Environment,
) -> Result<Vec<ModelProfile>, DatasetError> {
    let id = environment.alone().id();
    let described = Dataset::described_environments(folder)?;
    let is_beside = |other: &Environment| other.beside.is_some() && other.alone().id() == id;
    let wanted = |other: &str| described.get(other).is_some_and(is_beside);
    if !described.keys().any(|other| wanted(other)) {
        return Ok(Vec::new());
    }
    Ok(successful(Dataset::load_environment(folder, wanted)?).profiles)
}

/// The split where none is given: [`HELD_OUT`] of the synthetic architectures, chosen by the seed,
/// and all real ones are test models.
///
/// # Errors
/// [`DatasetError`] where one of both sides would be empty.
pub fn default_split(dataset: &Dataset, seed: u64) -> Result<Split, DatasetError> {
    vitempo_datasets::split(dataset, SplitSize::TestFraction(HELD_OUT), seed)
}

/// Measurements of the split's training architectures.
#[must_use]
pub fn training_side(profiles: &[ModelProfile], split: &Split) -> Vec<ModelProfile> {
    let train: BTreeSet<&str> = split.train.iter().map(String::as_str).collect();
    profiles.iter().filter(|p| train.contains(p.model.architecture.as_str())).cloned().collect()
}

/// Trains on the split's training side.
///
/// # Errors
/// [`TrainingError`] where the dataset has none of it, or the predictors cannot be fitted.
#[cfg(feature = "train")]
pub fn train(
    dataset: &Dataset,
    split: &Split,
    method: Method,
    options: &TrainOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<PredictorBundle, TrainingError> {
    train_with(dataset, split, method, options, &Fitted::default(), progress)
}

/// Whether the level is one of [`LEVELS`].
#[cfg(feature = "train")]
fn check_level(options: &TrainOptions) -> Result<(), PredictorError> {
    let (level, [least, most]) = (options.level, [LEVELS.start(), LEVELS.end()]);
    match LEVELS.contains(&level) {
        true => Ok(()),
        false => Err(PredictorError::Option {
            option: "level",
            reason: format!("{level} is not from {least} to {most}"),
        }),
    }
}

/// Fits a share of the regressors that training on the split's training side needs.
///
/// # Errors
/// As [`train`].
#[cfg(feature = "train")]
pub fn fit_share(
    dataset: &Dataset,
    split: &Split,
    method: Method,
    options: &TrainOptions,
    share: Share,
) -> Result<Fitted, TrainingError> {
    check_level(options)?;
    let training = training_side(&dataset.profiles, split);
    if training.is_empty() {
        return Err(TrainingError::NothingToTrain(dataset.path.clone()));
    }
    Ok(Fitted::fit(&training, method, options, share)?)
}

/// Trains as [`train`] does, the same bundle byte for byte, with regressors that were fitted apart.
///
/// # Errors
/// As [`train`]; [`PredictorError::Option`] where they are of other data or options.
#[cfg(feature = "train")]
pub fn train_with(
    dataset: &Dataset,
    split: &Split,
    method: Method,
    options: &TrainOptions,
    fitted: &Fitted,
    progress: &mut dyn FnMut(Progress),
) -> Result<PredictorBundle, TrainingError> {
    check_level(options)?;
    let training = training_side(&dataset.profiles, split);
    if training.is_empty() {
        return Err(TrainingError::NothingToTrain(dataset.path.clone()));
    }
    let graphs = &dataset.graphs;
    let mut bundle =
        vitempo_predictors::train_with(&training, graphs, method, options, fitted, progress)?;
    bundle.provenance.sampled_of = dataset.sampled.map(|sampled| sampled.of);
    judge_on_real(&mut bundle, dataset)?;
    Ok(bundle)
}

/// Trains on these measurements of the dataset, and evaluates the bundle on the dataset's real
/// models.
///
/// # Errors
/// [`PredictorError`] where the predictors cannot be fitted.
#[cfg(feature = "train")]
pub fn train_on(
    training: &[ModelProfile],
    dataset: &Dataset,
    method: Method,
    options: &TrainOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<PredictorBundle, PredictorError> {
    check_level(options)?;
    let mut bundle =
        vitempo_predictors::train(training, &dataset.graphs, method, options, progress)?;
    judge_on_real(&mut bundle, dataset)?;
    Ok(bundle)
}

/// Fits the bundle's slowdown model to the rows of its dataset beside loads, of the split's training
/// architectures. `Ok` with a reason where there are such rows, but too few; without any the bundle
/// stays as it is.
///
/// # Errors
/// [`DatasetError`] where the dataset cannot be read.
#[cfg(feature = "train")]
pub fn fit_contention(
    bundle: &mut PredictorBundle,
    dataset: &Dataset,
    split: &Split,
) -> Result<Option<ContentionError>, DatasetError> {
    let beside = load_beside(&dataset.path, &bundle.environment)?;
    if beside.is_empty() || bundle.environment.beside.is_some() {
        return Ok(None);
    }
    let alone = training_side(&dataset.profiles, split);
    let beside = training_side(&beside, split);
    match contention::fit(&alone, &beside, bundle.interval.level) {
        Ok(model) => {
            bundle.contention = Some(model);
            Ok(None)
        }
        Err(reason) => Ok(Some(reason)),
    }
}

/// Corrects the bundle of another machine by the operator networks and models of no real kind that
/// a dataset has, and evaluates it on the dataset's real models.
///
/// # Errors
/// As [`transfer::transfer`].
#[cfg(feature = "train")]
pub fn transfer(
    source: &PredictorBundle,
    dataset: &Dataset,
) -> Result<Transferred, PredictorError> {
    let sampled: Vec<ModelProfile> =
        dataset.profiles.iter().filter(|p| p.model.space.is_some()).cloned().collect();
    let mut transferred = transfer::transfer(source, &sampled)?;
    judge_on_real(&mut transferred.bundle, dataset)?;
    Ok(transferred)
}

/// Fits the interval of unfamiliar models to the dataset's real models where they are enough, and
/// evaluates the bundle on them.
#[cfg(feature = "train")]
fn judge_on_real(bundle: &mut PredictorBundle, dataset: &Dataset) -> Result<(), PredictorError> {
    let trained_on = &bundle.provenance.trained_on;
    let real = |p: &&ModelProfile| {
        p.model.space.is_none()
            && trained_on.binary_search(&p.model.architecture).is_err()
            && p.origin == bundle.origin
            && p.environment.id() == bundle.environment.id()
    };
    let profiles: Vec<ModelProfile> = dataset.profiles.iter().filter(real).cloned().collect();
    match bundle.fit_unfamiliar(&profiles, &dataset.graphs) {
        Ok(()) => {
            let evaluation = vitempo_predictors::evaluate(bundle, &profiles, &dataset.graphs)?;
            bundle.on_real = Some(evaluation);
            Ok(())
        }
        Err(PredictorError::NoRows { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_runs::{of_memory_alone, run};

    fn dataset(profiles: Vec<ModelProfile>) -> Dataset {
        Dataset { profiles, ..Dataset::default() }
    }

    #[test]
    fn measurements_of_memory_alone_are_not_of_latency() {
        let latencies = vec![run("a", 1000), run("b", 3000)];
        // More runs of memory than of latency do not decide which inputs are the usual ones.
        let mut other = of_memory_alone("a", 9000);
        other.protocol.input_distribution = "constant(2)".to_owned();
        let of_memory = [of_memory_alone("b", 8000), other.clone(), other.clone(), other];
        let all = [latencies.clone(), of_memory.to_vec()].concat();
        let read = with_latencies(successful(dataset(all))).expect("latencies");
        assert_eq!(read.profiles, latencies);
        assert_eq!(read.warnings, [Warning::MemoryAlone { runs: 4 }]);
        let refused = with_latencies(successful(dataset(of_memory.to_vec())));
        let says = refused.map(drop).expect_err("no latency").to_string();
        assert!(says.contains("4 successful model runs measured memory alone"), "{says}");
    }

    #[cfg(feature = "train")]
    #[test]
    fn a_level_outside_of_its_range_is_refused() {
        let (dataset, method) = (Dataset::default(), Method::Lasso);
        for level in [0.999_999_999_999, 1e-300, 1.0, f64::NAN] {
            let options = TrainOptions { level, ..TrainOptions::default() };
            let refused = train_on(&[], &dataset, method, &options, &mut |_| ());
            let says = refused.map(drop).expect_err("a level").to_string();
            assert!(says.contains("option level") && says.contains("0.01 to 0.9999"), "{says}");
        }
    }
}
