//! [`Runs`]: the model runs that a store knows, grouped by model and round: a resumed sweep asks for
//! each of its runs.

use crate::RunKey;
use std::collections::HashMap;
use vitempo_graph::{ModelIdentity, ModelProfile, Status};

/// What a store knows of a model run.
#[derive(Debug)]
pub(super) struct Known {
    pub status: Status,
    /// The values of its inputs.
    pub inputs: String,
}

impl From<&ModelProfile> for Known {
    fn from(profile: &ModelProfile) -> Self {
        let inputs = profile.protocol.input_distribution.clone();
        Self { status: profile.status.clone(), inputs }
    }
}

/// Architecture, name of the model, round.
type Group = (String, String, u64);

/// Model runs by [`Group`], then by key.
#[derive(Debug, Default)]
pub(super) struct Runs {
    groups: HashMap<Group, HashMap<RunKey, Known>>,
    count: usize,
}

fn group_of(key: &RunKey) -> Group {
    (key.architecture.clone(), key.model.clone(), key.round)
}

impl Runs {
    /// Number of model runs.
    pub const fn count(&self) -> usize {
        self.count
    }

    pub fn contains(&self, key: &RunKey) -> bool {
        self.groups.get(&group_of(key)).is_some_and(|group| group.contains_key(key))
    }

    /// Adds a model run, in the place of one with the same key.
    pub fn insert(&mut self, key: RunKey, known: Known) {
        let group = self.groups.entry(group_of(&key)).or_default();
        self.count += usize::from(group.insert(key, known).is_none());
    }

    /// The model runs of one model and round.
    pub fn of(
        &self,
        model: &ModelIdentity,
        round: usize,
    ) -> impl Iterator<Item = (&RunKey, &Known)> {
        let group = (model.architecture.clone(), model.name.clone(), round as u64);
        self.groups.get(&group).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::sweep;

    #[test]
    fn only_the_runs_of_a_model_and_round_are_looked_at() {
        let (profiles, _) = sweep(4, 3, 1);
        let mut runs = Runs::default();
        for profile in &profiles {
            runs.insert(RunKey::from(profile), Known::from(profile));
        }
        for profile in &profiles {
            let key = RunKey::from(profile);
            let round = key.round as usize;
            assert!(runs.contains(&key));
            let found: Vec<&RunKey> = runs.of(&profile.model, round).map(|(key, _)| key).collect();
            assert!(found.contains(&&key));
            assert!(found.iter().all(|found| {
                (&found.architecture, &found.model, found.round)
                    == (&key.architecture, &key.model, key.round)
            }));
            runs.insert(key, Known::from(profile));
        }
        let groups: usize = runs.groups.values().map(HashMap::len).sum();
        assert_eq!(runs.count(), groups);
        let elsewhere = RunKey { session: "other".to_owned(), ..RunKey::from(&profiles[0]) };
        assert!(!runs.contains(&elsewhere));
    }
}
