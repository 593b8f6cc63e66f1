//! `vitempo backends`: which engines are here, what each offers, and whether it computes what it should.

mod check;
mod compare;
mod list;
mod lowering;

use super::error::CliResult;

/// Lists and checks inference engines
///
/// Example: vitempo backends list
#[derive(clap::Subcommand, Debug)]
pub enum BackendsCommand {
    List(list::ListArgs),
    Check(check::CheckArgs),
    Compare(compare::CompareArgs),
}

pub fn run(command: &BackendsCommand) -> CliResult {
    match command {
        BackendsCommand::List(args) => list::run(args),
        BackendsCommand::Check(args) => check::run(args),
        BackendsCommand::Compare(args) => compare::run(args),
    }
}
