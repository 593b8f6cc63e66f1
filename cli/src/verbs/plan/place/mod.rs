//! `vitempo plan place`: several models at once: which variant of each, where, in which order?

mod arguments;
mod error;
mod report;

use super::super::{
    bundle,
    error::{CliError, CliResult},
    files,
    models::Dimensions,
    output::{self, Format},
    progress,
    quantity::{self, positive},
};
use super::{
    frame::FrameArgs,
    pipeline::parse_processor,
    stitch::{objectives, preloading},
};
use clap::{ArgGroup, ValueEnum};
pub use report::words;
use report::{PrintedGrid, PrintedPhases};
use std::path::PathBuf;
use vitempo::plan::{
    multi_dnn::{Request, Slowdown, grid::grid, place_phases, trace},
    run::{CostsOrigin, Made, PlanProcessor, RunPlan},
    stitch::{
        StitchProgress, objectives::Objective as Asked, planning, preloading::Budget,
        record::Record,
    },
};
use vitempo::planners::{
    cost::Link,
    multi_dnn::{Objective, Settings, TaskArrivals},
    stitch::{Slo, Zoo},
};
use vitempo::zoo::TasksFile;

/// `--objective`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Fewest violated, then most queries per second, then least energy, then least latency
    #[default]
    Violations,
    /// Most queries per second, then fewest violated, then least energy, then least latency
    Throughput,
}

/// Plans several models that share processors and wait for each other: variant, placement and
/// priority of each
///
/// Example: vitempo plan place --record datasets/stitching/record.json --slo 90%,40ms
///
/// A task runs a variant whole, cut over several processors, or stitched of several variants; with
/// several ways, each query takes the one that is expected to end first. Plans are evaluated in the
/// simulator, with waiting, contention, compiling and loading, beside the plans of the stitching
/// paper's systems; no plan printed is worse than theirs.
#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("costs").required(true).multiple(true).args(["record", "tasks"])))]
#[command(group(ArgGroup::new("times").multiple(true).args(["arrivals", "trace"])))]
pub struct PlaceArgs {
    /// Measured costs and accuracies; `vitempo plan stitch --live ... --record` writes them
    #[arg(long, value_name = "FILE.json")]
    pub record: Option<PathBuf>,

    /// Tasks with their variants, accuracies and SLOs; `vitempo zoo make` writes one. Costs are
    /// forecast, unless --record has them
    #[arg(long, value_name = "FILE.toml")]
    pub tasks: Option<PathBuf>,

    /// A processor and its bundle (a file, or a name that `vitempo bundle list` shows), instead of
    /// the file's; may be repeated. The same name again adds a bundle for another precision
    #[arg(long = "processor", value_name = "NAME=BUNDLE", value_parser = parse_processor, requires = "tasks", conflicts_with = "record")]
    pub processors: Vec<(String, PathBuf)>,

    /// Costs from a file, instead of bundles: a node TASK/VARIANT/POSITION for each subgraph,
    /// positions from 1
    #[arg(long = "costs", value_name = "FILE.json", requires = "tasks", conflicts_with_all = ["record", "processors", "bandwidth"])]
    pub costs_file: Option<PathBuf>,

    /// Between any two processors, e.g. 8GB/s; without it, transfers cost nothing
    #[arg(long, value_parser = quantity::bandwidth, requires = "tasks", conflicts_with = "record")]
    pub bandwidth: Option<u64>,

    /// Time of each subgraph beside its run alone, which occupies its processor: messages, copies,
    /// cold caches; instead of what the record has
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub hand_over: Option<u64>,

    /// What each task, or that task, has to keep, instead of what the file says; may be repeated
    #[arg(long = "slo", value_name = "[TASK=]ACCURACY,LATENCY", value_parser = objectives::parse)]
    pub slos: Vec<Asked>,

    /// All systems over the 25 SLOs of the stitching paper's grid, instead of one plan
    #[arg(long, conflicts_with_all = ["slos", "objective", "arrivals", "trace", "frame_energy"])]
    pub grid: bool,

    /// When all tasks, or that task, are asked: every so often (33ms), or at random so many times a
    /// second (20/s); may be repeated. Without it one query of each comes at once, in every order
    #[arg(long, value_name = "[TASK=]TIME|RATE", value_parser = arguments::arrivals)]
    pub arrivals: Vec<(Option<String>, TaskArrivals)>,

    /// The same from a file: CSV with the columns task and arrival_ns
    #[arg(long, value_name = "FILE.csv", conflicts_with = "arrivals")]
    pub trace: Option<PathBuf>,

