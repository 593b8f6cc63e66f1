//! [`plan`]: the best plan found within a budget of evaluations.
//!
//! 1. The plans of all systems are evaluated; the search starts from the best of them.
//! 2. If the whole space, with all sets of up to four ways of a task, is no larger than the budget,
//!    all of it is evaluated, and the search ends. If the space with single ways and the usual sets
//!    alone is no larger, that is evaluated, and step 3 is skipped.
//! 3. Else: from several starts (the best systems, the relaxation behind the bound, the lightest
//!    ways), each task in turn tries all its candidates with the other tasks fixed, then all
//!    priorities are tried, until no change improves the plan.
//! 4. Then iterated local search with the remaining budget: random changes of one or two tasks or
//!    of priorities are accepted if they are better; after many changes without improvement, a
//!    larger random change of the best plan. A change may also give a task further ways to choose
//!    from, up to four.
//!
//! An evaluation ends as soon as it is clear that a plan is not better. The same seed gives the
//! same plan: nothing depends on time.

use super::{
    Evaluator, MultiDnnError, Objective, Problem, Score,
    bound::Bound,
    candidates::{Candidates, MOST_WAYS, alike, with_all_sets},
    outcome::{Compared, MultiDnnPlan, Proof},
    policy::{Policy, Way},
    systems::{Named, Orders},
};
use crate::{
    Evidence,
    stitch::{StitchError, orders},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::cmp::Ordering;

/// Largest number of tasks for which every order of priorities is tried.
const MOST_RANKED: usize = 5;
/// Number of changes without improvement before a larger change.
const CHANGES_BEFORE_KICK: u64 = 400;

/// The limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Largest number of evaluated plans.
    pub evaluations: u64,
    /// Seed of the random changes.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { evaluations: 20_000, seed: 0 }
    }
}

/// Searches for the best plan; returns it with the systems it is compared with, and with the bound
/// for every plan.
///
/// # Errors
/// [`MultiDnnError`] naming the invalid field, the task that cannot run, or the memory that is
/// missing.
pub fn plan(
    problem: &Problem<'_>,
    orders: &Orders,
    settings: Settings,
) -> Result<MultiDnnPlan, MultiDnnError> {
    let mut search = Search::new(problem, settings)?;
    let (compared, systems) = compare(&mut search.evaluator, orders);
    let starts = search.starts(systems);
    if starts.is_empty() {
        let budget = problem.memory_bytes.unwrap_or(u64::MAX);
        return Err(MultiDnnError::Memory {
            least: search.evaluator.model.least_memory_bytes(),
            budget,
        });
    }
    let proof = search.run(starts);
    let best = search.best.take();
    let best = best.ok_or_else(|| MultiDnnError::invalid("plans", "none was evaluated"))?;
    let planned = search.planned(best);
    let evaluations = search.evaluator.evaluations();
    Ok(MultiDnnPlan { proof, compared, evaluations, ..planned })
}

/// A system's plan, or why it has none.
pub type SystemPlan = (Named, Result<MultiDnnPlan, StitchError>);

/// The plans of the systems that plans are compared with, evaluated like that of [`plan`]. They are
/// not searched for, and may not fit into the memory.
///
/// # Errors
/// [`MultiDnnError`] naming the invalid field. A system without a plan has a task that cannot run in
/// its orders.
pub fn plans_of_systems(
    problem: &Problem<'_>,
    orders: &Orders,
) -> Result<Vec<SystemPlan>, MultiDnnError> {
    let mut search = Search::new(problem, Settings::default())?;
    let of = |system: Named| {
        let plan = search.evaluator.plan_of(system, orders).map(|policy| {
            let score = search.evaluator.score(&policy);
            MultiDnnPlan { evaluations: 1, ..search.planned((score, policy)) }
        });
        (system, plan)
    };
    Ok(Named::ALL.into_iter().map(of).collect())
}

/// Evaluates the plans of all systems; best first among those that fit into memory.
fn compare(
    evaluator: &mut Evaluator<'_>,
    orders: &Orders,
) -> (Vec<Compared>, Vec<(Score, Policy)>) {
    let (mut compared, mut plans) = (Vec::new(), Vec::new());
    for system in Named::ALL {
        let policy = match evaluator.plan_of(system, orders) {
            Ok(policy) => policy,
            Err(error) => {
                let score = Err(error.to_string());
                compared.push(Compared { system, score, fits_memory: true });
                continue;
            }
        };
        let score = evaluator.score(&policy);
        let ways: Vec<&[Way]> = policy.ways.iter().map(Vec::as_slice).collect();
        let fits_memory = evaluator.model.fits_memory(&ways);
        compared.push(Compared { system, score: Ok(score), fits_memory });
        if fits_memory {
            plans.push((score, policy));
        }
    }
    let objective = evaluator.model.problem.objective;
    plans.sort_by(|a, b| a.0.compare(&b.0, objective));
    (compared, plans)
}

