//! `vitempo energy`: what drew what in a measured power trace, a trace to try that out with, and
//! frequency and power over time under a governor.

mod dissect;
mod record;
mod simulate;
mod timeline;

use super::error::CliResult;
use clap::Subcommand;

/// Analyses power traces, and simulates power over time: energy by phase of a frame
#[derive(Subcommand, Debug)]
pub enum EnergyCommand {
    Dissect(dissect::DissectArgs),
    Record(record::RecordArgs),
    Simulate(simulate::SimulateArgs),
    Timeline(timeline::TimelineArgs),
}

pub fn run(command: &EnergyCommand) -> CliResult {
    match command {
        EnergyCommand::Dissect(args) => dissect::run(args),
        EnergyCommand::Record(args) => record::run(args),
        EnergyCommand::Simulate(args) => simulate::run(args),
        EnergyCommand::Timeline(args) => timeline::run(args),
    }
}
