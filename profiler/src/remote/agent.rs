//! [`serve`]: measures on the machine of the engines, for the client at the other end of stdin and
//! stdout.

use super::{link::Link, message::PIECE, options::AgentOptions, session};
use crate::backends::{self, Availability, RunOptions};
use std::{
    fs::{self, DirBuilder},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

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
    /// What is at the other end is not a client of this version.
    #[error("expected the greeting of a vitempo client on stdin: {0}")]
    Stranger(String),
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
/// [`AgentError`] for a folder or a silence limit that cannot be used, and for another end that does
/// not greet as a client.
pub fn serve(options: &AgentOptions) -> Result<(), AgentError> {
    check(options)?;
    let link = Link::stdio(options.message_bytes.max(PIECE));
    // A session that is blocked on its output cannot see that its client is gone.
    link.end_process_in_silence(options.silence_limit.saturating_mul(2));
    session::serve(options, link).map_err(AgentError::Stranger)
}
