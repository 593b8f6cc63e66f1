//! `vitempo plan aria`: a vision foundation model within a frame deadline, planned from forecasts
//! and simulated over a trace.

mod accuracy;
mod forecast;
mod live;
mod page;
mod planned;
mod simulated;
pub mod trace;
mod video;

use super::super::{
    error::{CliError, CliResult},
    output::{self, Format},
    quantity,
};
use forecast::Models;
use std::path::{Path, PathBuf};
use vitempo::planners::aria::{
    AriaCosts, AriaDevice, AriaPlanError, Requirements, SimulationError, TraceError, plan,
};

/// Plans a vision foundation model within a frame deadline: full frames now and then on one
/// processor, moving regions in every frame on another
///
/// Example: vitempo plan aria --encoder encoder.onnx --decoder decoder.onnx --gpu gpu.vtb --npu
/// npu.vtb --target 33.3ms
#[derive(clap::Args, Debug)]
pub struct AriaArgs {
    #[command(flatten)]
    pub models: Models,

    /// Longest time a frame may take
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "33.3ms")]
    pub target: u64,

    /// Camera frames per second; a trace brings its own
    #[arg(long, value_name = "FPS", value_parser = quantity::above_zero, default_value = "30")]
    pub camera: f64,

    /// Probability that forecasts lie in the interval planned for
    #[arg(long, value_name = "SHARE", value_parser = quantity::above_zero, default_value = "0.9")]
    pub confidence: f64,

    /// Share of frames that must be in time even at the pessimistic end of that interval
    #[arg(long, value_name = "SHARE", value_parser = quantity::above_zero, default_value = "0.999")]
    pub success: f64,

    /// Most camera frames between full frames
    #[arg(long, value_name = "FRAMES", value_parser = super::super::quantity::positive, default_value = "4")]
    pub interval: usize,

    /// How much runs of the same work differ: coefficient of variation
    #[arg(long, value_name = "SHARE", default_value = "0.05")]
    pub spread: f64,

    /// Costs from a file instead of models and bundles: `costs` of what `--format json` prints
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["encoder", "decoder", "gpu", "npu"])]
    pub costs: Option<PathBuf>,

    /// Simulate ARIA, what is left of it without its parts, and what it is compared with, over this
    /// trace; without costs, on the paper's phone
    #[arg(long, value_name = "TRACE.csv")]
    pub simulate: Option<PathBuf>,

    /// Processors and their heat, for `--simulate`: `device` of what `--simulate --format json`
    /// prints
    #[arg(long, value_name = "FILE.json", requires = "simulate")]
    pub device: Option<PathBuf>,

    /// Of runs that differ, and of systems that serve regions in no order
    #[arg(long, default_value_t = 0, requires = "simulate")]
    pub seed: u64,

    /// Write a page with tables and plots into this folder
    #[arg(long, value_name = "FOLDER", requires = "simulate")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub live: live::LiveArgs,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

impl From<AriaPlanError> for CliError {
    fn from(error: AriaPlanError) -> Self {
        Self::user(error)
    }
}

impl From<SimulationError> for CliError {
    fn from(error: SimulationError) -> Self {
        Self::user(error)
    }
}

impl From<TraceError> for CliError {
    fn from(error: TraceError) -> Self {
        Self::user(error).hint("`vitempo plan trace --out walk.csv` writes one")
    }
}

pub fn run(args: &AriaArgs) -> CliResult {
    let (shipped, mut device) = AriaCosts::paper_phone()?;
    let costs = match (&args.costs, &args.models.encoder) {
        (Some(path), _) => read(path, "costs")?,
        (None, Some(encoder)) => args.models.costs(encoder)?,
        (None, None) if args.simulate.is_some() => shipped,
        (None, None) => {
            return Err(CliError::user("nothing to plan").hint(
                "give --encoder with --gpu and \
                --npu, or --costs, or --simulate for the paper's phone",
            ));
        }
    };
    if let Some(path) = &args.device {
        device = read::<AriaDevice>(path, "device")?;
    }
    let requirements = args.requirements();
    let plan = plan(&costs, &requirements)?;
    let stage = simulated::Stage { costs: &costs, device: &device, requirements, plan: &plan };
    if !args.live.engines.is_empty() {
        return output::print(&live::run(&args.live, &args.models, &stage)?, args.format);
    }
    match &args.simulate {
        None => output::print(&planned::Planned { plan: &plan, costs: &costs }, args.format),
        Some(trace) => simulated::run(args, trace, &stage),
    }
}

impl AriaArgs {
    fn requirements(&self) -> Requirements {
        Requirements {
            target_ns: self.target as f64,
            frame_ns: 1e9 / self.camera,
            confidence: self.confidence,
            share: self.success,
            interval_frames: self.interval as u64,
            spread: self.spread,
        }
    }
}

/// Part of a JSON file: the whole, or what stands under `name`.
fn read<T: serde::de::DeserializeOwned>(path: &Path, name: &str) -> CliResult<T> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| super::super::error::io_error("read", path, &e))?;
    let wrong = |e: serde_json::Error| {
        CliError::user(format!("{}: {e}", path.display()))
            .hint(format!("`vitempo plan aria --format json` prints such `{name}`"))
    };
    let mut value: serde_json::Value = serde_json::from_str(&text).map_err(wrong)?;
    if let Some(part) = value.get_mut(name) {
        value = part.take();
    }
    serde_json::from_value(value).map_err(wrong)
}
