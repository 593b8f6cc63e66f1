//! The best pipeline within a budget: the search that fits the objective, and a coarse one where the
//! budget ends first.

use super::{
    Cut, PipelineObjective,
    bounded::least_period,
    exact::{Limits, Table, bottleneck},
    stages::StageTimes,
};
use crate::meter::{Meter, OutOfSteps};
use vitempo_graph::{Budget, Limits as BudgetLimits};

/// Default budget of a pipeline, steps; a step is one end of one stage.
pub const STEPS: u64 = 1 << 34;

/// Steps of a coarse search, which is not cut: some tenths of a second.
const COARSE_STEPS: u64 = 1 << 26;
/// Number of stages' ends that a coarse search tries where the latency is bounded: it searches many
/// times.
const PLACES: usize = 24;
/// The same once the order of processors is known.
const REFINED: usize = 1000;

/// The default budget of a search.
pub(super) fn default_budget() -> Budget {
    Budget::new(BudgetLimits { steps: STEPS, ..BudgetLimits::NONE })
}

/// Why a search has no pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPipeline {
    /// There is none.
    Impossible,
    /// The budget ended. No pipeline has less than this of what is minimised, ns.
    OutOfBudget { at_least: u64 },
}

impl NoPipeline {
    /// The same with another bound, if the budget ended.
    pub(super) fn but_at_least(self, at_least: u64) -> Self {
        match self {
            Self::Impossible => self,
            Self::OutOfBudget { .. } => Self::OutOfBudget { at_least },
        }
    }
}

impl From<OutOfSteps> for NoPipeline {
    fn from(_: OutOfSteps) -> Self {
        Self::OutOfBudget { at_least: 0 }
    }
}

/// Times of stages: those of which the latency is the sum, and those of which the period is the
/// longest. They differ where what is bounded is not counted in the scenario of what is minimised.
#[derive(Clone, Copy)]
pub(super) struct Times<'a> {
    pub sums: &'a StageTimes,
    pub stages: &'a StageTimes,
}

impl<'a> Times<'a> {
    pub(super) fn same(times: &'a StageTimes) -> Self {
        Self { sums: times, stages: times }
    }

    /// What is minimised by one scenario's times, bounded by other times.
    pub(super) fn minimised(
        objective: PipelineObjective,
        scenario: &'a StageTimes,
        bounded: &'a StageTimes,
    ) -> Self {
        match objective {
            PipelineObjective::Throughput { .. } => Self { sums: bounded, stages: scenario },
            PipelineObjective::Latency { .. } => Self { sums: scenario, stages: bounded },
        }
    }

    /// Time of receiving, as summed and as bounded; `None` where there is no link.
    pub(super) fn receive(self, from: usize, to: usize, at: usize) -> Option<(u64, u64)> {
        Some((self.sums.receive(from, to, at)?, self.stages.receive(from, to, at)?))
    }
}

/// The best pipeline found.
pub(super) struct Found {
    pub cuts: Vec<Cut>,
    /// No pipeline has less of what is minimised, ns.
    pub at_least: u64,
    /// Whether the search ended within its budget.
    pub is_complete: bool,
}

/// The least of what is minimised, ns.
pub(super) fn least(
    times: Times<'_>,
    objective: PipelineObjective,
    meter: &mut Meter<'_>,
) -> Result<u64, NoPipeline> {
    match objective {
        PipelineObjective::Throughput { latency_at_most: None } => bottleneck(times.stages, meter),
        PipelineObjective::Throughput { latency_at_most: Some(latency) } => {
            least_period(times, latency, meter)
        }
        PipelineObjective::Latency { period_at_most } => {
            let period = period_at_most.unwrap_or(u64::MAX);
            let limits = Limits { period, latency: u64::MAX };
            Ok(Table::least_latency(times, limits, meter)?.latency_ns())
        }
    }
}

/// The best pipeline; among equals the one with the least of the other quantity.
fn solve(
    times: &StageTimes,
    objective: PipelineObjective,
    budget: &Budget,
) -> Result<Vec<Cut>, NoPipeline> {
    let (times, mut meter) = (Times::same(times), Meter::new(budget));
    let limits = match objective {
        PipelineObjective::Latency { period_at_most } => {
            Limits { period: period_at_most.unwrap_or(u64::MAX), latency: u64::MAX }
        }
        PipelineObjective::Throughput { latency_at_most } => Limits {
            period: least(times, objective, &mut meter)?,
            latency: latency_at_most.unwrap_or(u64::MAX),
        },
    };
    let known = match objective {
        PipelineObjective::Throughput { .. } => limits.period,
        PipelineObjective::Latency { .. } => 0,
    };
    let table = Table::least_latency(times, limits, &mut meter);
    Ok(table.map_err(|e| e.but_at_least(known))?.cuts())
}

/// The best pipeline; the best of a coarse search with a bound where the budget ends first.
pub(super) fn best(
    times: &StageTimes,
    objective: PipelineObjective,
    budget: &Budget,
) -> Result<Found, NoPipeline> {
    let value = |cuts: &[Cut]| super::value(objective, times, cuts);
    match solve(times, objective, budget) {
        Ok(cuts) => Ok(Found { at_least: value(&cuts), cuts, is_complete: true }),
        Err(NoPipeline::Impossible) => Err(NoPipeline::Impossible),
        Err(NoPipeline::OutOfBudget { at_least }) => {
            let at_least = at_least.max(times.at_least_for(objective));
            let cuts = coarse(times, objective, places(times, objective))
                .ok_or(NoPipeline::OutOfBudget { at_least })?;
            let refined = match objective {
                PipelineObjective::Throughput { latency_at_most: Some(_) } => None,
                _ => coarse(&times.along(&cuts), objective, REFINED),
            };
            let cuts = refined.filter(|refined| value(refined) < value(&cuts)).unwrap_or(cuts);
            Ok(Found { at_least: at_least.min(value(&cuts)), cuts, is_complete: false })
        }
    }
}

/// Number of stages' ends that a coarse search can try.
fn places(times: &StageTimes, objective: PipelineObjective) -> usize {
    let sets = (times.processors * times.processors) << times.processors;
    match objective {
        PipelineObjective::Throughput { latency_at_most: Some(_) } => PLACES,
        _ => (4 * COARSE_STEPS / sets.max(1) as u64).isqrt() as usize,
    }
}

/// The best pipeline with cuts at few places only.
fn coarse(times: &StageTimes, objective: PipelineObjective, most: usize) -> Option<Vec<Cut>> {
    let (coarse, places) = times.coarse(most);
    let found = solve(&coarse, objective, &Budget::new(BudgetLimits::NONE)).ok()?;
    let cut = |cut: Cut| Cut { from: places[cut.from], to: places[cut.to], ..cut };
    Some(found.into_iter().map(cut).collect())
}
