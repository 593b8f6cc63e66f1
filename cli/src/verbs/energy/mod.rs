//! `vitempo energy`: analyses measured power traces, simulates such traces, and recomputes the
//! tables of the AR energy study.

mod dissect;
mod simulate;
mod tables;

use super::error::CliResult;
use clap::Subcommand;

/// Analyses power traces; reproduces the AR energy study
#[derive(Subcommand, Debug)]
pub enum EnergyCommand {
    Dissect(dissect::DissectArgs),
    Simulate(simulate::SimulateArgs),
    Tables(tables::TablesArgs),
}

pub fn run(command: &EnergyCommand) -> CliResult {
    match command {
        EnergyCommand::Dissect(args) => dissect::run(args),
        EnergyCommand::Simulate(args) => simulate::run(args),
        EnergyCommand::Tables(args) => tables::run(args),
    }
}
