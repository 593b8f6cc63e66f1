//! Measurements that go into a dataset: a [`Campaign`] runs a sweep, stores every measurement as
//! soon as it ends, and continues an interrupted sweep.

pub mod active;
#[cfg(feature = "train")]
mod chosen;
pub mod compare;
pub mod standard;

use crate::{
    models::{self, Model, ModelError},
    sampling::SamplingError,
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::{SystemTime, UNIX_EPOCH},
};
use vitempo_datasets::{Dataset, DatasetError, Measures, RunKey, Sought, Store};
use vitempo_graph::{
    Environment, Graph, ModelIdentity, ModelProfile, OpKind, Processor, Samples, Status,
    lowering::{self, LoweringError},
    onnx::ReadOptions,
};
use vitempo_profiler::{
    Beside, Hooks, Load, LoadSpec, MemoryRuns, Progress, RunOptions, RunProtocol, Source, Summary,
    Sweep, SweepError, SweepModel, Target, load::LoadModel, probe, single,
};

/// A sweep to be kept in a dataset.
pub struct Campaign<'a> {
    /// What is measured, how and where.
    pub sweep: Sweep,
    /// The dataset; it is created if it does not exist.
    pub out: &'a Path,
    /// Failed measurements are made again.
    pub retry_failed: bool,
    /// Measurements of earlier sessions with the same values of inputs count as done, where they
    /// measured what the sweep measures: latencies, memory or both.
    pub resume: bool,
}

/// The result of a campaign.
#[derive(Debug)]
pub struct Outcome {
    /// Where it was measured.
    pub environment: Environment,
    /// How much was measured, and what failed.
    pub summary: Summary,
    /// How many of the model runs that were there already had failed.
    pub failed_earlier: usize,
    /// How many of them were made with another seed or other repeats than those asked for.
    pub made_otherwise: usize,
}

/// Why no model was measured, now or earlier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NothingMeasured {
    /// The first model that failed.
    #[error("no model could be measured; `{model}`: {reason}")]
    Failed {
        /// Its name.
        model: String,
        /// What the engine reports.
        reason: String,
    },
    /// All had failed before.
    #[error("no model could be measured: all {0} model runs failed in an earlier session")]
    Earlier(usize),
}

impl Outcome {
    /// Why nothing was measured; `None` where something was, or is left.
    #[must_use]
    pub fn nothing_measured(&self) -> Option<NothingMeasured> {
        let Summary { measured, skipped, failed, left, .. } = &self.summary;
        if measured + skipped > self.failed_earlier {
            return None;
        }
        match failed.first().cloned() {
            Some((model, reason)) => Some(NothingMeasured::Failed { model, reason }),
            None => (self.failed_earlier > 0 && *left == 0)
                .then_some(NothingMeasured::Earlier(self.failed_earlier)),
        }
    }
}

/// How often each model is measured; `None` is the usual count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// How often the sweep goes round all models.
    pub rounds: usize,
    /// Of the order of models.
    pub seed: u64,
    /// Fewest end-to-end samples of a model run; by default no more than the most.
    pub min: Option<usize>,
    /// Most of them; by default no fewer than the fewest.
    pub max: Option<usize>,
    /// Repeats in which the operators are timed.
    pub profiled: Option<usize>,
}

impl Repeats {
    /// The protocol of a sweep.
    ///
    /// ```
    /// use vitempo::campaign::Repeats;
    ///
    /// let few = Repeats { rounds: 2, seed: 1, min: None, max: Some(3), profiled: None };
    /// let protocol = few.protocol()?.protocol;
    /// assert_eq!((protocol.rounds, protocol.min_repeats, protocol.max_repeats), (2, 3, 3));
    /// let none = Repeats { min: Some(500), ..few };
    /// assert!(none.protocol().is_err());
    /// # Ok::<(), vitempo::campaign::CampaignError>(())
    /// ```
    ///
    /// # Errors
    /// [`CampaignError::Repeats`] where the fewest are more than the most.
    pub fn protocol(self) -> Result<RunProtocol, CampaignError> {
        let mut run = RunProtocol::default();
        let protocol = &mut run.protocol;
        (protocol.rounds, protocol.seed) = (self.rounds, self.seed);
        let usual = (protocol.min_repeats, protocol.max_repeats);
        (protocol.min_repeats, protocol.max_repeats) = match (self.min, self.max) {
            (Some(min), Some(max)) if min > max => {
                return Err(CampaignError::Repeats { min, max });
            }
            (min, Some(max)) => (min.unwrap_or(usual.0.min(max)), max),
            (min, None) => {
                let min = min.unwrap_or(usual.0);
                (min, usual.1.max(min))
            }
        };
        run.profiled_repeats = self.profiled.unwrap_or(run.profiled_repeats);
        Ok(run)
    }
}

