//! Errors of forecasting the costs of a vision foundation model.

use vitempo_graph::{PredictionError, ResizeError};

/// Why costs cannot be computed from models and bundles.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AriaCostsError {
    /// The size of a patch cannot be found in the encoder.
    #[error("{model}: no convolution cuts its image into patches")]
    UnknownPatch {
        /// Name of the encoder.
        model: String,
    },
    /// Patches of this size do not consist of those that the encoder cuts its image into.
    #[error("{model}: patches of {patch} pixels are asked for, the encoder's have {side}")]
    OtherPatch {
        /// Name of the encoder.
        model: String,
        /// Side of a patch that is asked for, px.
        patch: usize,
        /// Side of a patch of the encoder, px.
        side: usize,
    },
    /// No input of the encoder is an image.
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
        /// Side of a patch, px.
        patch: usize,
    },
    /// A region that was asked for is larger than every level.
    #[error("a region of {height}x{width} is larger than every level of full frames")]
    RegionTooLarge {
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
    },
    /// The shape of a decoder input does not match the encoder's patches.
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
    /// A model cannot be resized to this size.
    #[error(transparent)]
    Resize(#[from] ResizeError),
    /// A bundle cannot forecast a model.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
}
