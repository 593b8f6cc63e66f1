//! A pipeline as a plan: stages, transfers, predicted costs, and the sense in which it is optimal.

use super::{
    Cut, Pipeline, PipelineObjective, PipelinePlan, describe_bounds,
    search::Found,
    stages::{self, StageTimes},
    value,
};
use crate::{
    Evidence, Optimality, Plan, Predicted, Stage, Transfer,
    cost::{End, Interval},
};

impl Pipeline<'_> {
    /// The times at the lower and at the upper ends of all intervals.
    pub(super) fn ends(&self) -> [StageTimes; 2] {
        [End::Lower, End::Upper].map(|end| StageTimes::of(self.costs, self.times.home, end))
    }

    pub(super) fn interval(
        &self,
        [lower, upper]: &[StageTimes; 2],
        of: &dyn Fn(&StageTimes) -> u64,
    ) -> Interval {
        Interval::clamped(of(&self.times), of(lower), of(upper))
    }

    pub(super) fn plan(&self, objective: PipelineObjective, found: Found) -> PipelinePlan {
        let Found { cuts, at_least, is_complete } = found;
        let costs = self.costs;
        let name = |processor: usize| costs.processors()[processor].name.clone();
        let stage = |cut: &Cut| Stage {
            processor: name(cut.processor),
            nodes: costs.nodes()[cut.from..cut.to].iter().map(|n| n.name.clone()).collect(),
            latency_ns: costs.nodes()[cut.from..cut.to]
                .iter()
                .filter_map(|n| n.latency_ns[cut.processor])
                .sum(),
            memory_bytes: costs.memory_bytes(cut.processor, cut.from..cut.to),
        };
        let ends = self.ends();
        let minimised = match objective {
            PipelineObjective::Throughput { .. } => "period",
            PipelineObjective::Latency { .. } => "latency",
        };
        let paid = value(objective, &self.times, &cuts);
        let optimal = Optimality {
            minimised: minimised.to_owned(),
            bounds: describe_bounds(objective),
            cost_model: "a processor takes one stage of consecutive operators, and receives \
                before it computes; stages overlap without slowing each other"
                .to_owned(),
            gap: paid.saturating_sub(at_least) as f64 / at_least.max(1) as f64,
        };
        let plan = Plan {
            model: costs.model().to_owned(),
            stages: cuts.iter().map(stage).collect(),
            transfers: self.transfers(&cuts),
            predicted: Predicted {
                latency_ns: self.interval(&ends, &|times| times.latency(&cuts)),
                period_ns: Some(self.interval(&ends, &|times| times.period(&cuts))),
                device_energy_nj: None,
                frame: None,
            },
            optimal,
            regret: Some(self.regret(objective, &cuts, ends.each_ref(), is_complete)),
            evidence: Evidence::CostModel,
        };
        PipelinePlan { cuts, plan, is_complete }
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
                setup_ns: link.setup_ns,
            })
        };
        starts.zip(cuts).filter_map(hand_over).collect()
    }
}
