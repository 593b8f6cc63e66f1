//! `vitempo plan stitch`: one order of processors for all tasks, a stitched variant for each of them, and what to keep in memory.

mod accuracies;
mod forecast;
mod objectives;
mod preloading;
mod report;
mod systems;

use super::super::{
    error::{CliError, CliResult},
    models::parse_dimension,
    output::{self, Format},
    quantity,
    zoo::{
        tasks::TasksFile,
        variants::{Variants, Weights},
    },
};
use super::pipeline::parse_processor;
use forecast::Processor;
use objectives::Objective;
use preloading::{Budget, Way};
use report::{Stitching, TaskReport};
use std::{collections::BTreeMap, path::PathBuf};
use vitempo_graph::onnx::ReadOptions;
use vitempo_planners::{
    cost::Link,
    stitch::{Assignment, Optimiser, Order, Reading, Slo, StitchError, Task, Zoo, orders, preload::Loaded},
};

/// Most orders that are listed one by one.
const MOST_LISTED: usize = 24;

/// Chooses an order of processors for several tasks, and a stitched variant for each, so that the most objectives are kept
///
/// Example: vitempo plan stitch --tasks zoo/tasks.toml --processor npu=npu.vtb --processor cpu=cpu.vtb --slo 75%,30ms --memory 15%
///
/// A stitched variant takes each subgraph from some variant of its task's model; all tasks share one order of processors. Latencies are forecast, subgraph by
/// subgraph and processor by processor. Of plans that keep as many objectives the one with the least mean latency is best.
#[derive(clap::Args, Debug)]
pub struct StitchArgs {
    /// Tasks with their variants, accuracies and objectives; `vitempo zoo make` writes one
    #[arg(long, value_name = "FILE.toml")]
    pub tasks: PathBuf,

    /// What each task, or that task, has to keep, instead of what the file says; may be repeated
    #[arg(long = "slo", value_name = "[TASK=]ACCURACY,LATENCY", value_parser = objectives::parse)]
    pub slos: Vec<Objective>,

    /// A processor and its predictors, instead of the file's; may be repeated. The same name again adds predictors for another precision
    #[arg(long = "processor", value_name = "NAME=BUNDLE.vtb", value_parser = parse_processor)]
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

    /// Choose as algorithm 1 is printed: least mean latency over tasks, of variants that keep their objective in some order
    #[arg(long)]
    pub as_printed: bool,

    /// Choose what to keep in memory: a share of what all subgraphs take, or a size; plan with what is there
    #[arg(long, value_name = "PERCENT|SIZE", value_parser = preloading::parse_budget)]
    pub memory: Option<Budget>,

    /// How to choose what to keep in memory
    #[arg(long, value_enum, default_value_t, requires = "memory")]
    pub preload: Way,

    /// Judge stitching against six systems that do not stitch, in the simulator
    #[arg(long)]
    pub systems: bool,

    /// Of the estimator of accuracies
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Value of a symbolic dimension, e.g. `--dim batch=1`; may be repeated
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dimension)]
    pub dimensions: Vec<(String, usize)>,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

impl From<StitchError> for CliError {
    fn from(error: StitchError) -> Self {
        let hint = match &error {
            StitchError::TooMany { .. } => Some("--preload round-robin looks at no variant one by one"),
            StitchError::Impossible { .. } => Some("--any-order lets a processor take several positions"),
            _ => None,
        };
        let refused = Self::user(error);
        match hint {
            Some(hint) => refused.hint(hint),
            None => refused,
        }
    }
}

pub fn run(args: &StitchArgs) -> CliResult {
    let file = TasksFile::read(&args.tasks)?;
    let slos = objectives::of_tasks(&file, &args.slos)?;
    let processors = Processor::open(&args.processors(&file)?)?;
    let (zoo, tasks) = args.zoo(&file, &processors)?;
    let orders = args.orders(&zoo)?;
    let mut plan = args.best(&zoo, &orders, None, &slos)?;
    let mut preloading = None;
    if let Some(budget) = args.memory {
        let chosen = preloading::preload(&zoo, &plan.order, &slos, budget, args.preload)?;
        let usable = chosen.loaded.or_fetched(&zoo, &plan.order);
        plan = args.best(&zoo, std::slice::from_ref(&plan.order), Some(&usable), &slos)?;
        preloading = Some(chosen);
    }
    let others = if orders.len() <= MOST_LISTED { each_order(&zoo, &orders, &slos)? } else { Vec::new() };
    let memory = preloading.as_ref().map(|preloading| (&plan.order, &preloading.loaded));
    let systems = if args.systems { systems::judge(&zoo, &orders, &slos, memory)? } else { Vec::new() };
    let environments = processors.iter().filter_map(|processor| Some((processor.name.clone(), processor.environment()?.describe()))).collect();
    let stitching = Stitching {
        zoo,
        tasks,
        slos,
        plan,
        orders: orders.len(),
        others,
        preloading,
        systems,
        as_printed: args.as_printed,
        accuracy_is: file.accuracy_is,
        environments,
    };
    output::print(&stitching, args.format)
}

