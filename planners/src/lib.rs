//! Where should each part of a model run? Plain functions from costs to plans, and the simulator that judges plans.
//!
//! | question | where |
//! |---|---|
//! | what does everything cost? | [`cost`] |
//! | what does an answer look like? | [`Plan`] |
//! | which part on the device, which on a server? | [`split`] |
//! | which stages on which processors, frames overlapping? | [`pipeline`] |
//!
//! Planners take costs, not models: no file is read and nothing is predicted here. Every figure carries its level of [`Evidence`].

pub mod cost;
mod evidence;
pub mod pipeline;
mod plan;
pub mod split;

pub use evidence::Evidence;
pub use plan::{Optimality, Plan, Predicted, Regret, Stage, Transfer, duration, energy};
