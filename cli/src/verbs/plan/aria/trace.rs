//! `vitempo plan trace`: a trace to rehearse over, from rendered scenes with known truth.

use super::super::super::{
    error::{CliError, CliResult},
    files, output,
    quantity::positive,
};
use clap::ValueEnum;
use std::path::PathBuf;
use vitempo::aria::{
    CameraMotion, Grid,
    scene::{Kind, Scene},
};
use vitempo::planners::aria::{Moving, Trace, TraceFrame};

/// Frames per second of a scene.
const FRAMES_PER_S: f64 = 30.0;
/// Numbers of a scene's regions are below this.
const MOST_REGIONS: u64 = 1000;

/// Writes a trace of camera and moving regions, from scenes with known truth, for `plan aria
/// --simulate`
///
/// Example: vitempo plan trace --seconds 600 --out walk.csv
#[derive(clap::Args, Debug)]
pub struct TraceArgs {
    /// How long the walk is
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = positive)]
    pub seconds: usize,

    /// How long it stays in one scene
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = positive)]
    pub scene_seconds: usize,

    /// Which scenes, in turns; may be repeated. Default: all
    #[arg(long = "scene", value_enum)]
    pub scenes: Vec<SceneKind>,

    /// Of the scenes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// The CSV file to write
    #[arg(long, value_name = "FILE.csv")]
    pub out: PathBuf,
}

/// `--scene`.
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

pub fn run(args: &TraceArgs) -> CliResult {
    if args.seconds > 36_000 {
        return Err(CliError::user(format!("--seconds {}: ten hours are the most", args.seconds)));
    }
    let trace = walk(args)?;
    let comment = format!(
        "from rendered scenes, nobody walked there: {}, {} s each, seed {}",
        names(args),
        args.scene_seconds,
        args.seed
    );
    files::write(&args.out, trace.to_csv(&comment).as_bytes())?;
    let moving: usize = trace.frames.iter().map(|frame| frame.moving.len()).sum();
    let mean = moving as f64 / trace.frames.len().max(1) as f64;
    let frames = trace.frames.len();
    output::write_stdout(&format!(
        "{comment}\nwrote {}: {frames} frames with {mean:.1} moving regions each\n",
        args.out.display()
    ))
}

fn kinds(args: &TraceArgs) -> Vec<Kind> {
    if args.scenes.is_empty() {
        Kind::ALL.to_vec()
    } else {
        args.scenes.iter().map(|scene| scene.kind()).collect()
    }
}

fn names(args: &TraceArgs) -> String {
    kinds(args).iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

/// Scene after scene; where one ends and the next begins, the camera's motion is the next scene's
/// own.
fn walk(args: &TraceArgs) -> CliResult<Trace> {
    let grid = Grid::of_image(406, 658, 14).map_err(CliError::ours)?;
    let kinds = kinds(args);
    let mut frames = Vec::with_capacity(args.seconds * FRAMES_PER_S as usize);
    for (number, start) in (0..args.seconds).step_by(args.scene_seconds).enumerate() {
        let kind = kinds[number % kinds.len()];
        let scene =
            Scene::new(kind, args.seed.wrapping_mul(1000).wrapping_add(number as u64), grid, 14)
                .map_err(CliError::ours)?;
        let seconds = args.scene_seconds.min(args.seconds - start);
        // From frame 1 on, so that every frame has one before it.
        frames.extend(
            (1..=(seconds as f64 * FRAMES_PER_S) as u64)
                .map(|frame| seen(&scene, frame, number as u64)),
        );
    }
    Ok(Trace { grid, frames_per_s: FRAMES_PER_S, frames })
}

fn seen(scene: &Scene, frame: u64, number: u64) -> TraceFrame {
    let motion = CameraMotion::between(&scene.pose(frame - 1), &scene.pose(frame));
    let moving = |seen: vitempo::aria::scene::VisibleObject| Moving {
        region: number * MOST_REGIONS + seen.ball as u64,
        window: seen.window,
        patches: seen.patches.min(seen.window.patches()),
        velocity: seen.velocity,
    };
    let moving = scene.visible_objects(frame).into_iter().map(moving).collect();
    TraceFrame { translation_m: motion.distance_m(), rotation_rad: motion.angle_rad(), moving }
}
