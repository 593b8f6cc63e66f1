//! `vitempo plan stitch`: one order of processors for all tasks, a stitched variant for each of
//! them, and what to keep in memory.

mod accuracies;
mod forecast;
mod objectives;
mod preloading;
mod report;

use super::super::{
    error::{CliError, CliResult, io_error},
    files,
    interrupt::interrupted,
    models::Dimensions,
    output::{self, Format},
    progress,
    quantity::{self, positive},
    zoo::{
        tasks::TasksFile,
        variants::{Variants, Weights},
    },
};
use super::{live::parse_engine, pipeline::parse_processor};
use forecast::Processor;
use objectives::Objective;
use preloading::Way;
use report::{Stitching, TaskReport};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use vitempo::graph::Graph;
pub use vitempo::plan::stitch::{
    record::{self, Record, RecordError, Rehearsal},
    systems,
};
use vitempo::plan::{
    live::Engine,
    stitch::{
        Selection, best, each_order,
        live::{StitchProgress, StitchSession, StitchSessionError, TaskSubgraphs},
        orders,
        preloading::{Budget, preload},
        record::AccuracySource,
    },
};
use vitempo::planners::{
    cost::{Interval, Link},
    stitch::{Accuracy, Order, StitchError, Subgraph, Task, Zoo},
};

/// Most orders that are listed one by one.
const MOST_LISTED: usize = 24;

/// Chooses an order of processors for several tasks, and a stitched variant for each, so that the
/// most objectives are kept
///
/// Example: vitempo plan stitch --tasks zoo/tasks.toml --processor npu=npu.vtb --processor
/// cpu=cpu.vtb --slo 75%,30ms --memory 15%
///
/// A stitched variant takes each subgraph from some variant of its task's model; all tasks share
/// one order of processors. Latencies are forecast, subgraph by subgraph and processor by
/// processor, or measured (--live). Of plans that keep as many objectives the one with the least
/// mean latency is best.
#[derive(clap::Args, Debug)]
pub struct StitchArgs {
    /// Tasks with their variants, accuracies and objectives; `vitempo zoo make` writes one
    #[arg(long, value_name = "FILE.toml")]
    pub tasks: PathBuf,

    /// What each task, or that task, has to keep, instead of what the file says; may be repeated
    #[arg(long = "slo", value_name = "[TASK=]ACCURACY,LATENCY", value_parser = objectives::parse)]
    pub slos: Vec<Objective>,

    /// A processor and its bundle (a file, or a name that `vitempo bundle list` shows), instead of
    /// the file's; may be repeated. The same name again adds a bundle for another precision
    #[arg(long = "processor", value_name = "NAME=BUNDLE", value_parser = parse_processor)]
    pub processors: Vec<(String, PathBuf)>,

    /// Between any two processors, e.g. 8GB/s; without it, handing over costs nothing
    #[arg(long, value_parser = quantity::bandwidth)]
    pub bandwidth: Option<u64>,

    /// Once per tensor handed over
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0us", requires = "bandwidth")]
    pub hand_over: u64,

    /// Let a processor take several positions, and others none
    #[arg(long)]
    pub any_order: bool,

    /// Choose as algorithm 1 is printed: least mean latency over tasks, of variants that keep their
    /// objective in some order
    #[arg(long)]
    pub as_printed: bool,

    /// Choose what to keep in memory: a share of what all subgraphs take, or a size; plan with what
    /// is there
    #[arg(long, value_name = "PERCENT|SIZE", value_parser = preloading::parse_budget)]
    pub memory: Option<Budget>,

    /// How to choose what to keep in memory
    #[arg(long, value_enum, default_value_t, requires = "memory")]
    pub preload: Way,

    /// Judge stitching against six systems that do not stitch, in the simulator
    #[arg(long)]
    pub systems: bool,

    /// Measure every subgraph, and run stitched variants and all orders for real: a processor as an
    /// engine on cores of its own; may be repeated
    #[arg(long = "live", value_name = "NAME=BACKEND[@CORES]", value_parser = parse_engine)]
    pub engines: Vec<Engine>,

