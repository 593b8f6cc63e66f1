//! `vitempo plan`: decides where each part of a model runs.

mod aria;
mod break_points;
mod budget;
mod costs;
mod dynamic;
mod frame;
pub mod live;
mod multitask;
pub(super) mod offload;
mod pipeline;
pub mod place;
mod placements;
mod report;
mod split;
mod split_live;
pub mod stitch;
mod to_run;
pub mod twice;

use super::error::CliResult;
use clap::Subcommand;

/// Decides where each part of a model runs
#[derive(Subcommand, Debug)]
pub enum PlanCommand {
    Split(Box<split::SplitArgs>),
    Pipeline(pipeline::PipelineArgs),
    Multitask(multitask::MultitaskArgs),
    Offload(offload::OffloadArgs),
    Stitch(stitch::StitchArgs),
    Place(Box<place::PlaceArgs>),
    Aria(Box<aria::AriaArgs>),
    Trace(aria::trace::TraceArgs),
}

pub fn run(command: &PlanCommand) -> CliResult {
    match command {
        PlanCommand::Split(args) => split::run(args),
        PlanCommand::Pipeline(args) => pipeline::run(args),
        PlanCommand::Multitask(args) => multitask::run(args),
        PlanCommand::Offload(args) => offload::run(args),
        PlanCommand::Stitch(args) => stitch::run(args),
        PlanCommand::Place(args) => place::run(args),
        PlanCommand::Aria(args) => aria::run(args),
        PlanCommand::Trace(args) => aria::trace::run(args),
    }
}
