//! [`compare`]: measures the same models on every engine, memory format and precision that this
//! machine offers.
//!
//! The measurements are kept in a dataset; existing measurements are not repeated. Settings are
//! measured in turns, round by round.

use super::{Campaign, CampaignError, Outcome, check_identities, sweep_models};
use crate::models::Model;
use std::{collections::BTreeMap, fmt, path::Path, time::Duration};
use vitempo_datasets::{Dataset, DatasetError};
use vitempo_graph::{Executed, MemoryFormat, ModelProfile, OpFamily, Precision, Processor, Status};
use vitempo_predictors::metrics::mean;
use vitempo_profiler::{
    Availability, Backend, BackendError, Capabilities, MemoryRuns, RunOptions, RunProtocol, Sweep,
    WorkerCommand, backends,
};

/// Shorter than that of a sweep for training: ratios between engines are far larger than the noise.
const SAMPLING_BUDGET: Duration = Duration::from_millis(400);
/// After which a measurement of one model has failed.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Name of the session.
const SESSION: &str = "comparison";

/// One engine with one precision and memory format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name of the engine.
    pub backend: &'static str,
    /// What it computes in.
    pub precision: Precision,
    /// What it is asked for; `None`: its own choice.
    pub memory_format: Option<MemoryFormat>,
}

/// The settings of this machine's engines.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// Every setting that can run here on the CPU.
    pub settings: Vec<Setting>,
    /// Engines that are not available, with the reason and what to do.
    pub left_out: Vec<LeftOut>,
}

/// An engine that is not available.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// Its name.
    pub backend: &'static str,
    /// Why.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

/// How settings are compared.
#[derive(Clone, Debug)]
pub struct CompareOptions<'a> {
    /// Threads that compute inside one operator.
    pub threads: usize,
    /// How often the sweep goes round all settings and models.
    pub rounds: usize,
    /// Of inputs, of weights that files lack and of the order of models.
    pub seed: u64,
    /// The dataset of the measurements; it is created if it does not exist.
    pub out: &'a Path,
    /// What measures.
    pub worker: WorkerCommand,
}

/// What the models took in one setting.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Which one.
    pub setting: Setting,
    /// Version of the engine.
    pub version: String,
    /// What was executed, where engines report it.
    pub executed: Option<Executed>,
    /// Median end-to-end latency by model, ns.
    pub latency_ns: BTreeMap<String, f64>,
    /// Models that failed, and why.
    pub failed: BTreeMap<String, String>,
    /// Share of operator time by family, each model weighing the same.
    pub shares: BTreeMap<OpFamily, f64>,
}

/// The models in every setting.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Names of the models.
    pub models: Vec<String>,
    /// In the order of the settings.
    pub compared: Vec<Compared>,
}

/// Why a comparison failed. Finished measurements are kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// An engine that does not exist.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// No setting that was asked for can run here.
    #[error("no engine here offers that")]
    NothingOffered,
    /// A measurement that cannot be made or kept.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// The dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The sweep was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// The settings of these engines, or of all that measure real latencies; of these precisions, or of
/// all.
///
/// # Errors
/// [`CompareError::Backend`] for an engine that does not exist.
pub fn offered(engines: &[String], precisions: &[Precision]) -> Result<Offered, CompareError> {
    let mut offered = Offered::default();
    for engine in chosen(engines)? {
        offered.add(engine.as_ref());
    }
    offered.settings.retain(|s| precisions.is_empty() || precisions.contains(&s.precision));
    Ok(offered)
}

fn chosen(names: &[String]) -> Result<Vec<Box<dyn Backend>>, BackendError> {
    if names.is_empty() {
        return Ok(backends::all().into_iter().filter(|b| b.name() != "null").collect());
    }
    names.iter().map(|name| backends::by_name(name)).collect()
}

impl Offered {
    /// Adds the settings of an engine that times operators on the CPU.
    fn add(&mut self, engine: &dyn Backend) {
        match engine.probe(&RunOptions::default()) {
            Availability::Available(capabilities)
                if capabilities.operator_timing
                    && capabilities.devices.contains(&Processor::Cpu) =>
            {
                self.settings.extend(combinations(engine.name(), &capabilities));
            }
            Availability::Available(_) => {}
            Availability::Unavailable { reason, hint } => {
                self.left_out.push(LeftOut { backend: engine.name(), reason, hint });
            }
        }
    }
}

/// An engine that has one memory format only is left to it.
fn combinations(backend: &'static str, offered: &Capabilities) -> Vec<Setting> {
    let formats: Vec<Option<MemoryFormat>> = match offered.memory_formats.as_slice() {
        [] | [_] => vec![None],
        several => several.iter().copied().map(Some).collect(),
    };
    let pairs = offered
        .precisions
        .iter()
        .flat_map(|&precision| formats.iter().map(move |&format| (precision, format)));
    pairs.map(|(precision, memory_format)| Setting { backend, precision, memory_format }).collect()
}

