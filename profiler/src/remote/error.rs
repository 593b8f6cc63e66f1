//! [`RemoteError`]: why an agent measures nothing, and what to do about it.

use super::{address::Address, message, secret::SECRET_VARIABLE};
use std::io;

/// Why an agent measures nothing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RemoteError {
    #[error("no agent at {address}: {source}")]
    Unreachable { address: Address, source: io::Error },
    #[error("what is at {address} said nothing")]
    Mute { address: Address },
    #[error("what is at {address} is no vitempo agent: it said {said:?}")]
    Foreign { address: Address, said: String },
    #[error("the agent at {address} is {theirs}, and this is {}", message::ours())]
    Version { address: Address, theirs: String },
    #[error("the agent at {address} has another secret")]
    Secret { address: Address },
    #[error("the agent at {address} is measuring for another client")]
    Busy { address: Address },
    #[error("the agent at {address} refused: {reason}")]
    Refused { address: Address, reason: String },
    #[error("the line to {address} was cut: {reason}")]
    Cut { address: Address, reason: String },
    #[error("gave up after {tries} tries to reach the agent again: {last}")]
    GaveUp { tries: usize, last: Box<RemoteError> },
    #[error("the agent at {address}: {reason}")]
    NotThere { address: Address, reason: String, hint: Option<String> },
    #[error("what is at {address} is another environment now: {is}; the sweep began in {was}")]
    Changed { address: Address, was: String, is: String },
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
                "measurements of different environments go into sittings of their own: run the \
                command again for this one"
            }
            Self::Refused { .. } | Self::Cut { .. } => return None,
        };
        Some(text.to_owned())
    }
}
