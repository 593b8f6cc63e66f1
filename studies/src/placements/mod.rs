//! What becomes of placements that are chosen from forecasts, on engines: models in two and three
//! parts, every part on every engine. [`measure`] writes a [`Record`] of raw samples, [`score`]
//! compares forecasts with it. Times are in ns.
//!
//! | question | where |
//! |---|---|
//! | how is a model divided, and what runs? | [`measure`] |
//! | how far are forecasts off, and what do choices cost? | [`score`] |

pub mod measure;
pub mod score;

use serde::{Deserialize, Serialize};
use vitempo::graph::Environment;
use vitempo::planners::cost::Interval;

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The processors.
    pub engines: Vec<EngineRecord>,
    /// Numbers of parts.
    pub parts: Vec<usize>,
    /// Measured frames of every run.
    pub frames: usize,
    /// Runs of every placement, in turn with all others of the division.
    pub rounds: usize,
    /// The models, in the order in which they were measured.
    pub models: Vec<ModelRecord>,
}

/// An engine on cores of its own, and the bundle that forecasts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineRecord {
    /// Name of the processor.
    pub name: String,
    /// Where it ran.
    pub environment: Environment,
    /// Name of the bundle.
    pub bundle: String,
    /// Where the bundle's data was measured.
    pub forecast_for: Environment,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Its name.
    pub model: String,
    /// One per number of parts.
    pub divisions: Vec<Division>,
}

/// A model divided into parts that run one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Division {
    /// Tensors between the parts.
    pub cuts: Vec<String>,
    /// The parts, in the order in which they run.
    pub parts: Vec<PartRecord>,
    /// Every placement.
    pub placements: Vec<PlacementRecord>,
}

/// A part alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Its work.
    pub flops: u64,
    /// By engine, the forecast of its bundle.
    pub forecast_ns: Vec<Interval>,
    /// By engine, samples.
    pub measured_ns: Vec<Vec<u64>>,
}

/// The parts on engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementRecord {
    /// By part, the index of its engine.
    pub engines: Vec<usize>,
    /// By round, latency of each frame, one frame after the other.
    pub latency_ns: Vec<Vec<u64>>,
    /// By round, completion of each frame since the start, when parts on different engines work on
    /// different frames.
    pub completed_ns: Vec<Vec<u64>>,
    /// Largest difference from the results of the whole model, as a share of its largest value;
    /// `None` if an engine computes nothing.
    pub apart: Option<f64>,
}
