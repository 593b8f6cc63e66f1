//! [`ZooError`]: errors of zoos.

use super::codes::MOST_LISTED;
use std::{
    io,
    path::{Path, PathBuf},
};
use vitempo_graph::{GraphError, onnx::OnnxError, sparsify::SparsifyError};
use vitempo_planners::stitch::{AssemblyError, CutError};
#[cfg(feature = "train")]
use vitempo_predictors::accuracy::AccuracyError;
#[cfg(feature = "profile")]
use vitempo_profiler::BackendError;

/// Why a zoo cannot be made, read or measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZooError {
    /// A tasks file that cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    NoTasksFile {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file or folder that cannot be read, made or written.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The failed action: `read`, `make folder` or `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file with invalid contents.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that is not a NumPy array of a kind that can be read.
    #[error("{}: {reason}", .path.display())]
    Array {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A task, a variant or a processor of a tasks file that cannot be used.
    #[error("{}: {of}: {reason}", .path.display())]
    Entry {
        /// The tasks file.
        path: PathBuf,
        /// The entry.
        of: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A tasks file without that task.
    #[error("{} has no task `{name}`", .path.display())]
    UnknownTask {
        /// The tasks file.
        path: PathBuf,
        /// The requested name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Several tasks, and none was chosen.
    #[error("{} has {count} tasks", .path.display())]
    SeveralTasks {
        /// The tasks file.
        path: PathBuf,
        /// The number of tasks.
        count: usize,
    },
    /// A task without that variant.
    #[error("{}: task `{task}`: there is no variant `{name}`", .path.display())]
    UnknownVariant {
        /// The tasks file.
        path: PathBuf,
        /// The task.
        task: String,
        /// The requested name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A stitched variant that names too few or too many variants.
    #[error("{}: task `{task}`: {named} variants for {positions} positions", .path.display())]
    Positions {
        /// The tasks file.
        path: PathBuf,
        /// The task.
        task: String,
        /// Variants that are named.
        named: usize,
        /// Positions of the task.
        positions: usize,
    },
    /// A task whose variants cannot be cut where the tasks file says.
    #[error("{}: task `{task}`: {source}", .path.display())]
    TaskCut {
        /// The tasks file.
        path: PathBuf,
        /// The task.
        task: String,
        /// The tensor, and the reason.
        source: Box<CutError>,
    },
    /// A task that has no accuracy to measure.
    #[error("task `{task}`: {reason}")]
    NotClassifying {
        /// The task.
        task: String,
        /// The difference from models with one input and one row of logits for each image.
        reason: String,
    },
    /// A model or a variant that is named twice.
    #[error("{what} `{name}` is asked for twice")]
    Twice {
        /// `variant` or `model`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Tensors to cut at, which are those of one model, for several models.
    #[error("tensors to cut at are of one model, there are {0}")]
    CutsOfSeveral(usize),
    /// Too many stitched variants to be listed.
    #[error("{variants} variants of {positions} subgraphs: more than {MOST_LISTED} stitched ones")]
    TooMany {
        /// Variants of the task.
        variants: usize,
        /// Subgraphs of each.
        positions: usize,
    },
    /// An engine that does not exist.
    #[cfg(feature = "profile")]
    #[error(transparent)]
    UnknownEngine(BackendError),
    /// An engine that is not available, or fails.
    #[cfg(feature = "profile")]
    #[error(transparent)]
    Engine(#[from] BackendError),
    /// A model that cannot be given to an engine.
    #[error("{0}")]
    NotRunnable(String),
    /// An error with the file, task or variant that it is about.
    #[error("{what}: {source}")]
    About {
        /// The file, task or variant.
        what: String,
        /// The error.
        source: Box<Self>,
    },
    /// A model that cannot be read or written.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A variant whose graph cannot be built.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A model that cannot be made sparse.
    #[error(transparent)]
    Sparsify(#[from] SparsifyError),
    /// A model that cannot be cut.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// Subgraphs that do not fit each other.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// Measured accuracies that no estimator can be fitted to.
    #[cfg(feature = "train")]
    #[error(transparent)]
    Accuracy(#[from] AccuracyError),
    /// The caller stopped the computation.
    #[error("interrupted")]
    Interrupted,
    /// A bug in vitempo.
    #[error("{0}")]
    Internal(String),
}

impl ZooError {
    /// The error, with the file, task or variant that it is about.
    #[must_use]
    pub fn about(self, what: impl ToString) -> Self {
        Self::About { what: what.to_string(), source: Box::new(self) }
    }

    /// An invalid file.
    pub(super) fn file(path: &Path, reason: impl ToString) -> Self {
        Self::File { path: path.to_owned(), reason: reason.to_string() }
    }

    /// Returns a function that adds the action and the file to an error of the operating system.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
