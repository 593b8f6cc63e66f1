//! Measures with engines of another machine: an agent runs there ([`serve`]), and a [`Remote`] is
//! its client here.
//!
//! | question | where |
//! |---|---|
//! | which command leads to the agent, and how does the connection work? | [`AgentCommand`], `link` |
//! | which messages are sent, and how are they encoded? | `message`, `frame` |
//! | what does an agent do for a client, and where does it keep models? | `session`, `store` |
//! | what happens when the connection breaks? | [`Remote`] |
//! | how does an agent run the server's half of a split model? | `half`, [`crate::split`] |
//!
//! The connection is the stdin and stdout of a command such as `ssh board vitempo-agent`: ssh or
//! adb authenticates and encrypts, and no port listens. Each end greets in one line of text with
//! its protocol and version. From then on frames with checksums follow.
//!
//! An agent measures for one client at a time, in worker processes like a sweep on its own machine.
//! A client names no files: models are identified by the digests of their bytes. When the
//! connection breaks, both ends discard the model run under way, and the client repeats it over the
//! next connection. A row is written when its answer has arrived completely.

mod agent;
mod client;
mod command;
pub(crate) mod connection;
mod error;
pub(crate) mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod half;
pub(crate) mod link;
pub(crate) mod message;
mod options;
mod session;
mod store;

pub use agent::{AgentError, engines, serve};
pub use client::Remote;
pub use command::{AgentCommand, AgentCommandError};
pub use error::RemoteError;
pub use options::{AgentOptions, Log};
