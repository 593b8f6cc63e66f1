//! [`AgentOptions`]: how an agent works, and where it says what happens.

use crate::worker::WorkerCommand;
use std::{fmt, path::PathBuf, time::Duration};
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
    /// An end of which nothing is heard for so long is given up.
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

    /// How often an end says that it is there.
    pub(super) fn beat(&self) -> Duration {
        self.silence_limit / 4
    }
}

/// Where an agent says what happens.
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
