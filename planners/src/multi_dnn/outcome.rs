//! [`MultiDnnPlan`]: the plan found, by name, with its assumptions and the bound on better plans.

use super::{
    Bound, Evaluator, Objective, Policy, Problem, Score,
    evaluator::TaskOutcome,
    expectation::Step,
    fallbacks::fallbacks,
    policy::{Kind, Way},
    systems::Named,
};
use crate::Evidence;
use std::{cmp::Ordering, ops::Range};

/// How far a plan's optimality is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Every plan was evaluated, and none of them is better: by task, each way, and each set of up
    /// to four ways to choose from; with equal priorities and with every order of priorities.
    Enumerated,
    /// The same with single ways: by task, each way, each variant whole on whichever processor ends
    /// first, and the lightest ways of several processors to choose from. Of plans with other sets
    /// of ways, the best found; without a proof.
    SingleWays,
    /// The first criterion equals its bound, which holds for every plan; later criteria are the
    /// best found.
    First,
    /// The best plan found, without a proof.
    Open,
}

/// Consecutive positions of a way that run on one processor without other work in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedPiece {
    /// Index of the processor.
    pub processor: usize,
    /// Positions, counted from 0.
    pub positions: Range<usize>,
    /// Latency alone on the device, everything loaded, with the transfer of its output, ns.
    pub ns: u64,
}

/// One way of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedWay {
    /// Whether it is whole, cut or stitched.
    pub kind: Kind,
    /// Names of variants by position.
    pub variants: Vec<String>,
    /// Names of processors by position.
    pub processors: Vec<String>,
    /// Neighbouring positions on one processor run as one piece.
    pub joined: bool,
    /// Accuracy, basis points.
    pub accuracy_bp: u32,
    /// Latency alone on the device, everything loaded, ns.
    pub alone_ns: u64,
    /// Number of queries that took it.
    pub queries: u64,
    /// The pieces in which it runs.
    pub pieces: Vec<PlacedPiece>,
}

/// The plan for one task.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedTask {
    /// Its name.
    pub name: String,
    /// One way, or several to choose from on arrival.
    pub ways: Vec<PlacedWay>,
    /// Faster ways for a task that violates its objective repeatedly ([`super::Switching`]).
    pub fallbacks: Vec<PlacedWay>,
    /// The lowest number is next where queries wait.
    pub priority: u32,
    /// Number of queries, over all scenarios.
    pub queries: u64,
    /// Number of queries that violate their objective.
    pub violated: u64,
    /// Mean latency from arrival to end, ns.
    pub mean_latency_ns: f64,
    /// Longest latency, ns.
    pub longest_ns: u64,
}

/// A system that the plan is compared with, in the same evaluator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The system.
    pub system: Named,
    /// Its score, or the reason why it cannot run.
    pub score: Result<Score, String>,
    /// Whether its subgraphs fit into the memory; a system that does not fit is left out of the
    /// comparison.
    pub fits_memory: bool,
}

/// Plans for several models at once.
#[derive(Clone, Debug)]
pub struct MultiDnnPlan {
    /// The plan, in the form that can be evaluated again.
    pub policy: Policy,
    /// The plan by task, with names.
    pub tasks: Vec<PlacedTask>,
    /// The score of the plan.
    pub score: Score,
    /// The bound for every plan.
    pub bound: Bound,
    /// How far its optimality is proven.
    pub proof: Proof,
    /// The objective.
    pub objective: Objective,
    /// Number of plans evaluated, including those that were abandoned early.
    pub evaluations: u64,
    /// The systems of the stitching paper.
    pub compared: Vec<Compared>,
    /// Whether the slowdown by busy processors is known; otherwise none is assumed.
    pub contention_known: bool,
    /// Memory of the subgraphs of all ways, bytes.
    pub memory_bytes: u64,
    /// Always [`Evidence::Simulation`].
    pub evidence: Evidence,
}

