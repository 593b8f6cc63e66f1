//! Why there is no predictor, no bundle or no evaluation.

use crate::metrics::MetricError;
use std::path::PathBuf;

/// What went wrong, and with which row, file or key.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PredictorError {
    #[error(
        "there are no usable operator rows: {profiles} profiles given, {skipped} rows \
        skipped{reasons}"
    )]
    NoRows { profiles: usize, skipped: usize, reasons: String },
    #[error(
        "only {found} distinct architectures with usable rows; at least {needed} are needed: \
        profile more models"
    )]
    TooFewModels { found: usize, needed: usize },
    #[error(
        "profiles of different environments cannot train one bundle: {first} and {other} (model \
        `{model}`)"
    )]
    MixedEnvironments { first: String, other: String, model: String },
    #[error("measured, imported and simulated profiles cannot be mixed (model `{model}`)")]
    MixedOrigins { model: String },
    #[error("the bundle is for environment {bundle}, the data comes from {data}")]
    OtherEnvironment { bundle: String, data: String },
    #[error("cannot fit {key}: {reason}")]
    Fit { key: String, reason: String },
    #[error("option {option}: {reason}")]
    Option { option: &'static str, reason: String },
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{path}: not a usable bundle: {reason}")]
    Format { path: PathBuf, reason: String },
    #[error("{what}: {source}")]
    Metric { what: String, source: MetricError },
    #[error("cannot encode the bundle: {0}")]
    Encode(String),
}
