//! [`StitchingError`]: errors of plans of stitched variants.

use crate::{BundleError, zoo::ZooError};
use std::path::PathBuf;
use vitempo_graph::{Precision, PredictionError};
use vitempo_planners::stitch::StitchError;

/// Why tasks cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StitchingError {
    /// A tasks file, or a model of it, that cannot be read.
    #[error(transparent)]
    Zoo(#[from] ZooError),
    /// Costs, accuracies or objectives that do not fit each other, or a task that cannot run.
    #[error(transparent)]
    Stitch(#[from] StitchError),
    /// There are no orders of processors to choose from.
    #[error("{source}")]
    Orders {
        /// The reason.
        source: StitchError,
        /// Whether processors may take several positions.
        repeated: bool,
    },
    /// A bundle that cannot be opened.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A subgraph that a bundle cannot forecast.
    #[error("{what}: {source}")]
    Prediction {
        /// Its task and variant, and the processor.
        what: String,
        /// The reason.
        source: PredictionError,
    },
    /// A variant in floats on a processor whose bundles are only for int8.
    #[error(
        "{what}: processor `{processor}` has predictors for int8 alone, which hold for no model in \
        floats"
    )]
    Int8Alone {
        /// The task and the variant.
        what: String,
        /// The processor's name.
        processor: String,
    },
    /// Two bundles for one precision.
    #[error("processor `{processor}` has two bundles for {precision}")]
    TwoBundles {
        /// The processor's name.
        processor: String,
        /// The precision of both.
        precision: Precision,
    },
    /// There are neither bundles nor engines for latencies.
    #[error("{} names no processor with bundles", .0.display())]
    NoProcessors(PathBuf),
    /// A processor with bundles that has no engine, where others have one.
    #[error("processor `{0}` has no engine")]
    NoEngine(String),
    /// Too many orders to run.
    #[error("every order is run, there are {0}")]
    TooManyOrders(usize),
    /// A task without an objective.
    #[error("{}: task `{task}`: it has no objective", .path.display())]
    NoObjective {
        /// The tasks file.
        path: PathBuf,
        /// The task's name.
        task: String,
    },
    /// A variant without an accuracy.
    #[error(
        "{}: task `{task}`, variant `{variant}`: its accuracy is not known", .path.display()
    )]
    NoAccuracy {
        /// The tasks file.
        path: PathBuf,
        /// The task's name.
        task: String,
        /// The variant's name.
        variant: String,
    },
    /// Measured accuracies of a task that cannot be used.
    #[error("task `{task}`: {reason}")]
    Accuracies {
        /// The task's name.
        task: String,
        /// The file, the line and the reason.
        reason: String,
    },
    /// Costs from a file that do not fit the tasks.
    #[error("{}: {reason}", .path.display())]
    Costs {
        /// The file.
        path: PathBuf,
        /// The node or processor at fault.
        reason: String,
    },
    /// An engine or a run on it failed.
    #[cfg(feature = "profile")]
    #[error(transparent)]
    Live(#[from] super::live::StitchSessionError),
}
