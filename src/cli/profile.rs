//! `vitempo profile`: measures models on an engine, end to end and operator by operator, and keeps
//! every visit as soon as it is there.

use super::{
    error::{CliError, CliResult},
    models::{Model, ModelArgs},
    operators,
    output::{self, Format, Report, Table},
    progress,
};
use clap::ValueEnum;
use serde_json::json;
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use vitempo_datasets::Store;
use vitempo_graph::{Environment, MemoryFormat, OpKind, Precision, Processor, Status};
use vitempo_profiler::{
    Hooks, InputDistribution, Place, Progress, RunOptions, Source, Summary, Sweep, SweepModel,
    VisitProtocol, WorkerCommand,
    energy::Meter,
    remote::{self, Address, Remote, Secret},
};

/// Measures models end to end and operator by operator
///
/// Example: vitempo profile models/ --backend onnxruntime --threads 1 --budget 30m --out data/
///
/// The same command goes on where an interrupted one stopped. Nothing else should run on the
/// machine meanwhile.
#[derive(clap::Args, Debug)]
pub struct ProfileArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub remote: RemoteArgs,

    /// Dataset folder the measurements go to; made if it is not there
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    /// Measure operators of these kinds on their own, instead of the models: each that an engine
    /// would run for them, e.g. gelu_tanh,einsum
    #[arg(long, value_delimiter = ',', value_name = "KINDS", value_parser = super::operators::parse_kind)]
    pub ops: Vec<OpKind>,

    /// How often the sweep goes round all models; two rounds give the noise floor
    #[arg(long, default_value = "1", value_parser = parse_positive)]
    pub rounds: usize,

    /// Stop in time: no visit is begun that would end after this, e.g. 90s, 30m, 2h
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub budget: Option<Duration>,

    /// A visit to one model that takes longer than this has failed
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "5m")]
    pub visit_timeout: Duration,

    /// Fewest end-to-end samples of a visit
    #[arg(long, value_parser = parse_positive)]
    pub min_repeats: Option<usize>,

    /// Most end-to-end samples of a visit
    #[arg(long, value_parser = parse_positive)]
    pub max_repeats: Option<usize>,

    /// Runs of a visit in which the operators are timed
    #[arg(long, value_parser = parse_positive)]
    pub profiled_repeats: Option<usize>,

    /// Visit models again that failed in an earlier sitting
    #[arg(long, conflicts_with = "sitting")]
    pub retry_failed: bool,

    /// Name of this sitting, kept with every row
    #[arg(long)]
    pub sitting: Option<String>,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Which engine runs, and how.
#[derive(clap::Args, Clone, Debug)]
pub struct EngineArgs {
    /// Inference engine; `vitempo backends list` shows them
    #[arg(long, default_value = "rten", value_name = "NAME")]
    pub backend: String,

    #[command(flatten)]
    pub run: RunArgs,
}

/// On which machine engines run.
#[derive(clap::Args, Clone, Debug)]
pub struct RemoteArgs {
    /// Measure at a `vitempo agent`: HOST:PORT, or a command whose stdin and stdout lead to it,
    /// e.g. 'ssh board vitempo-agent --stdio'
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, conflicts_with = "library")]
    pub remote: Option<Address>,

    /// File with the agent's secret; without it the variable VITEMPO_AGENT_SECRET
    #[arg(long, value_name = "FILE", requires = "remote")]
    pub secret_file: Option<PathBuf>,

    /// Tries to reach the agent again after the line was cut, ever longer apart
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "10")]
    pub remote_tries: usize,
}

/// How an engine runs.
#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// The engine's shared library, where it is not found by itself
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,

    /// Processor to run on
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    pub device: Device,

    /// Threads that compute inside one operator
    #[arg(long, default_value = "1", value_parser = parse_positive)]
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

    /// Seed of inputs, of weights that files lack and of the order of visits
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

