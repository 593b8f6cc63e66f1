//! `vitempo zoo`: variants of base models that can be stitched, as files.

mod engine;
mod make;
mod recipe;
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
    Stitch(stitch::StitchArgs),
}

pub fn run(command: &ZooCommand) -> CliResult {
    match command {
        ZooCommand::Make(args) => make::run(args),
        ZooCommand::Stitch(args) => stitch::run(args),
    }
}
