//! [`TfliteReadError`]: why a .tflite file cannot be read.

use super::binary::Damage;
use crate::{Exceeded, GraphError};
use std::{io, path::PathBuf};

/// Why a .tflite file has no graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TfliteReadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system reports.
        source: io::Error,
    },
    /// The bytes are no TensorFlow Lite model.
    #[error("{path}: not a TensorFlow Lite model: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An operator that is not read.
    #[error("{path}: operator {index} (`{operator}`, which writes `{output}`): {reason}")]
    Operator {
        /// The file.
        path: PathBuf,
        /// Its place in the file, from 0.
        index: usize,
        /// Its name.
        operator: String,
        /// Name of the tensor that it writes.
        output: String,
        /// What is wrong.
        reason: String,
    },
    /// The model takes more than its budget.
    #[error("{path}: the model {source}")]
    Budget {
        /// The file.
        path: PathBuf,
        /// The resource and its limit.
        source: Exceeded,
    },
    /// Its operators make up no graph.
    #[error("{path}: {source}")]
    Graph {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: GraphError,
    },
}

/// The same without the file.
#[derive(Debug)]
pub(super) enum Fault {
    Damaged(String),
    Operator { index: usize, operator: String, output: String, reason: String },
    Budget(Exceeded),
    Graph(GraphError),
}

impl Fault {
    /// With the file.
    pub(super) fn of(self, path: PathBuf) -> TfliteReadError {
        match self {
            Self::Damaged(reason) => TfliteReadError::Damaged { path, reason },
            Self::Operator { index, operator, output, reason } => {
                TfliteReadError::Operator { path, index, operator, output, reason }
            }
            Self::Budget(source) => TfliteReadError::Budget { path, source },
            Self::Graph(source) => TfliteReadError::Graph { path, source },
        }
    }
}

impl From<Damage> for Fault {
    fn from(reason: Damage) -> Self {
        Self::Damaged(reason.to_owned())
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Damaged(reason)
    }
}

impl From<Exceeded> for Fault {
    fn from(source: Exceeded) -> Self {
        Self::Budget(source)
    }
}

impl From<GraphError> for Fault {
    fn from(source: GraphError) -> Self {
        Self::Graph(source)
    }
}
