//! The `vitempo` binary: parses the command line, runs one verb, prints an error once.

use std::process::ExitCode;

#[cfg(unix)]
mod allocator;
mod verbs;

fn main() -> ExitCode {
    verbs::main()
}
