//! Pipelines: a model's operators in order, cut into stages that work on different frames at the
//! same time, each on a processor of its own.
//!
//! | question | where |
//! |---|---|
//! | where to cut and which processor takes which stage | [`Pipeline::best`] |
//! | all trade-offs between period and latency | [`Pipeline::pareto`] |
//! | one encoder with several decoders on several processors | [`multitask`] |
//! | where a model's encoder ends | [`Tasks`] |
//! | how a placement performs in the simulator | [`Simulation`] |
//! | how far a search may go | [`Pipeline::within`] |
//! | baselines without a plan | [`naive`] |
//!
//! The period is the slowest stage, a stage being its incoming transfer and its operators; the
//! latency is the sum of all stages. A stage passes on the values that later stages read.

mod bounded;
mod exact;
pub mod multitask;
pub mod naive;
mod planned;
mod regret;
mod search;
mod simulation;
mod stages;
mod tasks;

pub use search::STEPS;
pub use simulation::Simulation;
pub use tasks::{Boundaries, Tasks, TasksError};

use crate::{
    Plan,
    cost::{CostError, Costs, End, Interval, NodeCosts},
};
use search::{Found, NoPipeline};
use stages::StageTimes;
use vitempo_graph::Budget;

/// Largest number of processors of a pipeline: the search is exponential in it.
pub const MOST_PROCESSORS: usize = 10;
/// All latencies of nodes together are shorter, so that sums with transfers fit 64 bits: 146 years,
/// ns.
const LARGEST_NS: u128 = 1 << 62;

/// Why there is no pipeline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The costs are refused.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// Too many processors for an exact search.
    #[error(
        "{count} processors: pipelines are planned exactly, over at most {MOST_PROCESSORS}; leave \
        out those that cannot help"
    )]
    TooManyProcessors {
        /// Number of processors.
        count: usize,
    },
    /// Latencies that cannot be added up.
    #[error("the latencies of the nodes add up to {sum} ns, more than can be planned with")]
    TooLarge {
        /// Each node on its slowest processor, ns.
        sum: u128,
    },
    /// No pipeline is within the bounds.
    #[error("no pipeline keeps {bounds}")]
    Impossible {
        /// The bounds.
        bounds: String,
    },
    /// The search ended before a pipeline within the bounds was found.
    #[error("no pipeline that keeps {bounds} was found within the budget; there may be one")]
    GaveUp {
        /// The bounds.
        bounds: String,
    },
    /// A node that no processor can run in any order of stages.
    #[error(
        "no processor can run node `{node}` where the links between processors let it be reached"
    )]
    Unreachable {
        /// Its name.
        node: String,
    },
}

/// What to minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineObjective {
    /// The period (the most frames per second); among equals the least latency.
    Throughput {
        /// Bound on the latency, ns.
        latency_at_most: Option<u64>,
    },
    /// The latency; among equals the least period.
    Latency {
        /// Bound on the period, ns.
        period_at_most: Option<u64>,
    },
}

/// One stage by index: nodes `from..to` of the costs on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Index of the processor.
    pub processor: usize,
    /// Index of its first node.
    pub from: usize,
    /// Index after its last node.
    pub to: usize,
}

/// Stages by index, and the plan to print.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelinePlan {
    /// The nodes of each processor, stage by stage.
    pub cuts: Vec<Cut>,
    /// The plan to print: stages, transfers, predicted costs.
    pub plan: Plan,
    /// Whether the search ended within its budget.
    pub is_complete: bool,
}

/// Pipelines that no other pipeline dominates in period and latency.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineFront {
    /// The pipelines, shortest period first.
    pub plans: Vec<PipelinePlan>,
    /// Whether the front is complete: the search ended within its budget. Else pipelines of shorter
    /// periods may be missing.
    pub is_complete: bool,
}