/// Why a campaign could not go on. What it measured before is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The engine or the machine.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// The dataset.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The kernels of a model are not known.
    #[error(transparent)]
    Lowering(#[from] LoweringError),
    /// Which networks are worth measuring cannot be said.
    #[error(transparent)]
    Active(#[from] active::ActiveError),
    /// No bundle can be trained on what was measured.
    #[error(transparent)]
    Predictors(#[from] vitempo_predictors::PredictorError),
    /// More samples of a model run are asked for than allowed.
    #[error("a model run cannot have at least {min} samples and at most {max}")]
    Repeats {
        /// The fewest.
        min: usize,
        /// The most.
        max: usize,
    },
    /// The engine has no library of its own.
    #[error("`{backend}` is compiled in and loads no library")]
    NoLibrary {
        /// Name of the engine.
        backend: String,
    },
    /// The models have no operator of these kinds.
    #[error("no operator of these kinds in these models")]
    NoSuchOperator,
    /// One model in two files, of which one was sampled, or both otherwise.
    #[error(
        "{} and {} are the same model by name and graph, but {origins}: keep index.csv \
         beside sampled models, or give one of the files another name",
        .first.display(), .second.display()
    )]
    SampledOtherwise {
        /// The file that was named first.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
        /// Where they are from.
        origins: String,
    },
    /// The set of a campaign cannot be sampled.
    #[error(transparent)]
    Sampling(Box<SamplingError>),
}

impl From<SamplingError> for CampaignError {
    fn from(error: SamplingError) -> Self {
        Self::Sampling(error.into())
    }
}

impl Campaign<'_> {
    /// Measures, saving every measurement; the journal is folded into the tables at the end,
    /// however the sweep ended.
    ///
    /// # Errors
    /// [`CampaignError`] when no measurement is possible, or one cannot be kept. A model that fails
    /// is a row with its reason.
    pub fn run(
        self,
        progress: &mut dyn FnMut(&Progress<'_>),
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Outcome, CampaignError> {
        let sweep = &self.sweep;
        let environment = sweep.environment()?;
        let mut store = Store::open_or_create(self.out)?;
        check_tables(self.out, store.runs())?;
        store.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let environment_id = environment.id();
        let session = (!self.resume).then_some(sweep.session.as_str());
        let protocol = sweep.run_protocol().recorded(&sweep.options);
        let find = |store: &Store, model: &ModelIdentity, round| {
            let measures = measures(sweep, &environment, model);
            let environment_id = environment_id.as_str();
            let sought = Sought { environment_id, round, protocol: &protocol, session, measures };
            store.find(model, &sought).map(|found| (found.status.clone(), found.is_alike))
        };
        for (model, round) in sweep.model_rounds() {
            let key = RunKey {
                environment_id: environment_id.clone(),
                architecture: model.architecture.clone(),
                model: model.name.clone(),
                session: sweep.session.clone(),
                round: round as u64,
            };
            if store.contains(&key) && find(&store, model, round).is_none() {
                let (path, what) = (self.out.to_owned(), key.to_string());
                return Err(DatasetError::Conflict { path, what }.into());
            }
        }
        for model in &sweep.models {
            store.append_model(&model.identity, &model.graph)?;
        }
        let store = RefCell::new(store);
        let (failed_earlier, made_otherwise) = (Cell::new(0), Cell::new(0));
        let done = |model: &_, round| match find(&store.borrow(), model, round) {
            None => false,
            Some((Status::Failed(_), _)) if self.retry_failed => false,
            Some((status, is_alike)) => {
                failed_earlier.set(failed_earlier.get() + usize::from(status != Status::Ok));
                made_otherwise.set(made_otherwise.get() + usize::from(!is_alike));
                true
            }
        };
        let result = sweep.run(Hooks {
            done: &done,
            sink: &mut |profile| {
                store.borrow_mut().append(&without_e2e(profile)).map_err(|e| e.to_string())
            },
            progress,
            interrupted,
        });
        store.into_inner().compact()?;
        Ok(Outcome {
            environment,
            summary: result?,
            failed_earlier: failed_earlier.get(),
            made_otherwise: made_otherwise.get(),
        })
    }
}

/// What a model run of the sweep measures. Memory that no system reports is not waited for.
fn measures(sweep: &Sweep, environment: &Environment, model: &ModelIdentity) -> Measures {
    let is_local = matches!(sweep.target, Target::Local(_));
    let has_memory =
        environment.processor != Processor::Gpu && (cfg!(target_os = "linux") || !is_local);
    match sweep.memory {
        MemoryRuns::Alone => Measures::Memory,
        MemoryRuns::Also if has_memory && !model.is_operator() => Measures::Both,
        MemoryRuns::Also | MemoryRuns::Never => Measures::Latency,
    }
}

/// Whether no table is missing or damaged, which is seen at the end otherwise, when they are written
/// anew with the earlier `runs`.
fn check_tables(folder: &Path, runs: usize) -> Result<(), DatasetError> {
    let tables = vitempo_datasets::table_names().into_iter();
    let mut paths = tables.map(|table| folder.join(format!("{table}.parquet")));
    match paths.find(|path| !path.exists()) {
        Some(path) => Err(DatasetError::MissingTable { path }),
        None if runs > 0 => Dataset::load(folder).map(drop),
        None => Ok(()),
    }
}

/// A session's default name: when it began, in milliseconds since 1970.
#[must_use]
pub fn session_name() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("session-{}", since_1970.as_millis())
}

