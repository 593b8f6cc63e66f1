//! [`Target`]: where a sweep's engines run: in worker processes of this machine, or on the machine
//! of an agent.

use crate::{
    backends::RunOptions,
    probe::{self, SweepError},
    remote::Remote,
    worker::{Outcome, RunRequest, Station, WorkerCommand},
};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use vitempo_graph::Environment;

/// Where engines run.
#[derive(Clone, Debug)]
pub enum Target {
    /// On this machine, in workers started with this command.
    Local(WorkerCommand),
    /// On the machine of an agent.
    Remote(Arc<Remote>),
}

impl From<WorkerCommand> for Target {
    fn from(worker: WorkerCommand) -> Self {
        Self::Local(worker)
    }
}

impl From<Remote> for Target {
    fn from(remote: Remote) -> Self {
        Self::Remote(Arc::new(remote))
    }
}

impl Target {
    /// The environment of a backend with these options.
    ///
    /// # Errors
    /// [`SweepError`] when the backend, a core or the agent is missing, or the backend does not
    /// support the options.
    pub fn probe(&self, backend: &str, options: &RunOptions) -> Result<Environment, SweepError> {
        match self {
            Self::Local(worker) => probe::probe(worker, backend, options),
            Self::Remote(remote) => Ok(remote.probe(backend, options)?),
        }
    }

    pub(crate) fn runner(&self) -> Runner {
        match self {
            Self::Local(worker) => Runner::Local(Station::new(worker.clone())),
            Self::Remote(remote) => Runner::Remote(Arc::clone(remote)),
        }
    }
}

/// Runs a sweep's models.
#[derive(Debug)]
pub(crate) enum Runner {
    Local(Station),
    Remote(Arc<Remote>),
}

impl Runner {
    /// The outcome of a model run; `None` when interrupted.
    pub fn run(
        &mut self,
        request: RunRequest,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Option<Outcome>, SweepError> {
        Ok(match self {
            Self::Local(station) => station.run(request, timeout, interrupted)?,
            Self::Remote(remote) => remote.run(request, timeout, interrupted)?,
        })
    }
}