pub fn parse_positive(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| "expected a whole number above zero".to_owned())
}

pub fn parse_precision(text: &str) -> Result<Precision, String> {
    [Precision::F32, Precision::F16, Precision::Bf16, Precision::I8]
        .into_iter()
        .find(|p| p.name() == text || (text == "int8" && *p == Precision::I8))
        .ok_or_else(|| "expected f32, bf16, f16 or int8".to_owned())
}

fn parse_address(text: &str) -> Result<Address, String> {
    text.parse().map_err(|e: remote::AddressError| e.to_string())
}

fn parse_inputs(text: &str) -> Result<InputDistribution, String> {
    text.parse().map_err(|e: vitempo_profiler::inputs::ParseDistributionError| e.to_string())
}

/// `90s`, `30m`, `2h`; a plain number is seconds. At most a century or so: what is longer would not
/// fit behind the present moment.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let scale = match &text[number_end..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("`{unit}` is no unit of time; write e.g. 90s, 30m or 2h")),
    };
    let seconds =
        text[..number_end].parse::<f64>().map_err(|_| "write e.g. 90s, 30m or 2h".to_owned())?
            * scale;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| time.as_secs() <= u64::from(u32::MAX))
        .ok_or_else(|| "too long".to_owned())
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
    fn place(&self) -> CliResult<Place> {
        let Some(address) = self.remote.clone() else { return Ok(worker()?.into()) };
        let secret = match (&address, super::agent::secret(self.secret_file.as_deref())?) {
            (Address::Command(_), _) => Secret::none(),
            (Address::Tcp(_), Some(secret)) => secret,
            (Address::Tcp(_), None) => {
                let error = CliError::user(format!(
                    "the agent at {address} has a secret, and none is known here (--remote)"
                ));
                return Err(error.hint(format!(
                    "give what the agent was given: {}, or --secret-file FILE",
                    remote::SECRET_VARIABLE
                )));
            }
        };
        Ok(Remote::new(address, secret, self.remote_tries, |notice| progress::say(notice)).into())
    }
}

/// Starts this program again as a worker.
pub fn worker() -> CliResult<WorkerCommand> {
    WorkerCommand::this_program(["worker"]).map_err(CliError::ours)
}

/// Set by Ctrl-C and by SIGTERM.
pub fn interrupted() -> Arc<AtomicBool> {
    static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let handler = move || {
            if seen.swap(true, Ordering::SeqCst) {
                std::process::exit(1);
            }
            progress::say("stopping; what was measured is kept (once more to stop at once)");
        };
        if let Err(e) = ctrlc::set_handler(handler) {
            progress::say(format!("warning: Ctrl-C will not stop gently: {e}"));
        }
        flag
    });
    Arc::clone(&FLAG)
}

/// Refuses to go on after [`interrupted`].
pub fn go_on() -> CliResult<()> {
    if interrupted().load(Ordering::Relaxed) { Err(CliError::user("interrupted")) } else { Ok(()) }
}

/// A sweep to be kept in a dataset.
pub struct KeptSweep<'a> {
    pub sweep: Sweep,
    pub out: &'a Path,
    pub retry_failed: bool,
    /// Visits of earlier sittings count as done.
    pub resume: bool,
}

/// What a sweep brought.
pub struct Outcome {
    pub environment: Environment,
    pub summary: Summary,
}

