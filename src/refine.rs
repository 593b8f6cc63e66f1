//! "Sure about this one": measures the kernels of one model that its forecast is least sure of, and
//! makes a bundle that forecasts it better.
//!
//! [`Refinement::plan`] finds the kernels that carry the interval's width or have no predictor, and
//! for each a small network around it: a piece of the model itself, in which the engine runs the
//! very same kernel. [`Refinement::campaign`] measures the networks of as many kernels as a time
//! allows, those first that bring most per second. [`Refinement::apply`] compares the measured
//! kernels with their forecasts and corrects the bundle
//! ([`vitempo_predictors::refined`]).
//!
//! | question | where |
//! |---|---|
//! | which part of a model surrounds a kernel? | `refine/window.rs` |
//! | which kernels are measured within a time? | `refine/choice.rs` |
//! | what do the measurements say of a kernel? | `refine/corrections.rs` |
//! | which forecasts are worth it? | `refine/suggestion.rs` |
//!
//! The whole model is never run, unless a piece that has a kernel is the whole of it. The interval
//! of a refined forecast is scaled by the expected errors of its kernels as before; on how many
//! models it was seen to hold is said in `docs/accuracy.md`.

mod choice;
mod corrections;
mod suggestion;
mod window;

pub use choice::{Candidate, Choice};
pub use suggestion::Suggestion;

use crate::{
    bundle::Bundle,
    campaign::{Campaign, operator_network, session_name},
    models::Model,
};
use std::{collections::BTreeMap, path::Path, time::Duration};
use vitempo_datasets::{Dataset, DatasetError};
use vitempo_graph::{
    Environment, Graph, GraphPrediction, LatencyModel, ModelProfile, PredictionError, Status,
};
use vitempo_predictors::{PredictorBundle, PredictorError, refined::RefinedModel};
use vitempo_profiler::{MemoryRuns, RunOptions, RunProtocol, Sweep, Target};

/// Rounds of measuring: their disagreement is seen in the dataset.
const ROUNDS: usize = 2;
/// Repeats of a network: few, because most kernels are short and there are many networks.
const REPEATS: usize = 6;
/// Repeats in which its kernels are timed.
const PROFILED: usize = 6;
/// A network that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why a model cannot be refined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefineError {
    /// The bundle has no kernels to correct.
    #[error("`{0}` was adapted from end-to-end latencies and forecasts no kernels of an engine")]
    Adapted(String),
    /// The model has no forecast.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
    /// The measurements cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The measurements cannot be used.
    #[error(transparent)]
    Predictors(#[from] PredictorError),
    /// Measured on another machine, with another engine or with other options.
    #[error("this machine and engine are `{here}`, the bundle's forecasts hold for `{bundle}`")]
    Environment {
        /// Identity of the environment here.
        here: String,
        /// Identity of the bundle's environment.
        bundle: String,
    },
    /// The time allows for none of them.
    #[error(
        "no kernel of `{model}` can be measured within {seconds} s: {found} were found, the \
         cheapest takes about {cheapest} s"
    )]
    NothingChosen {
        /// Name of the model.
        model: String,
        /// The time.
        seconds: u64,
        /// Kernels with a network.
        found: usize,
        /// Of these, the least time, rounded up.
        cheapest: u64,
    },
    /// None of the networks brought samples of a kernel of the model.
    #[error("no kernel of `{0}` was measured: every network failed, or ran other kernels")]
    NothingMeasured(String),
}

/// One model and the bundle to be refined for it.
pub struct Refinement<'a> {
    /// The bundle.
    pub bundle: &'a PredictorBundle,
    /// The model.
    pub model: &'a Model,
    /// Its kernels, as the engine runs them.
    kernels: Graph,
    /// Its forecast by the bundle.
    pub before: GraphPrediction,
}

