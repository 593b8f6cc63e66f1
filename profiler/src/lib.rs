//! The measuring protocol, and the inference engines that it measures.
//!
//! | question | where |
//! |---|---|
//! | which engines are there, and which interface must one implement? | [`backends`] |
//! | how does an engine get onto this machine? | [`install`] |
//! | how are many models measured, resumed, interleaved? | [`sweep`] |
//! | how is one operator measured on its own? | [`single`] |
//! | does an engine compute correct results? | [`conformance`] |
//! | how much of the executed time did lowering predict? | [`lowering_accuracy`] |
//! | which operators of a model does an NPU take? | [`coverage`] |
//! | how long does a plan take on engines? | [`live`] |
//! | what may run on other cores while something is measured? | [`load`] |
//! | how does a model run that is split between a device and a server? | [`split`] |
//! | how are engines of another machine measured? | [`target`], [`remote`] |
//! | what happens in one run of a model, and when has it sampled enough? | [`model_run`], [`protocol`] |
//! | what runs where: processes, cores, what this machine is | [`worker`], [`pinning`], [`environment`] |
//! | how does a program print the warnings of the libraries? | [`events`] |
//! | how are times read, and how are samples summarised? | [`clock`], [`statistics`] |
//! | how much memory does a run take, how much energy? | [`memory`], [`energy`] |
//! | what are the inputs and weights of a model? | [`inputs`], [`source`] |
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
pub mod host;
pub mod inputs;
pub mod install;
pub mod live;
pub mod load;
pub mod lowering_accuracy;
pub mod memory;
pub mod model_run;
#[cfg(any(feature = "onnxruntime", feature = "torch"))]
mod nvml;
pub mod pinning;
pub mod priority;
pub mod probe;
pub mod protocol;
pub mod reference;
pub mod remote;
pub mod single;
pub mod source;
pub mod split;
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
pub use load::{Beside, Load, LoadSpec};
pub use probe::SweepError;
pub use protocol::RunProtocol;
pub use single::profile_operators;
pub use source::Source;
pub use sweep::{Hooks, MemoryRuns, Progress, Summary, Sweep, SweepModel};
pub use target::Target;
pub use worker::{Worker, WorkerCommand, WorkerError};
