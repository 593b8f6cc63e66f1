//! [`SpaceError`]: errors of search spaces, encodings and architectures, with the allowed values.

use std::path::PathBuf;
use vitempo_graph::GraphError;

/// Why there is no space, no architecture or no graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// There is no space of this name.
    #[error(
        "there is no search space `{name}`; there are: {known}. A path to a TOML file works too"
    )]
    UnknownName {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the search space {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is no TOML.
    #[error("{file}: {reason}")]
    Toml {
        /// Name of the file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A key of the file is wrong.
    #[error("{file}: `{key}` {problem}; allowed: {allowed}")]
    Invalid {
        /// Name of the file.
        file: String,
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
        /// What is allowed.
        allowed: String,
    },
    /// The space holds fewer architectures.
    #[error(
        "the search space `{space}` holds {size} architectures, fewer than the {asked} asked for; \
        ask for fewer or widen the space"
    )]
    TooSmall {
        /// Name of the space.
        space: String,
        /// Architectures of the space.
        size: u128,
        /// Architectures that were asked for.
        asked: usize,
    },
    /// There is no memory for so many.
    #[error("no memory for more than {found} of the {asked} architectures of `{space}`")]
    Memory {
        /// Name of the space.
        space: String,
        /// Architectures that were found.
        found: usize,
        /// Architectures that were asked for.
        asked: usize,
    },
    /// Sampling finds only repetitions.
    #[error(
        "found {found} of the {asked} architectures asked for in `{space}` ({size} \
        architectures), then only repetitions; ask for fewer or widen the space"
    )]
    Exhausted {
        /// Name of the space.
        space: String,
        /// Architectures of the space.
        size: u128,
        /// Architectures that were found.
        found: usize,
        /// Architectures that were asked for.
        asked: usize,
    },
    /// A text is no encoded architecture.
    #[error("`{text}` is not an encoded architecture: at `{at}`: {reason}")]
    Encoding {
        /// The text.
        text: String,
        /// The part of it that is wrong.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// An architecture is not in the space.
    #[error(
        "this architecture is not in the search space `{space}`: {what} is {value}; allowed: \
        {allowed}"
    )]
    Outside {
        /// Name of the space.
        space: String,
        /// Which part.
        what: String,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// An architecture has no graph.
    #[error("this architecture cannot be built: {what} is {value}; allowed: {allowed}")]
    Unbuildable {
        /// Which part.
        what: String,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A multi-task model cannot have these decoders.
    #[error("decoders: {reason}")]
    Decoders {
        /// What is wrong with them.
        reason: String,
    },
    /// Its nodes make up no graph.
    #[error("this architecture cannot be built: {0}")]
    Graph(#[from] GraphError),
}