    /// Frames that are measured, of every subgraph and of every stitched variant
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = positive, requires = "engines")]
    pub frames: usize,

    /// Stitched variants that are run, of each task in each order
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = positive, requires = "engines")]
    pub tries: usize,

    /// Keep what was measured, for `vitempo zoo report`
    #[arg(long, value_name = "FILE.json", requires = "engines")]
    pub record: Option<PathBuf>,

    /// Of the estimator of accuracies, and of the stitched variants that are run
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    pub dimensions: Dimensions,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

impl From<StitchError> for CliError {
    fn from(error: StitchError) -> Self {
        let hint = match &error {
            StitchError::TooMany { .. } => {
                Some("--preload round-robin looks at no variant one by one")
            }
            StitchError::Impossible { .. } => {
                Some("--any-order lets a processor take several positions")
            }
            _ => None,
        };
        let refused = Self::user(error);
        match hint {
            Some(hint) => refused.hint(hint),
            None => refused,
        }
    }
}

impl From<StitchSessionError> for CliError {
    fn from(error: StitchSessionError) -> Self {
        match error {
            StitchSessionError::Stitch(error) => error.into(),
            StitchSessionError::Live(_) | StitchSessionError::Inputs(_) => Self::user(error),
            other => Self::ours(other),
        }
    }
}

impl From<RecordError> for CliError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Read { path, source } => io_error("read", &path, &source)
                .hint("`vitempo plan stitch --live ... --record` writes one"),
            RecordError::Stitch(error) => error.into(),
            RecordError::NoOrder => Self::ours(error),
            other => Self::user(other),
        }
    }
}

pub fn run(args: &StitchArgs) -> CliResult {
    let file = TasksFile::read(&args.tasks)?;
    let slos = objectives::of_tasks(&file, &args.slos)?;
    let processors = Processor::open(&args.processors(&file)?)?;
    let known = args.tasks(&file)?;
    let names: Vec<&str> = processors.iter().map(|processor| processor.name.as_str()).collect();
    let orders = args
        .orders(if names.is_empty() { args.engines.len() } else { names.len() }, file.positions)?;
    let live = if args.engines.is_empty() { None } else { Some(args.session(&known, &names)?) };
    let forecast =
        if processors.is_empty() { None } else { Some(args.forecast(&known, &processors)?) };
    let measured = live.as_ref().map(|live| args.measured(&known, live)).transpose()?;
    let zoo = forecast
        .clone()
        .or_else(|| measured.clone())
        .ok_or_else(|| CliError::ours("a plan without processors"))?;
    let selection = if args.as_printed { Selection::AsPrinted } else { Selection::MostObjectives };
    let mut plan = best(&zoo, &orders, None, &slos, selection)?;
    let rehearsal = match (&live, &measured) {
        (Some(live), Some(measured)) => {
            let drawn = (args.tries, args.seed);
            let tried = live.try_out(measured, forecast.as_ref(), &orders, drawn, &mut say)?;
            Some(Rehearsal { tried, orders: live.orders(&zoo, &orders, &slos, &mut say)? })
        }
        _ => None,
    };
    let mut preloading = None;
    if let Some(budget) = args.memory {
        let chosen = preload(&zoo, &plan.order, &slos, budget, args.preload.into())?;
        let usable = chosen.loaded.or_fetched(&zoo, &plan.order);
        let chosen_order = std::slice::from_ref(&plan.order);
        plan = best(&zoo, chosen_order, Some(&usable), &slos, selection)?;
        preloading = Some(chosen);
    }
    let others =
        if orders.len() <= MOST_LISTED { each_order(&zoo, &orders, &slos)? } else { Vec::new() };
    let memory = preloading.as_ref().map(|preloading| (&plan.order, &preloading.loaded));
    let systems =
        if args.systems { systems::judge(&zoo, &orders, &slos, memory)? } else { Vec::new() };
    let environments = match &live {
        Some(live) if processors.is_empty() => live.described(),
        _ => processors
            .iter()
            .filter_map(|processor| {
                Some((processor.name.clone(), processor.environment()?.describe()))
            })
            .collect(),
    };
    if let (Some(path), Some(rehearsal), Some(measured), Some(live)) =
        (&args.record, &rehearsal, &measured, &live)
    {
        let record =
            Record::of(measured, &known.sources(), live.described(), &orders, &slos, rehearsal)?;
        let record = Record { accuracy_is: file.accuracy_is.clone(), ..record };
        files::write(path, record.text().map_err(CliError::ours)?.as_bytes())?;
    }
    let stitching = Stitching {
        zoo,
        tasks: known.reports,
        slos,
        plan,
        orders: orders.len(),
        others,
        preloading,
        systems,
        rehearsal,
        as_printed: args.as_printed,
        accuracy_is: file.accuracy_is,
        environments,
    };
    output::print(&stitching, args.format)
}

