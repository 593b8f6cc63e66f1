//! Where should each part of a model run? Plain functions from costs to plans, and the simulator
//! that judges plans.
//!
//! | question | where |
//! |---|---|
//! | what does everything cost? | [`cost`] |
//! | what does an answer look like? | [`Plan`] |
//! | which part on the device, which on a server? | [`split`] |
//! | which stages on which processors, frames overlapping? | [`pipeline`] |
//! | which sparse variants, stitched how, on which processors? | [`stitch`] |
//! | several models at once that wait for each other: which variant of each, where, in which order? | [`multi_dnn`] |
//! | full frames here, moving regions there, every frame in time? | [`aria`] |
//! | what are those parts as graphs of their own? | [`parts()`] |
//! | what would happen? | [`simulator`] |
//! | what drew what, and is the server worth it? | [`energy`] |
//! | what does that look like? | [`picture`] |
//! | which of a paper's figures come out, and which contradict each other? | [`papers`] |
//!
//! Planners take costs, not models: no file is read and nothing is predicted here. Every figure
//! carries its level of [`Evidence`].

pub mod aria;
pub mod cost;
pub mod energy;
mod evidence;
pub mod multi_dnn;
pub mod papers;
mod parts;
pub mod picture;
pub mod pipeline;
mod plan;
pub mod simulator;
pub mod split;
pub mod stitch;

pub use evidence::Evidence;
pub use parts::{PartsError, parts};
pub use plan::{Optimality, Plan, Predicted, Regret, Stage, Transfer, duration, energy, rate};
