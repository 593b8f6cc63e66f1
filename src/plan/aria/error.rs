//! Why there are no costs of a vision foundation model.

use vitempo_graph::{PredictionError, ResizeError};

/// Why models and bundles give no costs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AriaCostsError {
    /// The encoder does not say how large a patch is.
    #[error("{model}: no convolution cuts its image into patches")]
    UnknownPatch {
        /// Name of the encoder.
        model: String,
    },
    /// The encoder has no image.
    #[error(
        "{model}: no input is an image of [batch, channels, height, width]; inputs are {shapes:?}"
    )]
    NoImage {
        /// Name of the encoder.
        model: String,
        /// Shapes of its inputs.
        shapes: Vec<Vec<usize>>,
    },
    /// A size is smaller than one patch.
    #[error("{height}x{width} holds no patch of {patch} pixels")]
    NoPatchFits {
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
        /// Pixels on a side of a patch.
        patch: usize,
    },
    /// An input of the decoder does not have the encoder's patches.
    #[error(
        "{model}: input `{input}` is {shape:?}: no part of it has the {rows} x {cols} patches \
        ({height} x {width} pixels) of the encoder"
    )]
    DecoderInput {
        /// Name of the decoder.
        model: String,
        /// Name of the input.
        input: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Patches of the encoder.
        rows: usize,
        /// Patches of the encoder.
        cols: usize,
        /// Pixels of the encoder.
        height: usize,
        /// Pixels of the encoder.
        width: usize,
    },
    /// A model cannot have the size.
    #[error(transparent)]
    Resize(#[from] ResizeError),
    /// A bundle has no forecast for a model.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
}
