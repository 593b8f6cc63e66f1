//! A discrete-event simulator of processors, links and cameras, which predicts how a plan performs.
//!
//! Time is whole nanoseconds; the same scenario and seed give the same outcome, event by event.
//! Processors and links are single servers without preemption: the stream with the lowest priority
//! number is next, among equals the first that arrived. Stages are workers with bounded queues
//! between them: a worker that finds the next queue full keeps its frame and waits (blocking after
//! service) while its processor goes on with other work.
//!
//! | part | where |
//! |---|---|
//! | the input of a simulation | [`Scenario`] |
//! | a program that chooses its work during the simulation | [`Application`] |
//! | the outcome | [`Outcome`] |
//! | frequency, power, contention | [`ProcessorModel`], [`Contention`] |
//! | temperature and throttling | [`Thermal`], [`Throttle`] |
//! | constants with their sources, and how much rankings depend on the estimates | [`constants`], [`sensitivity`] |

mod application;
pub mod constants;
mod device;
mod engine;
mod events;
mod noise;
mod outcome;
mod scenario;
pub mod sensitivity;
mod thermal;

pub use application::Application;
pub use device::{Contention, Dvfs, ProcessorModel};
pub use engine::{simulate, simulate_application};
pub use outcome::{Outcome, ProcessorOutcome, Reading, Span, StreamOutcome, nearest_rank};
pub use scenario::{
    Camera, Gate, Policy, Scenario, ScenarioError, Source, StageModel, Stream, Task,
};
pub use thermal::{Thermal, Throttle};
