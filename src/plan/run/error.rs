//! [`RunError`]: errors of plans as files, of runs and of logs.

use crate::{models::ModelError, plan::partition::PartitionError, zoo::ZooError};
use std::{io, path::PathBuf};
use vitempo_planners::multi_dnn::{MultiDnnError, ReplayError};

/// Why a plan cannot be written, read or run, or a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A file that cannot be read or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file with invalid contents.
    #[error("{}: {field}: {reason}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The field or line.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The plan's tasks are not those of the tasks file.
    #[error("{}: {reason}", .path.display())]
    OtherTasks {
        /// The tasks file.
        path: PathBuf,
        /// The task or variant at fault.
        reason: String,
    },
    /// A model that is not the one that was planned.
    #[error("{}: it is not the file that was planned (its digest differs)", .0.display())]
    OtherModel(PathBuf),
    /// An engine for a processor that the plan does not have.
    #[error("the plan has no processor `{name}`; there are {known}")]
    UnknownProcessor {
        /// The given name.
        name: String,
        /// The known names.
        known: String,
    },
    /// Two engines for one processor.
    #[error("processor `{0}` has two engines")]
    TwoEngines(String),
    /// A processor without an engine.
    #[error("processor `{0}` has no engine")]
    NoEngine(String),
    /// A processor whose costs are those of another engine.
    #[error("processor `{processor}` was planned for {planned}, not for {given}")]
    OtherEngine {
        /// The processor's name.
        processor: String,
        /// The plan's engine.
        planned: String,
        /// The given engine.
        given: String,
    },
    /// A plan whose costs are those of another machine.
    #[error("processor `{processor}` was planned for `{planned}`; this machine is `{here}`")]
    OtherMachine {
        /// The processor's name.
        processor: String,
        /// The plan's device.
        planned: String,
        /// This device.
        here: String,
    },
    /// The budget is too small for a piece of a way.
    #[error(
        "memory: task `{task}` needs {needed} bytes at once on `{processor}`, the budget is \
        {budget} bytes"
    )]
    Memory {
        /// The task.
        task: String,
        /// The processor.
        processor: String,
        /// Memory of the subgraphs that run in one piece.
        needed: u64,
        /// The budget.
        budget: u64,
    },
    /// Arrivals that cannot be made.
    #[error(transparent)]
    Arrivals(#[from] MultiDnnError),
    /// There are no queries.
    #[error("there are no queries to run")]
    NoQueries,
    /// Objectives that change while all queries arrive at once.
    #[error("objectives change at {at_ns} ns, but all queries arrive at once")]
    ChangeAtOnce {
        /// When.
        at_ns: u64,
    },
    /// Queries that cannot be simulated.
    #[error("{}: {source}", .path.display())]
    Replay {
        /// The log.
        path: PathBuf,
        /// The lane or query at fault.
        source: ReplayError,
    },
    /// A log without a query that completed.
    #[error("{}: no query of it completed", .0.display())]
    NothingCompleted(PathBuf),
    /// A placement that is to be written, but there is none.
    #[error("there is no placement that runs")]
    NoPlacement,
    /// A model that is divided cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A model cannot be divided as planned.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The models cannot be read or cut.
    #[error(transparent)]
    Zoo(#[from] ZooError),
    /// The inputs of a task cannot be filled.
    #[error("task `{task}`: {reason}")]
    Inputs {
        /// The task.
        task: String,
        /// What is wrong.
        reason: String,
    },
    /// An engine or a subgraph fails, or the user interrupted.
    #[cfg(feature = "profile")]
    #[error(transparent)]
    Live(#[from] vitempo_profiler::live::LiveError),
}
