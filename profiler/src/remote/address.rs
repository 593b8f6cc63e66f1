//! [`Address`]: where an agent is, and how a line to it is opened.

use super::link::Link;
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    str::FromStr,
    time::Duration,
};

/// The port an agent listens on where no other is named.
pub const DEFAULT_PORT: u16 = 7411;
/// Time for a connection to be made.
const CONNECTING: Duration = Duration::from_secs(10);

/// Where an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `HOST:PORT`.
    Tcp(String),
    /// A program whose stdin and stdout are the line, and its arguments: `ssh board vitempo-agent
    /// --stdio`.
    Command(Vec<String>),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no address; write HOST:PORT, or a command such as `ssh board vitempo-agent --stdio`"
)]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    /// Several words, or a path, are a command, divided at spaces; no shell reads it. Without a
    /// port it is [`DEFAULT_PORT`].
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError(text.to_owned());
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        match words.as_slice() {
            [] => Err(wrong()),
            [word] if word.contains("://") => Err(wrong()),
            [word] if !word.contains('/') => host_and_port(word).map(Self::Tcp).ok_or_else(wrong),
            _ => Ok(Self::Command(words)),
        }
    }
}

fn host_and_port(word: &str) -> Option<String> {
    if word.parse::<SocketAddr>().is_ok() {
        return Some(word.to_owned());
    }
    if let Ok(ip) = word.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, DEFAULT_PORT).to_string());
    }
    match word.split_once(':') {
        None => Some(format!("{word}:{DEFAULT_PORT}")),
        Some((host, port)) => (!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
            .then(|| word.to_owned()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Command(words) => write!(f, "`{}`", words.join(" ")),
        }
    }
}

impl Address {
    /// A line to the agent, before anything is said.
    pub(super) fn open(&self, limit: Duration) -> io::Result<Link> {
        let address = match self {
            Self::Command(words) => return Link::process(words),
            Self::Tcp(address) => address,
        };
        let mut error = io::Error::other("the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECTING) {
                Ok(stream) => return Link::tcp(stream, limit),
                Err(refused) => error = refused,
            }
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_commands_are_told_apart() {
        for (text, address) in [
            ("phone", "phone:7411"),
            ("phone:80", "phone:80"),
            ("127.0.0.1", "127.0.0.1:7411"),
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("::1", "[::1]:7411"),
            ("[::1]:9", "[::1]:9"),
            ("ssh board vitempo-agent  --stdio", "`ssh board vitempo-agent --stdio`"),
            ("./board.sh", "`./board.sh`"),
        ] {
            assert_eq!(
                text.parse::<Address>().map(|a| a.to_string()),
                Ok(address.to_owned()),
                "{text}"
            );
        }
        for text in
            ["", " ", "phone:", ":7411", "phone:0", "phone:99999", "http://phone:80", "a:b:c"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