/// Refuses models with equal names and graphs of which one was sampled otherwise, or not at all:
/// which of them is measured would depend on their order.
///
/// # Errors
/// [`CampaignError::SampledOtherwise`].
pub fn check_identities(models: &[Model]) -> Result<(), CampaignError> {
    let mut known: BTreeMap<(&str, &str), &Model> = BTreeMap::new();
    for model in models {
        let identity = &model.identity;
        let first = *known.entry((&identity.architecture, &identity.name)).or_insert(model);
        if first.identity != *identity {
            return Err(CampaignError::SampledOtherwise {
                first: first.path.clone(),
                second: model.path.clone(),
                origins: format!("{} and {}", origin(&first.identity), origin(identity)),
            });
        }
    }
    Ok(())
}

/// Where a model is from.
fn origin(model: &ModelIdentity) -> String {
    let Some(space) = &model.space else { return "of no search space".to_owned() };
    match &model.encoding {
        Some(encoding) => format!("sampled from `{space}` as `{encoding}`"),
        None => format!("sampled from `{space}`"),
    }
}

/// Models to be measured, each once, however often and by whatever path it was named.
#[must_use]
pub fn sweep_models(models: Vec<Model>) -> Vec<SweepModel> {
    let mut seen = BTreeSet::new();
    let mut is_new =
        |m: &Model| seen.insert((m.identity.architecture.clone(), m.identity.name.clone()));
    models.into_iter().filter(|m| is_new(m)).map(SweepModel::from).collect()
}

impl From<Model> for SweepModel {
    fn from(model: Model) -> Self {
        // At another size than the file's, the model is written anew.
        let source = if model.size.is_some() { Source::Graph } else { Source::File(model.path) };
        Self { identity: model.identity, graph: model.graph, source }
    }
}

/// The load of a sweep, its model read from its file.
///
/// # Errors
/// [`ModelError`] where that file is no usable model.
pub fn beside(
    load: &LoadSpec,
    cores: &[usize],
    options: &ReadOptions,
) -> Result<Beside, ModelError> {
    let load = match load {
        LoadSpec::Stream(stream) => Load::Stream(*stream),
        LoadSpec::Matmul => Load::Matmul,
        LoadSpec::Model { file, backend } => {
            let Model { path, identity, graph, .. } = models::read(file, options)?;
            let (source, backend) = (Source::File(path), backend.clone());
            Load::Model(LoadModel { identity, graph, source, backend }.into())
        }
    };
    Ok(Beside { load, cores: cores.to_vec() })
}

/// Whether the engine runs here with these options, which a campaign on several engines asks before
/// it measures on the first.
///
/// # Errors
/// [`CampaignError`] where it does not, or where a library is named that it would not load.
pub fn check(target: &Target, backend: &str, options: &RunOptions) -> Result<(), CampaignError> {
    check_library(target, backend, options)?;
    target.probe(backend, options)?;
    Ok(())
}

