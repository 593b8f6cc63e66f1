//! [`RunKey`]: the key of a model run. Every row of a measurement table has it.

use std::fmt;
use vitempo_graph::ModelProfile;

/// One run of one model: no dataset has two with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// [`vitempo_graph::Environment::id`].
    pub environment_id: String,
    /// Digest of the model's graph.
    pub architecture: String,
    /// The model's name: two files can hold the same architecture.
    pub model: String,
    /// Name of the session.
    pub session: String,
    /// Round within the session.
    pub round: u64,
}

impl RunKey {
    /// The columns of a measurement table that hold it.
    pub(crate) const COLUMNS: [&str; 5] =
        ["environment_id", "architecture", "model", "sitting", "round"];
}

impl From<&ModelProfile> for RunKey {
    fn from(profile: &ModelProfile) -> Self {
        Self {
            environment_id: profile.environment.id(),
            architecture: profile.model.architecture.clone(),
            model: profile.model.name.clone(),
            session: profile.session.clone(),
            round: profile.round as u64,
        }
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "model run {} of session `{}`, `{}` ({}) in {}",
            self.round, self.session, self.model, self.architecture, self.environment_id
        )
    }
}
