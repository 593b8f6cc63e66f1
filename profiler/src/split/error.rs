//! [`SplitRunError`]: why a split model does not run.

use crate::{live::LiveError, remote::RemoteError};

/// Why a split model does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitRunError {
    /// The device's engine does not start, a part fails on it, or both halves want one core.
    #[error(transparent)]
    Device(#[from] LiveError),
    /// The server is not reached, or has no such engine.
    #[error("the server: {0}")]
    Unreached(#[from] RemoteError),
    /// The server refuses a part, or fails to run it.
    #[error("the server: {reason}")]
    Server {
        /// What is wrong.
        reason: String,
    },
    /// The server was lost again and again, and no frame was completed.
    #[error("no frame was completed; the server was lost {times} times: {reason}")]
    Lost {
        /// How often.
        times: usize,
        /// The last reason.
        reason: String,
    },
    /// The parts do not fit together.
    #[error("{0}")]
    Parts(String),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl SplitRunError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreached(error) => error.hint(),
            _ => None,
        }
    }
}
