//! [`SpaceError`]: what can be wrong with a search space, an encoding or an architecture, and what
//! is allowed instead.

use std::path::PathBuf;
use vitempo_graph::GraphError;

/// Why there is no space, no architecture or no graph.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum SpaceError {
    #[error(
        "there is no search space `{name}`; there are: {known}. A path to a TOML file works too"
    )]
    UnknownName { name: String, known: String },
    #[error("cannot read the search space {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{file}: {reason}")]
    Toml { file: String, reason: String },
    #[error("{file}: `{key}` {problem}; allowed: {allowed}")]
    Invalid { file: String, key: String, problem: String, allowed: String },
    #[error(
        "the search space `{space}` holds {size} architectures, fewer than the {asked} asked for; \
        ask for fewer or widen the space"
    )]
    TooSmall { space: String, size: u128, asked: usize },
    #[error(
        "found {found} of the {asked} architectures asked for in `{space}` ({size} \
        architectures), then only repetitions; ask for fewer or widen the space"
    )]
    Exhausted { space: String, size: u128, found: usize, asked: usize },
    #[error("`{text}` is no encoded architecture: at `{at}`: {reason}")]
    Encoding { text: String, at: String, reason: String },
    #[error(
        "this architecture is not in the search space `{space}`: {what} is {value}; allowed: \
        {allowed}"
    )]
    Outside { space: String, what: String, value: String, allowed: String },
    #[error("this architecture cannot be built: {what} is {value}; allowed: {allowed}")]
    Unbuildable { what: String, value: String, allowed: String },
    #[error("this architecture cannot be built: {0}")]
    Graph(#[from] GraphError),
}