impl MultiDnnPlan {
    /// Share of queries that run whole, cut and stitched.
    #[must_use]
    pub fn shares(&self) -> [(Kind, f64); 3] {
        let all: u64 = self.tasks.iter().map(|task| task.queries).sum();
        [Kind::Whole, Kind::Cut, Kind::Stitched].map(|kind| {
            let ways = self.tasks.iter().flat_map(|task| &task.ways);
            let queries: u64 = ways.filter(|way| way.kind == kind).map(|way| way.queries).sum();
            (kind, queries as f64 / all.max(1) as f64)
        })
    }

    /// The difference between the violation rate and its lower bound: 0 where the plan is proven
    /// optimal in this criterion.
    #[must_use]
    pub fn violation_gap(&self) -> f64 {
        (self.score.violated - self.bound.violated.min(self.score.violated)) as f64
            / self.score.queries.max(1) as f64
    }

    /// The most by which waiting queries take longer than in another plan with as many violations,
    /// as a share of that plan's time.
    #[must_use]
    pub fn throughput_gap(&self) -> f64 {
        let least = self.bound.saturated_ns_with(self.score.violated).max(1);
        (self.score.saturated_ns as f64 / least as f64 - 1.0).max(0.0)
    }

    /// The best of the systems that fit into memory.
    #[must_use]
    pub fn best_system(&self, among: impl Fn(Named) -> bool) -> Option<(Named, Score)> {
        let usable = self.compared.iter().filter(|c| c.fits_memory && among(c.system));
        let scores = usable.filter_map(|c| Some((c.system, c.score.as_ref().ok().copied()?)));
        scores.reduce(|best, other| {
            let less = other.1.compare(&best.1, self.objective) == Ordering::Less;
            if less { other } else { best }
        })
    }

    pub(super) fn tasks(evaluator: &mut Evaluator<'_>, policy: &Policy) -> Vec<PlacedTask> {
        let outcomes = evaluator.by_task(policy);
        let place = |(task, outcome): (usize, TaskOutcome)| {
            let ways = policy.ways[task].iter().zip(&outcome.by_way);
            let fallbacks = fallbacks(evaluator, policy, task).into_iter();
            PlacedTask {
                name: evaluator.model.problem.zoo.tasks()[task].name.clone(),
                fallbacks: fallbacks.map(|way| placed(evaluator, task, way, 0)).collect(),
                ways: ways.map(|(&way, &queries)| placed(evaluator, task, way, queries)).collect(),
                priority: policy.priorities[task],
                queries: outcome.queries,
                violated: outcome.violated,
                mean_latency_ns: outcome.latency_ns as f64 / outcome.queries.max(1) as f64,
                longest_ns: outcome.longest_ns,
            }
        };
        outcomes.into_iter().enumerate().map(place).collect()
    }
}

fn placed(evaluator: &Evaluator<'_>, task: usize, way: Way, queries: u64) -> PlacedWay {
    let model = &evaluator.model;
    let Problem { zoo, .. } = model.problem;
    let order = model.processors_of(way);
    let variant =
        |position| zoo.tasks()[task].variants[model.variant_at(task, way, position)].clone();
    let load = model.load(task, way).unwrap_or_default();
    PlacedWay {
        kind: model.kind(task, way),
        variants: (0..order.len()).map(variant).collect(),
        processors: order.iter().map(|&p| zoo.processors()[p].clone()).collect(),
        joined: way.joined,
        accuracy_bp: model.accuracy_bp(task, way),
        alone_ns: load.iter().fold(0, |sum, &ns| sum.saturating_add(ns)),
        queries,
        pieces: pieces(evaluator, task, way),
    }
}

/// The steps of a way with their positions.
fn pieces(evaluator: &Evaluator<'_>, task: usize, way: Way) -> Vec<PlacedPiece> {
    let (model, mut steps) = (&evaluator.model, Vec::new());
    let _ = model.steps(task, way, false, &mut steps);
    let order = model.processors_of(way);
    let mut first = 0;
    let piece = |step: Step| {
        let joined = order[first..].iter().take_while(|&&p| way.joined && p == step.processor);
        let positions = first..first + joined.count().max(1);
        first = positions.end;
        PlacedPiece { processor: step.processor, positions, ns: step.ns }
    };
    steps.into_iter().map(piece).collect()
}
