//! What to do about errors of runs.

use crate::verbs::error::{CliError, io_error};
use vitempo::plan::run::RunError;

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        let hint = match &error {
            RunError::OtherMachine { .. } | RunError::OtherEngine { .. } => {
                "plan again here, or add --anywhere".to_owned()
            }
            RunError::OtherModel(_) => "plan again, with --out".to_owned(),
            RunError::NoEngine(name) => format!("add --live {name}=rten"),
            RunError::TwoEngines(name) => format!("give --live {name}=... once"),
            RunError::UnknownProcessor { .. } => {
                "--live NAME=BACKEND, a NAME of the plan".to_owned()
            }
            RunError::Memory { .. } => "raise --memory".to_owned(),
            RunError::NoQueries => "raise --queries or --seconds".to_owned(),
            RunError::OtherTasks { .. } => {
                "--tasks is the file from which the record was measured".to_owned()
            }
            _ => return Self::of_a_run(error),
        };
        Self::user(error).hint(hint)
    }
}

impl CliError {
    fn of_a_run(error: RunError) -> Self {
        match error {
            RunError::Io { action, path, source } => io_error(action, &path, &source),
            RunError::Zoo(error) => error.into(),
            RunError::Model(error) => error.into(),
            RunError::Partition(error) => error.into(),
            RunError::Live(error) => error.into(),
            other => Self::user(other),
        }
    }
}