/// Whether the engine loads a library, where one is named.
///
/// # Errors
/// [`CampaignError::NoLibrary`] where it does not, [`CampaignError::Sweep`] where it does not start.
pub fn check_library(
    target: &Target,
    backend: &str,
    options: &RunOptions,
) -> Result<(), CampaignError> {
    let (Target::Local(worker), Some(_)) = (target, &options.library) else { return Ok(()) };
    match probe::capabilities(worker, backend, options)?.path {
        Some(_) => Ok(()),
        None => Err(CampaignError::NoLibrary { backend: backend.to_owned() }),
    }
}

/// What a sweep measures: the models, each once, or, where operator kinds are given, one small model
/// for each distinct kernel of these kinds that the engine would run for the models.
///
/// # Errors
/// [`CampaignError`] where the engine does not start, the models have none of these kinds, or
/// [`check_identities`] refuses them.
pub fn measured(
    models: Vec<Model>,
    kinds: &[OpKind],
    target: &Target,
    (backend, options): (&str, &RunOptions),
) -> Result<Vec<SweepModel>, CampaignError> {
    check_identities(&models)?;
    match kinds {
        [] => Ok(sweep_models(models)),
        kinds => operator_models(&models, kinds, &target.probe(backend, options)?),
    }
}

/// One small model per distinct kernel of these kinds that the engine would run for the models.
/// Operator times of such models are kept; their end-to-end times are not, because they have no
/// use.
///
/// # Errors
/// [`CampaignError`] where the models have none of these kinds.
pub fn operator_models(
    models: &[Model],
    kinds: &[OpKind],
    environment: &Environment,
) -> Result<Vec<SweepModel>, CampaignError> {
    let mut found = BTreeMap::new();
    for model in models {
        let kernels = lowering::lower(&model.graph, environment)?;
        for node in kernels.nodes().iter().filter(|n| kinds.contains(&n.op.kind)) {
            found.entry(node.op.id()).or_insert_with(|| node.op.clone());
        }
    }
    if found.is_empty() {
        return Err(CampaignError::NoSuchOperator);
    }
    let mut singles = Vec::new();
    for (id, op) in found {
        match single::graph_of(&op) {
            Ok(graph) => {
                singles.push(operator_network(format!("{}-{id}", op.kind), graph));
            }
            Err(error) => tracing::warn!("left out {}: {error}", op.kind),
        }
    }
    Ok(singles)
}

/// A network around operators as a sweep measures it: training data alone, never evaluated end to
/// end.
pub(crate) fn operator_network(name: String, graph: Graph) -> SweepModel {
    let identity = ModelIdentity {
        name,
        architecture: graph.architecture(),
        space: Some(ModelIdentity::OPERATORS.to_owned()),
        encoding: None,
    };
    SweepModel { identity, graph, source: Source::Graph }
}

/// The measurement as it is kept.
fn without_e2e(profile: &ModelProfile) -> ModelProfile {
    let mut kept = profile.clone();
    if kept.model.is_operator() {
        kept.e2e = Samples::default();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of this file, sampled where it has an encoding.
    fn model(path: &str, encoding: Option<&str>) -> Model {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models/mobilevit_xxs.onnx");
        let mut model = models::read(file.as_ref(), &ReadOptions::default()).expect("a model");
        model.path = path.into();
        model.identity.space = encoding.map(|_| "hybrid-vit".to_owned());
        model.identity.encoding = encoding.map(str::to_owned);
        model
    }

    #[test]
    fn one_model_from_two_spaces_is_refused_in_either_order() {
        let (copy, sampled) = (model("copies/m.onnx", None), model("samples/m.onnx", Some("e1")));
        let other = model("others/m.onnx", Some("e2"));
        for [first, second] in [[&copy, &sampled], [&sampled, &copy], [&sampled, &other]] {
            let models = [first.clone(), first.clone(), second.clone()];
            let says = check_identities(&models).expect_err("two origins").to_string();
            for part in [&first.path, &second.path].map(|path| path.display().to_string()) {
                assert!(says.contains(&part), "{says}");
            }
            assert!(says.contains("sampled from `hybrid-vit` as `e1`"), "{says}");
        }
        let twice = [sampled.clone(), sampled];
        assert!(check_identities(&twice).is_ok());
        assert_eq!(sweep_models(twice.to_vec()).len(), 1);
    }
}
