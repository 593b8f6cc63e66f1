//! `vitempo profile`: measures models on an engine, end to end and operator by operator, and stores
//! every model run as soon as it ends.

use super::{
    error::{CliError, CliResult},
    interrupt::interrupted,
    models::ModelArgs,
    output::{self, Format, Report, Table},
    progress, quantity,
    worker::worker,
};
use clap::ValueEnum;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use vitempo::campaign::{self, Campaign, CampaignError, Outcome};
use vitempo::graph::{MemoryFormat, OpKind, Precision, Processor};
use vitempo::profiler::{
    InputDistribution, Progress, RunOptions, RunProtocol, Sweep, Target,
    energy::Meter,
    remote::{self, AgentCommand, Remote},
};

/// Measures models end to end and operator by operator
///
/// Example: vitempo profile models/ --backend onnxruntime --threads 1 --budget 30m --out data/
///
/// The same command continues an interrupted one. Nothing else should run on the machine.
#[derive(clap::Args, Debug)]
pub struct ProfileArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub remote: RemoteArgs,

    /// Dataset folder for the measurements; created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    /// Measure the operators of these kinds on their own, instead of the models that contain them,
    /// e.g. gelu_tanh,einsum
    #[arg(long, value_delimiter = ',', value_name = "KINDS", value_parser = parse_kind)]
    pub ops: Vec<OpKind>,

    /// Number of measurements of each model, in rounds over all models; two rounds give the noise
    /// floor
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

    /// Fewest end-to-end samples of a model run
    #[arg(long, value_parser = quantity::positive)]
    pub min_repeats: Option<usize>,

    /// Most end-to-end samples of a model run
    #[arg(long, value_parser = quantity::positive)]
    pub max_repeats: Option<usize>,

    /// Repeats of a model run in which the operators are timed
    #[arg(long, value_parser = quantity::positive)]
    pub profiled_repeats: Option<usize>,

    /// Repeat model runs that failed in an earlier session
    #[arg(long, conflicts_with = "session")]
    pub retry_failed: bool,

    /// Name of this session, stored in every row
    #[arg(long, alias = "sitting")]
    pub session: Option<String>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// The engine and its settings.
#[derive(clap::Args, Clone, Debug)]
pub struct EngineArgs {
    /// Inference engine; `vitempo backends list` shows them
    #[arg(long, default_value = "rten", value_name = "NAME")]
    pub backend: String,

    #[command(flatten)]
    pub run: RunArgs,
}

/// The machine on which engines run.
#[derive(clap::Args, Clone, Debug)]
pub struct RemoteArgs {
    /// Measure on the machine of an agent, which this command starts, e.g. 'ssh board
    /// vitempo-agent'
    #[arg(long, value_name = "COMMAND", value_parser = parse_command, conflicts_with = "library")]
    pub remote: Option<AgentCommand>,

    /// Agents have no secret
    #[arg(long, hide = true, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Tries to reach the agent again after the connection broke, with growing pauses
    #[arg(long, value_name = "N", value_parser = quantity::positive, default_value = "10")]
    pub remote_tries: usize,
}

/// The settings of an engine.
#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// The engine's shared library, if the search does not find it
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,

    /// Processor to run on
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    pub device: Device,

    /// Threads that compute inside one operator
    #[arg(long, default_value = "1", value_parser = quantity::positive)]
    pub threads: usize,

    /// Logical cores to pin to, e.g. 1,2; by default the last ones
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub cores: Vec<usize>,

    /// Precision to compute in
    #[arg(long, default_value = "f32", value_parser = parse_precision)]
    pub precision: Precision,

    /// Memory format asked of the engine; by default its own choice
    #[arg(long, value_enum)]
    pub memory_format: Option<Layout>,

    /// Values of float inputs: uniform(LOW,HIGH), normal(SCALE) or constant(VALUE)
    #[arg(long, value_parser = parse_inputs, default_value = "uniform(-1,1)")]
    pub input_distribution: InputDistribution,

    /// Seed of inputs, of weights that files lack and of the order of model runs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Device {
    Cpu,
    Gpu,
    Npu,
}