impl PipelineFront {
    /// The pipelines within bounds on period and latency, ns.
    ///
    /// # Errors
    /// [`PipelineError::Impossible`] where there is none, [`PipelineError::GaveUp`] where the front
    /// is not complete.
    pub fn within(
        mut self,
        period_at_most: Option<u64>,
        latency_at_most: Option<u64>,
    ) -> Result<Self, PipelineError> {
        let keeps = |value: Option<Interval>, bound: Option<u64>| {
            bound.is_none_or(|bound| value.is_none_or(|value| value.point() <= bound))
        };
        self.plans.retain(|found| {
            let predicted = &found.plan.predicted;
            keeps(predicted.period_ns, period_at_most)
                && keeps(Some(predicted.latency_ns), latency_at_most)
        });
        if self.plans.is_empty() {
            let period = describe_bounds(PipelineObjective::Latency { period_at_most });
            let latency = describe_bounds(PipelineObjective::Throughput { latency_at_most });
            let bounds = [period, latency].concat().join(" and ");
            return Err(match self.is_complete {
                true => PipelineError::Impossible { bounds },
                false => PipelineError::GaveUp { bounds },
            });
        }
        Ok(self)
    }
}

/// A model and the processors its pipeline may use, each for one stage at most.
#[derive(Debug)]
pub struct Pipeline<'a> {
    costs: &'a Costs,
    times: StageTimes,
    budget: Budget,
}

impl<'a> Pipeline<'a> {
    /// The pipelines of a model over all processors of its costs. Inputs arrive at processor
    /// `home`: a first stage on another processor has to receive them.
    ///
    /// # Errors
    /// [`PipelineError`] for too many processors, or for a `home` that is not a processor.
    pub fn new(costs: &'a Costs, home: usize) -> Result<Self, PipelineError> {
        let count = costs.processors().len();
        if count > MOST_PROCESSORS {
            return Err(PipelineError::TooManyProcessors { count });
        }
        if home >= count {
            return Err(CostError::Unknown {
                owner: "the pipeline".to_owned(),
                what: "processor",
                name: home.to_string(),
            }
            .into());
        }
        check_size(costs)?;
        let times = StageTimes::of(costs, home, End::Point);
        Ok(Self { costs, times, budget: search::default_budget() })
    }

    /// The same problem with another budget for its searches: steps, and a function that returns
    /// whether to stop. When the budget ends, the best pipeline found is returned with the proven
    /// bound, and an upper bound on its regret.
    #[must_use]
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// The best pipeline, proven by dynamic programming over (processors used, last one, nodes
    /// done).
    ///
    /// # Errors
    /// [`PipelineError::Impossible`] when none satisfies the bound, [`PipelineError::GaveUp`] when
    /// the budget ended before one was found.
    pub fn best(&self, objective: PipelineObjective) -> Result<PipelinePlan, PipelineError> {
        let found = search::best(&self.times, objective, &self.budget);
        Ok(self.plan(objective, found.map_err(|none| self.nothing(objective, none))?))
    }

    /// Only the stages of the best pipeline, without a plan around them.
    #[must_use]
    pub fn cuts(&self, objective: PipelineObjective) -> Option<Vec<Cut>> {
        Some(search::best(&self.times, objective, &self.budget).ok()?.cuts)
    }

    /// The Pareto front of period and latency.
    ///
    /// # Errors
    /// As [`Pipeline::best`], when there is none at all.
    pub fn pareto(&self) -> Result<PipelineFront, PipelineError> {
        let mut plans = Vec::new();
        let mut objective = PipelineObjective::Latency { period_at_most: None };
        let end = loop {
            let found = match search::best(&self.times, objective, &self.budget) {
                Ok(found) => found,
                Err(none) => break none,
            };
            // What a coarse search finds may be dominated; the first is shown, others are not.
            if !found.is_complete && !plans.is_empty() {
                break NoPipeline::OutOfBudget { at_least: found.at_least };
            }
            let (period, is_complete) = (self.times.period(&found.cuts), found.is_complete);
            plans.push(self.plan(objective, found));
            match period.checked_sub(1) {
                Some(less) if is_complete => {
                    objective = PipelineObjective::Latency { period_at_most: Some(less) };
                }
                Some(_) => break NoPipeline::OutOfBudget { at_least: 0 },
                None => break NoPipeline::Impossible,
            }
        };
        plans.reverse();
        if plans.is_empty() {
            return Err(self.nothing(objective, end));
        }
        Ok(PipelineFront { plans, is_complete: end == NoPipeline::Impossible })
    }

