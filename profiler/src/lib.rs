//! The measuring protocol and the inference engines it measures.
//!
//! | question | where |
//! |---|---|
//! | which engines are there, and what must one offer? | [`backends`] |
//! | what does the clock say? | [`clock`] |
//! | what goes into a model? | [`inputs`] |
//!
//! The only crate that reads a clock for measuring.

pub mod backends;
pub mod clock;
pub mod inputs;

pub use backends::{Availability, Backend, BackendError, Capabilities, Model, ModelSource, ProfiledRuns, RunOptions, Session};
pub use clock::{RunTime, Stopwatch};
pub use inputs::InputDistribution;
