//! The standard campaign: the same set of models and networks, measured in the same order on
//! whatever machine it runs on, so that datasets of different machines can be compared and joined.
//!
//! [`StandardSet`] has what is measured, [`StandardSet::parts`] in which order: what a bundle needs
//! most comes first, and repetitions, which only show the noise, come last. [`Standard::run`]
//! measures one part after the other as long as the budget lasts. Within a part the order is
//! shuffled by the seed, so that what a budget leaves is a sample of the whole part.
//!
//! Started again, it goes on with what the dataset lacks. All models are in the dataset from the
//! beginning: those without a model run are missing (`not_measured` of a
//! [`vitempo_datasets::Summary`]).

use super::{Campaign, CampaignError, Repeats, check_identities, session_name, sweep_models};
use crate::{
    models::Model,
    sampling::{self, Sample, SamplingError, small},
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use vitempo_datasets::{Measures, Sought, Store};
use vitempo_graph::{Environment, Status};
use vitempo_profiler::{
    MemoryRuns, Progress, RunOptions, RunProtocol, Source, Sweep, SweepModel, Target,
    sweep::unsteadiness,
};
use vitempo_search_space::operators;

/// Seed of samples and of the order of model runs.
pub const SEED: u64 = 1;

/// The space of the synthetic models, how many, and their seed: the first of those that the
/// datasets in `datasets/measured` have.
const SYNTHETIC: (&str, usize, u64) = ("hybrid-vit", 200, 2026);
/// The same of small models.
const SMALL: (&str, usize, u64) = (small::NAME, 40, SEED);
/// The same of inventories of operators; the networks of the series are a fixed number.
const OPERATORS: [(&str, usize, u64); 3] =
    [(operators::NAME, 1890, SEED), (operators::BLOCKS, 1440, SEED), (operators::SERIES, 1, SEED)];
/// The same of rare operators, and of shapes that the inventories above lack.
const RARE: [(&str, usize, u64); 2] = [(operators::RARE, 700, SEED), (operators::ENDS, 500, SEED)];
/// Rounds of models.
const ROUNDS: usize = 2;
/// A model run that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Fewest and most repeats of a model, and those with timed kernels.
const OF_MODELS: (usize, usize, usize) = (4, 8, 3);
/// The same of a small model, whose runs are short and noisier.
const OF_SMALL: (usize, usize, usize) = (8, 16, 6);
/// The same of a network around operators.
const OF_OPERATORS: (usize, usize, usize) = (6, 6, 4);

/// What is measured everywhere, and the real models of whoever measures.
#[derive(Clone, Debug)]
pub struct StandardSet {
    synthetic: Vec<SweepModel>,
    small: Vec<SweepModel>,
    operators: Vec<SweepModel>,
    rare: Vec<SweepModel>,
    real: Vec<SweepModel>,
}

/// What the set consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Models of a search space.
    Synthetic,
    /// Small models of search spaces.
    Small,
    /// Networks around operators.
    Operators,
    /// Models of whoever measures.
    Real,
    /// Networks around rare operators.
    Rare,
}

impl Group {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic models",
            Self::Small => "small models",
            Self::Operators => "operators",
            Self::Real => "real models",
            Self::Rare => "rare operators",
        }
    }
}

/// A part of the campaign: models and the round in which they are measured.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What it is.
    pub group: Group,
    /// The round, from 0.
    pub round: usize,
    /// The models or networks.
    pub models: &'a [SweepModel],
    /// How often the campaign measures them.
    pub(super) rounds: usize,
    /// Fewest, most and profiled repeats.
    pub(super) repeats: (usize, usize, usize),
}

/// What a dataset has of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartState {
    /// What it is.
    pub group: Group,
    /// The round, from 0.
    pub round: usize,
    /// Model runs that the campaign makes.
    pub planned: usize,
    /// Those with samples.
    pub measured: usize,
    /// Those that failed.
    pub failed: usize,
}

impl PartState {
    /// Model runs that the dataset lacks.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.planned.saturating_sub(self.measured + self.failed)
    }
}