    /// The plan of given stages. `None` unless they cover all nodes in order, and each processor is
    /// used once, can run its nodes and is linked to the processor before it.
    #[must_use]
    pub fn plan_of(&self, cuts: &[Cut], objective: PipelineObjective) -> Option<PipelinePlan> {
        self.period_ns(cuts)?;
        let cuts = cuts.to_vec();
        let (at_least, is_complete) = match search::best(&self.times, objective, &self.budget) {
            Ok(best) => (best.at_least, best.is_complete),
            Err(NoPipeline::OutOfBudget { at_least }) => (at_least, false),
            Err(NoPipeline::Impossible) => (0, true),
        };
        Some(self.plan(objective, Found { cuts, at_least, is_complete }))
    }

    /// The period of given stages, without a search, ns; `None` where [`Pipeline::plan_of`] is.
    #[must_use]
    pub fn period_ns(&self, cuts: &[Cut]) -> Option<Interval> {
        let fits = |index: usize, cut: &Cut| {
            let start = index.checked_sub(1).map_or(0, |before| cuts[before].to);
            let once = cuts[..index].iter().all(|other| other.processor != cut.processor);
            cut.from == start
                && cut.from < cut.to
                && cut.processor < self.costs.processors().len()
                && once
        };
        let covered = cuts.last().is_some_and(|last| last.to == self.costs.nodes().len());
        let valid = covered
            && cuts.iter().enumerate().all(|(index, cut)| fits(index, cut))
            && self.times.each(cuts).all(|t| t.is_some());
        valid.then(|| self.interval(&self.ends(), &|times| times.period(cuts)))
    }

    fn nothing(&self, objective: PipelineObjective, none: NoPipeline) -> PipelineError {
        let bounds = describe_bounds(objective);
        let kept = |bounds: &[String]| match bounds {
            [] => "memories and confined tensors".to_owned(),
            bounds => bounds.join(" and "),
        };
        if none != NoPipeline::Impossible {
            return PipelineError::GaveUp { bounds: kept(&bounds) };
        }
        let unbounded = PipelineObjective::Latency { period_at_most: None };
        let unbounded = search::best(&self.times, unbounded, &self.budget).map(drop);
        if unbounded != Err(NoPipeline::Impossible) && !bounds.is_empty() {
            return PipelineError::Impossible { bounds: kept(&bounds) };
        }
        let node = exact::furthest(&self.times);
        let name = self.costs.nodes().get(node).map_or_else(String::new, |n| n.name.clone());
        PipelineError::Unreachable { node: name }
    }
}

fn value(objective: PipelineObjective, times: &StageTimes, cuts: &[Cut]) -> u64 {
    match objective {
        PipelineObjective::Throughput { .. } => times.period(cuts),
        PipelineObjective::Latency { .. } => times.latency(cuts),
    }
}

fn describe_bounds(objective: PipelineObjective) -> Vec<String> {
    let at_most = |what: &str, ns: Option<u64>| {
        ns.map(|ns| format!("{what} at most {}", crate::plan::duration(Interval::exact(ns))))
    };
    match objective {
        PipelineObjective::Throughput { latency_at_most } => {
            at_most("latency", latency_at_most).into_iter().collect()
        }
        PipelineObjective::Latency { period_at_most } => {
            at_most("period", period_at_most).into_iter().collect()
        }
    }
}

/// Refuses latencies whose sum does not fit the numbers that plans are compared by.
fn check_size(costs: &Costs) -> Result<(), PipelineError> {
    let slowest = |node: &NodeCosts| {
        let times = node.latency_ns.iter().flatten().map(|ns| u128::from(ns.point()));
        times.max().unwrap_or(0)
    };
    let sum = costs.nodes().iter().map(slowest).sum();
    if sum < LARGEST_NS { Ok(()) } else { Err(PipelineError::TooLarge { sum }) }
}

#[cfg(test)]
mod tests;
