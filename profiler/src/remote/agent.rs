//! [`Agent`]: listens where engines are, and measures for one client at a time.

use super::{link::Link, secret::Secret, session};
use crate::{
    backends::{self, Availability, RunOptions},
    worker::WorkerCommand,
};
use std::{
    fmt,
    fs::{self, DirBuilder},
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};
use vitempo_graph::files::own_folder;

/// Lines that may be open at once: one that measures, and others that are being refused.
const MOST_LINES: usize = 16;
/// Pause after the system would not give a connection.
const BREATH: Duration = Duration::from_millis(100);

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
    /// With the usual limits: 2 GiB of models, messages of 64 MiB, patience of 30 s.
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
    /// Nothing.
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
    /// The port cannot be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
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

/// Makes a folder that nobody else looks into.
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

/// An agent on a port.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    secret: Secret,
    options: AgentOptions,
}

impl Agent {
    /// Listens there; clients with the secret may measure.
    ///
    /// # Errors
    /// [`AgentError`] for an address or a folder that cannot be used.
    pub fn bind(
        address: SocketAddr,
        secret: Secret,
        options: AgentOptions,
    ) -> Result<Self, AgentError> {
        check(&options)?;
        let listener =
            TcpListener::bind(address).map_err(|source| AgentError::Listen { address, source })?;
        Ok(Self { listener, secret, options })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves clients for as long as the process lives.
    pub fn run(&self) -> ! {
        let open = AtomicUsize::new(0);
        loop {
            thread::scope(|scope| {
                for connection in self.listener.incoming() {
                    match connection {
                        Ok(stream) => {
                            let Some(slot) = Slot::take(&open) else { continue };
                            scope.spawn(|| self.serve(stream, slot));
                        }
                        Err(error) => {
                            self.options.log.say(format_args!(
                                "warning: no connection could be taken: {error}"
                            ));
                            thread::sleep(BREATH);
                        }
                    }
                }
            });
        }
    }

    fn serve(&self, stream: TcpStream, _slot: Slot<'_>) {
        let client =
            stream.peer_addr().map_or_else(|_| "client".to_owned(), |address| address.to_string());
        match Link::tcp(stream, self.options.silence_limit) {
            Ok(link) => session::serve(&self.options, &self.secret, link, &client),
            Err(error) => self.options.log.say(format_args!("{client}: {error}")),
        }
    }
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

/// Serves one client over stdin and stdout: whoever started this process is let in.
///
/// # Errors
/// [`AgentError`] for a folder that cannot be used.
pub fn serve_stdio(options: &AgentOptions) -> Result<(), AgentError> {
    check(options)?;
    let link = Link::stdio();
    // A session that is blocked on its output cannot see that its client is gone.
    link.end_process_in_silence(options.silence_limit.saturating_mul(2));
    session::serve(options, &Secret::none(), link, "client");
    Ok(())
}

/// A line that is open.
struct Slot<'a>(&'a AtomicUsize);

impl<'a> Slot<'a> {
    /// `None`: too many are.
    fn take(open: &'a AtomicUsize) -> Option<Self> {
        open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < MOST_LINES).then_some(count + 1)
        })
        .ok()
        .map(|_| Self(open))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