/// How a campaign on one engine ended.
#[derive(Clone, Debug)]
pub struct StandardOutcome {
    /// Where it was measured; its record of the machine is that of the end.
    pub environment: Environment,
    /// What the dataset has, part by part in the order of measuring.
    pub parts: Vec<PartState>,
    /// Model runs made now.
    pub made: usize,
    /// Models that failed now, with the reasons.
    pub failed: Vec<(String, String)>,
    /// Whether someone interrupted.
    pub interrupted: bool,
    /// Time it took.
    pub elapsed: Duration,
    /// Share of the cores' time that a hypervisor gave to others meanwhile, 0 to 1; `None` where the
    /// system does not report it.
    pub stolen: Option<f64>,
    /// Cores of the machine that were busy meanwhile, mean; the measurement itself keeps as many
    /// busy as it has threads. `None` where the system does not report it.
    pub busy_cores: Option<f64>,
    /// How much the speed of the machine varied meanwhile
    /// ([`unsteadiness`]); `None` with few model runs.
    pub unsteadiness: Option<f64>,
}

/// Cores beside those of the measurement that may be busy without a word: the command itself and
/// the system.
const SLACK_CORES: f64 = 0.5;

impl StandardOutcome {
    /// Whether something else kept cores of the machine busy. It shares caches and memory with the
    /// measurement.
    #[must_use]
    pub fn had_company(&self) -> bool {
        let own = self.environment.threads as f64 + SLACK_CORES;
        self.busy_cores.is_some_and(|busy| busy > own)
    }

    /// Model runs that the dataset lacks.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.parts.iter().map(PartState::missing).sum()
    }
}

impl Part<'_> {
    /// How often the protocol runs each model.
    pub(super) fn runs(&self) -> usize {
        let (_, most, profiled) = self.repeats;
        let warmups = RunProtocol::default().protocol.warmups;
        2 * warmups + most + profiled
    }
}

impl StandardSet {
    /// The set with these real models. A `scale` below 1 takes this share of everything but them,
    /// evenly spread, and at least one of each.
    ///
    /// # Errors
    /// [`CampaignError::SampledOtherwise`]; [`CampaignError::Sampling`] where a space cannot be
    /// sampled, which a test rules out.
    pub fn new(scale: f64, real: Vec<Model>) -> Result<Self, CampaignError> {
        check_identities(&real)?;
        Ok(Self {
            synthetic: drawn(&[SYNTHETIC], scale)?,
            small: drawn(&[SMALL], scale)?,
            operators: drawn(&OPERATORS, scale)?,
            rare: drawn(&RARE, scale)?,
            real: sweep_models(real),
        })
    }

    /// The same with these groups alone.
    #[must_use]
    pub fn only(mut self, groups: &[Group]) -> Self {
        let all = [
            (Group::Synthetic, &mut self.synthetic),
            (Group::Small, &mut self.small),
            (Group::Operators, &mut self.operators),
            (Group::Real, &mut self.real),
            (Group::Rare, &mut self.rare),
        ];
        let others = all.into_iter().filter(|(group, _)| !groups.contains(group));
        others.for_each(|(_, models)| models.clear());
        self
    }

    /// Everything in the order of measuring.
    #[must_use]
    pub fn parts(&self) -> Vec<Part<'_>> {
        let models = |group, models, round| Part {
            group,
            round,
            models,
            rounds: ROUNDS,
            repeats: OF_MODELS,
        };
        let networks =
            |group, models| Part { group, round: 0, models, rounds: 1, repeats: OF_OPERATORS };
        let small =
            |round| Part { repeats: OF_SMALL, ..models(Group::Small, &self.small[..], round) };
        let parts = [
            models(Group::Synthetic, &self.synthetic[..], 0),
            small(0),
            networks(Group::Operators, &self.operators[..]),
            models(Group::Real, &self.real[..], 0),
            networks(Group::Rare, &self.rare[..]),
            models(Group::Real, &self.real[..], 1),
            small(1),
            models(Group::Synthetic, &self.synthetic[..], 1),
        ];
        parts.into_iter().filter(|part| !part.models.is_empty()).collect()
    }
}

/// This share of the samples of these spaces.
fn drawn(spaces: &[(&str, usize, u64)], scale: f64) -> Result<Vec<SweepModel>, SamplingError> {
    let mut all = Vec::new();
    for &(space, count, seed) in spaces {
        let samples = thinned(sampling::sample_named(space, count, seed)?, scale);
        all.extend(samples.into_iter().map(sampled));
    }
    Ok(all)
}

