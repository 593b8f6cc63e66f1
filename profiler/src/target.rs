//! [`Place`]: where a sweep's engines run: in worker processes of this machine, or at an agent's.

use crate::{
    backends::RunOptions,
    remote::Remote,
    sweep::{self, SweepError},
    worker::{Outcome, Station, VisitRequest, WorkerCommand},
};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use vitempo_graph::Environment;

/// Where engines run.
#[derive(Clone, Debug)]
pub enum Place {
    /// On this machine, in workers started so.
    Here(WorkerCommand),
    /// At an agent's.
    There(Arc<Remote>),
}

impl From<WorkerCommand> for Place {
    fn from(worker: WorkerCommand) -> Self {
        Self::Here(worker)
    }
}

impl From<Remote> for Place {
    fn from(remote: Remote) -> Self {
        Self::There(Arc::new(remote))
    }
}

impl Place {
    /// The environment of a backend with these options.
    ///
    /// # Errors
    /// [`SweepError`] when the backend, a core or the agent is not there, or the backend does not
    /// offer what is asked.
    pub fn probe(&self, backend: &str, options: &RunOptions) -> Result<Environment, SweepError> {
        match self {
            Self::Here(worker) => sweep::probe(worker, backend, options),
            Self::There(remote) => Ok(remote.probe(backend, options)?),
        }
    }

    pub(crate) fn visitor(&self) -> Visitor {
        match self {
            Self::Here(worker) => Visitor::Here(Station::new(worker.clone())),
            Self::There(remote) => Visitor::There(Arc::clone(remote)),
        }
    }
}

/// Makes a sweep's visits.
#[derive(Debug)]
pub(crate) enum Visitor {
    Here(Station),
    There(Arc<Remote>),
}

impl Visitor {
    /// What comes of a visit; `None` when interrupted.
    pub fn visit(
        &mut self,
        request: VisitRequest,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Option<Outcome>, SweepError> {
        Ok(match self {
            Self::Here(station) => station.visit(request, timeout, interrupted)?,
            Self::There(remote) => remote.visit(request, timeout, interrupted)?,
        })
    }
}
