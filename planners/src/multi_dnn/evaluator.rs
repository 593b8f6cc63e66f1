//! [`Evaluator`]: evaluates plans and returns a [`Score`]. All figures of all systems come from it.

use super::{
    MultiDnnError, Objective, Problem,
    arrivals::Arrival,
    lanes::{Lane, Lanes},
    model::Model,
    policy::{Policy, Way},
    queueing::Queueing,
};
use crate::simulator::{Outcome, simulate};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{cmp::Ordering, ops::ControlFlow};

/// The score of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// Queries that violate their accuracy or latency objective, over all scenarios.
    pub violated: u64,
    /// Number of queries.
    pub queries: u64,
    /// Time at which the last of the queries that wait from the start ends, everything loaded, ns.
    pub saturated_ns: u64,
    /// Number of these queries.
    pub saturated_queries: u64,
    /// Energy of the processors above idle, over all scenarios, nJ; `None` without powers.
    pub energy_nj: Option<u64>,
    /// Sum of the latencies (arrival to end) of all queries of all scenarios, ns.
    pub latency_ns: u128,
}

impl Score {
    /// Share of queries that violate their objective.
    #[must_use]
    pub fn violation_rate(&self) -> f64 {
        self.violated as f64 / self.queries.max(1) as f64
    }

    /// Queries per second when saturated.
    #[must_use]
    pub fn queries_per_s(&self) -> f64 {
        self.saturated_queries as f64 / (self.saturated_ns.max(1) as f64 / 1e9)
    }

    /// Mean latency from arrival to end, ns.
    #[must_use]
    pub fn mean_latency_ns(&self) -> f64 {
        self.latency_ns as f64 / self.queries.max(1) as f64
    }

    /// Compares two scores; the lesser is better.
    #[must_use]
    pub fn compare(&self, other: &Self, objective: Objective) -> Ordering {
        let key = |score: &Self| {
            let (violated, saturated) = (score.violated, score.saturated_ns);
            let first = match objective {
                Objective::Violations => (violated, saturated),
                Objective::Throughput => (saturated, violated),
            };
            (first, score.energy_nj, score.latency_ns)
        };
        key(self).cmp(&key(other))
    }
}

/// The outcome of one task over all scenarios.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskOutcome {
    pub queries: u64,
    pub violated: u64,
    pub latency_ns: u128,
    pub longest_ns: u64,
    /// Queries by way.
    pub by_way: Vec<u64>,
}

/// Evaluates plans of one problem. Buffers are kept from plan to plan.
#[derive(Debug)]
pub struct Evaluator<'a> {
    pub(super) model: Model<'a>,
    lanes: Lanes,
    queueing: Queueing,
    evaluations: u64,
}

/// The contribution of a scenario to a score.
#[derive(Default)]
struct Tally {
    violated: u64,
    queries: u64,
    latency_ns: u128,
    energy_nj: f64,
}

impl<'a> Evaluator<'a> {
    /// # Errors
    /// [`MultiDnnError`] naming the invalid field, or a task that cannot run.
    pub fn new(problem: &'a Problem<'a>) -> Result<Self, MultiDnnError> {
        let model = Model::new(problem)?;
        let (lanes, queueing) = (Lanes::default(), Queueing::default());
        Ok(Self { model, lanes, queueing, evaluations: 0 })
    }

    /// Number of plans evaluated so far, including those that were abandoned early.
    #[must_use]
    pub const fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// A plan drawn at random, each task one way, in a random order of priorities or with equal
    /// ones: the baseline of searches.
    #[must_use]
    pub fn random(&self, seed: u64) -> Policy {
        let mut rng = StdRng::seed_from_u64(seed);
        let model = &self.model;
        let mut one = |task: usize| loop {
            let order = rng.random_range(0..model.orders.len());
            let variant = rng.random_range(0..model.stitched(task)) as u32;
            let joined = model.repeats(order) && rng.random();
            let way = Way { order: order as u32, variant, joined };
            // There is at least one such way; otherwise the model is refused.
            if model.load(task, way).is_some() {
                return vec![way];
            }
        };
        let ways: Vec<Vec<Way>> = (0..model.tasks()).map(&mut one).collect();
        let mut priorities: Vec<u32> = vec![0; ways.len()];
        if rng.random() {
            priorities = (0..ways.len() as u32).collect();
            (1..ways.len()).for_each(|at| priorities.swap(at, rng.random_range(0..=at)));
        }
        Policy { ways, priorities }
    }

