//! [`VisitKey`]: what makes a visit unique. Every row of a measurement table carries it.

use std::fmt;
use vitempo_graph::ModelProfile;

/// One visit to one model: no dataset has two with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VisitKey {
    /// [`vitempo_graph::Environment::id`].
    pub environment_id: String,
    /// Digest of the model's graph.
    pub architecture: String,
    /// The model's name: two files can hold the same architecture.
    pub model: String,
    /// Name of the sitting.
    pub sitting: String,
    /// Round within the sitting.
    pub round: u64,
}

impl VisitKey {
    /// The columns of a measurement table that hold it.
    pub(crate) const COLUMNS: [&str; 5] =
        ["environment_id", "architecture", "model", "sitting", "round"];
}

impl From<&ModelProfile> for VisitKey {
    fn from(profile: &ModelProfile) -> Self {
        Self {
            environment_id: profile.environment.id(),
            architecture: profile.model.architecture.clone(),
            model: profile.model.name.clone(),
            sitting: profile.sitting.clone(),
            round: profile.round as u64,
        }
    }
}

impl fmt::Display for VisitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "visit {} of sitting `{}` to `{}` ({}) in {}",
            self.round, self.sitting, self.model, self.architecture, self.environment_id
        )
    }
}