impl KeptSweep<'_> {
    /// Measures, saving every visit; the journal is folded into the tables at the end, however the
    /// sweep ended.
    pub fn run(self) -> CliResult<Outcome> {
        let sweep = &self.sweep;
        let environment = sweep.place.probe(&sweep.backend, &sweep.options)?;
        let mut store = Store::open_or_create(self.out)?;
        store.warnings().iter().for_each(|w| progress::say(format!("warning: {w}")));
        for model in &sweep.models {
            store.append_model(&model.identity, &model.graph)?;
        }
        let total = sweep.models.len() * sweep.protocol.protocol.rounds;
        let bar = progress::bar(total as u64, "profiling");
        let environment_id = environment.id();
        let sitting = (!self.resume).then_some(sweep.sitting.as_str());
        let store = RefCell::new(store);
        let done = |model: &_, round| match store.borrow().status(
            &environment_id,
            model,
            round,
            sitting,
        ) {
            Some(Status::Failed(_)) => !self.retry_failed,
            status => status.is_some(),
        };
        let result = sweep.run(Hooks {
            done: &done,
            sink: &mut |profile| {
                store
                    .borrow_mut()
                    .append(&operators::without_e2e(profile))
                    .map_err(|e| e.to_string())
            },
            progress: &mut |p| show(&bar, p),
            interrupted: &interrupted(),
        });
        bar.finish_and_clear();
        store.into_inner().compact()?;
        Ok(Outcome { environment, summary: result? })
    }
}

fn show(bar: &indicatif::ProgressBar, progress: &Progress<'_>) {
    bar.set_length(progress.total as u64);
    bar.set_position(progress.done as u64);
    let failed =
        if progress.failed > 0 { format!("{} failed  ", progress.failed) } else { String::new() };
    bar.set_message(format!("{failed}{}", progress.model.unwrap_or_default()));
}

/// A sitting's default name: when it began.
pub fn sitting_name() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("sitting-{seconds}")
}

/// Models to be visited, each once, however often and by whatever path it was named.
pub fn sweep_models(models: Vec<Model>) -> Vec<SweepModel> {
    let mut seen = std::collections::BTreeSet::new();
    let mut new =
        |m: &Model| seen.insert((m.identity.architecture.clone(), m.identity.name.clone()));
    let sweep_model = |m: Model| SweepModel {
        identity: m.identity,
        graph: m.graph,
        source: Source::File(m.path),
    };
    models.into_iter().filter(|m| new(m)).map(sweep_model).collect()
}

pub fn run(args: &ProfileArgs) -> CliResult {
    let (models, unreadable) = args.models.read_all()?;
    for (path, error) in &unreadable {
        progress::say(format!("warning: left out {}: {error}", path.display()));
    }
    let mut protocol = VisitProtocol::default();
    let p = &mut protocol.protocol;
    p.rounds = args.rounds;
    p.seed = args.engine.run.seed;
    p.min_repeats = args.min_repeats.unwrap_or(p.min_repeats);
    p.max_repeats = args.max_repeats.unwrap_or(p.max_repeats).max(p.min_repeats);
    protocol.profiled_repeats = args.profiled_repeats.unwrap_or(protocol.profiled_repeats);
    let place = args.remote.place()?;
    let options = args.engine.run.options();
    let models = if args.ops.is_empty() {
        sweep_models(models)
    } else {
        operators::models(&models, &args.ops, &place.probe(&args.engine.backend, &options)?)?
    };
    let sweep = Sweep {
        models,
        backend: args.engine.backend.clone(),
        options,
        protocol,
        budget: args.budget,
        visit_timeout: args.visit_timeout,
        place,
        sitting: args.sitting.clone().unwrap_or_else(sitting_name),
    };
    if let (Place::Here(_), Err(reason)) = (&sweep.place, Meter::find(sweep.options.processor)) {
        progress::say(format!("energy is not recorded: {reason}"));
    }
    let kept = KeptSweep {
        sweep,
        out: &args.out,
        retry_failed: args.retry_failed,
        resume: args.sitting.is_none(),
    };
    let outcome = kept.run()?;
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
        let mut table = Table::new(&["Visits", "Count"], 1);
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
            text += "hint: the same command goes on with what is left\n";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_units() {
        for (text, seconds) in
            [("90s", 90.0), ("30m", 1800.0), ("2h", 7200.0), ("1.5", 1.5), ("250ms", 0.25)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "h", "3 parsecs", "1e999h", "-3s", "9999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
