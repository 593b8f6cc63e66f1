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
//! | baselines without a plan | [`naive`] |
//!
//! The period is the slowest stage, a stage being its incoming transfer and its operators; the
//! latency is the sum of all stages. A stage passes on the values that later stages read.

mod bounded;
mod exact;
pub mod multitask;
pub mod naive;
mod simulation;
mod stages;
mod tasks;

pub use simulation::Simulation;
pub use tasks::{Boundaries, Tasks, TasksError};

use crate::{
    Evidence, Optimality, Plan, Predicted, Regret, Stage, Transfer,
    cost::{CostError, Costs, End, Interval},
};
use exact::{Limits, Table};
use stages::StageTimes;

/// Largest number of processors of a pipeline: the search is exponential in it.
pub const MOST_PROCESSORS: usize = 10;

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
    /// No pipeline is within the bounds.
    #[error("no pipeline keeps {bounds}")]
    Impossible {
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
}

/// A model and the processors its pipeline may use, each for one stage at most.
#[derive(Debug)]
pub struct Pipeline<'a> {
    costs: &'a Costs,
    times: StageTimes,
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
        Ok(Self { costs, times: StageTimes::of(costs, home, End::Point) })
    }

    /// The best pipeline, proven by dynamic programming over (processors used, last one, nodes
    /// done).
    ///
    /// # Errors
    /// [`PipelineError::Impossible`] when none satisfies the bound.
    pub fn best(&self, objective: PipelineObjective) -> Result<PipelinePlan, PipelineError> {
        let found = solve(&self.times, objective).ok_or_else(|| self.nothing(objective))?;
        Ok(self.plan(objective, found))
    }

    /// Only the stages of the best pipeline, without a plan around them.
    #[must_use]
    pub fn cuts(&self, objective: PipelineObjective) -> Option<Vec<Cut>> {
        solve(&self.times, objective)
    }

    /// The Pareto front of period and latency, shortest period first.
    ///
    /// # Errors
    /// As [`Pipeline::best`], when there is none at all.
    pub fn pareto(&self) -> Result<Vec<PipelinePlan>, PipelineError> {
        let mut list = Vec::new();
        let mut objective = PipelineObjective::Latency { period_at_most: None };
        while let Some(cuts) = solve(&self.times, objective) {
            let period = self.times.period(&cuts);
            list.push(self.plan(objective, cuts));
            let Some(less) = period.checked_sub(1) else { break };
            objective = PipelineObjective::Latency { period_at_most: Some(less) };
        }
        list.reverse();
        if list.is_empty() { Err(self.nothing(objective)) } else { Ok(list) }
    }

    /// The plan of given stages. `None` unless they cover all nodes in order, and each processor is
    /// used once, can run its nodes and is linked to the processor before it.
    #[must_use]
    pub fn plan_of(&self, cuts: &[Cut], objective: PipelineObjective) -> Option<PipelinePlan> {
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
        valid.then(|| self.plan(objective, cuts.to_vec()))
    }

    fn nothing(&self, objective: PipelineObjective) -> PipelineError {
        let bounds = describe_bounds(objective);
        let unbounded = solve(&self.times, PipelineObjective::Latency { period_at_most: None });
        if unbounded.is_some() && !bounds.is_empty() {
            return PipelineError::Impossible { bounds: bounds.join(" and ") };
        }
        let node = exact::furthest(&self.times);
        let name = self.costs.nodes().get(node).map_or_else(String::new, |n| n.name.clone());
        PipelineError::Unreachable { node: name }
    }

    fn plan(&self, objective: PipelineObjective, cuts: Vec<Cut>) -> PipelinePlan {
        let costs = self.costs;
        let name = |processor: usize| costs.processors()[processor].name.clone();
        let stage = |cut: &Cut| Stage {
            processor: name(cut.processor),
            nodes: costs.nodes()[cut.from..cut.to].iter().map(|n| n.name.clone()).collect(),
            latency_ns: costs.nodes()[cut.from..cut.to]
                .iter()
                .filter_map(|n| n.latency_ns[cut.processor])
                .sum(),
            memory_bytes: costs.nodes()[cut.from..cut.to].iter().map(|n| n.memory_bytes).sum(),
        };
        let at = |end| StageTimes::of(costs, self.times.home, end);
        let (lower, upper) = (at(End::Lower), at(End::Upper));
        let interval = |of: &dyn Fn(&StageTimes) -> u64| {
            let point = of(&self.times);
            Interval::clamped(point, of(&lower), of(&upper))
        };
        let minimised = match objective {
            PipelineObjective::Throughput { .. } => "period",
            PipelineObjective::Latency { .. } => "latency",
        };
        let optimal = Optimality {
            minimised: minimised.to_owned(),
            bounds: describe_bounds(objective),
            cost_model: "a processor takes one stage of consecutive operators, and receives \
                before it computes; stages overlap without slowing each other"
                .to_owned(),
            gap: self.gap(objective, &cuts),
        };
        let plan = Plan {
            model: costs.model().to_owned(),
            stages: cuts.iter().map(stage).collect(),
            transfers: self.transfers(&cuts),
            predicted: Predicted {
                latency_ns: interval(&|times| times.latency(&cuts)),
                period_ns: Some(interval(&|times| times.period(&cuts))),
                device_energy_nj: None,
            },
            optimal,
            regret: self.regret(objective, &cuts, &lower, &upper),
            evidence: Evidence::CostModel,
        };
        PipelinePlan { cuts, plan }
    }

    fn gap(&self, objective: PipelineObjective, cuts: &[Cut]) -> f64 {
        let value = |cuts: &[Cut]| value(objective, &self.times, cuts);
        let best = solve(&self.times, objective).map_or(0, |best| value(&best));
        value(cuts).saturating_sub(best) as f64 / best.max(1) as f64
    }

    fn transfers(&self, cuts: &[Cut]) -> Vec<Transfer> {
        let name = |processor: usize| self.costs.processors()[processor].name.clone();
        let starts = std::iter::once(self.times.home).chain(cuts.iter().map(|c| c.processor));
        let hand_over = |(from, cut): (usize, &Cut)| {
            let tensors: Vec<_> = stages::live(self.costs, cut.from).collect();
            let link = self.costs.link(from, cut.processor)?;
            let sum: Interval = tensors.iter().filter_map(|t| link.transfer_ns(t.size_bytes)).sum();
            (!tensors.is_empty()).then(|| Transfer {
                from: name(from),
                to: name(cut.processor),
                tensors: tensors.iter().map(|t| t.name.clone()).collect(),
                size_bytes: tensors.iter().map(|t| t.size_bytes).sum(),
                latency_ns: sum + Interval::exact(link.setup_ns),
            })
        };
        starts.zip(cuts).filter_map(hand_over).collect()
    }

    /// The worst case over all costs in their intervals of (this pipeline - the best one). For a
    /// period: some stage of this pipeline at its upper end and all else at its lower end; for a
    /// latency: this whole pipeline at its upper end (Kasperski 2008).
    fn regret(
        &self,
        objective: PipelineObjective,
        cuts: &[Cut],
        lower: &StageTimes,
        upper: &StageTimes,
    ) -> Option<Regret> {
        let at_worst = |of_stage: &dyn Fn(usize) -> bool| -> Option<Regret> {
            let times = lower.raised(upper, cuts, of_stage);
            let best = solve(&times, objective)?;
            let paid = value(objective, &times, cuts);
            Some(Regret::of(paid.saturating_sub(value(objective, &times, &best)), paid))
        };
        match objective {
            PipelineObjective::Throughput { .. } => {
                let stages = (0..cuts.len()).filter_map(|stage| at_worst(&|s| s == stage));
                stages.max_by_key(|regret| regret.worst)
            }
            PipelineObjective::Latency { .. } => at_worst(&|_| true),
        }
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

fn solve(times: &StageTimes, objective: PipelineObjective) -> Option<Vec<Cut>> {
    let least_latency = |period: u64| {
        Table::least_latency(times, Limits { period, latency: u64::MAX }).map(|t| t.cuts())
    };
    match objective {
        PipelineObjective::Latency { period_at_most } => {
            least_latency(period_at_most.unwrap_or(u64::MAX))
        }
        PipelineObjective::Throughput { latency_at_most: None } => {
            least_latency(exact::bottleneck(times)?)
        }
        PipelineObjective::Throughput { latency_at_most: Some(latency) } => {
            bounded::least_period(times, latency)
        }
    }
}

#[cfg(test)]
mod tests;