    /// Queries arrive for so long
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "10s", requires = "times")]
    pub over: u64,

    /// How many times as long NAME takes while OTHER is busy, e.g. a/b=1.2; once for every pair,
    /// both ways round. Without it the bundles' slowdown models count; without those contention is
    /// not known, and none is assumed
    #[arg(long, value_name = "NAME/OTHER=FACTOR", value_parser = arguments::slowdown)]
    pub slowdown: Vec<Slowdown>,

    /// What a processor draws while busy, above idle, e.g. npu=2W; once for every processor
    #[arg(long, value_name = "NAME=POWER", value_parser = arguments::power)]
    pub power: Vec<(String, f64)>,

    /// Nothing is loaded at first: the first run of a subgraph compiles and loads it, which takes as
    /// long as measured in the record, or as forecast for a bundle's engine; refused where that is
    /// not known
    #[arg(long, conflicts_with = "frame_energy")]
    pub cold: bool,

    /// All subgraphs of the plan fit into this: a share of what all subgraphs take, or a size
    #[arg(long, value_name = "PERCENT|SIZE", value_parser = preloading::parse_budget)]
    pub memory: Option<Budget>,

    /// Write the plan to this file, for `vitempo run`; the models are those of --tasks
    #[arg(long, value_name = "FILE.json", requires = "tasks", conflicts_with = "grid")]
    pub out: Option<PathBuf>,

    /// SLOs from a time on, e.g. 5s=classify=75%,20ms; the plan then has ways for each time.
    /// May be repeated
    #[arg(long, value_name = "TIME=[TASK=]ACCURACY,LATENCY", value_parser = arguments::slo_at, conflicts_with = "grid")]
    pub slo_at: Vec<(u64, Asked)>,

    /// What is made best
    #[arg(long, value_enum, default_value_t)]
    pub objective: Goal,

    /// Most plans that are evaluated
    #[arg(long, value_name = "COUNT", default_value_t = Settings::default().evaluations)]
    pub evaluations: u64,

    /// Queries of each task that wait from the start where queries per second are counted
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = positive)]
    pub saturation: usize,

    /// Of the search, of random arrivals, and of the estimator of accuracies
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    pub frame: FrameArgs,

    #[command(flatten)]
    pub dimensions: Dimensions,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &PlaceArgs) -> CliResult {
    args.refuse_twice()?;
    let file = args.tasks.as_deref().map(TasksFile::read).transpose()?;
    let asked = args.request()?;
    let costs = args.costs(file.as_ref())?;
    let request = asked.or_slowdown(&costs.slowdown);
    let frames = args.frame.open_among(costs.zoo.processors().iter().map(String::as_str), &[])?;
    if args.grid {
        let found = grid(&costs.zoo, &request)?;
        return output::print(&PrintedGrid { grid: found, zoo: costs.zoo }, args.format);
    }
    progress::say(format!(
        "planning: at most {} plans are evaluated",
        request.settings.evaluations
    ));
    let mut placings = place_phases(&costs.zoo, &costs.slos, &request, &args.slo_at)?;
    placings.iter_mut().for_each(|(_, placing)| frames.add_to_placing(placing, &args.power));
    if let (Some(path), Some(file)) = (&args.out, &file) {
        let read = args.dimensions.read_options();
        let made = Made {
            file,
            read: &read,
            request: &request,
            costs: costs.origin,
            processors: costs.processors,
            path,
        };
        files::write(path, RunPlan::of(&placings, &made)?.text()?.as_bytes())?;
    }
    output::print(&PrintedPhases(placings), args.format)
}

/// Costs with their origin.
struct Costs {
    zoo: Zoo,
    slos: Vec<Slo>,
    processors: Vec<PlanProcessor>,
    origin: CostsOrigin,
    slowdown: Vec<Slowdown>,
}

impl PlaceArgs {
    /// From the record, else by forecasts.
    fn costs(&self, file: Option<&TasksFile>) -> CliResult<Costs> {
        match (&self.record, file) {
            (Some(path), _) => {
                let record = Record::read(path)?;
                let described =
                    |(name, how): &(String, String)| PlanProcessor::of_record(name, how);
                let processors = record.processors.iter().map(described).collect();
                let zoo = record.zoo()?.with_given_hand_over(self.hand_over);
                let slos = record.asked();
                let (origin, slowdown) = (CostsOrigin::Measured, Vec::new());
                Ok(Costs { zoo, slos, processors, origin, slowdown })
            }
            (None, Some(file)) => {
                let costs = planning::costs(file, &self.stitching(), &mut say)?;
                let each = costs.zoo.processors().iter().zip(&costs.environments);
                let processors = each
                    .map(|(name, found)| PlanProcessor::of_environment(name, found.as_ref()))
                    .collect();
                let (zoo, slos) = (costs.zoo, costs.slos);
                let origin = match self.costs_file {
                    Some(_) => CostsOrigin::File,
                    None => CostsOrigin::Forecast,
                };
                Ok(Costs { zoo, slos, processors, origin, slowdown: costs.slowdown })
            }
            (None, None) => Err(CliError::ours("neither a record nor tasks")),
        }
    }

    fn request(&self) -> CliResult<Request> {
        let seeded = |(task, arrivals): &(Option<String>, TaskArrivals)| match arrivals {
            TaskArrivals::Poisson { per_s, .. } => {
                (task.clone(), TaskArrivals::Poisson { per_s: *per_s, seed: self.seed })
            }
            other => (task.clone(), other.clone()),
        };
        let arrivals = match &self.trace {
            Some(path) => trace::read(path)?,
            None => self.arrivals.iter().map(seeded).collect(),
        };
        Ok(Request {
            objectives: self.slos.clone(),
            arrivals,
            horizon_ns: self.over,
            slowdown: self.slowdown.clone(),
            active_w: self.power.clone(),
            cold: self.cold,
            memory: self.memory,
            objective: match self.objective {
                Goal::Violations => Objective::Violations,
                Goal::Throughput => Objective::Throughput,
            },
            saturation: self.saturation,
            settings: Settings { evaluations: self.evaluations, seed: self.seed },
        })
    }

    fn stitching(&self) -> planning::Request {
        planning::Request {
            processors: self.processors.clone(),
            costs: self.costs_file.clone(),
            objectives: self.slos.clone(),
            link: self.bandwidth.map(Link::of_bandwidth),
            hand_over: self.hand_over,
            seed: self.seed,
            read: self.dimensions.read_options(),
            ..planning::Request::default()
        }
    }
}

fn say(progress: StitchProgress<'_>) {
    match progress {
        StitchProgress::Forecast { what, estimated } => {
            bundle::warn_of_estimates(what, estimated.kernels, estimated.of);
        }
        StitchProgress::Order { order } => progress::say(format!("planning {order}")),
        _ => {}
    }
}
