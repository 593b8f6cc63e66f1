//! The measuring protocol and the inference engines it measures.
//!
//! | question | where |
//! |---|---|
//! | which engines are there, and what must one offer? | [`backends`] |
//! | how does an engine get onto this machine? | [`install`] |
//! | how are many models measured, resumed, interleaved? | [`sweep`] |
//! | how is one operator measured on its own? | [`single`] |
//! | does an engine compute what it should? | [`conformance`] |
//! | how much of what ran did lowering predict? | [`lowering_accuracy`] |
//! | which operators of a model does an NPU take? | [`coverage`] |
//! | does a plan run as it should? | [`live`] |
//! | how are engines of another machine measured? | [`target`], [`remote`] |
//! | what happens in one run of a model, and when has it sampled enough? | [`model_run`], [`protocol`] |
//! | what runs where: processes, cores, what this machine is | [`worker`], [`pinning`], [`environment`] |
//! | how does a program show what went wrong underway? | [`events`] |
//! | what does the clock say, and what do samples say? | [`clock`], [`statistics`] |
//! | how much memory does a run take, how much energy? | [`memory`], [`energy`] |
//! | what goes into a model? | [`inputs`], [`source`] |
//! | how is drift of the machine separated from differences between models? | [`reference`](mod@reference) |
//!
//! The only crate that reads a clock for measuring.

pub mod backends;
pub mod clock;
pub mod conformance;
pub mod coverage;
pub mod energy;
pub mod environment;
pub mod events;
pub mod inputs;
pub mod install;
pub mod live;
pub mod lowering_accuracy;
pub mod memory;
pub mod model_run;
pub mod pinning;
pub mod probe;
pub mod protocol;
pub mod reference;
pub mod remote;
pub mod single;
pub mod source;
pub mod statistics;
pub mod sweep;
pub mod target;
pub mod worker;

pub use backends::{
    Availability, Backend, BackendError, Capabilities, Model, ModelSource, OutputValues,
    ProfiledRuns, RunOptions, Session,
};
pub use clock::{RunTime, Stopwatch};
pub use inputs::InputDistribution;
pub use probe::SweepError;
pub use protocol::RunProtocol;
pub use single::profile_operators;
pub use source::Source;
pub use sweep::{Hooks, Progress, Summary, Sweep, SweepModel};
pub use target::Target;
pub use worker::{Worker, WorkerCommand, WorkerError};
