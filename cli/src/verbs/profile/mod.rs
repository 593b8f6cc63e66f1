//! `vitempo profile`: measures models on an engine, end to end and operator by operator, and keeps
//! every model run as soon as it is there.

mod engine;
pub mod report;

pub use engine::{Device, EngineArgs, Layout, RemoteArgs, RunArgs, parse_precision};

use super::{
    error::{CliError, CliResult},
    interrupt::interrupted,
    models::{SizedModelArgs, asked, none_left_out},
    output::{self, Format},
    progress, quantity,
};
use report::{Profiled, RETRY_FAILED};
use std::{path::PathBuf, time::Duration};
use vitempo::campaign::{self, Campaign, CampaignError, NothingMeasured, Outcome, Repeats};
use vitempo::graph::OpKind;
use vitempo::models::Models;
use vitempo::profiler::{LoadSpec, MemoryRuns, Progress, Sweep, Target, energy::Meter};

/// Measures models end to end and operator by operator
///
/// Example: vitempo profile models/ --backend onnxruntime --threads 1 --budget 30m --out data/
///
/// The same command goes on where an interrupted one stopped. Nothing else should run on the
/// machine meanwhile.
#[derive(clap::Args, Debug)]
#[command(mut_arg("remote", |remote| remote.conflicts_with("library")))]
pub struct ProfileArgs {
    #[command(flatten)]
    pub models: SizedModelArgs,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub remote: RemoteArgs,

    /// Dataset folder the measurements go to; made if it is not there
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    /// Measure operators of these kinds on their own, instead of the models: each that an engine
    /// would run for them, e.g. gelu_tanh,einsum
    #[arg(long, value_delimiter = ',', value_name = "KINDS", value_parser = parse_kind)]
    pub ops: Vec<OpKind>,

    /// How often the sweep goes round all models; two rounds give the noise floor
    #[arg(long, default_value = "1", value_parser = quantity::positive)]
    pub rounds: usize,

    /// Time budget, e.g. 90s, 30m, 2h; no model run starts that is expected to exceed it
    #[arg(long, value_parser = quantity::duration_or_seconds, value_name = "TIME")]
    pub budget: Option<Duration>,

    /// Time limit of one model run; a run that exceeds it has failed
    #[arg(
        long,
        alias = "visit-timeout",
        value_parser = quantity::duration_or_seconds,
        value_name = "TIME",
        default_value = "5m"
    )]
    pub run_timeout: Duration,

    /// Fewest end-to-end samples of a model run; by default no more than --max-repeats
    #[arg(long, value_parser = quantity::positive)]
    pub min_repeats: Option<usize>,

    /// Most end-to-end samples of a model run; by default no fewer than --min-repeats
    #[arg(long, value_parser = quantity::positive)]
    pub max_repeats: Option<usize>,

    /// Repeats of a model run in which the operators are timed
    #[arg(long, value_parser = quantity::positive)]
    pub profiled_repeats: Option<usize>,

    /// Measure memory: each run of a model is followed by a short one in a process that runs nothing
    /// else (also, the default), or there are only such runs (alone)
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, default_missing_value = "also")]
    #[arg(conflicts_with_all = ["ops", "beside"])]
    pub peak_memory: Option<PeakMemory>,

    /// Measure while another core runs a load: stream, stream:2GB/s, stream:64MiB, matmul or
    /// model:FILE@ENGINE. Rows with a load are an environment of their own
    #[arg(long, value_name = "LOAD", conflicts_with = "remote")]
    pub beside: Option<LoadSpec>,

    /// Logical cores of the load; by default the first one that is not measured
    #[arg(long, value_delimiter = ',', value_parser = quantity::core, value_name = "LIST",
          requires = "beside")]
    pub beside_cores: Vec<usize>,

    /// Repeat model runs that failed in an earlier session
    #[arg(long, conflicts_with = "session")]
    pub retry_failed: bool,

    /// Name of this session, stored in every row; earlier sessions do not count as done then
    #[arg(long, alias = "sitting", value_name = "NAME", value_parser = parse_session)]
    pub session: Option<String>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `--peak-memory`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum PeakMemory {
    Also,
    Alone,
}

