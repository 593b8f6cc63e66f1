//! [`Runs`]: the model runs that a store knows, grouped by model and round: a resumed sweep asks for
//! each of its runs.

use crate::RunKey;
use std::collections::HashMap;
use vitempo_graph::{ModelIdentity, ModelProfile, Protocol, Status};

/// What a model run that is looked for has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measures {
    /// Latencies; runs of memory alone ([`ModelProfile::is_of_memory_alone`]) do not count.
    #[default]
    Latency,
    /// Memory, alone or beside latencies.
    Memory,
    /// Both, in one model run or in two.
    Both,
}

/// A model run that is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    /// Where it was made.
    pub environment_id: &'a str,
    /// In which round.
    pub round: usize,
    /// How: with the same values of inputs ([`Protocol::input_distribution`]).
    pub protocol: &'a Protocol,
    /// In which session; `None`: in any.
    pub session: Option<&'a str>,
    /// What it measured.
    pub measures: Measures,
}

/// A model run that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// `Ok` if any of its kind succeeded.
    pub status: &'a Status,
    /// Whether one was made with the seed and the repeats that are looked for; of memory, with the
    /// seed.
    pub is_alike: bool,
}

/// What a store knows of a model run.
#[derive(Debug)]
pub(super) struct Known {
    pub status: Status,
    pub protocol: Protocol,
    pub is_of_memory_alone: bool,
    pub has_memory: bool,
}

impl From<&ModelProfile> for Known {
    fn from(profile: &ModelProfile) -> Self {
        Self {
            status: profile.status.clone(),
            protocol: profile.protocol.clone(),
            is_of_memory_alone: profile.is_of_memory_alone(),
            has_memory: profile.running_memory_bytes.is_some(),
        }
    }
}

impl Known {
    const fn measured_latency(&self) -> bool {
        !self.is_of_memory_alone
    }

    /// A run of memory alone counts, too, where the system did not report it.
    const fn measured_memory(&self) -> bool {
        self.is_of_memory_alone || self.has_memory
    }

    fn has_seed_of(&self, protocol: &Protocol) -> bool {
        self.protocol.seed == protocol.seed
    }

    fn has_repeats_of(&self, protocol: &Protocol) -> bool {
        let repeats =
            |p: &Protocol| (p.warmups, p.min_repeats, p.max_repeats, p.target_spread.to_bits());
        repeats(&self.protocol) == repeats(protocol)
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

    /// The model run of one model.
    pub fn find<'r>(&'r self, model: &ModelIdentity, sought: &Sought<'_>) -> Option<Found<'r>> {
        let latency = || {
            let is_alike = |run: &Known| {
                run.has_seed_of(sought.protocol) && run.has_repeats_of(sought.protocol)
            };
            self.best(model, sought, Known::measured_latency, is_alike)
        };
        let memory = || {
            let is_alike = |run: &Known| run.has_seed_of(sought.protocol);
            self.best(model, sought, Known::measured_memory, is_alike)
        };
        match sought.measures {
            Measures::Latency => latency(),
            Measures::Memory => memory(),
            Measures::Both => match latency()? {
                failed if *failed.status != Status::Ok => Some(failed),
                found => memory()
                    .map(|m| Found { status: m.status, is_alike: found.is_alike && m.is_alike }),
            },
        }
    }

    /// Of the model runs that are sought and `measured` it, the result.
    fn best<'r>(
        &'r self,
        model: &ModelIdentity,
        sought: &Sought<'_>,
        measured: impl Fn(&Known) -> bool,
        is_alike: impl Fn(&Known) -> bool,
    ) -> Option<Found<'r>> {
        let is_sought = |key: &RunKey, known: &Known| {
            key.environment_id == sought.environment_id
                && known.protocol.input_distribution == sought.protocol.input_distribution
                && sought.session.is_none_or(|session| session == key.session)
                && measured(known)
        };
        let mut best: Option<Found<'r>> = None;
        for (_, known) in self.of(model, sought.round).filter(|(key, known)| is_sought(key, known))
        {
            let own = Found { status: &known.status, is_alike: is_alike(known) };
            best = Some(match best {
                Some(before) if *before.status == Status::Ok || *own.status != Status::Ok => {
                    Found { is_alike: before.is_alike || own.is_alike, ..before }
                }
                Some(before) => Found { is_alike: before.is_alike || own.is_alike, ..own },
                None => own,
            });
        }
        best
    }

    /// The model runs of one model and round.
    fn of(&self, model: &ModelIdentity, round: usize) -> impl Iterator<Item = (&RunKey, &Known)> {
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