impl Device {
    pub fn processor(self) -> Processor {
        match self {
            Self::Cpu => Processor::Cpu,
            Self::Gpu => Processor::Gpu,
            Self::Npu => Processor::Npu,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Layout {
    ChannelsFirst,
    ChannelsLast,
    Blocked,
}

impl Layout {
    pub fn format(self) -> MemoryFormat {
        match self {
            Self::ChannelsFirst => MemoryFormat::ChannelsFirst,
            Self::ChannelsLast => MemoryFormat::ChannelsLast,
            Self::Blocked => MemoryFormat::Blocked,
        }
    }
}

/// Reads `--ops`.
fn parse_kind(text: &str) -> Result<OpKind, String> {
    match OpKind::from(text.to_owned()) {
        OpKind::Unsupported(_) => Err(format!(
            "`{text}` is not an operator kind; `vitempo inspect MODEL` shows the kinds of a model"
        )),
        kind => Ok(kind),
    }
}

pub fn parse_precision(text: &str) -> Result<Precision, String> {
    [Precision::F32, Precision::F16, Precision::Bf16, Precision::I8]
        .into_iter()
        .find(|p| p.name() == text || (text == "int8" && *p == Precision::I8))
        .ok_or_else(|| "expected f32, bf16, f16 or int8".to_owned())
}

fn parse_command(text: &str) -> Result<AgentCommand, String> {
    text.parse().map_err(|e: remote::AgentCommandError| e.to_string())
}

fn parse_inputs(text: &str) -> Result<InputDistribution, String> {
    text.parse().map_err(|e: vitempo::profiler::inputs::ParseDistributionError| e.to_string())
}

impl RunArgs {
    pub fn options(&self) -> RunOptions {
        RunOptions {
            threads: self.threads,
            cores: self.cores.clone(),
            processor: self.device.processor(),
            precision: self.precision,
            memory_format: self.memory_format.map(Layout::format),
            inputs: self.input_distribution,
            seed: self.seed,
            library: self.library.clone(),
        }
    }
}

impl RemoteArgs {
    /// This machine, or the agent's.
    fn target(&self) -> CliResult<Target> {
        if self.secret_file.is_some() {
            return Err(CliError::user("agents have no secret (--secret-file)")
                .hint("ssh and adb authenticate: --remote 'ssh board vitempo agent'"));
        }
        let Some(command) = self.remote.clone() else { return Ok(worker()?.into()) };
        Ok(Remote::new(command, self.remote_tries, |notice| progress::say(notice)).into())
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

fn show(bar: &indicatif::ProgressBar, progress: &Progress<'_>) {
    bar.set_length(progress.total as u64);
    bar.set_position(progress.done as u64);
    let failed =
        if progress.failed > 0 { format!("{} failed  ", progress.failed) } else { String::new() };
    bar.set_message(format!("{failed}{}", progress.model.unwrap_or_default()));
}

pub fn run(args: &ProfileArgs) -> CliResult {
    let models = args.models.read_some()?;
    let mut protocol = RunProtocol::default();
    let p = &mut protocol.protocol;
    p.rounds = args.rounds;
    p.seed = args.engine.run.seed;
    p.min_repeats = args.min_repeats.unwrap_or(p.min_repeats);
    p.max_repeats = args.max_repeats.unwrap_or(p.max_repeats).max(p.min_repeats);
    protocol.profiled_repeats = args.profiled_repeats.unwrap_or(protocol.profiled_repeats);
    let target = args.remote.target()?;
    let options = args.engine.run.options();
    let models = if args.ops.is_empty() {
        campaign::sweep_models(models)
    } else {
        campaign::operator_models(
            &models,
            &args.ops,
            &target.probe(&args.engine.backend, &options)?,
        )?
    };
    let sweep = Sweep {
        models,
        backend: args.engine.backend.clone(),
        options,
        protocol,
        budget: args.budget,
        run_timeout: args.run_timeout,
        target,
        session: args.session.clone().unwrap_or_else(campaign::session_name),
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
    let finished = outcome.summary.measured + outcome.summary.skipped > 0;
    output::print(&Profiled { outcome: &outcome, out: &args.out }, args.format)?;
    match (finished, outcome.summary.failed.first()) {
        (false, Some((model, reason))) => {
            Err(CliError::user(format!("no model could be measured; `{model}`: {reason}")))
        }
        _ => Ok(()),
    }
}

struct Profiled<'a> {
    outcome: &'a Outcome,
    out: &'a Path,
}

impl Report for Profiled<'_> {
    fn table(&self) -> String {
        let s = &self.outcome.summary;
        let mut text =
            format!("{}\nkept in {}\n\n", self.outcome.environment.describe(), self.out.display());
        let mut table = Table::new(&["Model runs", "Count"], 1);
        for (what, count) in [
            ("measured", s.measured),
            ("there already", s.skipped),
            ("failed", s.failed.len()),
            ("left", s.left),
        ] {
            table.row([what.to_owned(), count.to_string()]);
        }
        text += &table.to_text();
        for (model, reason) in &s.failed {
            text += &format!("failed: {model}: {reason}\n");
        }
        for (reason, n) in &s.without_peak_memory {
            text += &format!("no peak memory ({n} x): {reason}\n");
        }
        if s.left > 0 {
            text += "hint: the same command continues with the missing ones\n";
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let s = &self.outcome.summary;
        let mut table =
            Table::new(&["environment", "measured", "skipped", "failed", "left", "elapsed_s"], 1);
        let counts = [s.measured, s.skipped, s.failed.len(), s.left].map(|n| n.to_string());
        table.row(
            std::iter::once(self.outcome.environment.id())
                .chain(counts)
                .chain([format!("{:.1}", s.elapsed.as_secs_f64())]),
        );
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let s = &self.outcome.summary;
        let failed: Vec<_> = s
            .failed
            .iter()
            .map(|(model, reason)| json!({"model": model, "reason": reason}))
            .collect();
        Ok(
            json!({"environment": self.outcome.environment.id(), "dataset": self.out, "measured": s.measured, "skipped": s.skipped,
            "failed": failed, "without_peak_memory": s.without_peak_memory, "left": s.left, "interrupted": s.interrupted, "elapsed_s": s.elapsed.as_secs_f64()}),
        )
    }
}
