//! [`AriaStudyError`]: why a network's quality is not known.

use std::path::PathBuf;
use vitempo::{
    aria::AriaError,
    graph::{GraphError, onnx::OnnxError},
    plan::aria::{AriaCostsError, AriaFileError, FlowError, live::DecodedError},
    planners::aria::{AriaPlanError, SimulationError},
    profiler::live::LiveError,
};

/// Why a network's quality is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AriaStudyError {
    /// A model cannot be read.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A file cannot be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A trained flow cannot be read or written.
    #[error(transparent)]
    FlowFile(#[from] AriaFileError),
    /// A trained flow does not fit the network or the camera.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// A model does not work at a size, or has no forecast.
    #[error(transparent)]
    Costs(#[from] AriaCostsError),
    /// Costs or requirements are invalid.
    #[error(transparent)]
    Plan(#[from] AriaPlanError),
    /// A system cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A size or a number is out of its range.
    #[error(transparent)]
    Aria(#[from] AriaError),
    /// The engine fails.
    #[error(transparent)]
    Engine(#[from] LiveError),
    /// A model cannot be quantised.
    #[error("the 8-bit network: {0}")]
    Quantised(#[from] GraphError),
    /// A picture cannot be written.
    #[error(transparent)]
    Picture(#[from] image::ImageError),
    /// The network has no part for a size.
    #[error("the network was not prepared for {0}")]
    Size(String),
    /// The encoder's first output is no rows of patches.
    #[error("{model}: its first output has no features of {patches} patches")]
    NoFeatures {
        /// The model.
        model: String,
        /// Patches of the input.
        patches: usize,
    },
    /// The decoder says something else than depth and labels.
    #[error(transparent)]
    Decoded(#[from] DecodedError),
}
