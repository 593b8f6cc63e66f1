//! Engines of another machine: an [`Agent`] measures there, and a [`Remote`] is that agent as seen
//! from here.
//!
//! | question | where |
//! |---|---|
//! | where is the agent, and what carries the line? | [`Address`], `link` |
//! | who may ask? | [`Secret`] |
//! | what is said, and how is it packed? | `message`, `frame` |
//! | what does an agent do for a client, and where does it keep models? | `session`, `store` |
//! | what happens when the line is cut? | [`Remote`] |
//!
//! Each end greets in one line of text: protocol, version, a random number. From then on frames go
//! over the line, tagged with keys that follow from the secret and both numbers: a frame of
//! somebody without the secret, a damaged one, or one that was recorded earlier is not taken. What
//! is said is not hidden: latencies and models can be read by whoever reads the wire; ssh hides
//! them.
//!
//! An agent measures for one client at a time, in worker processes like a sweep on its own machine.
//! A client names no files: models are known by the digests of their bytes. When the line is cut,
//! the model run under way is given up at both ends, and made again over the next line; a row is
//! written when its answer has arrived whole, and so once or not at all.

mod address;
mod agent;
mod client;
mod connection;
mod error;
mod frame;
mod link;
mod message;
mod secret;
mod session;
mod store;

pub use address::{Address, AddressError, DEFAULT_PORT};
pub use agent::{Agent, AgentError, AgentOptions, Log, engines, serve_stdio};
pub use client::Remote;
pub use error::RemoteError;
pub use secret::{SECRET_VARIABLE, Secret, SecretError};

/// A random number for a greeting.
fn fresh_nonce() -> std::io::Result<secret::Nonce> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(nonce)
}
