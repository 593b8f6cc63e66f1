//! Which engine runs, how, and on which machine: what several verbs ask for.

use crate::verbs::{
    error::{CliError, CliResult},
    progress, quantity,
    worker::worker,
};
use clap::ValueEnum;
use std::path::PathBuf;
use vitempo::graph::{MemoryFormat, Precision, Processor, Setting};
use vitempo::profiler::{
    InputDistribution, RunOptions, Target,
    remote::{self, AgentCommand, Remote},
};

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
    /// Measure at a `vitempo agent` that this command starts, e.g. 'ssh board vitempo-agent'
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    pub remote: Option<AgentCommand>,

    /// Agents have no secret
    #[arg(long, hide = true, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Tries to reach the agent again after the connection broke, with growing pauses
    #[arg(
        long,
        value_name = "N",
        value_parser = quantity::positive,
        default_value = "10",
        requires = "remote"
    )]
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
    #[arg(long, default_value = "1", value_parser = quantity::positive)]
    pub threads: usize,

    /// Logical cores to pin to, e.g. 1,2; by default the last ones
    #[arg(long, value_delimiter = ',', value_parser = quantity::core, value_name = "LIST")]
    pub cores: Vec<usize>,

    /// Precision to compute in
    #[arg(long, default_value = "f32", value_parser = parse_precision)]
    pub precision: Precision,

    /// Memory format asked of the engine; by default its own choice
    #[arg(long, value_enum)]
    pub memory_format: Option<Layout>,

    /// Setting of the engine: cuda-graph, tf32 or no-tf32; may be repeated
    #[arg(long = "setting", value_name = "NAME")]
    pub settings: Vec<Setting>,

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
            settings: self.settings.clone(),
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
    pub fn target(&self) -> CliResult<Target> {
        if self.secret_file.is_some() {
            return Err(CliError::user("agents have no secret (--secret-file)")
                .hint("ssh and adb authenticate: --remote 'ssh board vitempo agent'"));
        }
        let Some(command) = self.remote.clone() else { return Ok(worker()?.into()) };
        Ok(Remote::new(command, self.remote_tries, |notice| progress::say(notice)).into())
    }
}