/// Tasks with everything but their latencies.
struct Known {
    variants: Vec<Variants>,
    accuracies: Vec<Arc<dyn Accuracy>>,
    reports: Vec<TaskReport>,
}

/// Engines numbered as the processors of these names are, so that an order is the same for both;
/// those that are none of them come last.
fn numbered_as(names: &[&str], engines: &[Engine]) -> Vec<Engine> {
    let mut engines = engines.to_vec();
    engines.sort_by_key(|engine| {
        names.iter().position(|name| *name == engine.name).unwrap_or(names.len())
    });
    engines
}

fn say(progress: StitchProgress<'_>) {
    progress::say(match progress {
        StitchProgress::Subgraphs { task, count, engines } => {
            format!("measuring {count} subgraphs of {task} on {engines} engines")
        }
        StitchProgress::Variants { task, count } => {
            format!("running {count} stitched variants of {task}")
        }
        StitchProgress::Order { order } => format!("running the best of {order}"),
    });
}

impl Known {
    /// How accuracies are known.
    fn sources(&self) -> Vec<AccuracySource> {
        let source = |report: &TaskReport| AccuracySource {
            how: report.accuracy_how.clone(),
            measured: report.measured,
        };
        self.reports.iter().map(source).collect()
    }
}

impl StitchArgs {
    /// Names and bundles: those of the command line, else the file's.
    fn processors(&self, file: &TasksFile) -> CliResult<Vec<(String, PathBuf)>> {
        let resolve = |bundle: &PathBuf| {
            let beside = file.resolve(bundle);
            if beside.exists() { beside } else { bundle.clone() }
        };
        let of_file = file.processors.iter().flat_map(|processor| {
            processor.bundles.iter().map(move |bundle| (processor.name.clone(), resolve(bundle)))
        });
        let named: Vec<(String, PathBuf)> =
            if self.processors.is_empty() { of_file.collect() } else { self.processors.clone() };
        if named.is_empty() && self.engines.is_empty() {
            let refused =
                CliError::user(format!("{} names no processor with bundles", file.path.display()));
            return Err(refused.hint(
                "--processor NAME=BUNDLE, once per processor; or --live \
                NAME=BACKEND, to measure",
            ));
        }
        let live = |name: &String| self.engines.iter().any(|engine| engine.name == *name);
        if let Some((name, _)) =
            named.iter().find(|(name, _)| !self.engines.is_empty() && !live(name))
        {
            return Err(CliError::user(format!("processor `{name}` has no engine"))
                .hint(format!("add --live {name}=rten")));
        }
        Ok(named)
    }

    /// Tasks with their variants and accuracies.
    fn tasks(&self, file: &TasksFile) -> CliResult<Known> {
        let options = self.dimensions.read_options();
        let mut known = Known { variants: Vec::new(), accuracies: Vec::new(), reports: Vec::new() };
        for entry in &file.tasks {
            let variants = Variants::read(
                file,
                entry,
                &options,
                if self.engines.is_empty() { Weights::Shapes } else { Weights::Values },
            )?;
            variants
                .check_neighbours()
                .map_err(|e| file.refuse(&format!("task `{}`", entry.name), e))?;
            let accuracies::Known { accuracy, how, measured } =
                accuracies::of_task(file, entry, &variants, self.seed)?;
            known.reports.push(TaskReport {
                cuts: variants.cuts.clone(),
                accuracy_how: how,
                measured,
            });
            known.accuracies.push(accuracy);
            known.variants.push(variants);
        }
        Ok(known)
    }

