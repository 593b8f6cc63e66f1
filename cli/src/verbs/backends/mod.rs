//! `vitempo backends`: which engines are here, how others get here, what each offers, and whether
//! it computes what it should.

mod check;
mod compare;
mod coverage;
mod install;
mod list;
mod lowering;

use super::error::CliResult;

/// Lists, installs and checks inference engines
///
/// Example: vitempo backends list
#[derive(clap::Subcommand, Debug)]
pub enum BackendsCommand {
    List(list::ListArgs),
    Install(install::InstallArgs),
    Check(check::CheckArgs),
    Compare(compare::CompareArgs),
}

pub fn run(command: &BackendsCommand) -> CliResult {
    match command {
        BackendsCommand::List(args) => list::run(args),
        BackendsCommand::Install(args) => install::run(args),
        BackendsCommand::Check(args) => check::run(args),
        BackendsCommand::Compare(args) => compare::run(args),
    }
}