impl PeakMemory {
    fn runs(when: Option<Self>) -> MemoryRuns {
        match when {
            None => MemoryRuns::Never,
            Some(Self::Also) => MemoryRuns::Also,
            Some(Self::Alone) => MemoryRuns::Alone,
        }
    }
}

/// Reads `--ops`.
fn parse_kind(text: &str) -> Result<OpKind, String> {
    match OpKind::from(text.to_owned()) {
        OpKind::Unsupported(_) => Err(format!(
            "`{text}` is no operator kind; `vitempo inspect MODEL` shows the kinds of a model"
        )),
        kind => Ok(kind),
    }
}

/// Reads `--session`.
fn parse_session(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a session needs a name".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Runs a campaign with a progress bar, until it is done or interrupted.
pub fn run_campaign(campaign: Campaign<'_>) -> Result<Outcome, CampaignError> {
    let total = campaign.sweep.models.len() * campaign.sweep.protocol.protocol.rounds;
    let bar = progress::bar(total as u64, "profiling");
    let outcome = campaign.run(&mut |p| show(&bar, p), &interrupted());
    bar.finish_and_clear();
    outcome
}

fn show(bar: &indicatif::ProgressBar, p: &Progress<'_>) {
    progress::advance(bar, p.done, p.total);
    let failed = if p.failed > 0 { format!("{} failed  ", p.failed) } else { String::new() };
    bar.set_message(format!("{failed}{}", p.model.unwrap_or_default()));
}

pub fn run(args: &ProfileArgs) -> CliResult {
    let models = args.models.read_some_onnx()?;
    let asked = asked(&models);
    let Models { read, unreadable } = models;
    let repeats = Repeats {
        rounds: args.rounds,
        seed: args.engine.run.seed,
        min: args.min_repeats,
        max: args.max_repeats,
        profiled: args.profiled_repeats,
    };
    let target = args.remote.target()?;
    let options = args.engine.run.options();
    let engine = (args.engine.backend.as_str(), &options);
    campaign::check_library(&target, engine.0, &options)?;
    let protocol = repeats.protocol()?;
    let named = read.len();
    let models = campaign::measured(read, &args.ops, &target, engine)?;
    if args.ops.is_empty() && models.len() < named {
        progress::say(format!(
            "{} of {named} models left out: the same model by name and graph is measured once",
            named - models.len()
        ));
    }
    let beside = args
        .beside
        .as_ref()
        .map(|load| campaign::beside(load, &args.beside_cores, &args.models.read_options()))
        .transpose()?;
    let sweep = Sweep {
        models,
        backend: args.engine.backend.clone(),
        options,
        protocol,
        only_round: None,
        budget: args.budget,
        run_timeout: args.run_timeout,
        target,
        session: args.session.clone().unwrap_or_else(campaign::session_name),
        beside,
        memory: PeakMemory::runs(args.peak_memory),
    };
    if let (Target::Local(_), Err(reason)) = (&sweep.target, Meter::find(sweep.options.processor)) {
        progress::say(format!("energy is not recorded: {reason}"));
    }
    let campaign = Campaign {
        sweep,
        out: &args.out,
        retry_failed: args.retry_failed,
        resume: args.session.is_none(),
    };
    let outcome = run_campaign(campaign)?;
    if outcome.made_otherwise > 0 {
        progress::say(format!(
            "{} model runs that were there already were made with another seed or other repeats; \
             --session NAME measures these models again",
            outcome.made_otherwise
        ));
    }
    let report = Profiled { outcome: &outcome, left_out: &unreadable, out: &args.out };
    output::print(&report, args.format)?;
    match (outcome.nothing_measured(), unreadable.len()) {
        (Some(nothing @ NothingMeasured::Earlier(_)), _) => {
            Err(CliError::user(nothing).hint(RETRY_FAILED))
        }
        (Some(nothing), _) => Err(CliError::user(nothing)),
        (None, count) => none_left_out(count, asked),
    }
}