/// A bundle with corrections, and what came of them.
#[derive(Debug)]
pub struct Refined {
    /// The new bundle.
    pub bundle: PredictorBundle,
    /// The model's forecast by it.
    pub after: GraphPrediction,
    /// What was measured.
    pub record: RefinedModel,
    /// By how much longer the reference workload took beside the networks than beside the bundle's
    /// data; `None` on another machine, and where the bundle does not correct drift.
    pub slowdown: Option<f64>,
    /// Names of networks that failed, with the reasons.
    pub failed: Vec<(String, String)>,
}

impl<'a> Refinement<'a> {
    /// Forecasts the model.
    ///
    /// # Errors
    /// [`RefineError::Adapted`], and [`RefineError::Prediction`] where the model has no forecast.
    pub fn new(bundle: &'a Bundle, model: &'a Model) -> Result<Self, RefineError> {
        let trained =
            bundle.trained().ok_or_else(|| RefineError::Adapted(bundle.name().to_owned()))?;
        let (kernels, before) = trained.predict_lowered(&model.graph, &Default::default())?;
        Ok(Self { bundle: trained, model, kernels, before })
    }

    /// Which kernels to measure within this time. A time of `None` asks for all of them.
    ///
    /// # Errors
    /// [`RefineError::Prediction`] where a piece of the model has no forecast.
    pub fn plan(&self, within: Option<Duration>) -> Result<Choice, RefineError> {
        let candidates = choice::candidates(self.bundle, &self.model.graph, &self.kernels)?;
        Ok(choice::choose(candidates, within))
    }

    /// How the bundle's environment runs models.
    #[must_use]
    pub fn run_options(&self) -> RunOptions {
        let Environment { threads, cores, processor, precision, memory_format, settings, .. } =
            &self.bundle.environment;
        RunOptions {
            threads: *threads,
            cores: cores.clone(),
            processor: *processor,
            precision: *precision,
            memory_format: *memory_format,
            settings: settings.clone(),
            ..RunOptions::default()
        }
    }

    /// The measurement of a plan, kept in the dataset `data`. Measured again, it goes on where it
    /// stopped.
    ///
    /// # Errors
    /// [`RefineError::NothingChosen`] for a plan without kernels.
    pub fn campaign<'d>(
        &self,
        choice: &Choice,
        data: &'d Path,
        target: Target,
        options: RunOptions,
    ) -> Result<Campaign<'d>, RefineError> {
        if choice.chosen().next().is_none() {
            return Err(RefineError::NothingChosen {
                model: self.model.identity.name.clone(),
                seconds: choice.within.unwrap_or_default().as_secs(),
                found: choice.candidates.len(),
                cheapest: choice.cheapest().as_secs_f64().ceil() as u64,
            });
        }
        let network = |candidate: &Candidate| {
            operator_network(candidate.network.name().to_owned(), candidate.network.clone())
        };
        let mut protocol = RunProtocol { profiled_repeats: PROFILED, ..RunProtocol::default() };
        protocol.protocol.rounds = ROUNDS;
        (protocol.protocol.min_repeats, protocol.protocol.max_repeats) = (REPEATS, REPEATS);
        let sweep = Sweep {
            models: choice.chosen().map(network).collect(),
            backend: self.bundle.environment.framework.clone(),
            options,
            protocol,
            only_round: None,
            budget: choice.within,
            run_timeout: TIMEOUT,
            target,
            session: session_name(),
            beside: None,
            memory: MemoryRuns::Never,
        };
        Ok(Campaign { sweep, out: data, retry_failed: false, resume: true })
    }

    /// The bundle corrected by the kernels of the model that the dataset `data` has: the same bundle
    /// for the same data, however often measuring was interrupted.
    ///
    /// # Errors
    /// [`RefineError`] where the measurements are of another environment, or of no kernel of the
    /// model.
    pub fn apply(&self, data: &Path) -> Result<Refined, RefineError> {
        let dataset = Dataset::load(data)?;
        let seconds = measuring_time(&dataset.profiles).as_secs_f64().round() as u64;
        let (here, failed): (Vec<_>, Vec<_>) =
            dataset.profiles.into_iter().partition(|p| p.status == Status::Ok);
        let id = self.bundle.environment.id();
        let is_here = here.iter().all(|profile| profile.environment.id() == id);
        let slowdown = self.bundle.drift.slowdown(&here).filter(|_| is_here);
        let corrections = corrections::of(self.bundle, &self.kernels, &here, slowdown)?;
        if corrections.is_empty() {
            return Err(RefineError::NothingMeasured(self.model.identity.name.clone()));
        }
        let networks: std::collections::BTreeSet<&str> =
            here.iter().map(|p| p.model.architecture.as_str()).collect();
        let record = RefinedModel {
            name: self.model.identity.name.clone(),
            architecture: self.model.identity.architecture.clone(),
            kernels: corrections.len(),
            networks: networks.len(),
            seconds,
            started_unix_ms: here.iter().map(|p| p.started_unix_ms).min().unwrap_or(0),
        };
        let reason = |status| match status {
            Status::Failed(reason) => reason,
            Status::Ok => String::new(),
        };
        let failed = failed.into_iter().map(|p| (p.model.name, reason(p.status))).collect();
        let mut bundle = self.bundle.copied()?;
        bundle.refine(record.clone(), corrections);
        let after = bundle.predict(&self.model.graph)?;
        Ok(Refined { bundle, after, record, slowdown, failed })
    }
}

