//! A vision foundation model within a frame deadline (ARIA, MobiSys 2025), planned from forecasts
//! and simulated on a device.
//!
//! | question | where |
//! |---|---|
//! | how sure is a forecast, at which confidence? | [`Forecast`] |
//! | what does everything take? | [`AriaCosts`] |
//! | which resolutions, which region size, how many cycles per frame, which share of frames in time? | [`AriaPlan`], from [`plan()`] |
//! | what is to be changed if nothing fits? | [`Advice`] |
//! | what moved in a video, frame by frame? | [`Trace`] |
//! | what would happen on a device that gets warm, with ARIA, parts of it, or something else? | [`System`], [`Simulation`] |
//! | and when forecasts are off? | [`robustness`] |
//! | and when the device's heat and power are other than estimated? | [`estimates`] |
//!
//! Cycles, priorities and resolutions in the simulation are chosen by `vitempo_aria::scheduler`
//! itself: what is simulated is what ships.

mod advice;
mod application;
mod costs;
pub mod estimates;
mod forecast;
mod normal;
mod outcome;
mod plan;
pub mod robustness;
mod simulation;
mod success;
mod system;
#[cfg(test)]
mod tests;
mod trace;

pub use advice::Advice;
pub use costs::{AriaCosts, AriaDevice, Baselines, Level, RegionEncoder};
pub use forecast::Forecast;
pub use outcome::{AriaOutcome, Moment};
pub use plan::{AriaPlan, PlannedLevel, Requirements, Tried, plan};
pub use simulation::{Simulation, SimulationError, Truth};
pub use success::Success;
pub use system::{Setup, System};
pub use trace::{Moving, Trace, TraceError, TraceFrame};

/// Why no plan can be looked for.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum AriaPlanError {
    /// The costs have no resolution.
    #[error("there is no resolution to choose from")]
    NoLevel,
    /// The costs have no region encoder.
    #[error("there is no region encoder to choose from")]
    NoRegion,
    /// A resolution with more patches than a frame may have, or without any.
    #[error(
        "level {height} x {width}: {rows} x {cols} patches are more than a frame may have, or none"
    )]
    Grid {
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
        /// Patches.
        rows: usize,
        /// Patches.
        cols: usize,
    },
    /// A resolution that has no more patches than the one before it.
    #[error("levels must rise: {height} x {width} has no more patches than the level before it")]
    Order {
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
    },
    /// A forecast that is not a latency with an interval.
    #[error("{what}: {reason}")]
    Forecast {
        /// What it is the latency of.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A requirement outside its range.
    #[error("{name} is {value}; it must be {must}")]
    Requirement {
        /// Its name.
        name: &'static str,
        /// Its value, in the unit of its name.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
}
