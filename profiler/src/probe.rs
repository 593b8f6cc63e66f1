//! [`probe`]: where an engine would run, and what it offers; and why it does not run at all.

use crate::{
    backends::{
        self,
        availability::{Availability, Capabilities},
        error::BackendError,
        options::RunOptions,
    },
    environment,
    load::LoadError,
    pinning::{self, PinningError},
    remote::RemoteError,
    worker::{Reply, Request, Worker, WorkerCommand, WorkerError},
};
use std::{sync::atomic::AtomicBool, time::Duration};
use vitempo_graph::Environment;

/// Limit for starting an engine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a sweep ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The backend is not here.
    #[error("backend `{backend}` is not available: {reason}; {hint}")]
    Unavailable {
        /// Name of the backend.
        backend: String,
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: String,
    },
    /// The backend cannot be used.
    #[error("backend `{backend}`: {reason}")]
    Backend {
        /// Name of the backend.
        backend: String,
        /// What is wrong.
        reason: String,
    },
    /// An option of the backend is wrong.
    #[error(transparent)]
    Option(#[from] BackendError),
    /// The threads cannot be pinned.
    #[error(transparent)]
    Pinning(#[from] PinningError),
    /// The worker process does not start.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The agent measures nothing.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The load on other cores does not run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A result could not be stored.
    #[error("the profile of `{model}` could not be kept: {reason}")]
    Sink {
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: String,
    },
}

/// The environment of a backend with these options, asked of a worker: a library that crashes takes
/// only the worker with it.
///
/// # Errors
/// [`SweepError`] when the backend or a core is not there, or the backend does not offer what is
/// asked.
pub fn probe(
    worker: &WorkerCommand,
    backend: &str,
    options: &RunOptions,
) -> Result<Environment, SweepError> {
    pinning::choose(&options.cores, options.threads)?;
    let capabilities = capabilities(worker, backend, options)?;
    capabilities.check(backends::by_name(backend).map_or("asked for", |b| b.name()), options)?;
    Ok(environment::detect(backend, &capabilities, options)?)
}

/// What a backend offers here, asked of a worker.
///
/// # Errors
/// [`SweepError`] when the backend is not there.
pub fn capabilities(
    worker: &WorkerCommand,
    backend: &str,
    options: &RunOptions,
) -> Result<Capabilities, SweepError> {
    let request = Request::Probe { backend: backend.to_owned(), options: options.clone() };
    match Worker::start(worker)?.ask(&request, PROBE_TIMEOUT, &AtomicBool::new(false))? {
        Reply::Probed(Availability::Available(capabilities)) => Ok(capabilities),
        Reply::Probed(Availability::Unavailable { reason, hint }) => {
            Err(SweepError::Unavailable { backend: backend.to_owned(), reason, hint })
        }
        Reply::Failed { reason, .. } => {
            Err(SweepError::Backend { backend: backend.to_owned(), reason })
        }
        _ => Err(WorkerError::Garbled("something else instead of a probe".to_owned()).into()),
    }
}