/// This share of the samples, evenly spread.
fn thinned(samples: Vec<Sample>, scale: f64) -> Vec<Sample> {
    let kept = ((samples.len() as f64 * scale).round() as usize).clamp(1, samples.len().max(1));
    let all = samples.len();
    let is_kept = |index: usize| (index + 1) * kept / all > index * kept / all;
    let chosen = samples.into_iter().enumerate().filter(|(index, _)| is_kept(*index));
    chosen.map(|(_, sample)| sample).collect()
}

/// A sample with random weights, named and filed as `vitempo sample` does.
fn sampled(sample: Sample) -> SweepModel {
    let model = SweepModel::from(Model::sampled(sample, PathBuf::new()));
    SweepModel { source: Source::Graph, ..model }
}

/// A campaign on one engine.
pub struct Standard<'a> {
    /// What is measured.
    pub set: &'a StandardSet,
    /// The engine.
    pub backend: &'a str,
    /// How it runs.
    pub options: RunOptions,
    /// Where.
    pub target: Target,
    /// The dataset; it is created if it does not exist.
    pub out: &'a Path,
    /// Time for this engine, from this start on.
    pub budget: Duration,
    /// Failed measurements are made again.
    pub retry_failed: bool,
}

impl Standard<'_> {
    /// Measures what the dataset lacks, part by part, until the budget is spent. Every model run is
    /// kept as soon as it is there. `progress` gets the part and how far it is.
    ///
    /// # Errors
    /// [`CampaignError`] as [`Campaign::run`].
    pub fn run(
        &self,
        progress: &mut dyn FnMut(Part<'_>, &Progress<'_>),
        interrupted: &Arc<AtomicBool>,
    ) -> Result<StandardOutcome, CampaignError> {
        let mut session = Session::begin(self, progress, interrupted)?;
        for part in self.set.parts() {
            session.measure(part)?;
        }
        session.end()
    }

    /// What the dataset has of the set in an environment.
    ///
    /// # Errors
    /// [`CampaignError::Dataset`] where the dataset cannot be read.
    pub fn state(&self, environment_id: &str) -> Result<Vec<PartState>, CampaignError> {
        let store = Store::open_or_create(self.out)?;
        let protocol = RunProtocol::default().recorded(&self.options);
        let state = |part: Part<'_>| {
            let (mut measured, mut failed) = (0, 0);
            let sought = Sought {
                environment_id,
                round: part.round,
                protocol: &protocol,
                session: None,
                measures: Measures::Latency,
            };
            for model in part.models {
                match store.find(&model.identity, &sought).map(|found| found.status) {
                    Some(Status::Ok) => measured += 1,
                    Some(Status::Failed(_)) => failed += 1,
                    None => {}
                }
            }
            let Part { group, round, models, .. } = part;
            PartState { group, round, planned: models.len(), measured, failed }
        };
        Ok(self.set.parts().into_iter().map(state).collect())
    }

    /// Writes all models into the dataset before the first is measured.
    fn announce(&self) -> Result<(), CampaignError> {
        let mut store = Store::open_or_create(self.out)?;
        for part in self.set.parts() {
            for model in part.models {
                store.append_model(&model.identity, &model.graph)?;
            }
        }
        store.compact()?;
        Ok(())
    }

    fn campaign(
        &self,
        part: Part<'_>,
        budget: Duration,
        session: &str,
    ) -> Result<Campaign<'_>, CampaignError> {
        let (min, max, profiled) = part.repeats;
        let repeats = Repeats {
            rounds: part.rounds,
            seed: SEED,
            min: Some(min),
            max: Some(max),
            profiled: Some(profiled),
        };
        let sweep = Sweep {
            models: part.models.to_vec(),
            backend: self.backend.to_owned(),
            options: self.options.clone(),
            protocol: repeats.protocol()?,
            only_round: Some(part.round),
            budget: Some(budget),
            run_timeout: TIMEOUT,
            target: self.target.clone(),
            session: session.to_owned(),
            beside: None,
            memory: MemoryRuns::Never,
        };
        Ok(Campaign { sweep, out: self.out, retry_failed: self.retry_failed, resume: true })
    }
}

/// A campaign under way.
pub(super) struct Session<'s, 'p> {
    standard: &'s Standard<'s>,
    progress: &'p mut dyn FnMut(Part<'_>, &Progress<'_>),
    interrupted: &'p Arc<AtomicBool>,
    pub(super) before: Environment,
    name: String,
    start: Instant,
    made: usize,
    failed: Vec<(String, String)>,
    reference_ns: Vec<u64>,
}

