//! Plans the tasks of a file: [`plan`] with costs that bundles forecast, `plan_live` with costs
//! measured on engines, where it then runs stitched variants and orders.

use super::{
    Best, Selection, StitchProgress, StitchingError, accuracies, best, each_order, forecasts,
    forecasts::{CannotRun, Forecasts, Processor},
    objectives::{self, Objective},
    orders,
    preloading::{Budget, Memory, Way, in_order, within_memory},
    record::Trials,
    stitching::{Measured, Searched, Stitching, TaskSource},
    systems,
};
use crate::plan::multi_dnn::{Slowdown, contention};
use crate::zoo::{
    tasks::TasksFile,
    variants::{Variants, Weights},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};
use vitempo_graph::{Budget as SearchBudget, Environment, PredictionError, onnx::ReadOptions};
use vitempo_planners::{
    cost::{self, CostError, CostsFile, Link, TensorCosts},
    stitch::{Accuracy, EachOrder, Order, Slo, Subgraph, Task, Zoo},
};
#[cfg(feature = "profile")]
use {super::hand_over::MeasuredHandOver, vitempo_planners::stitch::HandOver};

/// Largest number of orders that run.
pub const MOST_RUN: usize = 24;
/// Largest number of orders whose best plans are listed; the best are taken.
pub const MOST_LISTED: usize = 1000;

/// A request for a plan.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Processors and their bundles, each a file or a name; without any, the file's.
    pub processors: Vec<(String, PathBuf)>,
    /// A costs file, instead of bundles: a node `TASK/VARIANT/POSITION` for each subgraph,
    /// positions from 1.
    pub costs: Option<PathBuf>,
    /// Objectives that replace those of the file.
    pub objectives: Vec<Objective>,
    /// The link between any two processors; without it, transfers cost nothing. What engines are
    /// measured to take contains transfers.
    pub link: Option<Link>,
    /// Time of each piece beside its subgraphs, ns, on its processor; `None`: as measured, or not
    /// known.
    pub hand_over: Option<u64>,
    /// Whether a processor may have several positions, and others none.
    pub any_order: bool,
    /// How to choose a plan.
    pub selection: Selection,
    /// The memory budget and the way to choose subgraphs; the plan then fetches the others before
    /// they run.
    pub memory: Option<(Budget, Way)>,
    /// Whether systems that do not stitch are simulated as well.
    pub systems: bool,
    /// Of the search over orders, of exact preloading and of systems, together.
    pub budget: SearchBudget,
    /// Seed of the accuracy estimator, and of the choice of stitched variants that run.
    pub seed: u64,
    /// The options for reading models.
    pub read: ReadOptions,
}

/// The options for running a plan's variants.
#[cfg(feature = "profile")]
#[derive(Clone, Debug)]
pub struct Running {
    /// Processors as engines.
    pub engines: Vec<crate::plan::live::Engine>,
    /// Measured frames of every subgraph and of every stitched variant.
    pub frames: usize,
    /// Number of stitched variants of each task that run in each order.
    pub tries: usize,
    /// Set by the caller to end the run.
    pub interrupted: Arc<std::sync::atomic::AtomicBool>,
}