    /// Evaluates a plan of this problem.
    pub fn score(&mut self, policy: &Policy) -> Score {
        let ways: Vec<&[Way]> = policy.ways.iter().map(Vec::as_slice).collect();
        let unbounded = self.score_below(&ways, &policy.priorities, None);
        unbounded.unwrap_or_else(|| unreachable!("nothing bounds the score"))
    }

    /// The same; `None` as soon as it is clear that the plan is not better than another.
    pub fn score_if_less(&mut self, policy: &Policy, than: Option<&Score>) -> Option<Score> {
        let ways: Vec<&[Way]> = policy.ways.iter().map(Vec::as_slice).collect();
        self.score_below(&ways, &policy.priorities, than)
    }

    pub(super) fn score_below(
        &mut self,
        ways: &[&[Way]],
        priorities: &[u32],
        below: Option<&Score>,
    ) -> Option<Score> {
        self.evaluations += 1;
        let objective = self.model.problem.objective;
        let (mut tally, mut saturated_ns) = (Tally::default(), 0);
        let violated_first = objective == Objective::Violations;
        for arrivals_next in [violated_first, !violated_first] {
            if arrivals_next {
                // If throughput is the first criterion and is better, violations are not bounded.
                let open = !violated_first && below.is_some_and(|b| saturated_ns < b.saturated_ns);
                let most = below.filter(|_| !open).map_or(u64::MAX, |b| b.violated);
                tally = self.arrivals(ways, priorities, most)?;
            } else {
                let open = violated_first && below.is_some_and(|b| tally.violated < b.violated);
                let most = below.filter(|_| !open).map_or(u64::MAX, |b| b.saturated_ns);
                saturated_ns = self.saturated(ways, priorities, most)?;
            }
        }
        let score = Score {
            violated: tally.violated,
            queries: tally.queries,
            saturated_ns,
            saturated_queries: self.model.saturated.len() as u64,
            energy_nj: self.model.problem.active_w.as_ref().map(|_| tally.energy_nj.round() as u64),
            latency_ns: tally.latency_ns,
        };
        let better = |below: &Score| score.compare(below, objective) == Ordering::Less;
        below.is_none_or(better).then_some(score)
    }

