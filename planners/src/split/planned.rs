//! A split as a plan: stages, transfers, predicted costs, and the sense in which it is optimal.

use super::{
    Criterion, Objective, Split, SplitPlan, bounded::Bounded, closure::Side, criteria::At,
};
use crate::{
    Evidence, Optimality, Plan, Predicted, Regret, Stage, Transfer,
    cost::{End, Interval, Link},
};

impl Split<'_> {
    pub(super) fn plan(
        &self,
        objective: &Objective,
        found: &Bounded,
        regret: Option<Regret>,
    ) -> SplitPlan {
        let side = &found.side;
        let costs = self.costs;
        let stage = |processor: usize, here: bool| {
            let nodes = || (0..side.len()).filter(move |&n| side[n] == here);
            Stage {
                processor: costs.processors()[processor].name.clone(),
                nodes: nodes().map(|n| costs.nodes()[n].name.clone()).collect(),
                latency_ns: nodes().filter_map(|n| costs.nodes()[n].latency_ns[processor]).sum(),
                memory_bytes: costs.memory_bytes(processor, nodes()),
            }
        };
        let stages = [stage(self.ends.device, true), stage(self.ends.server, false)];
        let optimal = Optimality {
            minimised: objective.minimise.to_string(),
            bounds: self.describe_bounds(objective),
            cost_model: self.cost_model(),
            gap: (found.value - found.at_least.min(found.value)) as f64
                / (found.at_least as f64).max(1.0),
        };
        let predicted = Predicted {
            latency_ns: self.interval(Criterion::Latency, side),
            period_ns: None,
            device_energy_nj: self
                .is_energy_known()
                .then(|| self.interval(Criterion::DeviceEnergy, side)),
            frame: None,
        };
        let plan = Plan {
            model: costs.model().to_owned(),
            stages: stages.into_iter().filter(|s| !s.nodes.is_empty()).collect(),
            transfers: self.transfers(side),
            predicted,
            optimal,
            regret,
            evidence: Evidence::CostModel,
        };
        SplitPlan { on_device: side.clone(), plan }
    }

    pub(super) fn cost_model(&self) -> String {
        let free = if self.is_energy_known() && self.is_computing_free() {
            "; the device draws power to send and to wait only, as no active power is given"
        } else {
            ""
        };
        let is_known = |end: usize| self.costs.engine_memory(end).is_some();
        let memory = if [self.ends.device, self.ends.server].into_iter().any(is_known) {
            "; memory is what engines take, with the activations of the whole model"
        } else {
            ""
        };
        let back = if self.ends.down.is_some() { "only results flow" } else { "nothing flows" };
        format!(
            "device, link and server work one after the other, a tensor is sent once, {back} \
            back{free}{memory}"
        )
    }

    pub(super) fn interval(&self, criterion: Criterion, side: &Side) -> Interval {
        let at = |end| {
            let terms = self.terms(criterion, At::all(end));
            u64::try_from(terms.cost(&self.closure, side)).unwrap_or(u64::MAX)
        };
        let point = at(End::Point);
        Interval::clamped(point, at(End::Lower), at(End::Upper))
    }

    pub(super) fn transfers(&self, side: &Side) -> Vec<Transfer> {
        let costs = self.costs;
        let name = |processor: usize| costs.processors()[processor].name.clone();
        let read: Vec<_> = costs.tensors().iter().filter(|t| !t.consumers.is_empty()).collect();
        let up: Vec<_> = self.closure.sent(side).map(|index| read[index]).collect();
        let back: Vec<_> = costs
            .tensors()
            .iter()
            .filter(|t| t.output && t.producer.is_some_and(|node| !side[node]))
            .collect();
        let ways = [
            (self.ends.device, self.ends.server, Some(self.ends.up), up),
            (self.ends.server, self.ends.device, self.ends.down, back),
        ];
        let transfer = |(from, to, link, tensors): (
            usize,
            usize,
            Option<Link>,
            Vec<&crate::cost::TensorCosts>,
        )| {
            // A link that is used takes its setup, even where no tensor is sent over it.
            let is_setup =
                |link: &Link| link.setup_ns > 0 && to == self.ends.server && side.contains(&false);
            let link = link.filter(|link| !tensors.is_empty() || is_setup(link))?;
            Some(Transfer {
                from: name(from),
                to: name(to),
                tensors: tensors.iter().map(|t| t.name.clone()).collect(),
                size_bytes: tensors.iter().map(|t| t.size_bytes).sum(),
                latency_ns: tensors
                    .iter()
                    .filter_map(|t| link.transfer_ns(t.size_bytes))
                    .sum::<Interval>()
                    + Interval::exact(link.setup_ns),
                setup_ns: link.setup_ns,
            })
        };
        ways.into_iter().filter_map(transfer).collect()
    }
}
