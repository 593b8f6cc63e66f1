//! `vitempo-studies preloading`: memory and violations with several memory budgets, measured.

use super::print::{self, Failure, Format, Table, percent};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use vitempo::{
    plan::stitch::record::Record as Costs, profiler::WorkerCommand, quantity, zoo::tasks::TasksFile,
};
use vitempo_studies::{
    preloading::{
        BudgetRun, Record,
        measure::{PreloadingError, Protocol, measure},
    },
    record::{self, RecordError},
};

/// Runs several models whose objectives change over the stitching paper's grid, with several memory
/// budgets, and measures resident memory and violations
///
/// Nothing else should run on the machine. Each engine is a process; subgraphs are loaded before the
/// run as far as they fit, others in the queries that need them. A second run goes on where the
/// first one stopped; without --tasks it prints what the record has.
///
/// Example: vitempo-studies preloading --tasks zoo/tasks.toml --costs costs.json --record memory.json
#[derive(clap::Args, Debug)]
pub struct PreloadingArgs {
    /// Tasks with the variants of their models
    #[arg(long, value_name = "TASKS.toml", requires = "costs")]
    tasks: Option<PathBuf>,
    /// Their costs on this machine, as `vitempo plan stitch --live --record` writes them
    #[arg(long, value_name = "FILE.json", requires = "tasks")]
    costs: Option<PathBuf>,
    /// Budgets, in percent of the weights of all subgraphs that the plans use
    #[arg(long, value_delimiter = ',', default_values_t = [15.0, 25.0, 40.0, 55.0, 75.0, 100.0], value_name = "PERCENTS")]
    budgets: Vec<f64>,
    /// Time between two queries of a task
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "200ms")]
    period: u64,
    /// Queries of each task in each of the 25 configurations
    #[arg(long, default_value_t = 4)]
    queries: usize,
    /// Plans that the planner evaluates for one configuration
    #[arg(long, default_value_t = 2000)]
    evaluations: u64,
    /// Keep the engines' cores busy while no query runs
    #[arg(long)]
    keep_awake: bool,
    /// What was measured, kept after every run
    #[arg(long, value_name = "FILE.json")]
    record: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &PreloadingArgs) -> Result<(), Failure> {
    let record = match (&args.tasks, &args.costs) {
        (Some(tasks), Some(costs)) => measured(args, tasks, costs)?,
        _ => record::read(&args.record).map_err(Failure::new)?.ok_or_else(|| {
            Failure::new(format!("{} does not exist", args.record.display()))
                .hint("give --tasks and --costs to measure")
        })?,
    };
    match args.format {
        Format::Table => print::write(&text(&record)),
        Format::Csv => print::write(&table(&record).to_csv()?),
        Format::Json => print::write_json(&json!(record)),
    }
}

fn measured(args: &PreloadingArgs, tasks: &Path, costs: &Path) -> Result<Record, Failure> {
    let fits = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
    if args.queries == 0 || !args.budgets.iter().all(fits) {
        return Err(Failure::new("--queries is 1 or more, --budgets are above 0 and up to 100"));
    }
    let tasks = TasksFile::read(tasks).map_err(Failure::new)?;
    let costs = Costs::read(costs).map_err(Failure::new)?;
    let protocol = Protocol {
        tasks: &tasks,
        costs: &costs,
        budgets: args.budgets.iter().map(|percent| percent / 100.0).collect(),
        period_ns: args.period.max(1),
        queries: args.queries,
        evaluations: args.evaluations,
        worker: WorkerCommand::this_program(["worker"]).map_err(Failure::new)?,
        keep_awake: args.keep_awake,
        record: &args.record,
        interrupted: Arc::default(),
    };
    measure(&protocol, &|next| eprintln!("{next} ...")).map_err(|error| {
        let failure = Failure::new(&error);
        match error {
            PreloadingError::Record(RecordError::OtherProtocol { .. }) => {
                failure.hint("repeat its options and costs, or name another --record")
            }
            _ => failure,
        }
    })
}

fn table(record: &Record) -> Table {
    let headings = [
        "Budget",
        "Evicts",
        "Violated",
        "Forecast, all loaded",
        "Loads in queries",
        "Mean load, ms",
        "Weights, kB",
        "Resident, kB more",
    ];
    let mut table = Table::new(&headings, 2);
    for BudgetRun { share, evicts_planned, measured, .. } in &record.runs {
        let kilobytes = |bytes: u64| bytes.div_ceil(1000).to_string();
        let evicts = if *evicts_planned { "least planned" } else { "longest ago" };
        let figures = match measured {
            None => ["does not fit", "", "", "", "", ""].map(str::to_owned),
            Some(found) => [
                percent(found.rate()),
                percent(found.forecast as f64 / found.queries.max(1) as f64),
                found.loads.to_string(),
                format!("{:.1}", found.mean_load_ns / 1e6),
                kilobytes(found.loaded_bytes),
                found.added_bytes().map_or_else(|| "-".to_owned(), kilobytes),
            ],
        };
        table.row([percent(*share), evicts.to_owned()].into_iter().chain(figures));
    }
    table
}

fn text(record: &Record) -> String {
    let cores = if record.kept_awake { "cores kept awake between queries; " } else { "" };
    format!(
        "{}: {}\n\n{}{} configurations, {} queries of each task in each; all subgraphs have {} kB \
        of weights\nresident: the sum over engines of the most by which their processes grew over \
        nothing loaded; {cores}live\n",
        record.device,
        record.tasks.join(", "),
        table(record).to_text(),
        record.configurations,
        record.queries,
        record.full_bytes.div_ceil(1000)
    )
}
