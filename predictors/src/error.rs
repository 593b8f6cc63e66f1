//! Errors of training, of bundles and of evaluation.

use crate::metrics::MetricError;
use std::path::PathBuf;

/// What went wrong, and with which row, file or key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictorError {
    /// There is nothing to fit to.
    #[error(
        "there are no usable operator rows: {profiles} profiles given, {skipped} rows \
        skipped{reasons}"
    )]
    NoRows {
        /// Profiles that were given.
        profiles: usize,
        /// Rows that were left out.
        skipped: usize,
        /// Why they were left out.
        reasons: String,
    },
    /// There are too few architectures.
    #[error(
        "only {found} distinct architectures with usable rows; at least {needed} are needed: \
        profile more models"
    )]
    TooFewModels {
        /// What was found.
        found: usize,
        /// The fewest that are needed.
        needed: usize,
    },
    /// Environments differ.
    #[error(
        "profiles of different environments cannot train one bundle: {first} and {other} (model \
        `{model}`)"
    )]
    MixedEnvironments {
        /// One of the two.
        first: String,
        /// The other.
        other: String,
        /// Name of the model.
        model: String,
    },
    /// Environments have one identity and were measured on different processors.
    #[error(
        "profiles of different processors cannot be mixed, although their environments are called \
        the same: {first} and {other} (family/model; model `{model}`); keep their datasets apart"
    )]
    MixedProcessors {
        /// Family and model of one of the two.
        first: String,
        /// Of the other.
        other: String,
        /// Name of the model.
        model: String,
    },
    /// Origins differ.
    #[error("measured, imported and simulated profiles cannot be mixed (model `{model}`)")]
    MixedOrigins {
        /// Name of the model.
        model: String,
    },
    /// The data is from another environment.
    #[error("the bundle is for environment {bundle}, the data comes from {data}")]
    OtherEnvironment {
        /// The bundle's environment.
        bundle: String,
        /// The data's environment.
        data: String,
    },
    /// A regressor cannot be fitted.
    #[error("cannot fit {key}: {reason}")]
    Fit {
        /// The key.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// An option is out of its range.
    #[error("option {option}: {reason}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is no usable bundle.
    #[error("{path}: not a usable bundle: {reason}")]
    Format {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Forecasts that cannot be compared with measurements.
    #[error("{what}: {source}")]
    Metric {
        /// What was compared.
        what: String,
        /// Why it cannot be.
        source: MetricError,
    },
    /// The bundle cannot be encoded.
    #[error("cannot encode the bundle: {0}")]
    Encode(String),
}