/// Equal priorities, then every order of priorities where there are few tasks.
fn priorities(tasks: usize) -> Result<Vec<Vec<u32>>, MultiDnnError> {
    let equal = vec![0; tasks];
    if !(2..=MOST_RANKED).contains(&tasks) {
        return Ok(vec![equal]);
    }
    let ranks = |order: Vec<usize>| order.into_iter().map(|rank| rank as u32).collect();
    Ok([equal].into_iter().chain(orders::arrivals(tasks)?.into_iter().map(ranks)).collect())
}

/// The best of the space with single ways and the usual sets.
#[cfg(test)]
pub(super) fn enumerated(
    problem: &Problem<'_>,
    settings: Settings,
) -> Result<Option<Score>, MultiDnnError> {
    let mut search = Search::new(problem, settings)?;
    let starts = search.starts(Vec::new());
    search.score(starts);
    let space = search.space();
    search.enumerate(&space.unwrap_or_default());
    Ok(search.best.map(|(score, _)| score))
}

struct Search<'a> {
    evaluator: Evaluator<'a>,
    candidates: Vec<Candidates>,
    priorities: Vec<Vec<u32>>,
    budget: u64,
    bound: Bound,
    /// By task, a way of the relaxed plan that gives the bound.
    relaxed: Vec<Option<Way>>,
    rng: StdRng,
    best: Option<(Score, Policy)>,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem<'a>, settings: Settings) -> Result<Self, MultiDnnError> {
        let evaluator = Evaluator::new(problem)?;
        let model = &evaluator.model;
        let candidates: Vec<Candidates> =
            (0..model.tasks()).map(|task| Candidates::of(model, task)).collect();
        let (bound, relaxed) = Bound::of(model, &candidates);
        let priorities = priorities(candidates.len())?;
        let (budget, rng) = (settings.evaluations, StdRng::seed_from_u64(settings.seed));
        Ok(Self { evaluator, candidates, priorities, budget, bound, relaxed, rng, best: None })
    }

    fn objective(&self) -> Objective {
        self.evaluator.model.problem.objective
    }

    fn spent(&self) -> bool {
        self.evaluator.evaluations() >= self.budget
    }

    /// The systems' plans, and some plans of ways with little load; only those that fit into
    /// memory.
    fn starts(&mut self, systems: Vec<(Score, Policy)>) -> Vec<(Option<Score>, Policy)> {
        let model = &self.evaluator.model;
        let lightest: Vec<Way> =
            (0..model.tasks()).filter_map(|t| Some(model.lightest(t, &|_| 1.0)?.1)).collect();
        let accurate = |task: usize| {
            let ways = self.candidates[task].accurate.iter();
            ways.min_by_key(|l| (l.total(), l.way)).map_or(lightest[task], |l| l.way)
        };
        let smallest = |task: usize| model.smallest(task).unwrap_or(lightest[task]);
        let slos = &model.problem.slos;
        let mut by_deadline: Vec<usize> = (0..model.tasks()).collect();
        by_deadline.sort_by_key(|&task| slos[task].latency_ns);
        let mut urgent = vec![0u32; model.tasks()];
        by_deadline.iter().enumerate().for_each(|(rank, &task)| urgent[task] = rank as u32);
        let of = |way: &dyn Fn(usize) -> Way, priorities: &[u32]| Policy {
            ways: (0..model.tasks()).map(|task| vec![way(task)]).collect(),
            priorities: priorities.to_vec(),
        };
        let equal = vec![0; model.tasks()];
        let made = [
            of(&|task| self.relaxed[task].unwrap_or(lightest[task]), &urgent),
            of(&accurate, &equal),
            of(&|task| lightest[task], &equal),
            of(&smallest, &equal),
        ];
        let fits = |policy: &Policy| {
            let ways: Vec<&[Way]> = policy.ways.iter().map(Vec::as_slice).collect();
            model.fits_memory(&ways)
        };
        let made: Vec<Policy> = made.into_iter().filter(fits).collect();
        let known = systems.into_iter().map(|(score, policy)| (Some(score), policy));
        known.chain(made.into_iter().map(|policy| (None, policy))).collect()
    }

    /// Evaluates starts; the best first.
    fn score(&mut self, starts: Vec<(Option<Score>, Policy)>) -> Vec<(Score, Policy)> {
        let mut scored: Vec<(Score, Policy)> = Vec::new();
        for (score, policy) in starts {
            let score = score.unwrap_or_else(|| self.evaluator.score(&policy));
            self.offer(score, &policy);
            scored.push((score, policy));
        }
        let objective = self.objective();
        scored.sort_by(|a, b| a.0.compare(&b.0, objective));
        scored.dedup_by(|a, b| a.1 == b.1);
        scored
    }

    fn run(&mut self, starts: Vec<(Option<Score>, Policy)>) -> Proof {
        let scored = self.score(starts);
        let space = self.space();
        if let Some(whole) = space.as_ref().and_then(|space| self.whole(space)) {
            self.enumerate(&whole);
            return Proof::Enumerated;
        }
        match &space {
            Some(space) => self.enumerate(space),
            None => {
                for (score, policy) in scored.into_iter().take(4) {
                    // A start may spend only a part of the budget, so that other starts and random
                    // changes have some.
                    let until = self.evaluator.evaluations() + self.budget / 6;
                    self.descend((score, policy), until);
                }
            }
        }
        self.change_at_random();
        match self.proof() {
            Proof::Open if space.is_some() => Proof::SingleWays,
            proof => proof,
        }
    }

    fn proof(&self) -> Proof {
        let Some((score, _)) = &self.best else { return Proof::Open };
        let proven = match self.objective() {
            Objective::Violations => score.violated == self.bound.violated,
            Objective::Throughput => score.saturated_ns == self.bound.saturated_ns,
        };
        if proven { Proof::First } else { Proof::Open }
    }

    fn offer(&mut self, score: Score, policy: &Policy) {
        let objective = self.objective();
        let better = |best: &(Score, Policy)| score.compare(&best.0, objective) == Ordering::Less;
        if self.best.as_ref().is_none_or(better) {
            self.best = Some((score, policy.clone()));
        }
    }

    /// Evaluates a plan, and replaces another plan with it if it is better.
    fn improve(&mut self, current: &mut (Score, Policy), changed: &Policy) -> bool {
        let ways: Vec<&[Way]> = changed.ways.iter().map(Vec::as_slice).collect();
        if self.evaluator.model.problem.memory_bytes.is_some()
            && !self.evaluator.model.fits_memory(&ways)
        {
            return false;
        }
        match self.evaluator.score_below(&ways, &changed.priorities, Some(&current.0)) {
            Some(score) => {
                *current = (score, changed.clone());
                self.offer(score, changed);
                true
            }
            None => false,
        }
    }

    /// By task, single ways and the usual sets; `None` where there are more plans of these than may
    /// be evaluated.
    fn space(&self) -> Option<Vec<Vec<Vec<Way>>>> {
        let most = self.left();
        let model = &self.evaluator.model;
        let spaces = self.candidates.iter().enumerate();
        let spaces = spaces.map(|(task, candidates)| candidates.space(model, task, most));
        self.enumerable(spaces.collect::<Option<_>>()?)
    }

    /// The same with all sets of ways.
    fn whole(&self, space: &[Vec<Vec<Way>>]) -> Option<Vec<Vec<Vec<Way>>>> {
        let most = self.left();
        let spaces = space.iter().enumerate();
        let spaces =
            spaces.map(|(task, space)| with_all_sets(&self.evaluator.model, task, space, most));
        self.enumerable(spaces.collect::<Option<_>>()?)
    }

    fn left(&self) -> usize {
        let left = self.budget.saturating_sub(self.evaluator.evaluations());
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// A space, if no more plans than may be evaluated are in it.
    fn enumerable(&self, spaces: Vec<Vec<Vec<Way>>>) -> Option<Vec<Vec<Vec<Way>>>> {
        let count = spaces.iter().map(Vec::len);
        let count = count.fold(self.priorities.len(), usize::saturating_mul);
        (count <= self.left() && spaces.len() <= MOST_RANKED).then_some(spaces)
    }

    /// Evaluates every plan of a space.
    fn enumerate(&mut self, spaces: &[Vec<Vec<Way>>]) {
        let Some(mut current) = self.best.clone() else { return };
        let mut at = vec![0; spaces.len()];
        loop {
            let ways = at.iter().zip(spaces).map(|(&i, space)| space[i].clone()).collect();
            let mut policy = Policy { ways, priorities: Vec::new() };
            for index in 0..self.priorities.len() {
                policy.priorities.clone_from(&self.priorities[index]);
                self.improve(&mut current, &policy);
            }
            let Some(digit) = at.iter().zip(spaces).rposition(|(&i, space)| i + 1 < space.len())
            else {
                return;
            };
            at[digit] += 1;
            at[digit + 1..].fill(0);
        }
    }

    /// Tries all candidates of each task in turn, then all priorities, until no change improves the
    /// plan.
    fn descend(&mut self, mut current: (Score, Policy), until: u64) {
        let tasks = self.candidates.len();
        let mut unchanged = 0;
        // Tasks in turn, and priorities after the last.
        for turn in (0..=tasks).cycle() {
            let before = current.0;
            let options = match turn == tasks {
                true => self.priorities.len(),
                false => self.candidates[turn].choices.len() + 1,
            };
            for option in 0..options {
                if self.spent() || self.evaluator.evaluations() >= until {
                    return;
                }
                let mut changed = current.1.clone();
                if turn == tasks {
                    changed.priorities.clone_from(&self.priorities[option]);
                } else {
                    match self.candidates[turn].choices.get(option) {
                        Some(ways) => changed.ways[turn].clone_from(ways),
                        None => self.toggle(&mut changed.ways[turn]),
                    }
                }
                if changed != current.1 {
                    self.improve(&mut current, &changed);
                }
            }
            unchanged = if current.0 == before { unchanged + 1 } else { 0 };
            if unchanged > tasks {
                return;
            }
        }
    }

    /// Joins the pieces on one processor into one piece, or divides one piece into several.
    fn toggle(&self, ways: &mut [Way]) {
        for way in ways {
            way.joined = !way.joined && self.evaluator.model.repeats(way.order as usize);
        }
    }

    fn change_at_random(&mut self) {
        let Some(mut current) = self.best.clone() else { return };
        let mut failed = 0;
        while !self.spent() {
            let mut changed = current.1.clone();
            let changes = self.rng.random_range(1..=2);
            (0..changes).for_each(|_| self.change(&mut changed));
            failed = if self.improve(&mut current, &changed) { 0 } else { failed + 1 };
            if failed < CHANGES_BEFORE_KICK {
                continue;
            }
            failed = 0;
            let Some((_, best)) = self.best.clone() else { return };
            let mut kicked = best;
            let changes = self.rng.random_range(2..=4);
            (0..changes).for_each(|_| self.change(&mut kicked));
            let ways: Vec<&[Way]> = kicked.ways.iter().map(Vec::as_slice).collect();
            if self.evaluator.model.fits_memory(&ways) {
                let score = self.evaluator.score(&kicked);
                self.offer(score, &kicked);
                current = (score, kicked);
            }
        }
    }

    /// Changes the ways of one task, adds one, or changes its priority.
    fn change(&mut self, policy: &mut Policy) {
        let tasks = self.candidates.len();
        let task = self.rng.random_range(0..tasks);
        let choices = &self.candidates[task].choices;
        match self.rng.random_range(0..10) {
            0..6 if !choices.is_empty() => {
                let at = self.rng.random_range(0..choices.len());
                policy.ways[task].clone_from(&choices[at]);
            }
            6 if !choices.is_empty() => {
                let at = self.rng.random_range(0..choices.len());
                let mut ways = policy.ways[task].clone();
                ways.extend(choices[at].iter().filter(|way| !policy.ways[task].contains(way)));
                if ways.len() <= MOST_WAYS && alike(&self.evaluator.model, task, &ways) {
                    policy.ways[task] = ways;
                }
            }
            7 => self.toggle(&mut policy.ways[task]),
            _ => {
                let other = self.rng.random_range(0..tasks);
                if policy.priorities.iter().all(|&p| p == policy.priorities[0]) {
                    policy.priorities = (0..tasks as u32).collect();
                }
                policy.priorities.swap(task, other);
            }
        }
    }

    /// The plan of a policy, without a proof and without systems to compare it with.
    fn planned(&mut self, (score, policy): (Score, Policy)) -> MultiDnnPlan {
        let problem = self.evaluator.model.problem;
        let tasks = MultiDnnPlan::tasks(&mut self.evaluator, &policy);
        let ways: Vec<&[Way]> = policy.ways.iter().map(Vec::as_slice).collect();
        MultiDnnPlan {
            memory_bytes: self.evaluator.model.memory_bytes(&ways),
            tasks,
            policy,
            score,
            bound: self.bound,
            proof: Proof::Open,
            objective: problem.objective,
            evaluations: 0,
            compared: Vec::new(),
            contention_known: problem.contention != super::Contention::Unknown,
            evidence: Evidence::Simulation,
        }
    }
}