/// How long measuring took: in each session the time from the start of the first model run to that of
/// the last, and its samples.
fn measuring_time(runs: &[ModelProfile]) -> Duration {
    let mut sessions: BTreeMap<&str, (u64, u64, Duration)> = BTreeMap::new();
    for run in runs {
        let started = run.started_unix_ms;
        let (first, last, samples) =
            sessions.entry(&run.session).or_insert((started, 0, Duration::ZERO));
        *first = started.min(*first);
        if started >= *last {
            (*last, *samples) = (started, sampling_time(run));
        }
    }
    let span = |(first, last, samples): (u64, u64, Duration)| {
        Duration::from_millis(last.saturating_sub(first)) + samples
    };
    sessions.into_values().map(span).sum()
}

/// How long the samples of a model run took.
fn sampling_time(run: &ModelProfile) -> Duration {
    let samples = [&run.e2e, &run.e2e_profiled, &run.reference];
    let ns = samples.into_iter().flat_map(|samples| &samples.wall_ns);
    Duration::from_nanos(ns.fold(0, |sum: u64, ns| sum.saturating_add(*ns)))
}

/// Refuses to measure elsewhere than where the bundle's forecasts hold.
///
/// # Errors
/// [`RefineError::Environment`].
pub fn check_environment(bundle: &PredictorBundle, here: &Environment) -> Result<(), RefineError> {
    let (here, bundle) = (here.id(), bundle.environment.id());
    if here == bundle { Ok(()) } else { Err(RefineError::Environment { here, bundle }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_runs;

    fn run(session: &str, started_unix_ms: u64, wall_ns: u64) -> ModelProfile {
        let mut run = model_runs::run("network", 1);
        (run.session, run.started_unix_ms) = (session.to_owned(), started_unix_ms);
        (run.e2e_profiled.wall_ns, run.reference.wall_ns) = (vec![wall_ns; 2], vec![wall_ns]);
        run.e2e.wall_ns.clear();
        run
    }

    /// An interruption adds a session, and the time between sessions does not count.
    #[test]
    fn measuring_takes_what_its_sessions_took() {
        let runs =
            [run("a", 1_000, 1), run("a", 3_000, 500_000_000), run("b", 900_000, 1_000_000_000)];
        assert_eq!(measuring_time(&runs), Duration::from_millis(2_000 + 1_500 + 3_000));
        assert_eq!(measuring_time(&[]), Duration::ZERO);
    }
}
