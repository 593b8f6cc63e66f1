//! `vitempo plan stitch`: chooses one order of processors for all tasks, a stitched variant for
//! each of them, and the subgraphs that stay in memory.

mod error;
mod machine_readable;
pub mod objectives;
pub mod preloading;
mod report;
mod sections;

use super::super::{
    bundle,
    error::{CliError, CliResult},
    files,
    interrupt::interrupted,
    models::Dimensions,
    output::{self, Format},
    progress,
    quantity::{self, positive},
};
use super::{
    budget::BudgetArgs, live::parse_engine, pipeline::parse_processor, twice::refuse_task_twice,
};
use preloading::Way;
use report::Printed;
use std::path::PathBuf;
use vitempo::plan::{
    live::Engine,
    stitch::{
        Selection, StitchProgress, StitchingError,
        objectives::Objective,
        planning::{Request, Running, plan, plan_live},
        preloading::Budget,
    },
};
use vitempo::planners::{
    cost::Link,
    stitch::{STEPS, StitchError},
};
use vitempo::zoo::TasksFile;

/// Chooses an order of processors for several tasks, and a stitched variant for each, that meet the
/// most SLOs
///
/// Example: vitempo plan stitch --tasks zoo/tasks.toml --processor npu=npu.vtb --processor
/// cpu=cpu.vtb --slo 75%,30ms --memory 15%
///
/// A stitched variant takes each subgraph from some variant of its task's model; all tasks share
/// one order of processors. Latencies are forecast, subgraph by subgraph and processor by
/// processor, or measured (--live). Among plans that meet equally many SLOs, the one with the least
/// mean latency is the best.
#[derive(clap::Args, Debug)]
pub struct StitchArgs {
    /// Tasks with their variants, accuracies and SLOs; `vitempo zoo make` writes one
    #[arg(long, value_name = "FILE.toml")]
    pub tasks: PathBuf,

    /// SLO of each task, or of that task, instead of the file's; may be repeated
    #[arg(long = "slo", value_name = "[TASK=]ACCURACY,LATENCY", value_parser = objectives::parse)]
    pub slos: Vec<Objective>,

    /// A processor and its bundle (a file, or a name that `vitempo bundle list` shows), instead of
    /// the file's; may be repeated. The same name again adds a bundle for another precision
    #[arg(long = "processor", value_name = "NAME=BUNDLE", value_parser = parse_processor)]
    pub processors: Vec<(String, PathBuf)>,

    /// Costs from a file, instead of bundles: a node TASK/VARIANT/POSITION for each subgraph,
    /// positions from 1
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["processors", "bandwidth", "engines"])]
    pub costs: Option<PathBuf>,

    /// Bandwidth between any two processors, e.g. 8GB/s; without it, transfers cost nothing. What
    /// --live measures contains them
    #[arg(long, value_parser = quantity::bandwidth, conflicts_with = "engines")]
    pub bandwidth: Option<u64>,

    /// Time of each subgraph beside its run alone, which occupies its processor: messages, copies,
    /// cold caches; instead of what --live measures
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub hand_over: Option<u64>,

    /// Let a processor run several positions, and others none
    #[arg(long)]
    pub any_order: bool,

    /// Choose by the paper's algorithm 1 as printed: least mean latency over tasks, of variants
    /// that meet their SLO in some order
    #[arg(long)]
    pub as_printed: bool,

    /// Memory budget: a share of the memory of all subgraphs, or a size. Chooses the subgraphs that
    /// stay in memory; the plan fetches the others before they run
    #[arg(long, value_name = "PERCENT|SIZE", value_parser = preloading::parse_budget)]
    pub memory: Option<Budget>,

    /// How to choose the subgraphs that stay in memory
    #[arg(long, value_enum, default_value_t, requires = "memory")]
    pub preload: Way,

    /// Simulate six systems that do not stitch, and compare stitching with them
    #[arg(long)]
    pub systems: bool,

    /// Measure every subgraph, and run stitched variants and all orders on engines: a processor as
    /// an engine on cores of its own; may be repeated
    #[arg(long = "live", value_name = "NAME=BACKEND[@CORES]", value_parser = parse_engine)]
    pub engines: Vec<Engine>,

    /// Measured frames of every subgraph and of every stitched variant
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = positive, requires = "engines")]
    pub frames: usize,

    /// Number of stitched variants of each task that run in each order
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = positive, requires = "engines")]
    pub tries: usize,

    /// Write the measurements to this file, for `vitempo zoo report`
    #[arg(long, value_name = "FILE.json", requires = "engines")]
    pub record: Option<PathBuf>,

    /// Seed of the accuracy estimator, and of the choice of stitched variants that run
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    pub budget: BudgetArgs,

    #[command(flatten)]
    pub dimensions: Dimensions,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &StitchArgs) -> CliResult {
    refuse_task_twice("--slo", args.slos.iter().map(|asked| asked.task.as_deref()))?;
    let file = TasksFile::read(&args.tasks)?;
    args.record.as_deref().map_or(Ok(()), files::check)?;
    let request = args.request();
    let stitching = match args.engines.is_empty() {
        true => plan(&file, &request, &mut say),
        false => plan_live(&file, &request, &args.running(), &mut say),
    };
    let stitching = stitching.map_err(|error| args.refused(error))?;
    if let Some(path) = &args.record {
        let text = stitching.record()?.text().map_err(CliError::ours)?;
        files::write(path, text.as_bytes())?;
    }
    output::print(&Printed(stitching), args.format)
}

impl StitchArgs {
    /// An error with its hint; none that is followed already.
    fn refused(&self, error: StitchingError) -> CliError {
        match error {
            StitchingError::Stitch(error @ StitchError::Impossible { .. }) if self.any_order => {
                CliError::user(error)
            }
            other => other.into(),
        }
    }

    fn request(&self) -> Request {
        Request {
            processors: self.processors.clone(),
            costs: self.costs.clone(),
            objectives: self.slos.clone(),
            link: self.bandwidth.map(Link::of_bandwidth),
            hand_over: self.hand_over,
            any_order: self.any_order,
            selection: match self.as_printed {
                true => Selection::AsPrinted,
                false => Selection::MostObjectives,
            },
            memory: self.memory.map(|budget| (budget, self.preload.into())),
            systems: self.systems,
            budget: self.budget.start(STEPS),
            seed: self.seed,
            read: self.dimensions.read_options(),
        }
    }

    fn running(&self) -> Running {
        Running {
            engines: self.engines.clone(),
            frames: self.frames,
            tries: self.tries,
            interrupted: interrupted(),
        }
    }
}

fn say(progress: StitchProgress<'_>) {
    progress::say(match progress {
        StitchProgress::Forecast { what, estimated } => {
            return bundle::warn_of_estimates(what, estimated.kernels, estimated.of);
        }
        StitchProgress::Subgraphs { task, count, engines } => {
            format!("measuring {count} subgraphs of {task} on {engines} engines")
        }
        StitchProgress::Variants { task, count } => {
            format!("running {count} stitched variants of {task}")
        }
        StitchProgress::Order { order } => format!("running the best of {order}"),
        _ => return,
    });
}
