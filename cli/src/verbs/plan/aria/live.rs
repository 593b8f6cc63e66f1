//! `--live`: runs ARIA and the baselines on engines.

mod outcomes;

use super::super::{
    super::{
        error::{CliError, CliResult},
        files,
        interrupt::interrupted,
        progress,
        quantity::{self, positive},
    },
    live::parse_engine,
};
use outcomes::Outcomes;
use std::path::PathBuf;
use vitempo::plan::{
    aria::{
        AriaModels, FlowError, Scenario,
        live::{AriaLiveError, FlowChoice, LiveRequest, LiveStep, run as run_live},
        read_flow,
    },
    live::Engine,
};

/// Options of a run on engines.
#[derive(clap::Args, Clone, Debug)]
pub struct LiveArgs {
    /// Run on engines: `gpu=BACKEND@CORES` and `npu=BACKEND@CORES` as the two processors, e.g.
    /// `--live gpu=onnxruntime@0 --live npu=onnxruntime@1`
    #[arg(long = "live", value_name = "NAME=BACKEND[@CORES]", value_parser = parse_engine, requires = "encoder", conflicts_with = "simulate")]
    pub engines: Vec<Engine>,

    /// Camera frames that each system receives
    #[arg(long, value_name = "COUNT", default_value = "300", value_parser = positive, requires = "engines", conflicts_with = "simulate")]
    pub frames: usize,

    /// Factor by which full frames take longer from the middle of the run on, at least 1
    #[arg(long, value_name = "TIMES", value_parser = quantity::above_zero, requires = "engines", conflicts_with = "simulate")]
    pub throttle: Option<f64>,

    /// What ARIA warps full frames by: the camera's rotation, the decoder's depth, or a trained flow
    /// from a file, e.g. datasets/aria/flow.json; by default depth where the decoder gives it,
    /// otherwise rotation
    #[arg(long, value_name = "rotation|depth|FILE.json", value_parser = parse_flow, requires = "engines", conflicts_with = "simulate")]
    pub flow: Option<FlowArg>,

    /// Write every executed frame into this file: latency, cycles, age of the full frame, errors, flow
    #[arg(long, value_name = "FILE.csv", requires = "engines", conflicts_with = "simulate")]
    pub record: Option<PathBuf>,
}

/// A flow by name, or in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowArg {
    Rotation,
    Depth,
    File(PathBuf),
}

fn parse_flow(text: &str) -> Result<FlowArg, std::convert::Infallible> {
    Ok(match text {
        "rotation" => FlowArg::Rotation,
        "depth" => FlowArg::Depth,
        path => FlowArg::File(path.into()),
    })
}

impl FlowArg {
    fn read(&self) -> CliResult<FlowChoice> {
        Ok(match self {
            Self::Rotation => FlowChoice::Rotation,
            Self::Depth => FlowChoice::Depth,
            Self::File(path) => FlowChoice::Learned(read_flow(path)?),
        })
    }
}

impl From<AriaLiveError> for CliError {
    fn from(error: AriaLiveError) -> Self {
        let hint = match error {
            AriaLiveError::Costs(error) => return error.into(),
            AriaLiveError::Live(error) => return error.into(),
            AriaLiveError::Pixels { .. } => return Self::ours(error),
            AriaLiveError::Throttle(_) => {
                return Self::user(error)
                    .about("--throttle")
                    .hint("--throttle 2: full frames take twice as long in the second half");
            }
            AriaLiveError::NoEngine(_)
            | AriaLiveError::UnknownEngine(_)
            | AriaLiveError::TwoEngines(_) => {
                return Self::user(error)
                    .about("--live")
                    .hint("give --live gpu=BACKEND@CORES and --live npu=BACKEND@CORES");
            }
            AriaLiveError::Flow(
                FlowError::Features { .. }
                | FlowError::Encoder { .. }
                | FlowError::NoFeatures { .. },
            ) => {
                "train one for this encoder: `vitempo-studies aria FOLDER --flow STEPS --flow-out \
                FILE.json`; or --flow rotation"
            }
            AriaLiveError::Flow(FlowError::Lens { .. }) => {
                "train one behind such a lens, or take --flow rotation or --flow depth"
            }
            AriaLiveError::NoDepth => {
                "give the --decoder of datasets/aria, or take --flow rotation or a trained flow"
            }
            AriaLiveError::NothingFits { .. } => {
                "the plan without --live says what would have to change, e.g. --target"
            }
            AriaLiveError::NoImage { .. } => {
                "--live needs an encoder of [1, 3, height, width], or of the six channels of \
                datasets/aria"
            }
            AriaLiveError::NoOutput => {
                "--live needs an engine that hands out tensors, e.g. onnxruntime"
            }
            AriaLiveError::NoFeatures { .. } => {
                "--live needs an encoder that puts out its patches' features"
            }
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

/// Runs the systems and returns their outcomes.
pub fn run(args: &LiveArgs, models: &AriaModels, scenario: &Scenario) -> CliResult<Outcomes> {
    if let Some(path) = &args.record {
        files::check_folder(path)?;
    }
    let request = LiveRequest {
        flow: args.flow.as_ref().map(FlowArg::read).transpose()?,
        engines: args.engines.clone(),
        frames: args.frames,
        throttle: args.throttle,
        interrupted: interrupted(),
    };
    let outcomes = Outcomes(run_live(scenario, models, &request, &mut say)?);
    if let Some(path) = &args.record {
        files::write(path, outcomes.frames().to_csv()?.as_bytes())?;
        progress::say(format!("{}: frames", path.display()));
    }
    Ok(outcomes)
}

fn say(step: LiveStep) {
    match step {
        LiveStep::Rendering { frames, rows, cols } => {
            progress::say(format!("rendering {frames} frames of {rows} x {cols} patches"));
        }
        LiveStep::Running { system, frames } => {
            progress::say(format!("{}: {frames} frames", system.name()));
        }
        _ => {}
    }
}
