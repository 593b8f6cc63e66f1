//! [`verify`]: measures members of a front, beside their forecasts.

use super::{Device, Outcome, folder, spearman};
use crate::{
    campaign::{self, Campaign, CampaignError},
    models::Model,
};
use std::path::{Path, PathBuf};
use vitempo_datasets::{Dataset, DatasetError};
use vitempo_graph::{Environment, ModelProfile, Prediction, Status};
use vitempo_predictors::end_to_end_ns;
use vitempo_profiler::{
    MemoryRuns, RunOptions, RunProtocol, Sweep, SweepModel, Target, WorkerCommand,
};
use vitempo_search_space::{Space, SpaceError};

/// Folder of the measurements, in the folder of the front.
const MEASURED: &str = "measured";
/// After which a measurement of one model has failed.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);

/// A front, and how it is measured.
#[derive(Clone, Debug)]
pub struct Verification<'a> {
    /// The space that was searched.
    pub space: &'a Space,
    /// The devices it was searched for.
    pub devices: &'a [Device<'a>],
    /// The result of the search.
    pub outcome: &'a Outcome,
    /// A model file for each member of the front.
    pub files: &'a [PathBuf],
    /// How many members are measured: the best, and others spread evenly over the front.
    pub count: usize,
    /// The engine's shared library, if the search does not find it.
    pub library: Option<&'a Path>,
    /// Folder of the front; measurements go to a dataset in it.
    pub folder: &'a Path,
    /// What measures.
    pub worker: WorkerCommand,
}

/// A member of the front that was measured.
#[derive(Clone, Debug)]
pub struct VerifiedModel {
    /// Its name.
    pub name: String,
    /// The latency forecast.
    pub forecast: Prediction,
    /// The latency measured, ns: the lower decile of the samples, by which bundles are trained.
    pub measured_ns: f64,
}

/// Measured members of one environment.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Where they were measured.
    pub environment: String,
    /// In the order of the front.
    pub models: Vec<VerifiedModel>,
}

/// Why a front was not verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A member whose graph cannot be built.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// A measurement that cannot be made or kept.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// The measurements cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A model that the engine does not run.
    #[error("`{model}` was not measured: {reason}")]
    NotMeasured {
        /// Its name.
        model: String,
        /// What the engine reports.
        reason: String,
    },
    /// The measurements were interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// `count` of `length` places, the first and others spread evenly.
#[must_use]
pub fn spread(length: usize, count: usize) -> Vec<usize> {
    let count = count.min(length);
    (0..count).map(|i| if count > 1 { i * (length - 1) / (count - 1) } else { 0 }).collect()
}

