//! Split inference: the device's half of a model runs in this process, the server's half in an
//! agent, and the tensors between them go over a shaped link.
//!
//! | question | where |
//! |---|---|
//! | engines, halves and the link, ready to run frames | [`SplitRig`] |
//! | how is the server reached? | [`Reach`] |
//! | which rate has the link, and how is it kept? | [`Shape`], [`TokenBucket`] |
//! | in which precision are tensors sent? | [`Features`] |
//! | what was measured, and which frames were lost? | [`Pass`], [`FrameTimes`], [`Lost`] |
//! | how fast is the link really? | [`Throughput`] |
//! | what does the server do? | `remote/half.rs` |
//!
//! The server is an agent ([`crate::remote`]) that a command starts. On this machine its stdin and
//! stdout are one TCP connection on loopback; elsewhere they are the pipes of the command, such as
//! ssh. Each end shapes what it sends. Times are ns of the wall clock.

mod bucket;
mod error;
mod features;
pub(crate) mod layout;
mod pass;
mod rig;
mod server;
pub(crate) mod shaped;
mod throughput;

pub use bucket::{DEPTH_NS, Shape, TokenBucket};
pub use error::SplitRunError;
pub use features::{Encoding, Features, ParseFeaturesError, sent_bytes};
pub use layout::MESSAGE_BYTES;
pub use pass::{FrameTimes, Lost, Pass};
pub use rig::{Halves, SplitRig, SplitSettings};
pub use server::{Reach, Shapes};
pub use throughput::Throughput;
