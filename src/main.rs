//! The `vitempo` binary: parses the command line, runs one verb, prints an error once.

use std::process::ExitCode;

mod cli;
mod report;

fn main() -> ExitCode {
    cli::main()
}