/// Whether the engine of every device's bundle can measure here, which is known before a search.
///
/// # Errors
/// [`VerifyError::Campaign`] for the first that cannot.
pub fn check(
    devices: &[Device<'_>],
    library: Option<&Path>,
    worker: &WorkerCommand,
) -> Result<(), VerifyError> {
    let target = Target::from(worker.clone());
    for device in devices {
        let wanted = device.bundle.environment();
        let probed = target.probe(&wanted.framework, &run_options(wanted, library));
        probed.map_err(CampaignError::from)?;
    }
    Ok(())
}

/// How the engine of an environment runs.
fn run_options(wanted: &Environment, library: Option<&Path>) -> RunOptions {
    RunOptions {
        threads: wanted.threads,
        processor: wanted.processor,
        precision: wanted.precision,
        memory_format: wanted.memory_format,
        settings: wanted.settings.clone(),
        library: library.map(Path::to_owned),
        ..RunOptions::default()
    }
}

/// Measures members of the front on the engine of every device's bundle. `run` runs the campaign of
/// one device, by [`Campaign::run`].
///
/// # Errors
/// [`VerifyError`] names the first model that was not measured.
pub fn verify(
    front: &Verification<'_>,
    run: &mut dyn FnMut(Campaign<'_>) -> Result<campaign::Outcome, CampaignError>,
) -> Result<Vec<Verified>, VerifyError> {
    let places = spread(front.files.len().min(front.outcome.front.len()), front.count);
    let data = front.folder.join(MEASURED);
    let mut verified = Vec::new();
    for (number, device) in front.devices.iter().enumerate() {
        let wanted = device.bundle.environment();
        let session = campaign::session_name();
        let models =
            places.iter().map(|&place| front.model(place)).collect::<Result<_, SpaceError>>()?;
        let sweep = front.sweep(models, wanted, &session);
        let here = run_all(Campaign { sweep, out: &data, retry_failed: true, resume: false }, run)?;
        if here.id() != wanted.id() {
            tracing::warn!("forecast for {}, measured on {}", wanted.id(), here.id());
        }
        let profiles = profiles(&data, &here.id())?;
        let model = |&place: &usize| {
            let name = front.name(place);
            let profile =
                profiles.iter().rfind(|p| p.model.name == name && p.session == session)?;
            let forecast = *front.outcome.front.get(place)?.latencies.get(number)?;
            Some(VerifiedModel { name, forecast, measured_ns: end_to_end_ns(profile)? })
        };
        verified.push(Verified {
            environment: here.id(),
            models: places.iter().filter_map(model).collect(),
        });
    }
    Ok(verified)
}

/// The environment that all models were measured in.
fn run_all(
    campaign: Campaign<'_>,
    run: &mut dyn FnMut(Campaign<'_>) -> Result<campaign::Outcome, CampaignError>,
) -> Result<Environment, VerifyError> {
    let outcome = run(campaign)?;
    match outcome.summary.failed.into_iter().next() {
        Some((model, reason)) => Err(VerifyError::NotMeasured { model, reason }),
        None if outcome.summary.interrupted => Err(VerifyError::Interrupted),
        None => Ok(outcome.environment),
    }
}

/// Successful measurements of one environment.
fn profiles(data: &Path, environment: &str) -> Result<Vec<ModelProfile>, DatasetError> {
    let mut dataset = Dataset::load_environment(data, |id| id == environment)?;
    dataset.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    dataset.profiles.retain(|profile| profile.status == Status::Ok);
    Ok(dataset.profiles)
}

impl Verification<'_> {
    fn name(&self, place: usize) -> String {
        super::member_name(self.space, place)
    }

    fn model(&self, place: usize) -> Result<SweepModel, SpaceError> {
        let sample = folder::sample(self.space, self.outcome, place)?;
        Ok(Model::sampled(sample, self.files[place].clone()).into())
    }

    /// Measures the models as the bundle's environment runs them.
    fn sweep(&self, models: Vec<SweepModel>, wanted: &Environment, session: &str) -> Sweep {
        Sweep {
            models,
            backend: wanted.framework.clone(),
            options: run_options(wanted, self.library),
            protocol: RunProtocol::default(),
            only_round: None,
            budget: None,
            run_timeout: TIMEOUT,
            target: self.worker.clone().into(),
            session: session.to_owned(),
            beside: None,
            memory: MemoryRuns::Never,
        }
    }
}

impl Verified {
    /// Rank correlation of forecast and measured latency.
    #[must_use]
    pub fn correlation(&self) -> Option<f64> {
        let (forecast, measured): (Vec<f64>, Vec<f64>) =
            self.models.iter().map(|m| (m.forecast.point().ns(), m.measured_ns)).unzip();
        spearman(&forecast, &measured)
    }

    /// How many measured latencies are within their intervals.
    #[must_use]
    pub fn covered(&self) -> usize {
        let is_covered = |m: &&VerifiedModel| {
            (m.forecast.lower().ns()..=m.forecast.upper().ns()).contains(&m.measured_ns)
        };
        self.models.iter().filter(is_covered).count()
    }
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn places_are_spread_with_both_ends() {
        assert_eq!(spread(10, 4), [0, 3, 6, 9]);
        assert_eq!(spread(3, 20), [0, 1, 2]);
        assert_eq!(spread(5, 1), [0]);
        assert!(spread(0, 3).is_empty());
    }
}
