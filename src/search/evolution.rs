//! [`search`]: evolves generations of architectures, each bred from the best of those before it,
//! for [`devices`]: bundles with their ceilings.

use super::{
    Objective, ObjectiveError, SearchError,
    archive::{Archive, by_costs},
    dominance::{crowding, fronts},
};
use crate::query::{Forecasts, QueryError, SpaceModel};
use foldhash::fast::FixedState;
use std::{collections::HashSet, hash::BuildHasher};
use vitempo_graph::{Graph, Latency, Prediction};
use vitempo_predictors::memory::{EngineMemory, MemoryForecast};
use vitempo_search_space::{Architecture, Generator, Space};

/// Most architectures of one search.
pub const MOST_CANDIDATES: u64 = 1_000_000_000;

/// Tries to breed a new architecture; if all fail, the space counts as exhausted.
const TRIES: usize = 20;
/// Share of children that have two parents.
const CROSSED: f64 = 0.7;
/// Share of a generation drawn afresh, so that no part of the space is out of reach.
const FRESH: f64 = 0.02;

/// A device with its ceilings.
#[derive(Clone, Copy, Debug)]
pub struct Device<'b> {
    /// Forecasts for it.
    pub bundle: &'b dyn SpaceModel,
    /// The most time a run may take.
    pub ceiling: Option<Latency>,
    /// The most memory that loading and running may take, bytes.
    pub memory_ceiling: Option<u64>,
}

/// The memory that each device's engine takes for an architecture; `None` where the engine's memory
/// is not known.
///
/// # Errors
/// [`QueryError`] for an architecture that cannot be built or lowered.
pub fn memories(
    devices: &[Device<'_>],
    architecture: &Architecture,
) -> Result<Vec<Option<MemoryForecast>>, QueryError> {
    let graph = architecture.to_graph()?;
    devices.iter().map(|device| memory(device, &graph)).collect()
}

fn memory(device: &Device<'_>, graph: &Graph) -> Result<Option<MemoryForecast>, QueryError> {
    let Some(engine) = EngineMemory::of(device.bundle.environment()) else { return Ok(None) };
    Ok(Some(engine.forecast(graph, &device.bundle.lowered(graph)?)))
}

/// The ceilings of the bundles of a search, in the bundles' order; empty: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ceilings<'c> {
    /// The most time a run may take.
    pub latencies: &'c [Latency],
    /// The most memory that loading and running may take, bytes.
    pub memory_bytes: &'c [u64],
}

/// Gives each bundle its ceilings: the first one to the first bundle, and so on; without ceilings,
/// every architecture is allowed.
///
/// ```
/// use vitempo::{Bundle, graph::Latency, search::{Ceilings, devices}};
///
/// let bundles = [Bundle::open("bundles/epyc-onnxruntime-f32-1t.vtb")?];
/// let ceiling = Latency::from_ns(20e6);
/// let both = Ceilings { latencies: &[ceiling], memory_bytes: &[100_000_000] };
/// let found = devices(&bundles, both)?[0];
/// assert_eq!((found.ceiling, found.memory_ceiling), (Some(ceiling), Some(100_000_000)));
/// assert_eq!(devices(&bundles, Ceilings::default())?[0].ceiling, None);
/// let two = Ceilings { latencies: &[ceiling, ceiling], ..both };
/// let error = devices(&bundles, two).unwrap_err();
/// assert_eq!(error.to_string(), "1 bundles, but 2 ceilings");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SearchError::Ceilings`] where some bundles have a ceiling and others have none, or ceilings
/// are left over.
pub fn devices<'b, B: SpaceModel>(
    bundles: &'b [B],
    ceilings: Ceilings<'_>,
) -> Result<Vec<Device<'b>>, SearchError> {
    let Ceilings { latencies, memory_bytes } = ceilings;
    let wrong = |&count: &usize| count != 0 && count != bundles.len();
    if let Some(ceilings) = [latencies.len(), memory_bytes.len()].into_iter().find(wrong) {
        return Err(SearchError::Ceilings { bundles: bundles.len(), ceilings });
    }
    let device = |(index, bundle): (usize, &'b B)| Device {
        bundle,
        ceiling: latencies.get(index).copied(),
        memory_ceiling: memory_bytes.get(index).copied(),
    };
    Ok(bundles.iter().enumerate().map(device).collect())
}