impl<'s, 'p> Session<'s, 'p> {
    pub(super) fn begin(
        standard: &'s Standard<'s>,
        progress: &'p mut dyn FnMut(Part<'_>, &Progress<'_>),
        interrupted: &'p Arc<AtomicBool>,
    ) -> Result<Self, CampaignError> {
        let before = standard.target.probe(standard.backend, &standard.options)?;
        standard.announce()?;
        let (name, start) = (session_name(), Instant::now());
        Ok(Self {
            standard,
            progress,
            interrupted,
            before,
            name,
            start,
            made: 0,
            failed: Vec::new(),
            reference_ns: Vec::new(),
        })
    }

    /// Time that the budget leaves; none after an interruption.
    pub(super) fn left(&self) -> Duration {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Duration::ZERO,
            false => self.standard.budget.saturating_sub(self.start.elapsed()),
        }
    }

    /// Measures of a part what the dataset lacks, as long as there is time.
    pub(super) fn measure(&mut self, part: Part<'_>) -> Result<(), CampaignError> {
        let left = self.left();
        if left.is_zero() {
            return Ok(());
        }
        let campaign = self.standard.campaign(part, left, &self.name)?;
        let outcome = campaign.run(&mut |p| (self.progress)(part, p), self.interrupted)?;
        self.made += outcome.summary.measured + outcome.summary.failed.len();
        self.failed.extend(outcome.summary.failed);
        self.reference_ns.extend(outcome.summary.reference_ns);
        Ok(())
    }

    pub(super) fn end(self) -> Result<StandardOutcome, CampaignError> {
        let Standard { target, backend, options, .. } = self.standard;
        let elapsed = self.start.elapsed();
        let environment = target.probe(backend, options)?;
        let hosts = environment.host.as_ref().zip(self.before.host.as_ref());
        Ok(StandardOutcome {
            parts: self.standard.state(&environment.id())?,
            made: self.made,
            failed: self.failed,
            interrupted: self.interrupted.load(Ordering::Relaxed),
            elapsed,
            stolen: hosts.and_then(|(after, before)| after.stolen_since(before)),
            busy_cores: hosts.and_then(|(after, before)| after.busy_cores_since(before)),
            unsteadiness: unsteadiness(&self.reference_ns),
            environment,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_set_is_the_same_everywhere_and_each_model_is_there_once() {
        let set = StandardSet::new(1.0, Vec::new()).expect("a set");
        let sizes: Vec<usize> = set.parts().iter().map(|part| part.models.len()).collect();
        assert_eq!(sizes, [200, 40, 1890 + 1440 + 47, 700 + 500, 40, 200]);
        let names: BTreeSet<&str> =
            set.parts().iter().flat_map(|p| p.models).map(|m| m.identity.name.as_str()).collect();
        assert_eq!(names.len(), sizes[..4].iter().sum::<usize>());
        let rounds: Vec<usize> = set.parts().iter().map(|part| part.round).collect();
        assert_eq!(rounds, [0, 0, 0, 0, 1, 1]);
        let only = set.clone().only(&[Group::Rare]);
        assert_eq!(only.parts().iter().map(|p| p.group).collect::<Vec<_>>(), [Group::Rare]);
        // Joining datasets of machines needs equal identities: these never change.
        assert_eq!(set.synthetic[0].identity.name, "hybrid-vit-s2026-000");
        assert!(set.operators.iter().chain(&set.rare).all(|m| m.identity.is_operator()));
    }

    #[test]
    fn a_smaller_set_is_spread_over_the_whole_one() {
        let whole = StandardSet::new(1.0, Vec::new()).expect("a set");
        let names = |models: &[SweepModel]| -> Vec<String> {
            models.iter().map(|m| m.identity.name.clone()).collect()
        };
        let all = names(&whole.operators);
        for (scale, kept) in [(0.5, 945 + 720 + 24), (0.01, 19 + 14 + 1), (1e-9, 3)] {
            let small = names(&StandardSet::new(scale, Vec::new()).expect("a set").operators);
            assert_eq!(small.len(), kept, "{scale}");
            assert!(small.iter().all(|name| all.contains(name)));
        }
    }
}
