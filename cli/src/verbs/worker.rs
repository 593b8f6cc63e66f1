//! Worker processes of this program.

use super::error::{CliError, CliResult};
use vitempo::profiler::WorkerCommand;

/// Starts this program again as a worker.
pub fn worker() -> CliResult<WorkerCommand> {
    WorkerCommand::this_program(["worker"]).map_err(CliError::ours)
}
