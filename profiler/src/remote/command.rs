//! [`AgentCommand`]: the command whose stdin and stdout lead to an agent.

use super::link::Link;
use std::{fmt, io, str::FromStr};

/// A program that starts an agent or leads to one, with its arguments, divided at spaces; no shell
/// reads it: `ssh board vitempo-agent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand(Vec<String>);

/// Why a text is not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentCommandError {
    /// There is no word in it.
    #[error("the command is empty; expected one such as `ssh board vitempo-agent`")]
    Empty,
    /// It looks like an address.
    #[error(
        "`{0}` is an address, and agents do not listen; expected a command that starts one, such \
        as `ssh {host} vitempo-agent`",
        host = host(.0)
    )]
    Address(String),
}

fn host(address: &str) -> &str {
    let (_, authority) = address.split_once("://").unwrap_or(("", address));
    authority.split_once(':').map_or(authority, |(host, _)| host)
}

impl FromStr for AgentCommand {
    type Err = AgentCommandError;

    fn from_str(text: &str) -> Result<Self, AgentCommandError> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let is_address = |word: &str| {
            let port = word.rsplit_once(':').map(|(_, port)| port);
            word.contains("://") || port.is_some_and(|port| port.parse::<u16>().is_ok())
        };
        match words.as_slice() {
            [] => Err(AgentCommandError::Empty),
            [word] if is_address(word) => Err(AgentCommandError::Address(word.clone())),
            _ => Ok(Self(words)),
        }
    }
}

impl FromIterator<String> for AgentCommand {
    fn from_iter<T: IntoIterator<Item = String>>(words: T) -> Self {
        Self(words.into_iter().collect())
    }
}

impl fmt::Display for AgentCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.join(" "))
    }
}

impl AgentCommand {
    /// Starts the command; its stdin and stdout are the line.
    pub(super) fn open(&self, largest_message: usize) -> io::Result<Link> {
        Link::process(&self.0, largest_message)
    }

    /// Starts the command; one end of a TCP connection on loopback is its stdin and stdout.
    pub(super) fn open_loopback(&self, largest_message: usize) -> io::Result<Link> {
        Link::loopback(&self.0, largest_message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_refused_and_the_refusal_shows_the_command() {
        for command in ["ssh board vitempo-agent", "./board.sh", "board-agent"] {
            let read = command.parse::<AgentCommand>().map(|read| read.to_string());
            assert_eq!(read, Ok(format!("`{command}`")));
        }
        for address in ["board:7411", "tcp://board:7411"] {
            let error = address.parse::<AgentCommand>().map_err(|error| error.to_string());
            assert!(error.is_err_and(|error| error.contains("`ssh board vitempo-agent`")));
        }
        assert_eq!(" ".parse::<AgentCommand>(), Err(AgentCommandError::Empty));
    }
}
