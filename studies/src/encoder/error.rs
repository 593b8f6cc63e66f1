//! [`EncoderError`]: why the layers of an encoder are not known.

use vitempo::{graph::PredictionError, models::ModelError, training::TrainingError};

/// Why the layers of an encoder are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncoderError {
    /// The model cannot be read, or does not work at a size.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A bundle does not forecast it.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
    /// The measurements cannot be read.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// A model without attention has no such layers.
    #[error("{0}: no attention was found")]
    NoAttention(String),
}
