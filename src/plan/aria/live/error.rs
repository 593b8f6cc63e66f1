//! Errors of live runs of ARIA.

use super::{
    super::{AriaCostsError, FlowError},
    DecodedError,
};
use vitempo_aria::{AriaError, CHANNELS};
use vitempo_planners::aria::SimulationError;
use vitempo_profiler::live::LiveError;

/// Why a live run of ARIA ends without results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AriaLiveError {
    /// A processor has no engine.
    #[error("there is no engine `{0}`")]
    NoEngine(&'static str),
    /// An engine for a processor that the plan does not have.
    #[error("`{0}` is no processor of the plan; those are `gpu` and `npu`")]
    UnknownEngine(String),
    /// A processor with two engines.
    #[error("`{0}` has two engines")]
    TwoEngines(String),
    /// Throttling that makes full frames no slower.
    #[error(
        "full frames cannot take {0} times as long when throttled; expected a factor from 1 on"
    )]
    Throttle(f64),
    /// The plan has no usable level.
    #[error("nothing fits {}", vitempo_graph::Latency::from_ns(*target_ns))]
    NothingFits {
        /// Longest time of a frame, ns.
        target_ns: f64,
    },
    /// The encoder cannot be resized to a size of the plan.
    #[error(transparent)]
    Costs(#[from] AriaCostsError),
    /// An engine or a model fails, or the user interrupted.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Grids or features of the runtime do not fit together.
    #[error(transparent)]
    Aria(#[from] AriaError),
    /// The decoder says something else than its shapes do.
    #[error(transparent)]
    Decoded(#[from] DecodedError),
    /// The simulator refuses the measured costs.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A trained flow does not fit the encoder or the camera.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// Full frames cannot be warped by depth.
    #[error("no decoder gives depth and labels, so that full frames cannot be warped by depth")]
    NoDepth,
    /// The encoder's first input is not an image.
    #[error("{model}: its first input is no image of 3 channels, or of {CHANNELS} with directions")]
    NoImage {
        /// Name of the encoder.
        model: String,
    },
    /// An encoder was resized to other patches than requested: a bug in vitempo.
    #[error("{height} x {width} pixels are not {rows} x {cols} patches")]
    Pixels {
        /// Pixels of the encoder.
        height: usize,
        /// Pixels of the encoder.
        width: usize,
        /// Requested patches.
        rows: usize,
        /// Requested patches.
        cols: usize,
    },
    /// The engine computes no outputs.
    #[error("the engine puts out nothing")]
    NoOutput,
    /// The encoder's first output has no features of patches.
    #[error("the encoder's first output is {shape:?}: no features of {patches} patches")]
    NoFeatures {
        /// Shape of the output.
        shape: Vec<usize>,
        /// Number of patches in the input.
        patches: usize,
    },
}
