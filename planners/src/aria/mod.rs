//! A vision foundation model within a frame deadline (ARIA, MobiSys 2025), planned from forecasts
//! and simulated on a device.
//!
//! | subject | where |
//! |---|---|
//! | a latency and its interval at a confidence | [`Forecast`] |
//! | the latency of each part | [`AriaCosts`] |
//! | resolutions, region size, cycles per frame, and share of frames in time | [`AriaPlan`], from [`plan()`] |
//! | changes that help if no plan fits | [`Advice`] |
//! | the motion in a video, frame by frame | [`Trace`] |
//! | the outcome on a device that heats up, with ARIA, ARIA without some of its parts, or a baseline | [`System`], [`Simulation`] |
//! | the same where a network sees the frames | [`Sight`] |
//! | the outcome under a bias of the forecasts | [`robustness`] |
//! | the outcome when the device's thermal and power constants differ from the estimates | [`estimates`] |
//!
//! In the simulation, `vitempo_aria::scheduler` chooses cycles, priorities and resolutions: the
//! simulated scheduler is the shipped one.

mod advice;
mod application;
mod costs;
pub mod estimates;
mod forecast;
mod normal;
mod outcome;
mod plan;
pub mod robustness;
mod sight;
mod simulation;
mod success;
mod system;
#[cfg(test)]
mod tests;
mod trace;

pub use advice::Advice;
pub use costs::{AriaCosts, AriaDevice, Baselines, Level, RegionEncoder};
pub use forecast::Forecast;
pub use outcome::{AriaOutcome, Moment, Resolution, Staleness};
pub use plan::{AriaPlan, PlannedLevel, Requirements, Tried, plan};
pub use sight::Sight;
pub use simulation::{Simulation, SimulationError, Truth};
pub use success::Success;
pub use system::{Setup, System};
pub use trace::{Moving, Trace, TraceError, TraceFrame};

/// Why costs or requirements are invalid.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum AriaPlanError {
    /// The costs have no resolution.
    #[error("there is no resolution to choose from")]
    NoLevel,
    /// The costs have no region encoder.
    #[error("there is no region encoder to choose from")]
    NoRegion,
    /// A resolution with too many patches for a frame, or with none.
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
    /// An invalid forecast.
    #[error("{what}: {reason}")]
    Forecast {
        /// The part that the forecast is for.
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
        /// The expected range.
        must: &'static str,
    },
}
