//! Measurements that go into a dataset: a [`Campaign`] runs a sweep, stores every measurement as
//! soon as it ends, and continues an interrupted sweep.

pub mod active;
#[cfg(feature = "train")]
mod chosen;
pub mod compare;
pub mod standard;

use crate::models::{self, Model, ModelError};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::{SystemTime, UNIX_EPOCH},
};
use vitempo_datasets::{DatasetError, Store};
use vitempo_graph::{
    Environment, Graph, ModelIdentity, ModelProfile, OpKind, Samples, Status,
    lowering::{self, LoweringError},
    onnx::ReadOptions,
};
use vitempo_profiler::{
    Beside, Hooks, Load, LoadSpec, Progress, RunOptions, RunProtocol, Source, Summary, Sweep,
    SweepError, SweepModel, Target, load::LoadModel, probe, single,
};

/// A sweep to be kept in a dataset.
pub struct Campaign<'a> {
    /// What is measured, how and where.
    pub sweep: Sweep,
    /// The dataset; it is created if it does not exist.
    pub out: &'a Path,
    /// Failed measurements are made again.
    pub retry_failed: bool,
    /// Measurements of earlier sessions with the same values of inputs count as done.
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
        check_tables(self.out)?;
        store.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        for model in &sweep.models {
            store.append_model(&model.identity, &model.graph)?;
        }
        let environment_id = environment.id();
        let session = (!self.resume).then_some(sweep.session.as_str());
        let inputs = sweep.options.inputs.to_string();
        let (store, failed_earlier) = (RefCell::new(store), Cell::new(0));
        let done = |model: &_, round| match store.borrow().status(
            &environment_id,
            model,
            (round, &inputs),
            session,
        ) {
            Some(Status::Failed(_)) if self.retry_failed => false,
            Some(Status::Failed(_)) => {
                failed_earlier.set(failed_earlier.get() + 1);
                true
            }
            status => status.is_some(),
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
        Ok(Outcome { environment, summary: result?, failed_earlier: failed_earlier.get() })
    }
}

/// Whether no table is missing, which is seen at the end otherwise, when they are written anew.
fn check_tables(folder: &Path) -> Result<(), DatasetError> {
    let tables = vitempo_datasets::table_names().into_iter();
    let mut paths = tables.map(|table| folder.join(format!("{table}.parquet")));
    match paths.find(|path| !path.exists()) {
        Some(path) => Err(DatasetError::MissingTable { path }),
        None => Ok(()),
    }
}

/// A session's default name: when it began, in milliseconds since 1970.
#[must_use]
pub fn session_name() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("session-{}", since_1970.as_millis())
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
/// [`CampaignError`] where the engine does not start or the models have none of these kinds.
pub fn measured(
    models: Vec<Model>,
    kinds: &[OpKind],
    target: &Target,
    (backend, options): (&str, &RunOptions),
) -> Result<Vec<SweepModel>, CampaignError> {
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
