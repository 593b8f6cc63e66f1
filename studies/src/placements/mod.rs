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
use std::path::{Path, PathBuf};
use vitempo::graph::{Environment, files::write_whole};
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

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct RecordError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

impl Record {
    /// Reads a record; `None` where the file does not exist.
    ///
    /// # Errors
    /// [`RecordError`] naming the file, and the field at fault.
    pub fn read(path: &Path) -> Result<Option<Self>, RecordError> {
        let refused = |reason: String| RecordError { path: path.to_owned(), reason };
        match std::fs::read(path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|e| refused(e.to_string()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// [`RecordError`] naming the file.
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        let refused = |reason: String| RecordError { path: path.to_owned(), reason };
        let text = serde_json::to_string(self).map_err(|error| refused(error.to_string()))?;
        write_whole(path, text.as_bytes()).map_err(|error| refused(error.to_string()))
    }
}