/// Measures the models in every setting and compares them. `run` runs the campaign of a round of
/// one setting, by [`Campaign::run`].
///
/// # Errors
/// [`CompareError`] when nothing is offered, or a measurement cannot be made or kept.
pub fn compare(
    models: &[Model],
    settings: Vec<Setting>,
    options: &CompareOptions<'_>,
    run: &mut dyn FnMut(usize, &Setting, Campaign<'_>) -> Result<Outcome, CampaignError>,
) -> Result<Comparison, CompareError> {
    if settings.is_empty() {
        return Err(CompareError::NothingOffered);
    }
    check_identities(models)?;
    let mut environments = Vec::new();
    for round in 1..=options.rounds {
        environments.clear();
        for setting in &settings {
            let outcome = run(round, setting, options.campaign(setting, models, round))?;
            if outcome.summary.interrupted {
                return Err(CompareError::Interrupted);
            }
            environments.push(outcome.environment);
        }
    }
    let dataset = Dataset::load(options.out)?;
    dataset.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let models: Vec<String> = models.iter().map(|m| m.identity.name.clone()).collect();
    let compared = settings
        .into_iter()
        .zip(environments)
        .map(|(setting, environment)| {
            let id = environment.id();
            let version = environment.framework_version;
            Compared::of(setting, version, &id, &models, &dataset.profiles)
        })
        .collect();
    Ok(Comparison { models, compared })
}

impl CompareOptions<'_> {
    /// The rounds of one setting up to this one.
    fn campaign(&self, setting: &Setting, models: &[Model], rounds: usize) -> Campaign<'_> {
        let options = RunOptions {
            threads: self.threads,
            precision: setting.precision,
            memory_format: setting.memory_format,
            seed: self.seed,
            ..RunOptions::default()
        };
        let mut protocol = RunProtocol {
            profiled_repeats: 5,
            sampling_budget: SAMPLING_BUDGET,
            ..RunProtocol::default()
        };
        protocol.protocol.rounds = rounds;
        protocol.protocol.seed = self.seed;
        let sweep = Sweep {
            models: sweep_models(models.to_vec()),
            backend: setting.backend.to_owned(),
            options,
            protocol,
            only_round: None,
            budget: None,
            run_timeout: TIMEOUT,
            target: self.worker.clone().into(),
            session: SESSION.to_owned(),
            beside: None,
            memory: MemoryRuns::Never,
        };
        Campaign { sweep, out: self.out, retry_failed: false, resume: true }
    }
}

impl Compared {
    fn of(
        setting: Setting,
        version: String,
        environment: &str,
        models: &[String],
        profiles: &[ModelProfile],
    ) -> Self {
        let here: Vec<&ModelProfile> = profiles
            .iter()
            .filter(|p| p.environment.id() == environment && models.contains(&p.model.name))
            .filter(|p| !p.is_of_memory_alone())
            .collect();
        let good: Vec<&ModelProfile> =
            here.iter().copied().filter(|p| p.status == Status::Ok).collect();
        let mut medians: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for profile in &good {
            medians.entry(profile.model.name.clone()).or_default().extend(profile.e2e.median_ns());
        }
        let latency = |(name, ns): (String, Vec<f64>)| Some((name, mean(&ns)?));
        let failure = |p: &&ModelProfile| match &p.status {
            Status::Failed(reason) => Some((p.model.name.clone(), reason.clone())),
            Status::Ok => None,
        };
        Self {
            setting,
            version,
            executed: Executed::of(good.iter().flat_map(|p| &p.operators)),
            latency_ns: medians.into_iter().filter_map(latency).collect(),
            failed: here.iter().filter_map(failure).collect(),
            shares: mean_shares(&good),
        }
    }
}

impl Comparison {
    /// Geometric mean of this setting's latency over the first setting's, on the models both ran.
    #[must_use]
    pub fn ratio(&self, of: &Compared) -> Option<f64> {
        let first = self.compared.first()?;
        let logs: Vec<f64> = of
            .latency_ns
            .iter()
            .filter_map(|(name, ns)| Some((ns / first.latency_ns.get(name)?).ln()))
            .collect();
        mean(&logs).map(f64::exp)
    }
}

/// Share of operator time by family: the mean over measurements.
fn mean_shares(profiles: &[&ModelProfile]) -> BTreeMap<OpFamily, f64> {
    let mut shares = BTreeMap::new();
    for profile in profiles {
        let times: Vec<(OpFamily, f64)> = profile
            .operators
            .iter()
            .filter_map(|m| Some((m.op.kind.family(), m.samples.median_ns()?)))
            .collect();
        let total: f64 = times.iter().map(|(_, ns)| ns).sum();
        for (family, ns) in times.into_iter().filter(|_| total > 0.0) {
            *shares.entry(family).or_default() += ns / total / profiles.len() as f64;
        }
    }
    shares
}

impl Setting {
    /// Name of its memory format.
    #[must_use]
    pub fn format_name(&self) -> &'static str {
        self.memory_format.map_or("engine's own", MemoryFormat::name)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.backend, self.precision, self.format_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_of_one_format_is_left_to_it() {
        let offered = |formats: Vec<MemoryFormat>| Capabilities {
            version: "1".into(),
            path: None,
            devices: vec![Processor::Cpu],
            precisions: vec![Precision::F32, Precision::I8],
            memory_formats: formats,
            settings: Vec::new(),
            operator_timing: true,
        };
        let one: Vec<_> = combinations("x", &offered(vec![MemoryFormat::ChannelsLast]))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(one, ["x f32 engine's own", "x i8 engine's own"]);
        assert_eq!(
            combinations(
                "x",
                &offered(vec![MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast])
            )
            .len(),
            4
        );
    }
}