/// The best plan by forecasts.
///
/// ```no_run
/// use vitempo::{plan::stitch::planning::{Request, plan}, zoo::TasksFile};
///
/// let file = TasksFile::read("zoo/tasks.toml".as_ref())?;
/// let stitching = plan(&file, &Request::default(), &mut |_| ())?;
/// println!("{}", stitching.zoo.named(&stitching.plan.order));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`StitchingError`] naming the file, task, variant or processor at fault.
pub fn plan(
    file: &TasksFile,
    request: &Request,
    progress: &mut dyn FnMut(StitchProgress<'_>),
) -> Result<Stitching, StitchingError> {
    let slos = objectives::of_tasks(file, &request.objectives)?;
    if let Some(path) = &request.costs {
        let tasks = Tasks::read(file, request, Weights::Shapes)?;
        let zoo = tasks.of_costs(path)?.with_given_hand_over(request.hand_over);
        let orders = request.orders(zoo.processors().len(), file.positions)?;
        let from = format!("costs of {}", path.display());
        let environments = zoo.processors().iter().map(|name| (name.clone(), from.clone()));
        let environments = environments.collect();
        let cannot_run = Vec::new();
        let all = Choosing { file, request, tasks, zoo, orders, slos, environments, cannot_run };
        return choose(all);
    }
    let named = request.bundles(file);
    if named.is_empty() {
        return Err(StitchingError::NoProcessors(file.path.clone()));
    }
    let processors = Processor::open(&named)?;
    let tasks = Tasks::read(file, request, Weights::Shapes)?;
    let orders = request.orders(processors.len(), file.positions)?;
    let (zoo, refusals) = tasks.forecast(&processors, request.link, progress)?;
    let zoo = zoo.with_given_hand_over(request.hand_over);
    let environments = environments(&processors);
    let cannot_run = refusals.into_iter().map(|(refusal, _)| refusal).collect();
    choose(Choosing { file, request, tasks, zoo, orders, slos, environments, cannot_run })
}

/// Costs by forecasts, the objective of each task, and the environment of each processor.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Costs and accuracies.
    pub zoo: Zoo,
    /// In the order of the file.
    pub slos: Vec<Slo>,
    /// Where the predictors of each processor were measured.
    pub environments: Vec<Option<Environment>>,
    /// Slowdowns of every pair of processors, where their bundles have slowdown models; else empty.
    pub slowdown: Vec<Slowdown>,
}