/// The options of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Distinct architectures to evaluate: at most [`MOST_CANDIDATES`], and no more than the space
    /// has.
    pub candidates: u64,
    /// Architectures in a generation, and most of the front.
    pub population: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether ceilings hold for the upper ends of the intervals rather than for the forecasts
    /// themselves.
    pub upper: bool,
}

/// An evaluated architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which one.
    pub architecture: Architecture,
    /// Its score; larger is better.
    pub score: f64,
    /// Its forecasts, one for each device.
    pub latencies: Vec<Prediction>,
    /// By how much it exceeds the ceilings, as the sum of relative excesses; 0 within.
    pub(super) excess: f64,
    /// What is minimised: the score's negative, then the latencies in ns.
    pub(super) costs: Vec<f64>,
}

impl AsRef<[f64]> for Candidate {
    fn as_ref(&self) -> &[f64] {
        &self.costs
    }
}

impl Options {
    /// How many architectures a search of this space evaluates: all of the objective's list, if it
    /// has one; otherwise as many as are asked for and exist.
    #[must_use]
    pub fn candidates_in(&self, space: &Space, objective: &dyn Objective) -> u64 {
        let size = u64::try_from(space.size()).unwrap_or(u64::MAX);
        objective.candidates().map_or(self.candidates.min(size), |listed| listed.len() as u64)
    }
}

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Architectures evaluated.
    pub candidates: u64,
    /// Best score within the ceilings.
    pub best: Option<f64>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Of all that were evaluated, the architectures within the ceilings that no other one
    /// dominates, the highest score first. Of more than [`Options::population`] the least crowded,
    /// unless they are of a list.
    pub front: Vec<Candidate>,
    /// Distinct architectures evaluated.
    pub candidates: u64,
    /// Of the last generation, or of the file where scores come from one: those within the ceilings
    /// that are dominated.
    pub dominated: Vec<Candidate>,
    /// Someone ended the search early: this is the front so far.
    pub interrupted: bool,
}

