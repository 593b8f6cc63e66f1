//! [`RemoteError`]: why an agent measures nothing, and what to do about it.

use super::{address::Address, message, secret::SECRET_VARIABLE};
use std::io;

/// Why an agent measures nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Nothing answers at the address.
    #[error("no agent at {address}: {source}")]
    Unreachable {
        /// Address of the agent.
        address: Address,
        /// The cause.
        source: io::Error,
    },
    /// The connection is open and silent.
    #[error("what is at {address} said nothing")]
    Mute {
        /// Address of the agent.
        address: Address,
    },
    /// Something else answers.
    #[error("what is at {address} is no vitempo agent: it said {said:?}")]
    Foreign {
        /// Address of the agent.
        address: Address,
        /// What it answered.
        said: String,
    },
    /// The agent is of another version.
    #[error("the agent at {address} is {theirs}, and this is {}", message::ours())]
    Version {
        /// Address of the agent.
        address: Address,
        /// The agent's version.
        theirs: String,
    },
    /// The secrets differ.
    #[error("the agent at {address} has another secret")]
    Secret {
        /// Address of the agent.
        address: Address,
    },
    /// The agent has another client.
    #[error("the agent at {address} is measuring for another client")]
    Busy {
        /// Address of the agent.
        address: Address,
    },
    /// The agent refused a request.
    #[error("the agent at {address} refused: {reason}")]
    Refused {
        /// Address of the agent.
        address: Address,
        /// What is wrong.
        reason: String,
    },
    /// The connection broke.
    #[error("the line to {address} was cut: {reason}")]
    Cut {
        /// Address of the agent.
        address: Address,
        /// What is wrong.
        reason: String,
    },
    /// The agent could not be reached again.
    #[error("gave up after {tries} tries to reach the agent again: {last}")]
    GaveUp {
        /// How often it was tried.
        tries: usize,
        /// The last error.
        last: Box<RemoteError>,
    },
    /// The backend is not on the agent's machine.
    #[error("the agent at {address}: {reason}")]
    NotThere {
        /// Address of the agent.
        address: Address,
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The environment is another one now.
    #[error("what is at {address} is another environment now: {is}; the sweep began in {was}")]
    Changed {
        /// Address of the agent.
        address: Address,
        /// The environment before.
        was: String,
        /// The environment now.
        is: String,
    },
}

impl RemoteError {
    /// Whether trying again may help.
    pub(super) fn passes(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Mute { .. } | Self::Busy { .. } | Self::Cut { .. }
        )
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unreachable { address: Address::Command(_), .. }
            | Self::Mute { address: Address::Command(_) } => {
                "try the command by itself: it is to start `vitempo-agent --stdio` and to ask for \
                nothing (--remote)"
            }
            Self::Unreachable { .. } => {
                "start `vitempo agent` there, and forward its port if it listens on loopback (adb \
                forward, ssh -L)"
            }
            Self::Mute { .. } => {
                "does the agent run there? A forwarded port opens even if nothing listens behind \
                it (--remote)"
            }
            Self::Foreign { .. } => {
                "is this the agent's address? A login script that prints something is in the way \
                too (--remote)"
            }
            Self::Version { .. } => "put the same vitempo on both machines",
            Self::Secret { .. } => {
                return Some(format!(
                    "give what the agent was given: {SECRET_VARIABLE}, or --secret-file FILE"
                ));
            }
            Self::Busy { .. } => {
                "wait until that sweep has ended; two at a time would disturb each other"
            }
            Self::GaveUp { .. } => {
                "what was measured is kept; the same command goes on with what is missing"
            }
            Self::NotThere { hint, .. } => {
                return hint.clone().map(|hint| format!("on the agent's machine: {hint}"));
            }
            Self::Changed { .. } => {
                "measurements of different environments go into sessions of their own: run the \
                command again for this one"
            }
            Self::Refused { .. } | Self::Cut { .. } => return None,
        };
        Some(text.to_owned())
    }
}
