//! [`RemoteError`]: why an agent cannot measure, and what to do about it.

use super::{command::AgentCommand, message};
use std::io;

/// Why an agent measures nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The command cannot be started.
    #[error("cannot start {command}: {source}")]
    Unreachable {
        /// The command that leads to the agent.
        command: AgentCommand,
        /// The cause.
        source: io::Error,
    },
    /// The connection is open and silent.
    #[error("{command} sent nothing")]
    Mute {
        /// The command that leads to the agent.
        command: AgentCommand,
    },
    /// Another program answers.
    #[error("{command} is not a vitempo agent: it sent {said:?}")]
    Foreign {
        /// The command that leads to the agent.
        command: AgentCommand,
        /// What it answered.
        said: String,
    },
    /// The agent is of another version.
    #[error("the agent of {command} is {theirs}, and this is {}", message::ours())]
    Version {
        /// The command that leads to the agent.
        command: AgentCommand,
        /// The agent's version.
        theirs: String,
    },
    /// The agent has another client.
    #[error("the agent of {command} is measuring for another client")]
    Busy {
        /// The command that leads to the agent.
        command: AgentCommand,
    },
    /// The agent refused a request.
    #[error("the agent of {command} refused: {reason}")]
    Refused {
        /// The command that leads to the agent.
        command: AgentCommand,
        /// What is wrong.
        reason: String,
    },
    /// The connection broke.
    #[error("the connection to {command} broke: {reason}")]
    Cut {
        /// The command that leads to the agent.
        command: AgentCommand,
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
    #[error("the agent of {command}: {reason}")]
    NotThere {
        /// The command that leads to the agent.
        command: AgentCommand,
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The environment is another one now.
    #[error("{command} leads to another environment now: {is}; the sweep began in {was}")]
    Changed {
        /// The command that leads to the agent.
        command: AgentCommand,
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
            Self::Unreachable { .. } | Self::Mute { .. } => {
                "run the command by itself: it must start `vitempo-agent` and must not prompt"
            }
            Self::Foreign { .. } => {
                "the command must start `vitempo-agent`, and login scripts must not print to stdout"
            }
            Self::Version { .. } => "put the same vitempo on both machines",
            Self::Busy { .. } => {
                "wait until that sweep has ended; two at a time would disturb each other"
            }
            Self::GaveUp { .. } => {
                "finished measurements are kept; the same command continues with the missing ones"
            }
            Self::NotThere { hint, .. } => {
                return hint.clone().map(|hint| format!("on the agent's machine: {hint}"));
            }
            Self::Changed { .. } => {
                "each session has one environment: run the command again for this one"
            }
            Self::Refused { .. } | Self::Cut { .. } => return None,
        };
        Some(text.to_owned())
    }
}