    /// All scenarios; `None` when more than `most` queries violate their objective.
    fn arrivals(&mut self, ways: &[&[Way]], priorities: &[u32], most: u64) -> Option<Tally> {
        let Self { model, lanes, queueing, .. } = self;
        let factors = model.problem.contention.factors();
        let mut tally = Tally::default();
        for scenario in &model.scenarios {
            lanes.fill(model, ways, priorities, scenario, false);
            queueing.run(lanes, model.processors(), factors, |done| {
                let latency_ns = done.now_ns - done.arrived_ns;
                tally.violated += u64::from(violates(model, &lanes.lanes[done.lane], latency_ns));
                tally.queries += 1;
                tally.latency_ns += u128::from(latency_ns);
                if tally.violated > most {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            if tally.violated > most {
                return None;
            }
            if let Some(watts) = &model.problem.active_w {
                let of = |(processor, w): (usize, &f64)| queueing.busy_ns(processor) as f64 * w;
                tally.energy_nj += watts.iter().enumerate().map(of).sum::<f64>();
            }
        }
        Some(tally)
    }

    /// Time at which the last of many queries ends, ns; `None` above `most`.
    fn saturated(&mut self, ways: &[&[Way]], priorities: &[u32], most: u64) -> Option<u64> {
        let Self { model, lanes, queueing, .. } = self;
        lanes.fill(model, ways, priorities, &model.saturated, true);
        let mut last_ns = 0;
        queueing.run(lanes, model.processors(), model.problem.contention.factors(), |done| {
            last_ns = done.now_ns;
            if last_ns > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (last_ns <= most).then_some(last_ns)
    }

    /// The outcome of each task.
    pub(super) fn by_task(&mut self, policy: &Policy) -> Vec<TaskOutcome> {
        let Self { model, lanes, queueing, .. } = self;
        let ways: Vec<&[Way]> = policy.ways.iter().map(Vec::as_slice).collect();
        let fresh =
            |ways: &&[Way]| TaskOutcome { by_way: vec![0; ways.len()], ..Default::default() };
        let mut tasks: Vec<TaskOutcome> = ways.iter().map(fresh).collect();
        for scenario in &model.scenarios {
            lanes.fill(model, &ways, &policy.priorities, scenario, false);
            let factors = model.problem.contention.factors();
            queueing.run(lanes, model.processors(), factors, |done| {
                let lane = &lanes.lanes[done.lane];
                let latency_ns = done.now_ns - done.arrived_ns;
                let task = &mut tasks[lane.task];
                task.queries += 1;
                task.violated += u64::from(violates(model, lane, latency_ns));
                task.latency_ns += u128::from(latency_ns);
                task.longest_ns = task.longest_ns.max(latency_ns);
                task.by_way[lane.way] += 1;
                ControlFlow::Continue(())
            });
        }
        tasks
    }

    /// Evaluates a plan with the simulator itself: the same score, but slower.
    ///
    /// # Errors
    /// [`MultiDnnError::Scenario`] for a scenario that the simulator refuses.
    pub fn simulated(&self, policy: &Policy) -> Result<Score, MultiDnnError> {
        let (mut tally, mut saturated_ns) = (Tally::default(), 0);
        for scenario in &self.model.scenarios {
            let (lanes, outcome) = self.simulate(policy, scenario, false)?;
            for (lane, stream) in lanes.lanes.iter().zip(&outcome.streams) {
                for &latency_ns in &stream.latency_ns {
                    tally.violated += u64::from(violates(&self.model, lane, latency_ns));
                    tally.queries += 1;
                    tally.latency_ns += u128::from(latency_ns);
                }
            }
            if let Some(watts) = &self.model.problem.active_w {
                let busy = outcome.processors.iter().zip(watts);
                tally.energy_nj += busy.map(|(p, w)| p.busy_ns as f64 * w).sum::<f64>();
            }
        }
        let (_, outcome) = self.simulate(policy, &self.model.saturated, true)?;
        for stream in &outcome.streams {
            saturated_ns = stream.completed_ns.iter().fold(saturated_ns, |last, &ns| last.max(ns));
        }
        Ok(Score {
            violated: tally.violated,
            queries: tally.queries,
            saturated_ns,
            saturated_queries: self.model.saturated.len() as u64,
            energy_nj: self.model.problem.active_w.as_ref().map(|_| tally.energy_nj.round() as u64),
            latency_ns: tally.latency_ns,
        })
    }

    fn simulate(
        &self,
        policy: &Policy,
        scenario: &[Arrival],
        loaded: bool,
    ) -> Result<(Lanes, Outcome), MultiDnnError> {
        let ways: Vec<&[Way]> = policy.ways.iter().map(Vec::as_slice).collect();
        let mut lanes = Lanes::default();
        lanes.fill(&self.model, &ways, &policy.priorities, scenario, loaded);
        let outcome = simulate(&lanes.scenario(&self.model), 0)?;
        Ok((lanes, outcome))
    }
}

fn violates(model: &Model<'_>, lane: &Lane, latency_ns: u64) -> bool {
    !lane.accurate || latency_ns > model.problem.slos[lane.task].latency_ns
}
