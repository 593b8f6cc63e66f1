//! Plans where each part of a model runs: functions from costs to plans, and the simulator that
//! evaluates plans.
//!
//! | question | where |
//! |---|---|
//! | what does each operator cost? | [`cost`] |
//! | what does a plan contain? | [`Plan`] |
//! | which part on the device, which on a server? | [`split`] |
//! | which stages on which processors, frames overlapping? | [`pipeline`] |
//! | which sparse variants, stitched how, on which processors? | [`stitch`] |
//! | several models at once that wait for each other: which variant of each, where, in which order? | [`multi_dnn`] |
//! | full frames on one processor, moving regions on another, every frame in time? | [`aria`] |
//! | what are those parts as graphs of their own? | [`parts()`] |
//! | how does a plan perform in a simulation? | [`simulator`] |
//! | which part of an application takes how much energy, and does a server save energy? | [`mod@energy`] |
//! | pictures of plans and simulations | [`picture`] |
//!
//! Planners take costs, not models: no file is read and nothing is predicted here. Every figure
//! carries its level of [`Evidence`].

pub mod aria;
pub mod cost;
pub mod energy;
mod evidence;
mod meter;
pub mod multi_dnn;
mod parts;
pub mod picture;
pub mod pipeline;
mod plan;
mod regret;
pub mod simulator;
pub mod split;
pub mod stitch;

pub use evidence::Evidence;
pub use parts::{PartsError, parts};
pub use plan::{Optimality, Plan, Predicted, Stage, Transfer, duration, energy, rate};
pub use regret::Regret;
