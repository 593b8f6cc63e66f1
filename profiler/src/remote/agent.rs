//! [`serve`]: measures on the machine of the engines, for the client at the other end of stdin and
//! stdout.

use super::{link::Link, message::PIECE, session};
use crate::{
    backends::{self, Availability, RunOptions},
    worker::WorkerCommand,
};
use std::{
    fmt,
    fs::{self, DirBuilder},
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use vitempo_graph::files::own_folder;

/// How an agent works.
#[derive(Debug)]
pub struct AgentOptions {
    /// Where it keeps clients' models and its lock; [`AgentOptions::folder`] is the usual place.
    pub folder: PathBuf,
    /// Most bytes of models kept.
    pub cache_bytes: u64,
    /// Largest message of a client, in bytes; a piece of a model always fits.
    pub message_bytes: usize,
    /// An end that sends nothing for this long is considered gone.
    pub silence_limit: Duration,
    /// How to start a worker.
    pub worker: WorkerCommand,
    /// Takes what happens, a line each.
    pub log: Log,
}

impl AgentOptions {
    /// With the usual limits: 2 GiB of models, messages of 64 MiB, a silence limit of 30 s.
    #[must_use]
    pub fn new(folder: PathBuf, worker: WorkerCommand, log: Log) -> Self {
        Self {
            folder,
            cache_bytes: 2 << 30,
            message_bytes: 64 << 20,
            silence_limit: Duration::from_secs(30),
            worker,
            log,
        }
    }

    /// `agent` in vitempo's own folder; `None` where no variable gives a home.
    #[must_use]
    pub fn folder() -> Option<PathBuf> {
        own_folder().map(|folder| folder.join("agent"))
    }

    /// Interval of heartbeats.
    pub(super) fn beat(&self) -> Duration {
        self.silence_limit / 4
    }
}

/// The agent's log of events.
#[derive(Clone, Copy, Debug)]
pub struct Log(pub fn(fmt::Arguments<'_>));

impl Log {
    /// Discards what happens.
    #[must_use]
    pub fn silent() -> Self {
        Self(|_| {})
    }

    pub(super) fn say(self, line: fmt::Arguments<'_>) {
        (self.0)(line);
    }
}

/// Why an agent cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The folder cannot be used.
    #[error("cannot use the folder {folder}: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The time limit is too short.
    #[error("a timeout of {0:?} is too short; a slow connection would count as broken")]
    SilenceLimit(Duration),
}

/// The shortest silence_limit an agent can have.
const SHORTEST_SILENCE_LIMIT: Duration = Duration::from_millis(200);

fn check(options: &AgentOptions) -> Result<(), AgentError> {
    if options.silence_limit < SHORTEST_SILENCE_LIMIT {
        return Err(AgentError::SilenceLimit(options.silence_limit));
    }
    make(&options.folder)
        .map_err(|source| AgentError::Folder { folder: options.folder.clone(), source })
}

/// Creates a folder that other users cannot read.
fn make(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Each engine that is compiled in, with its version or why it cannot run here.
#[must_use]
pub fn engines() -> Vec<(&'static str, Result<String, String>)> {
    let found = |availability| match availability {
        Availability::Available(capabilities) => Ok(capabilities.version),
        Availability::Unavailable { reason, .. } => Err(reason),
    };
    backends::all()
        .iter()
        .map(|backend| (backend.name(), found(backend.probe(&RunOptions::default()))))
        .collect()
}

/// Serves one client over stdin and stdout until it is gone.
///
/// # Errors
/// [`AgentError`] for a folder or a silence limit that cannot be used.
pub fn serve(options: &AgentOptions) -> Result<(), AgentError> {
    check(options)?;
    let link = Link::stdio(options.message_bytes.max(PIECE));
    // A session that is blocked on its output cannot see that its client is gone.
    link.end_process_in_silence(options.silence_limit.saturating_mul(2));
    session::serve(options, link);
    Ok(())
}
