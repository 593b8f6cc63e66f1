//! `vitempo run`: executes a plan on engines, or replays the log of a run.

mod error;
mod replayed;
mod report;

use super::{
    error::{CliError, CliResult},
    files,
    interrupt::interrupted,
    output::{self, Format},
    plan::live::parse_engine,
    progress,
    quantity::{self, positive},
    worker::worker,
};
use clap::{ArgGroup, ValueEnum};
use replayed::Replayed;
use report::Printed;
use std::{path::PathBuf, time::Duration};
use vitempo::{
    plan::{
        live::Engine,
        run::{
            Limit, RunLog, RunOptions, RunPlan, Summary, can_evict, memory::Eviction, replay,
            run as execute,
        },
    },
    profiler::live::Workers,
};

/// `--evict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Evict {
    /// The subgraph that was used longest ago
    Lru,
    /// The subgraph that the fewest planned queries use
    Planned,
}

/// Runs a plan on engines, as `vitempo plan` writes it (`--out plan.json`)
///
/// Example: vitempo run plan.json --live a=onnxruntime@0 --live b=rten@1 --seconds 10 --log
/// log.jsonl
///
/// Each processor is an engine in a process and on cores of its own, with one queue. Queries arrive
/// as the plan says; each takes, on arrival, the way that is expected to end first. The output has
/// violations, queries per second and latencies beside the forecast. `--replay` runs the queries of a
/// log in the simulator instead, with their measured times.
#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("source").required(true).args(["plan", "replay"])))]
pub struct RunArgs {
    /// The plan
    #[arg(value_name = "PLAN.json")]
    pub plan: Option<PathBuf>,

    /// Simulate the queries of this log instead, and compare the times
    #[arg(long, value_name = "LOG.jsonl")]
    pub replay: Option<PathBuf>,

    /// The engine of a processor, on cores of its own, instead of the plan's; may be repeated
    #[arg(long = "live", value_name = "NAME=BACKEND[@CORES]", value_parser = parse_engine, requires = "plan")]
    pub engines: Vec<Engine>,

    /// Run although the plan was made for another machine or for other engines
    #[arg(long, requires = "plan")]
    pub anywhere: bool,

    /// Number of queries, instead of those of the plan
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "plan", conflicts_with = "seconds")]
    pub queries: Option<usize>,

    /// Queries arrive for so many seconds, instead of the plan's time
    #[arg(long, value_name = "SECONDS", value_parser = quantity::above_zero, requires = "plan")]
    pub seconds: Option<f64>,

    /// Memory budget of loaded subgraphs, instead of the plan's
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, requires = "plan")]
    pub memory: Option<u64>,

    /// The subgraph that makes room for others; by default lru
    #[arg(long, value_enum, requires = "plan")]
    pub evict: Option<Evict>,

    /// Load nothing before the run; each subgraph is loaded in the first query that needs it
    #[arg(long, requires = "plan")]
    pub cold: bool,

    /// Queries that may wait for a processor; one that arrives when so many wait is refused
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = positive, requires = "plan")]
    pub bound: usize,

    /// Do not fall back to faster ways of the plan when an objective is violated repeatedly
    #[arg(long, requires = "plan")]
    pub no_fallback: bool,

    /// An engine that has not answered for so long is ended and started again: also after 100 times
    /// as long as its work is expected to take, if that is longer; ten times as long where it loads
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = quantity::above_zero, requires = "plan")]
    pub timeout: f64,

    /// Run engines in threads of this process, which hands tensors over faster; an engine that
    /// crashes ends the run, and one that hangs is waited for
    #[arg(long, requires = "plan")]
    pub in_process: bool,

    /// Keep the engines' cores busy while no query runs, so that they are as fast as when costs
    /// were measured; takes energy, and needs Linux
    #[arg(long, requires = "plan", conflicts_with = "in_process")]
    pub keep_awake: bool,

    /// Write a log of every query, as JSON lines
    #[arg(long, value_name = "LOG.jsonl", requires = "plan")]
    pub log: Option<PathBuf>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &RunArgs) -> CliResult {
    match (&args.plan, &args.replay) {
        (Some(path), _) => executed(&RunPlan::read(path)?, args),
        (None, Some(path)) => output::print(&Replayed(replay(&RunLog::read(path)?)?), args.format),
        (None, None) => Err(CliError::ours("neither a plan nor a log")),
    }
}

/// Runs the plan, and prints the summary even where the log cannot be written any more.
fn executed(plan: &RunPlan, args: &RunArgs) -> CliResult {
    let options = args.options()?;
    let has_fallbacks = plan.phases.iter().flat_map(|p| &p.tasks).any(|t| !t.fallbacks.is_empty());
    if args.no_fallback && !has_fallbacks {
        return Err(CliError::user("--no-fallback has no effect: the plan has no fallbacks")
            .hint("leave it out"));
    }
    if args.evict.is_some() && !can_evict(plan, &options) {
        let (why, hint) = match options.memory_bytes.or(plan.memory_bytes) {
            None => ("the plan has no memory budget", "add --memory, or leave --evict out"),
            Some(_) => {
                ("all subgraphs fit into the memory budget", "lower --memory, or leave --evict out")
            }
        };
        return Err(CliError::user(format!("--evict has no effect: {why}")).hint(hint));
    }
    if let Some(path) = &args.log {
        files::check(path).map_err(|error| error.about("--log"))?;
    }
    let log = execute(plan, &options, &mut |what| progress::say(what))?;
    let write = |path: &PathBuf| files::write(path, log.text()?.as_bytes());
    let written = args.log.as_ref().map_or(Ok(()), write);
    let summary = Summary::of(&log)?;
    let is_interrupted = summary.interrupted;
    let printed = Printed { log, summary };
    output::print(&printed, args.format)?;
    written?;
    printed.check()?;
    match is_interrupted {
        false => Ok(()),
        true => Err(CliError::user("interrupted: not all queries arrived")),
    }
}

impl RunArgs {
    fn options(&self) -> CliResult<RunOptions> {
        let timeout = Duration::try_from_secs_f64(self.timeout);
        let timeout = timeout.map_err(|e| CliError::user(format!("--timeout: {e}")))?;
        let keep_awake = self.keep_awake;
        let of = |command| Workers { timeout, keep_awake, ..Workers::new(command) };
        let workers = || worker().map(of);
        Ok(RunOptions {
            engines: self.engines.clone(),
            anywhere: self.anywhere,
            limit: match (self.queries, self.seconds) {
                (Some(count), _) => Limit::Queries(count),
                (None, Some(seconds)) => Limit::Time((seconds * 1e9) as u64),
                (None, None) => Limit::Plan,
            },
            memory_bytes: self.memory,
            eviction: match self.evict {
                None | Some(Evict::Lru) => Eviction::LeastRecentlyUsed,
                Some(Evict::Planned) => Eviction::LeastPlanned,
            },
            cold: self.cold,
            bound: self.bound,
            fallbacks: !self.no_fallback,
            workers: (!self.in_process).then(workers).transpose()?,
            interrupted: interrupted(),
        })
    }
}
