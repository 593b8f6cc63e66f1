//! `vitempo zoo`: variants of base models that can be stitched, as files.

mod engine;
mod labelled;
mod make;
mod measure;
mod npy;
mod recall;
mod recipe;
mod report;
pub mod sampling;
mod stitch;
pub mod tasks;
pub mod variants;

use super::error::CliResult;
use clap::Subcommand;

pub use make::weights;

/// Makes sparse variants of models, and stitches them
#[derive(Subcommand, Debug)]
pub enum ZooCommand {
    Make(make::MakeArgs),
    Measure(measure::MeasureArgs),
    Report(report::ReportArgs),
    Stitch(stitch::StitchArgs),
}

pub fn run(command: &ZooCommand) -> CliResult {
    match command {
        ZooCommand::Make(args) => make::run(args),
        ZooCommand::Measure(args) => measure::run(args),
        ZooCommand::Report(args) => report::run(args),
        ZooCommand::Stitch(args) => stitch::run(args),
    }
}
