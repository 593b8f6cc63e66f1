//! [`LoadWorker`]: the host's side of a load: starts it, lets it run and rest, asks what it did.

use super::{Load, LoadRequest, Tally};
use crate::{
    pinning::PinningError,
    worker::{Reply, Request, Worker, WorkerCommand, WorkerError},
};
use serde::{Deserialize, Serialize};
use std::{sync::atomic::AtomicBool, time::Duration};
use vitempo_graph::GraphError;

/// Limit for making a load ready, and for one pass of it.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Why a load does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No core is left for it.
    #[error(
        "no core is left for a load: the models are measured on cores {measured:?} of {usable:?}"
    )]
    NoCore {
        /// Cores of the models.
        measured: Vec<usize>,
        /// Cores of this process.
        usable: Vec<usize>,
    },
    /// One of its cores is a core of the measured models.
    #[error("the load's core {0} is a core of the measured models")]
    SharedCore(usize),
    /// Agents run no loads.
    #[error("a load runs on this machine, but the models run on that of an agent")]
    Remote,
    /// A core does not exist.
    #[error(transparent)]
    Pinning(#[from] PinningError),
    /// Its worker.
    #[error("the load: {0}")]
    Worker(#[from] WorkerError),
    /// Its graph.
    #[error("the load: {0}")]
    Graph(#[from] GraphError),
    /// Its engine.
    #[error("the load: {0}")]
    Failed(String),
}

/// What a worker says about a load that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Memory that one pass touches, bytes.
    pub footprint_bytes: u64,
    /// Last-level cache of its core, bytes; `None` where the system does not report it.
    pub cache_bytes: Option<u64>,
}

/// What a load is asked to do. Every request is answered by a tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Drive {
    /// Run from now on; the tally is empty.
    Go,
    /// Say what it did since the last request.
    Tally,
    /// The same, and rest.
    Pause,
}

/// A load in a process of its own; it ends with this value.
#[derive(Debug)]
pub struct LoadWorker {
    worker: Worker,
    prepared: Prepared,
}

impl LoadWorker {
    /// Starts the process and makes the load ready; it rests until [`Self::go`].
    ///
    /// # Errors
    /// [`LoadError`] where the process does not start or the engine refuses the load.
    pub fn start(
        command: &WorkerCommand,
        request: LoadRequest,
        interrupted: &AtomicBool,
    ) -> Result<Self, LoadError> {
        let mut worker = Worker::start(command)?;
        match worker.ask(&Request::Load(Box::new(request)), TIMEOUT, interrupted)? {
            Reply::Prepared(prepared) => Ok(Self { worker, prepared }),
            Reply::Failed { reason, .. } => Err(LoadError::Failed(reason)),
            _ => Err(other_answer()),
        }
    }

    /// [`Self::start`] for a load on these cores; `seed` is that of inputs and missing weights.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn of(
        command: &WorkerCommand,
        load: &Load,
        cores: Vec<usize>,
        seed: u64,
        interrupted: &AtomicBool,
    ) -> Result<Self, LoadError> {
        Self::start(command, load.request(cores, seed)?, interrupted)
    }

    /// What it takes.
    #[must_use]
    pub fn prepared(&self) -> Prepared {
        self.prepared
    }

    /// Identifier of its process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.worker.process_id()
    }

    /// Runs from now on.
    ///
    /// # Errors
    /// [`LoadError`] where it died or failed.
    pub fn go(&mut self, interrupted: &AtomicBool) -> Result<(), LoadError> {
        self.drive(Drive::Go, interrupted).map(drop)
    }

    /// What it did since the last request.
    ///
    /// # Errors
    /// As [`Self::go`].
    pub fn tally(&mut self, interrupted: &AtomicBool) -> Result<Tally, LoadError> {
        self.drive(Drive::Tally, interrupted)
    }

    /// The same, and rests.
    ///
    /// # Errors
    /// As [`Self::go`].
    pub fn pause(&mut self, interrupted: &AtomicBool) -> Result<Tally, LoadError> {
        self.drive(Drive::Pause, interrupted)
    }

    fn drive(&mut self, what: Drive, interrupted: &AtomicBool) -> Result<Tally, LoadError> {
        match self.worker.ask(&Request::Drive(what), TIMEOUT, interrupted)? {
            Reply::Tallied(tally) => Ok(tally),
            Reply::Failed { reason, .. } => Err(LoadError::Failed(reason)),
            _ => Err(other_answer()),
        }
    }
}

fn other_answer() -> LoadError {
    LoadError::Failed("the worker answered another question".to_owned())
}
