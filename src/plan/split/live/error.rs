//! [`LiveSplitError`]: why a split does not run.

use crate::plan::{costs::PlanCostsError, partition::PartitionError};
use vitempo_profiler::{SweepError, split::SplitRunError};

/// Why a split does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveSplitError {
    /// An end does not start, fails or is lost.
    #[error(transparent)]
    Run(#[from] SplitRunError),
    /// The device's engine is not available.
    #[error("the device: {0}")]
    Device(#[from] SweepError),
    /// A processor of the costs without an engine.
    #[error("processor `{processor}` has no engine")]
    NoEngine {
        /// Its name.
        processor: String,
    },
    /// An engine for a processor that the costs lack, or that has one already.
    #[error("no processor needs the engine of `{name}`: there are `{device}` and `{server}`")]
    UnknownEngine {
        /// The given name.
        name: String,
        /// The device's name.
        device: String,
        /// The server's name.
        server: String,
    },
    /// A link that cannot be shaped like this.
    #[error("the link from `{from}` to `{to}` {reason}")]
    Link {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The model cannot be cut like this.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The costs are of another model.
    #[error(transparent)]
    Costs(#[from] PlanCostsError),
    /// The inputs cannot be filled, or results have other shapes.
    #[error("{0}")]
    Values(String),
}