    /// Costs by bundles.
    fn forecast(&self, known: &Known, processors: &[Processor]) -> CliResult<Zoo> {
        let subgraphs = known
            .variants
            .iter()
            .map(|variants| forecast::subgraphs(variants, processors))
            .collect::<CliResult<Vec<_>>>()?;
        self.zoo(
            known,
            processors.iter().map(|processor| processor.name.clone()).collect(),
            subgraphs,
        )
    }

    /// Engines, numbered as the processors of these names are.
    fn session(&self, known: &Known, names: &[&str]) -> CliResult<StitchSession> {
        let tasks: Vec<TaskSubgraphs<'_>> = known
            .variants
            .iter()
            .map(|variants| TaskSubgraphs { name: &variants.task, subgraphs: &variants.subgraphs })
            .collect();
        let engines = numbered_as(names, &self.engines);
        Ok(StitchSession::start(&engines, self.frames, &tasks, interrupted())?)
    }

    /// Costs as engines have them. Handing over is part of what is measured.
    fn measured(&self, known: &Known, live: &StitchSession) -> CliResult<Zoo> {
        let mut subgraphs = Vec::new();
        for (variants, latencies) in known.variants.iter().zip(live.subgraphs(&mut say)?) {
            let positions = variants.subgraphs.len();
            let one = |position: usize, (graph, latency_ns): (&Graph, Vec<Interval>)| {
                let (memory_bytes, boundary_bytes) =
                    forecast::sizes(graph, position + 1 == positions);
                Subgraph {
                    latency_ns: latency_ns.into_iter().map(Some).collect(),
                    memory_bytes,
                    boundary_bytes,
                }
            };
            let rows = variants.subgraphs.iter().zip(latencies).enumerate();
            subgraphs.push(
                rows.map(|(position, (row, latencies))| {
                    row.iter().zip(latencies).map(|pair| one(position, pair)).collect()
                })
                .collect(),
            );
        }
        self.zoo(known, live.processors(), subgraphs)
    }

    /// By task, position and variant.
    fn zoo(
        &self,
        known: &Known,
        names: Vec<String>,
        subgraphs: Vec<Vec<Vec<Subgraph>>>,
    ) -> CliResult<Zoo> {
        let task = |((variants, accuracy), subgraphs): ((&Variants, &Arc<dyn Accuracy>), _)| Task {
            name: variants.task.clone(),
            variants: variants.names.clone(),
            subgraphs,
            accuracy: Arc::clone(accuracy),
        };
        let tasks = known.variants.iter().zip(&known.accuracies).zip(subgraphs).map(task).collect();
        let link = self.bandwidth.map(|bytes_per_s| Link {
            message_ns: self.hand_over,
            ..Link::of_bandwidth(bytes_per_s)
        });
        let pairs = (0..names.len())
            .flat_map(|from| (0..names.len()).map(move |to| (from, to)))
            .filter(|(from, to)| from != to);
        let links: BTreeMap<(usize, usize), Link> =
            link.into_iter().flat_map(|link| pairs.clone().map(move |pair| (pair, link))).collect();
        Ok(Zoo::new(names, links, tasks)?)
    }

    /// Orders to choose from; with engines, few enough to run.
    fn orders(&self, processors: usize, positions: usize) -> CliResult<Vec<Order>> {
        let found = match orders(processors, positions, self.any_order) {
            Err(error) if !self.any_order => {
                return Err(CliError::from(error)
                    .hint("--any-order lets a processor take several positions"));
            }
            found => found?,
        };
        if !self.engines.is_empty() && found.len() > MOST_LISTED {
            return Err(CliError::user(format!(
                "--live runs every order, there are {}",
                found.len()
            ))
            .hint("fewer processors, or without --any-order"));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_the_numbers_of_their_processors() {
        let engine = |name: &str| Engine {
            name: name.to_owned(),
            backend: "rten".to_owned(),
            cores: Vec::new(),
        };
        let order = |names: &[&str]| {
            numbered_as(names, &["cpu", "gpu", "npu"].map(engine))
                .into_iter()
                .map(|engine| engine.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(order(&["npu", "cpu"]), ["npu", "cpu", "gpu"]);
        assert_eq!(order(&[]), ["cpu", "gpu", "npu"]);
    }
}
