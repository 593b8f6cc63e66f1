//! Worker processes: each engine and thread count runs in a process of its own.
//!
//! A crash or an endless run of an engine is therefore a row with its reason, and engines never
//! share threads or memory. A load runs between two requests ([`crate::load`]); parts of models stay
//! loaded from one request to the next ([`crate::live`]). The host starts a worker ([`WorkerCommand`]) and sends it requests ([`Worker::ask`]); one [`Request`] and one
//! [`Reply`] are one line of JSON each, over stdin and a private copy of stdout: engines print to
//! stdout, so the worker redirects stdout to stderr. The worker ends when its stdin is closed, which
//! happens whenever its host ends.

mod client;
mod parts;
mod serve;
mod station;

pub use client::{Worker, WorkerCommand, WorkerError};
pub use parts::{PartsReply, PartsRequest, PieceReply, PieceRequest};
pub(crate) use serve::private_stdout;
pub use serve::{main, serve};
pub use station::{Outcome, Station};

use crate::{
    backends::{Availability, RunOptions, coverage::Coverage},
    live::{LoadTime, PartError},
    load::{Drive, LoadRequest, Prepared, Tally},
    model_run::ModelRun,
    protocol::RunProtocol,
    source::Source,
};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use vitempo_graph::Graph;

/// Gives a worker its folder for temporary files.
const FOLDER: &CStr = c"VITEMPO_WORKER_FOLDER";

/// The same, in the type of the standard library.
const FOLDER_VARIABLE: &str = match FOLDER.to_str() {
    Ok(name) => name,
    Err(_) => panic!("the name is ASCII"),
};

/// Whether a host started this process as a worker. It allocates nothing, so that an allocator may
/// ask.
#[cfg(unix)]
#[must_use]
pub fn is_worker() -> bool {
    // SAFETY: the name ends with a zero; the answer is only compared.
    unsafe { !libc::getenv(FOLDER.as_ptr()).is_null() }
}

/// Requests of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Is this backend there?
    Probe {
        /// Its name.
        backend: String,
        /// How it would run.
        options: RunOptions,
    },
    /// Measure one model.
    #[serde(rename = "Visit")]
    Run(Box<RunRequest>),
    /// Make a load ready.
    Load(Box<LoadRequest>),
    /// Let the load run or rest, and report what it did.
    Drive(Drive),
    /// Compile one model and report who runs which operator.
    Cover(Box<CoverageRequest>),
    /// Start an engine for these parts.
    Parts(Box<PartsRequest>),
    /// Load a part.
    LoadPart(usize),
    /// Unload parts.
    UnloadParts(Vec<usize>),
    /// Run parts.
    Piece(Box<PieceRequest>),
}

/// One model to be compiled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CoverageRequest {
    /// Name of the backend.
    pub backend: String,
    /// How to compile it.
    pub options: RunOptions,
    /// The model's name, for messages.
    pub name: String,
    /// Its operators.
    pub graph: Graph,
    /// Its bytes.
    pub source: Source,
}

/// One model to be measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRequest {
    /// Name of the backend.
    pub backend: String,
    /// How to run it; the worker is pinned to exactly `cores`.
    pub options: RunOptions,
    /// How to sample.
    pub protocol: RunProtocol,
    /// The model's name, for messages.
    pub name: String,
    /// Its operators.
    pub graph: Graph,
    /// Its bytes.
    pub source: Source,
}

/// Replies of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Probe`].
    Probed(Availability),
    /// To [`Request::Run`].
    #[serde(rename = "Visited")]
    Ran(Box<ModelRun>),
    /// To [`Request::Load`].
    Prepared(Prepared),
    /// To [`Request::Drive`].
    Tallied(Tally),
    /// To [`Request::Cover`].
    Covered(Coverage),
    /// To [`Request::Parts`].
    Started(Box<PartsReply>),
    /// To [`Request::LoadPart`]; `None`: it was loaded.
    PartLoaded(Result<Option<LoadTime>, PartError>),
    /// To [`Request::UnloadParts`]: resident memory afterwards, bytes; `None` where the system does
    /// not report it.
    PartsUnloaded(Option<u64>),
    /// To [`Request::Piece`].
    Computed(Result<Box<PieceReply>, PartError>),
    /// It did not work.
    Failed {
        /// Why.
        reason: String,
        /// Whether the worker's state is uncertain, so that it must be started again.
        restart: bool,
    },
}
