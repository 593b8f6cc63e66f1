//! [`PaperError`]: why a paper's tables cannot be recomputed.

use vitempo::planners::{
    energy::nexus6::Nexus6Error, simulator::ScenarioError, stitch::StitchError,
};

/// Why a paper's tables cannot be recomputed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaperError {
    /// A file of `data/` cannot be read.
    #[error("the file of the paper's tables is damaged: {0}")]
    Table(#[from] toml::de::Error),
    /// A row that a table should have.
    #[error("the paper's tables have no row for {0}")]
    Row(String),
    /// The measurements that planners ship cannot be read.
    #[error(transparent)]
    Nexus6(#[from] Nexus6Error),
    /// The simulator refuses a scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The planner of stitched variants refuses the paper's zoo.
    #[error(transparent)]
    Stitch(#[from] StitchError),
}