/// Costs of the tasks of a file, by forecasts or from a costs file.
///
/// # Errors
/// As [`plan`], and where a processor cannot run a subgraph.
pub fn costs(
    file: &TasksFile,
    request: &Request,
    progress: &mut dyn FnMut(StitchProgress<'_>),
) -> Result<Costs, StitchingError> {
    let slos = objectives::of_tasks(file, &request.objectives)?;
    if let Some(path) = &request.costs {
        let zoo = Tasks::read(file, request, Weights::Shapes)?.of_costs(path)?;
        let zoo = zoo.with_given_hand_over(request.hand_over);
        let environments = vec![None; zoo.processors().len()];
        return Ok(Costs { zoo, slos, environments, slowdown: Vec::new() });
    }
    let named = request.bundles(file);
    if named.is_empty() {
        return Err(StitchingError::NoProcessors(file.path.clone()));
    }
    let processors = Processor::open(&named)?;
    let tasks = Tasks::read(file, request, Weights::Shapes)?;
    let (zoo, refusals) = tasks.forecast(&processors, request.link, progress)?;
    forecasts::none_refused(refusals)?;
    let zoo = zoo.with_given_hand_over(request.hand_over);
    let environments = processors.iter().map(|p| p.environment().cloned()).collect();
    let slowdown = contention::forecast(&tasks.variants, &processors)
        .map_err(|source| StitchingError::Prediction { what: "contention".to_owned(), source })?;
    Ok(Costs { zoo, slos, environments, slowdown })
}

/// The best plan by forecasts, or by measurements on engines where there are no bundles. Stitched
/// variants drawn at random run before it is chosen, and give the hand-over of a subgraph, which
/// measured costs contain unless the request gives another one; the best ones of every order run
/// after it.
///
/// # Errors
/// [`StitchingError`] as [`plan`], and where an engine fails.
#[cfg(feature = "profile")]
pub fn plan_live(
    file: &TasksFile,
    request: &Request,
    running: &Running,
    progress: &mut dyn FnMut(StitchProgress<'_>),
) -> Result<Stitching, StitchingError> {
    let slos = objectives::of_tasks(file, &request.objectives)?;
    let named = request.bundles(file);
    let has_engine = |name: &String| running.engines.iter().any(|engine| engine.name == *name);
    if let Some((name, _)) = named.iter().find(|(name, _)| !has_engine(name)) {
        return Err(StitchingError::NoEngine(name.clone()));
    }
    let processors = Processor::open(&named)?;
    let tasks = Tasks::read(file, request, Weights::Values)?;
    let count = if processors.is_empty() { running.engines.len() } else { processors.len() };
    let orders = request.orders(count, file.positions)?;
    if orders.len() > MOST_RUN {
        return Err(StitchingError::TooManyOrders(orders.len()));
    }
    let names: Vec<&str> = processors.iter().map(|processor| processor.name.as_str()).collect();
    let session = tasks.session(running, &names)?;
    let (forecast, refusals) = match processors.is_empty() {
        true => (None, Vec::new()),
        false => {
            let (zoo, refusals) = tasks.forecast(&processors, request.link, progress)?;
            (Some(zoo), refusals)
        }
    };
    let measured = tasks.measured(&session, progress)?;
    let drawn = (running.tries, request.seed);
    let tried = session.try_out(&measured, forecast.as_ref(), &orders, drawn, progress)?;
    let hand_over = MeasuredHandOver::of(&tried, measured.processors());
    let costs = hand_over.as_ref().map_or(HandOver::Unknown, MeasuredHandOver::costs);
    let measured = measured.with_hand_over(costs)?.with_given_hand_over(request.hand_over);
    let forecast = forecast.map(|zoo| zoo.with_given_hand_over(request.hand_over));
    let environments =
        if processors.is_empty() { session.described() } else { environments(&processors) };
    let zoo = forecast.unwrap_or_else(|| measured.clone());
    let cannot_run = refusals.into_iter().map(|(refusal, _)| refusal).collect();
    let chosen = Choosing { file, request, tasks, zoo, orders, slos, environments, cannot_run };
    let mut stitching = choose(chosen)?;
    let (orders, slos) = (&stitching.orders, &stitching.slos);
    let ran = session.orders(&stitching.zoo, orders, slos, progress)?;
    let trials = Trials { tried, orders: ran };
    let engines = session.described();
    stitching.measured = Some(Measured { zoo: measured, engines, trials, hand_over });
    Ok(stitching)
}

/// The inputs of the choice of a plan.
struct Choosing<'a> {
    file: &'a TasksFile,
    request: &'a Request,
    tasks: Tasks,
    zoo: Zoo,
    orders: Vec<Order>,
    slos: Vec<Slo>,
    environments: Vec<(String, String)>,
    cannot_run: Vec<CannotRun>,
}

/// The best plan; with a memory budget, the best of loaded subgraphs.
fn choose(from: Choosing<'_>) -> Result<Stitching, StitchingError> {
    let Choosing { file, request, tasks, zoo, orders, slos, environments, cannot_run } = from;
    let (selection, steps) = (request.selection, &request.budget);
    let EachOrder { plans: mut each, left, violations_at_least } =
        each_order(&zoo, &orders, &slos, steps)?;
    each.sort_by_key(|(_, best)| best.as_ref().map_or((true, None), |b| (false, Some(b.rank()))));
    let (mut plan, printed) = match (selection, each.first()) {
        (Selection::MostObjectives, Some((_, Some(best)))) => (best.clone(), None),
        _ => {
            let Best { plan, printed } = best(&zoo, &orders, None, &slos, selection, steps)?;
            (plan, printed)
        }
    };
    let mut preloading = None;
    if let Some((budget, way)) = request.memory {
        let memory = Memory { budget, way, steps };
        let chosen = match (selection, way) {
            (Selection::MostObjectives, Way::Exact | Way::RoundRobin) => {
                within_memory(&zoo, &each, &orders, &slos, selection, memory)?
            }
            _ => in_order(&zoo, &plan.order, &orders, &slos, selection, memory)?,
        };
        (plan, preloading) = (chosen.0, Some(chosen.1));
    }
    each.truncate(MOST_LISTED);
    let memory = preloading.as_ref().map(|preloading| (&plan.order, &preloading.loaded));
    let systems = match request.systems {
        true => systems::simulate(&zoo, &orders, &slos, memory, steps)?,
        false => systems::Compared::default(),
    };
    Ok(Stitching {
        zoo,
        tasks: tasks.sources,
        slos,
        plan,
        search: Searched { orders_left: left, violations_at_least, printed },
        orders,
        each,
        preloading,
        systems,
        selection,
        accuracy_is: file.accuracy_is.clone(),
        environments,
        cannot_run,
        measured: None,
    })
}

/// Processors, and where their predictors were measured.
fn environments(processors: &[Processor]) -> Vec<(String, String)> {
    let of =
        |processor: &Processor| Some((processor.name.clone(), processor.environment()?.describe()));
    processors.iter().filter_map(of).collect()
}

impl Request {
    /// The given processors and bundles, else the file's; its bundles are files beside it, or
    /// names.
    fn bundles(&self, file: &TasksFile) -> Vec<(String, PathBuf)> {
        if !self.processors.is_empty() {
            return self.processors.clone();
        }
        let resolve = |bundle: &PathBuf| {
            let beside = file.resolve(bundle);
            if beside.exists() { beside } else { bundle.clone() }
        };
        let of_file = file.processors.iter().flat_map(|processor| {
            processor.bundles.iter().map(move |bundle| (processor.name.clone(), resolve(bundle)))
        });
        of_file.collect()
    }

    fn orders(&self, processors: usize, positions: usize) -> Result<Vec<Order>, StitchingError> {
        let repeated = self.any_order;
        orders(processors, positions, repeated)
            .map_err(|source| StitchingError::Orders { source, repeated })
    }
}

/// Tasks without their latencies.
struct Tasks {
    variants: Vec<Variants>,
    accuracies: Vec<Arc<dyn Accuracy>>,
    sources: Vec<TaskSource>,
}

impl Tasks {
    fn read(file: &TasksFile, request: &Request, weights: Weights) -> Result<Self, StitchingError> {
        let mut tasks = Self { variants: Vec::new(), accuracies: Vec::new(), sources: Vec::new() };
        for entry in &file.tasks {
            let variants = Variants::read(file, entry, &request.read, weights)?;
            variants
                .check_neighbours()
                .map_err(|e| file.refuse(&format!("task `{}`", entry.name), e))?;
            let (known, accuracy) = accuracies::of_task(file, entry, &variants, request.seed)?;
            tasks.sources.push(TaskSource { cuts: variants.cuts.clone(), accuracy });
            tasks.accuracies.push(known);
            tasks.variants.push(variants);
        }
        Ok(tasks)
    }

    /// Costs by bundles, and the subgraphs that some processor cannot run.
    fn forecast(
        &self,
        processors: &[Processor],
        link: Option<Link>,
        progress: &mut dyn FnMut(StitchProgress<'_>),
    ) -> Result<(Zoo, Vec<(CannotRun, PredictionError)>), StitchingError> {
        let (mut subgraphs, mut refusals) = (Vec::new(), Vec::new());
        for variants in &self.variants {
            let Forecasts { subgraphs: rows, cannot_run } =
                forecasts::subgraphs(variants, processors, progress)?;
            subgraphs.push(rows);
            refusals.extend(cannot_run);
        }
        let names = processors.iter().map(|processor| processor.name.clone()).collect();
        Ok((self.zoo(names, subgraphs, link)?.with_forecast_loads(), refusals))
    }

    /// Costs of a file: a node for each subgraph; its transfer to the next position is the tensors
    /// that it provides and some node reads.
    fn of_costs(&self, path: &Path) -> Result<Zoo, StitchingError> {
        let refuse = |reason: String| StitchingError::Costs { path: path.to_owned(), reason };
        let read = CostsFile::read(path).and_then(CostsFile::check_with_loads);
        let (costs, loads) = read.map_err(|e| match e {
            CostError::File { reason, .. } => refuse(reason),
            other => refuse(other.to_string()),
        })?;
        if let Some(processor) = costs.processors().iter().find(|p| p.memory_bytes.is_some()) {
            return Err(refuse(format!(
                "processor `{}`: memory_bytes is not kept here, where all processors share one \
                memory; leave it out",
                processor.name
            )));
        }
        if let Some(tensor) = costs.tensors().iter().find(|tensor| tensor.confined) {
            return Err(refuse(format!(
                "tensor `{}` is confined, which stitched plans do not keep; leave it out",
                tensor.name
            )));
        }
        let places: BTreeMap<&str, usize> =
            costs.nodes().iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
        let mut used = BTreeSet::new();
        let mut subgraph = |name: String| -> Result<Subgraph, StitchingError> {
            let place = places.get(name.as_str());
            let &at = place.ok_or_else(|| refuse(format!("it lacks the node `{name}`")))?;
            used.insert(at);
            let handed: Vec<&TensorCosts> = costs
                .tensors()
                .iter()
                .filter(|tensor| tensor.producer == Some(at) && !tensor.consumers.is_empty())
                .collect();
            let node = &costs.nodes()[at];
            Ok(Subgraph {
                latency_ns: node.latency_ns.clone(),
                memory_bytes: node.memory_bytes,
                boundary_bytes: handed.iter().map(|tensor| tensor.size_bytes).sum(),
                boundary_tensors: handed.len() as u64,
                load_ns: loads[at].clone(),
            })
        };
        let mut tasks = Vec::new();
        for variants in &self.variants {
            let rows = (1..=variants.subgraphs.len()).map(|position| {
                let names = variants.names.iter();
                names
                    .map(|name| subgraph(format!("{}/{name}/{position}", variants.task)))
                    .collect::<Result<Vec<_>, _>>()
            });
            tasks.push(rows.collect::<Result<Vec<_>, _>>()?);
        }
        if let Some(at) = (0..costs.nodes().len()).find(|at| !used.contains(at)) {
            let name = &costs.nodes()[at].name;
            let expected = "nodes are TASK/VARIANT/POSITION, positions from 1";
            return Err(refuse(format!("node `{name}` is no subgraph of a task; {expected}")));
        }
        check_tensors(&costs).map_err(refuse)?;
        let count = costs.processors().len();
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let links = pairs.filter_map(|pair| Some((pair, *costs.link(pair.0, pair.1)?))).collect();
        let names = costs.processors().iter().map(|processor| processor.name.clone()).collect();
        Ok(self.linked(names, tasks, links)?.with_stated_loads())
    }

    /// Assembles a zoo from subgraphs by task, position and variant.
    fn zoo(
        &self,
        names: Vec<String>,
        subgraphs: Vec<Vec<Vec<Subgraph>>>,
        link: Option<Link>,
    ) -> Result<Zoo, StitchingError> {
        let pairs = (0..names.len())
            .flat_map(|from| (0..names.len()).map(move |to| (from, to)))
            .filter(|(from, to)| from != to);
        let links: BTreeMap<(usize, usize), Link> = match link {
            Some(link) => pairs.map(|pair| (pair, link)).collect(),
            None => BTreeMap::new(),
        };
        self.linked(names, subgraphs, links)
    }

    fn linked(
        &self,
        names: Vec<String>,
        subgraphs: Vec<Vec<Vec<Subgraph>>>,
        links: BTreeMap<(usize, usize), Link>,
    ) -> Result<Zoo, StitchingError> {
        let task = |((variants, accuracy), subgraphs): ((&Variants, &Arc<dyn Accuracy>), _)| Task {
            name: variants.task.clone(),
            variants: variants.names.clone(),
            subgraphs,
            accuracy: Arc::clone(accuracy),
        };
        let tasks = self.variants.iter().zip(&self.accuracies).zip(subgraphs).map(task).collect();
        Ok(Zoo::new(names, links, tasks)?)
    }
}

/// Task and position of a node `TASK/VARIANT/POSITION`.
fn place_of(node: &str) -> Option<(&str, usize)> {
    let mut parts = node.rsplitn(3, '/');
    let position = parts.next()?.parse().ok()?;
    Some((parts.nth(1)?, position))
}

/// Checks that each tensor between subgraphs is for the next position, and can be sent at all.
///
/// # Errors
/// A reason that names the tensor.
fn check_tensors(costs: &cost::Costs) -> Result<(), String> {
    let place = |node: usize| costs.nodes().get(node).and_then(|node| place_of(&node.name));
    let several = costs.processors().len() > 1;
    let links = costs.processors().iter().enumerate().flat_map(|(from, _)| {
        (0..costs.processors().len()).filter_map(move |to| costs.link(from, to))
    });
    let without_link = several && links.count() == 0;
    for tensor in costs.tensors().iter().filter(|tensor| !tensor.consumers.is_empty()) {
        let Some((task, position)) = tensor.producer.and_then(place) else { continue };
        let next = |&node: &usize| place(node) == Some((task, position + 1));
        if let Some(&other) = tensor.consumers.iter().find(|node| !next(node)) {
            return Err(format!(
                "tensor `{}` is read by `{}`, but subgraphs hand tensors to the next position only",
                tensor.name,
                costs.nodes()[other].name
            ));
        }
        if without_link {
            return Err(format!(
                "tensor `{}` is handed on and there is no link: add links, or leave tensors out \
                where handing them over takes no time",
                tensor.name
            ));
        }
    }
    Ok(())
}

#[cfg(feature = "profile")]
impl Tasks {
    /// Starts the engines, in the order of the processors with these names.
    fn session(
        &self,
        running: &Running,
        names: &[&str],
    ) -> Result<super::live::StitchSession, StitchingError> {
        use super::live::{StitchSession, TaskSubgraphs, numbered_as};
        let tasks: Vec<TaskSubgraphs<'_>> = self
            .variants
            .iter()
            .map(|Variants { task, subgraphs, .. }| TaskSubgraphs { name: task, subgraphs })
            .collect();
        let engines = numbered_as(names, &running.engines);
        let interrupted = Arc::clone(&running.interrupted);
        Ok(StitchSession::start(&engines, running.frames, &tasks, interrupted)?)
    }

    /// Costs measured on engines, including transfers.
    fn measured(
        &self,
        session: &super::live::StitchSession,
        progress: &mut dyn FnMut(StitchProgress<'_>),
    ) -> Result<Zoo, StitchingError> {
        let (latencies, loads) = (session.subgraphs(progress)?, session.loads()?);
        let mut subgraphs = Vec::new();
        for ((variants, latencies), loads) in self.variants.iter().zip(latencies).zip(loads) {
            let last = variants.subgraphs.len() - 1;
            let rows = variants.subgraphs.iter().zip(latencies.into_iter().zip(loads)).enumerate();
            let row = |(position, (graphs, (latencies, loads)))| {
                let graphs: &Vec<vitempo_graph::Graph> = graphs;
                let (latencies, loads): (Vec<Vec<_>>, Vec<Vec<Option<u64>>>) = (latencies, loads);
                let one = |((graph, latency_ns), load_ns): ((_, Vec<_>), _)| {
                    let latency_ns = latency_ns.into_iter().map(Some).collect();
                    forecasts::subgraph(graph, position == last, latency_ns, load_ns)
                };
                graphs.iter().zip(latencies).zip(loads).map(one).collect()
            };
            subgraphs.push(rows.map(row).collect());
        }
        self.zoo(session.processors(), subgraphs, None)
    }
}
