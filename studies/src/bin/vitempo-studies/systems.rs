//! `vitempo-studies systems`: all systems for several models at once, on engines.

use super::print::{self, Failure, Format, Table, percent};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use vitempo::{graph::Latency, plan::stitch::record::Record as Costs, zoo::tasks::TasksFile};
use vitempo_studies::{
    record::{self, RecordError},
    systems::{
        Record,
        measure::{Protocol, SystemsError, measure},
        score::{Scores, score},
    },
};

/// Runs the plans of all systems for several models at once on engines, over the stitching paper's
/// grid of objectives and every order of arrival, and compares them
///
/// Nothing else should run on the machine. A second run goes on where the first one stopped;
/// without --tasks it prints what the record has. The engines are those that the costs were
/// measured on.
///
/// Example: vitempo-studies systems --tasks zoo/tasks.toml --costs costs.json --record systems.json
#[derive(clap::Args, Debug)]
pub struct SystemsArgs {
    /// Tasks with the variants of their models
    #[arg(long, value_name = "TASKS.toml", requires = "costs")]
    tasks: Option<PathBuf>,
    /// Their costs on this machine, as `vitempo plan stitch --live --record` writes them
    #[arg(long, value_name = "FILE.json", requires = "tasks")]
    costs: Option<PathBuf>,
    /// Numbers of tasks: the first of the file
    #[arg(long, value_delimiter = ',', default_values_t = [2, 3, 4], value_name = "COUNTS")]
    counts: Vec<usize>,
    /// Runs of every order of arrival, and with waiting queries; two or more give the repeatability
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Queries of each task that wait from the start, for queries per second
    #[arg(long, default_value_t = 40)]
    saturation: usize,
    /// Plans that the planner evaluates for one configuration
    #[arg(long, default_value_t = 2000)]
    evaluations: u64,
    /// What was measured, kept after every plan
    #[arg(long, value_name = "FILE.json")]
    record: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &SystemsArgs) -> Result<(), Failure> {
    let record = match (&args.tasks, &args.costs) {
        (Some(tasks), Some(costs)) => measured(args, tasks, costs)?,
        _ => record::read(&args.record).map_err(Failure::new)?.ok_or_else(|| {
            Failure::new(format!("{} does not exist", args.record.display()))
                .hint("give --tasks and --costs to measure")
        })?,
    };
    let scores = score(&record);
    match args.format {
        Format::Table => print::write(&text(&record, &scores)),
        Format::Csv => print::write(&scores.iter().fold(table(), add).to_csv()?),
        Format::Json => {
            let (processors, hand_over_ns) = (&record.processors, &record.hand_over_ns);
            print::write_json(&json!({
                "processors": processors, "hand_over_ns": hand_over_ns, "scores": scores,
            }))
        }
    }
}

fn measured(args: &SystemsArgs, tasks: &Path, costs: &Path) -> Result<Record, Failure> {
    if args.rounds == 0 || args.saturation == 0 {
        return Err(Failure::new("--rounds and --saturation are 1 or more"));
    }
    let tasks = TasksFile::read(tasks).map_err(Failure::new)?;
    let costs = Costs::read(costs).map_err(Failure::new)?;
    let protocol = Protocol {
        tasks: &tasks,
        costs: &costs,
        engines: Vec::new(),
        counts: args.counts.clone(),
        rounds: args.rounds,
        saturation: args.saturation,
        evaluations: args.evaluations,
        record: &args.record,
        interrupted: Arc::default(),
    };
    measure(&protocol, &|next| eprintln!("{next} ...")).map_err(|error| {
        let failure = Failure::new(&error);
        match error {
            SystemsError::Record(RecordError::OtherProtocol { .. }) => {
                failure.hint("repeat its options and costs, or name another --record")
            }
            _ => failure,
        }
    })
}

fn table() -> Table {
    let headings = [
        "Tasks",
        "System",
        "Configurations",
        "Violated, live",
        "Repeats",
        "Simulated",
        "Queries/s, live",
        "Repeats/s",
        "Simulated/s",
    ];
    Table::new(&headings, 2)
}

fn add(mut table: Table, scores: &Scores) -> Table {
    for row in &scores.rows {
        table.row([
            scores.tasks.len().to_string(),
            row.system.clone(),
            row.configurations.to_string(),
            percent(row.live),
            percent(row.repeats),
            percent(row.simulated),
            format!("{:.1}", row.live_per_s),
            row.repeats_per_s.map_or("-".to_owned(), |rate| format!("{rate:.1}")),
            format!("{:.1}", row.simulated_per_s),
        ]);
    }
    table
}

fn text(record: &Record, scores: &[Scores]) -> String {
    let processor = |p: &vitempo::plan::run::PlanProcessor| {
        format!("{}: {} on cores {:?}", p.name, p.engine.as_deref().unwrap_or("any"), p.cores)
    };
    let processors: Vec<String> = record.processors.iter().map(processor).collect();
    let mut text = format!("{}; {}\n\n", record.device, processors.join("; "));
    text += &scores.iter().fold(table(), add).to_text();
    for one in scores {
        text += &format!(
            "{} tasks: {} plans ran; every plan violates {} or more, by the cost model\n",
            one.tasks.len(),
            one.plans,
            percent(one.least)
        );
    }
    text += &hand_over(record);
    text + "live and simulated; repeats: largest difference between two runs\n"
}

/// The hand-over in the simulated costs of all systems.
fn hand_over(record: &Record) -> String {
    let Some(each) = &record.hand_over_ns else {
        return "hand-over of a subgraph: not known, in no system's costs\n".to_owned();
    };
    let on = |(processor, ns): (&vitempo::plan::run::PlanProcessor, &u64)| {
        format!("{} on {}", Latency::from_ns(*ns as f64), processor.name)
    };
    let each: Vec<String> = record.processors.iter().zip(each).map(on).collect();
    format!("hand-over of a subgraph, in all systems' costs: {}\n", each.join(", "))
}
