//! `vitempo energy`: analyses measured power traces, and simulates such traces.

mod dissect;
mod simulate;

use super::error::CliResult;
use clap::Subcommand;

/// Analyses power traces: energy by phase of a frame
#[derive(Subcommand, Debug)]
pub enum EnergyCommand {
    Dissect(dissect::DissectArgs),
    Simulate(simulate::SimulateArgs),
}

pub fn run(command: &EnergyCommand) -> CliResult {
    match command {
        EnergyCommand::Dissect(args) => dissect::run(args),
        EnergyCommand::Simulate(args) => simulate::run(args),
    }
}