/// Searches. `progress` is called after every generation and ends the search by `false`: what is
/// within the ceilings by then is the result.
///
/// # Errors
/// [`SearchError`] when an option is out of its range, no candidate is within the ceilings, or an
/// objective or a forecast fails.
pub fn search(
    space: &Space,
    devices: &[Device<'_>],
    objective: &mut dyn Objective,
    options: Options,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, SearchError> {
    let options = Options { candidates: options.candidates_in(space, objective), ..options };
    let mut search = Search::new(space, devices, objective, options)?;
    match search.objective.candidates().map(<[Architecture]>::to_vec) {
        Some(listed) => search.all_of(&listed, progress),
        None => search.evolve(progress),
    }
}

fn check(devices: &[Device<'_>], options: Options) -> Result<(), SearchError> {
    let wrong = |option, reason| Err(SearchError::Option { option, reason });
    match options {
        o if o.candidates > MOST_CANDIDATES => Err(SearchError::TooMany(o.candidates)),
        _ if devices.is_empty() => wrong("devices", "must be at least one"),
        _ if devices
            .iter()
            .any(|d| d.ceiling.is_some_and(|c| !(c.ns() > 0.0 && c.ns().is_finite()))) =>
        {
            wrong("ceiling", "must be above zero")
        }
        _ if devices.iter().any(|d| d.memory_ceiling == Some(0)) => {
            wrong("memory ceiling", "must be above zero")
        }
        o if o.population < 4 => wrong("population", "must be at least 4"),
        o if o.population as u64 > MOST_CANDIDATES => {
            wrong("population", "must be at most a billion")
        }
        o if o.candidates < 1 => wrong("candidates", "must be at least 1"),
        _ => Ok(()),
    }
}

/// A ceiling is kept or refused.
fn check_memory(devices: &[Device<'_>]) -> Result<(), SearchError> {
    let is_unknown = |device: &&Device<'_>| {
        device.memory_ceiling.is_some() && EngineMemory::of(device.bundle.environment()).is_none()
    };
    devices.iter().find(is_unknown).map_or(Ok(()), |device| {
        Err(SearchError::MemoryUnknown { environment: device.bundle.environment().describe() })
    })
}

pub(super) struct Search<'s> {
    space: &'s Space,
    devices: &'s [Device<'s>],
    forecasts: Vec<Forecasts<'s>>,
    objective: &'s mut dyn Objective,
    options: Options,
    candidates: u64,
}

/// Members with their ranks: number of the front, and crowding within it.
struct Population {
    members: Vec<Candidate>,
    ranks: Vec<(usize, f64)>,
}

impl<'s> Search<'s> {
    /// Nothing is evaluated yet.
    pub(super) fn new(
        space: &'s Space,
        devices: &'s [Device<'s>],
        objective: &'s mut dyn Objective,
        options: Options,
    ) -> Result<Self, SearchError> {
        check(devices, options)?;
        check_memory(devices)?;
        let forecasts = devices.iter().map(|device| device.bundle.over(space)).collect();
        Ok(Self { space, devices, forecasts, objective, options, candidates: 0 })
    }

    /// Every architecture of a list.
    fn all_of(
        &mut self,
        listed: &[Architecture],
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Outcome, SearchError> {
        let (mut members, mut archive) = (Vec::new(), Archive::default());
        for some in listed.chunks(self.options.population.max(1024)) {
            let evaluated = self.evaluated(some, false)?;
            archive.add(&evaluated);
            members.extend(evaluated);
            if !progress(self.progress(&members)) {
                return self.so_far(members, archive);
            }
        }
        self.outcome(members, archive)
    }

    fn evolve(
        &mut self,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Outcome, SearchError> {
        let mut generator = Generator::new(self.options.seed);
        let mut bred = Bred::default();
        let first = self.room();
        let drawn: Vec<Architecture> =
            (0..first).filter_map(|_| bred.new_one(|| self.space.draw(&mut generator))).collect();
        let drawn = self.evaluated(&drawn, true)?;
        let mut archive = Archive::default();
        archive.add(&drawn);
        let mut population = Population::of(drawn, self.options.population);
        loop {
            if !progress(self.progress(&population.members)) {
                return self.so_far(population.members, archive);
            }
            let children: Vec<Architecture> = (0..self.room())
                .filter_map(|_| bred.new_one(|| population.child(self.space, &mut generator)))
                .collect();
            if children.is_empty() {
                return self.outcome(population.members, archive);
            }
            let children = match self.evaluated(&children, true) {
                Err(SearchError::Objective(ObjectiveError::Stopped)) => {
                    return self.so_far(population.members, archive);
                }
                children => children?,
            };
            archive.add(&children);
            let mut members = population.members;
            members.extend(children);
            population = Population::of(members, self.options.population);
        }
    }

    /// Size of the next generation.
    fn room(&self) -> u64 {
        (self.options.population as u64)
            .min(self.options.candidates.saturating_sub(self.candidates))
    }

    fn progress(&self, members: &[Candidate]) -> Progress {
        let best =
            members.iter().filter(|m| m.excess == 0.0).map(|m| m.score).max_by(f64::total_cmp);
        Progress { candidates: self.candidates, best }
    }

    /// Forecasts all, which may be known to be `inside` the space. Memory, which takes a graph, is
    /// forecast for those within the latency ceilings; scores are needed of those within all.
    pub(super) fn evaluated(
        &mut self,
        architectures: &[Architecture],
        inside: bool,
    ) -> Result<Vec<Candidate>, SearchError> {
        let forecasts = self
            .forecasts
            .iter_mut()
            .map(|of_device| of_device.predict_where(architectures, inside))
            .collect::<Result<Vec<_>, _>>()?;
        let of_one = |index: usize| {
            forecasts.iter().filter_map(|f| f.get(index).copied()).collect::<Vec<Prediction>>()
        };
        let mut members: Vec<Candidate> = architectures
            .iter()
            .enumerate()
            .map(|(index, architecture)| {
                let latencies = of_one(index);
                let excess = self.latency_excess(&latencies);
                let costs =
                    std::iter::once(0.0).chain(latencies.iter().map(|l| l.point().ns())).collect();
                Candidate {
                    architecture: *architecture,
                    score: f64::NEG_INFINITY,
                    latencies,
                    excess,
                    costs,
                }
            })
            .collect();
        for member in members.iter_mut().filter(|m| m.excess == 0.0) {
            member.excess = self.memory_excess(&member.architecture)?;
        }
        let within: Vec<Architecture> =
            members.iter().filter(|m| m.excess == 0.0).map(|m| m.architecture).collect();
        let scores = self.objective.scores(&within)?;
        for (member, score) in members.iter_mut().filter(|m| m.excess == 0.0).zip(scores) {
            // A score of 0 costs as much as one of -0.
            (member.score, member.costs[0]) = (score, 0.0 - score);
        }
        self.candidates += architectures.len() as u64;
        Ok(members)
    }

    /// By how much the memory of an architecture exceeds the ceilings, as the sum of relative
    /// excesses.
    fn memory_excess(&self, architecture: &Architecture) -> Result<f64, QueryError> {
        let mut excess = 0.0;
        if self.devices.iter().all(|device| device.memory_ceiling.is_none()) {
            return Ok(excess);
        }
        let graph = architecture.to_graph()?;
        for device in self.devices {
            let Some(ceiling) = device.memory_ceiling else { continue };
            let Some(memory) = memory(device, &graph)? else { continue };
            let peak = memory.peak_bytes;
            let bytes = if self.options.upper { peak.upper() } else { peak.point() };
            excess += (bytes as f64 / ceiling as f64 - 1.0).max(0.0);
        }
        Ok(excess)
    }

    fn latency_excess(&self, latencies: &[Prediction]) -> f64 {
        let over = |(device, latency): (&Device<'_>, &Prediction)| {
            let time = if self.options.upper { latency.upper() } else { latency.point() };
            device.ceiling.map_or(0.0, |ceiling| (time.ns() / ceiling.ns() - 1.0).max(0.0))
        };
        self.devices.iter().zip(latencies).map(over).sum()
    }

    /// The result, by all that no other one dominates, and by the last `members`.
    fn outcome(&self, members: Vec<Candidate>, archive: Archive) -> Result<Outcome, SearchError> {
        let (within, beyond): (Vec<Candidate>, Vec<Candidate>) =
            members.into_iter().partition(|m| m.excess == 0.0);
        if within.is_empty() {
            let nearest = beyond.iter().min_by(|a, b| a.excess.total_cmp(&b.excess));
            let (excess, encoding) = nearest
                .map_or((f64::INFINITY, String::new()), |m| (m.excess, m.architecture.encode()));
            return Err(SearchError::NothingFits { candidates: self.candidates, excess, encoding });
        }
        let mut dominated: Vec<Candidate> =
            within.into_iter().filter(|member| archive.dominates(member)).collect();
        dominated.sort_by(by_costs);
        let is_of_a_list = self.objective.candidates().is_some();
        let most = if is_of_a_list { usize::MAX } else { self.options.population };
        let front = archive.thinned(most);
        Ok(Outcome { front, candidates: self.candidates, dominated, interrupted: false })
    }

    /// The result of a search that someone ended.
    fn so_far(&self, members: Vec<Candidate>, archive: Archive) -> Result<Outcome, SearchError> {
        match self.outcome(members, archive) {
            Ok(outcome) => Ok(Outcome { interrupted: true, ..outcome }),
            Err(SearchError::NothingFits { .. }) => Err(SearchError::Interrupted),
            Err(error) => Err(error),
        }
    }
}

impl Population {
    /// The best `size` of them: those within the ceilings by fronts and, in the last front that has
    /// room, the least crowded; then the others by excess.
    fn of(members: Vec<Candidate>, size: usize) -> Self {
        let (within, mut beyond): (Vec<Candidate>, Vec<Candidate>) =
            members.into_iter().partition(|m| m.excess == 0.0);
        let mut chosen: Vec<(usize, (usize, f64))> = Vec::new();
        for (rank, front) in fronts(&within).into_iter().enumerate() {
            if chosen.len() >= size {
                break;
            }
            let mut ranked: Vec<(usize, (usize, f64))> = front
                .iter()
                .copied()
                .zip(crowding(&within, &front).into_iter().map(|c| (rank, c)))
                .collect();
            ranked.sort_by(|a, b| b.1.1.total_cmp(&a.1.1).then(a.0.cmp(&b.0)));
            ranked.truncate(size - chosen.len());
            chosen.extend(ranked);
        }
        let last = chosen.iter().map(|(_, (rank, _))| rank + 1).max().unwrap_or(0);
        let mut within: Vec<Option<Candidate>> = within.into_iter().map(Some).collect();
        let (mut members, mut ranks) =
            (Vec::with_capacity(chosen.len()), Vec::with_capacity(chosen.len()));
        for (index, rank) in chosen {
            members.extend(within[index].take());
            ranks.push(rank);
        }
        beyond.sort_by(|a, b| {
            a.excess.total_cmp(&b.excess).then(a.architecture.cmp(&b.architecture))
        });
        beyond.truncate(size - members.len());
        ranks.extend((0..beyond.len()).map(|place| (last + place, 0.0)));
        members.extend(beyond);
        Self { members, ranks }
    }

    /// A new architecture from one or two of the better ones.
    fn child(&self, space: &Space, generator: &mut Generator) -> Architecture {
        let (Some(one), Some(other)) = (self.winner(generator), self.winner(generator)) else {
            return space.draw(generator);
        };
        if generator.unit() < FRESH {
            return space.draw(generator);
        }
        let crossed =
            if generator.unit() < CROSSED { space.cross(one, other, generator) } else { *one };
        space.mutate(&crossed, generator).unwrap_or(crossed)
    }

    /// The better of two at random: a lower front, or the same and less crowded.
    fn winner(&self, generator: &mut Generator) -> Option<&Architecture> {
        let mut pick = || generator.below(self.members.len() as u64) as usize;
        let (a, b) = (pick(), pick());
        let (rank_a, rank_b) = (self.ranks.get(a)?, self.ranks.get(b)?);
        let better = rank_a.0.cmp(&rank_b.0).then(rank_b.1.total_cmp(&rank_a.1));
        self.members.get(if better.is_le() { a } else { b }).map(|m| &m.architecture)
    }
}

/// The architectures so far, as 64-bit hashes with fixed keys. A collision loses one candidate and
/// nothing else.
#[derive(Default)]
struct Bred(HashSet<u64, FixedState>);

impl Bred {
    fn new_one(&mut self, mut breed: impl FnMut() -> Architecture) -> Option<Architecture> {
        (0..TRIES).map(|_| breed()).find(|architecture| self.0.insert(fingerprint(architecture)))
    }
}

/// The same in every run, as the search's result shall be.
fn fingerprint(architecture: &Architecture) -> u64 {
    FixedState::default().hash_one(architecture)
}