/// The best each order can do; `None` where a task cannot run in it.
fn each_order(zoo: &Zoo, orders: &[Order], slos: &[Slo]) -> CliResult<Vec<(Order, Option<Assignment>)>> {
    let one = |order: &Order| match Optimiser::new(zoo, std::slice::from_ref(order))?.best(&[slos.to_vec()]) {
        Ok(best) => Ok((order.clone(), best.into_iter().next())),
        Err(StitchError::Impossible { .. }) => Ok((order.clone(), None)),
        Err(error) => Err(error.into()),
    };
    orders.iter().map(one).collect()
}

impl StitchArgs {
    /// Names and bundles: those of the command line, else the file's.
    fn processors(&self, file: &TasksFile) -> CliResult<Vec<(String, PathBuf)>> {
        if !self.processors.is_empty() {
            return Ok(self.processors.clone());
        }
        let resolve = |bundle: &PathBuf| {
            let beside = file.resolve(bundle);
            if beside.exists() { beside } else { bundle.clone() }
        };
        let named = file.processors.iter().flat_map(|processor| processor.bundles.iter().map(move |bundle| (processor.name.clone(), resolve(bundle))));
        let named: Vec<(String, PathBuf)> = named.collect();
        if named.is_empty() {
            return Err(
                CliError::user(format!("{} names no processor with bundles", file.path.display())).hint("--processor NAME=BUNDLE.vtb, once per processor")
            );
        }
        Ok(named)
    }

    /// Tasks with their costs, and what is to be said of them.
    fn zoo(&self, file: &TasksFile, processors: &[Processor]) -> CliResult<(Zoo, Vec<TaskReport>)> {
        let options = ReadOptions { dimensions: self.dimensions.iter().cloned().collect() };
        let (mut tasks, mut reports) = (Vec::new(), Vec::new());
        for entry in &file.tasks {
            let variants = Variants::read(file, entry, &options, Weights::Shapes)?;
            variants.check_neighbours().map_err(|e| file.refuse(&format!("task `{}`", entry.name), e))?;
            let known = accuracies::of_task(file, entry, &variants, self.seed)?;
            let subgraphs = forecast::subgraphs(&variants, processors)?;
            tasks.push(Task { name: entry.name.clone(), variants: variants.names.clone(), subgraphs, accuracy: known.accuracy });
            reports.push(TaskReport { cuts: variants.cuts, accuracy_how: known.how });
        }
        let names: Vec<String> = processors.iter().map(|processor| processor.name.clone()).collect();
        let link = self.bandwidth.map(|bytes_per_s| Link { message_ns: self.hand_over, ..Link::of_bandwidth(bytes_per_s) });
        let pairs = (0..names.len()).flat_map(|from| (0..names.len()).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let links: BTreeMap<(usize, usize), Link> = link.into_iter().flat_map(|link| pairs.clone().map(move |pair| (pair, link))).collect();
        Ok((Zoo::new(names, links, tasks)?, reports))
    }

    fn orders(&self, zoo: &Zoo) -> CliResult<Vec<Order>> {
        let (processors, positions) = (zoo.processors().len(), zoo.positions());
        if self.any_order {
            return Ok(orders::any(processors, positions)?);
        }
        orders::each_once(processors, positions).map_err(|e| CliError::from(e).hint("--any-order lets a processor take several positions"))
    }

    /// The plan for what is asked, of all subgraphs or of those in memory.
    fn best(&self, zoo: &Zoo, orders: &[Order], loaded: Option<&Loaded>, slos: &[Slo]) -> CliResult<Assignment> {
        let optimiser = Optimiser::new(zoo, orders)?;
        let optimiser = loaded.map_or(optimiser, |loaded| optimiser.among(loaded));
        let configurations = [slos.to_vec()];
        let plans = if self.as_printed { optimiser.as_printed(&configurations, Reading::Algorithm)? } else { optimiser.best(&configurations)? };
        plans.into_iter().next().ok_or_else(|| CliError::ours("an optimiser gave no plan"))
    }
}
