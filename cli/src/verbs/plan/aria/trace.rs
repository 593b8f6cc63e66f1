//! `vitempo plan trace`: writes a trace for simulations, from rendered scenes with a known ground
//! truth.

use super::super::super::{
    error::{CliError, CliResult},
    files, output,
    quantity::positive,
};
use clap::ValueEnum;
use std::path::PathBuf;
use vitempo::aria::scene::Kind;
use vitempo::plan::aria::{Walk, WalkError};

/// Writes a trace of the camera and of moving regions, from scenes with a known ground truth, for
/// `plan aria --simulate`
///
/// Example: vitempo plan trace --seconds 600 --out walk.csv
#[derive(clap::Args, Debug)]
pub struct TraceArgs {
    /// Length of the walk
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = positive)]
    pub seconds: usize,

    /// Time spent in one scene
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = positive)]
    pub scene_seconds: usize,

    /// Scenes, in turns; may be repeated. Default: all
    #[arg(long = "scene", value_enum)]
    pub scenes: Vec<SceneKind>,

    /// Seed of the scenes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// The CSV file to write
    #[arg(long, value_name = "FILE.csv")]
    pub out: PathBuf,
}

/// The values of `--scene`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SceneKind {
    Slow,
    Fast,
    Crowded,
    AbruptTurns,
}

impl SceneKind {
    fn kind(self) -> Kind {
        match self {
            Self::Slow => Kind::Slow,
            Self::Fast => Kind::Fast,
            Self::Crowded => Kind::Crowded,
            Self::AbruptTurns => Kind::AbruptTurns,
        }
    }
}

impl From<WalkError> for CliError {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::TooLong { .. } => Self::user(format!("--seconds {error}")),
            other => Self::ours(other),
        }
    }
}

pub fn run(args: &TraceArgs) -> CliResult {
    let walk = Walk {
        seconds: args.seconds,
        scene_seconds: args.scene_seconds,
        scenes: args.scenes.iter().map(|scene| scene.kind()).collect(),
        seed: args.seed,
    };
    let (trace, comment) = (walk.trace()?, walk.comment());
    files::write(&args.out, trace.to_csv(&comment).as_bytes())?;
    output::write_stdout(&format!(
        "{comment}\nwrote {}: {} frames with {:.1} moving regions each\n",
        args.out.display(),
        trace.frames.len(),
        trace.mean_moving(),
    ))
}
