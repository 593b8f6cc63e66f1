//! `vitempo plan aria`: a vision foundation model within a frame deadline, planned from forecasts
//! and simulated over a trace.

mod live;
mod models;
mod planned;
mod simulated;
pub mod trace;

use super::super::{
    error::{CliError, CliResult, io_error},
    output::{self, Format},
    progress,
    quantity::{self, positive},
};
use models::Models;
use std::path::PathBuf;
use vitempo::plan::aria::{AriaFileError, AriaModels, Scenario, read_costs, read_device};
use vitempo::planners::aria::{
    AriaCosts, AriaDevice, AriaPlanError, Requirements, SimulationError, TraceError,
};

/// Targets that people round up to the camera's period are no longer than it.
const MOST_CAMERA_FRAMES: f64 = 1.01;

/// Plans a vision foundation model within a frame deadline: full frames at intervals on one
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

    /// Camera frames per second; a trace has its own rate
    #[arg(long, value_name = "FPS", value_parser = quantity::above_zero, default_value = "30", conflicts_with = "simulate")]
    pub camera: f64,

    /// Probability that the true latencies lie in the forecast interval of the plan
    #[arg(long, value_name = "SHARE", value_parser = quantity::above_zero, default_value = "0.9")]
    pub confidence: f64,

    /// Share of frames that must be in time even at the pessimistic end of that interval
    #[arg(long, value_name = "SHARE", value_parser = quantity::above_zero, default_value = "0.999")]
    pub success: f64,

    /// Largest number of camera frames between full frames
    #[arg(long, value_name = "FRAMES", value_parser = positive, default_value = "4")]
    pub interval: usize,

    /// Spread of runs of the same work: coefficient of variation; a device has its own
    #[arg(long, value_name = "SHARE", default_value = "0.05", conflicts_with = "simulate")]
    pub spread: f64,

    /// Costs from a file instead of models and bundles: the `costs` that `--format json` prints
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["encoder", "decoder", "gpu", "npu"])]
    pub costs: Option<PathBuf>,

    /// Simulate ARIA, ARIA without some of its parts, and the baselines over this trace; without
    /// costs, on the paper's phone
    #[arg(long, value_name = "TRACE.csv")]
    pub simulate: Option<PathBuf>,

    /// Processors and their thermal model, for `--simulate`: the `device` that `--simulate --format
    /// json` prints
    #[arg(long, value_name = "FILE.json", requires = "simulate", conflicts_with = "engines")]
    pub device: Option<PathBuf>,

    /// Seed of the spread of runs, and of the order of regions in systems that have no scheduler
    #[arg(long, default_value_t = 0, requires = "simulate", conflicts_with = "engines")]
    pub seed: u64,

    /// Write a page with tables and plots into this folder
    #[arg(long, value_name = "FOLDER", requires = "simulate", conflicts_with = "engines")]
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

impl From<AriaFileError> for CliError {
    fn from(error: AriaFileError) -> Self {
        match error {
            AriaFileError::Read { path, source } => io_error("read", &path, &source),
            AriaFileError::Write { path, source } => io_error("write", &path, &source),
            AriaFileError::Flow { .. } | AriaFileError::Format { part: "flow", .. } => Self::user(
                error,
            )
            .hint("`vitempo-studies aria FOLDER --flow STEPS --flow-out FILE.json` writes a flow"),
            AriaFileError::Format { part, .. } => Self::user(error)
                .hint(format!("`vitempo plan aria --format json` prints such `{part}`")),
            other => Self::user(other),
        }
    }
}

pub fn run(args: &AriaArgs) -> CliResult {
    let to_run = !args.live.engines.is_empty();
    let models = args.models.encoder.as_deref().map(|path| args.models.read(path, to_run));
    let models = models.transpose()?;
    let (costs, device) = args.costs(models.as_ref())?;
    let scenario = Scenario::new(costs, device, args.requirements())?;
    args.check_pace(to_run)?;
    if to_run {
        let models = models.ok_or_else(|| CliError::user("--live needs --encoder"))?;
        return output::print(&live::run(&args.live, &models, &scenario)?, args.format);
    }
    match &args.simulate {
        None => output::print(&planned::Planned(&scenario), args.format),
        Some(trace) => simulated::run(args, trace, &scenario),
    }
}

impl AriaArgs {
    /// A frame that takes longer than the camera's period keeps the next one waiting: a run shows
    /// which frames are then dropped, a plan has no room for it.
    fn check_pace(&self, to_run: bool) -> CliResult {
        let camera_frames = self.target as f64 * self.camera / 1e9;
        if self.simulate.is_some() || camera_frames < MOST_CAMERA_FRAMES {
            return Ok(());
        }
        let late = format!("--target is {camera_frames:.1} times the camera's period");
        if to_run {
            progress::say(format!(
                "warning: {late}: a frame may take all of it, and camera frames that come \
                 meanwhile may be dropped"
            ));
            return Ok(());
        }
        let error =
            CliError::user(format!("{late}: a frame in time may keep the next one waiting"));
        Err(error.hint(format!(
            "plan with `--camera {:.3}`, or a shorter --target",
            1e9 / self.target as f64
        )))
    }

    /// Reads the costs from the file, forecasts them from the models, or takes those of the paper's
    /// phone; returns them with the device.
    fn costs(&self, models: Option<&AriaModels>) -> CliResult<(AriaCosts, AriaDevice)> {
        let (shipped, device) = AriaCosts::paper_phone()?;
        let costs = match (&self.costs, models) {
            (Some(path), _) => {
                let costs = read_costs(path)?;
                costs.check().map_err(|e| CliError::from(e).about(path.display()))?;
                costs
            }
            (None, Some(models)) => self.models.costs(models)?,
            (None, None) if self.simulate.is_some() => shipped,
            (None, None) => {
                return Err(CliError::user("nothing to plan").hint(
                    "give --encoder with --gpu and \
                    --npu, or --costs, or --simulate for the paper's phone",
                ));
            }
        };
        Ok((costs, self.device.as_deref().map_or(Ok(device), read_device)?))
    }

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
