//! `vitempo plan`: where should each part of a model run?

mod costs;
mod pipeline;
mod quantity;
mod report;
mod split;

use super::error::CliResult;
use clap::Subcommand;

/// Decides where each part of a model runs
#[derive(Subcommand, Debug)]
pub enum PlanCommand {
    Split(split::SplitArgs),
    Pipeline(pipeline::PipelineArgs),
}

pub fn run(command: &PlanCommand) -> CliResult {
    match command {
        PlanCommand::Split(args) => split::run(args),
        PlanCommand::Pipeline(args) => pipeline::run(args),
    }
}
