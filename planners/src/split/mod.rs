//! Split inference: which operators run on the device, which on a server behind a link.
//!
//! | question | where |
//! |---|---|
//! | the best split under an objective | [`Split::best`] |
//! | all splits that are worth considering | [`Split::pareto`] |
//! | which split for which bandwidth | [`Split::over_bandwidth`] |
//! | a chain without branches | [`chain`] |
//! | the two halves as graphs | [`crate::parts`] |

mod bandwidth;
mod bounded;
pub mod chain;
mod closure;
mod criteria;
mod flow;
mod frontier;
mod pareto;
mod regret;

pub use bandwidth::BandwidthRange;
pub use criteria::Criterion;
pub use pareto::Front;

use crate::{
    Evidence, Optimality, Plan, Predicted, Regret, Stage, Transfer,
    cost::{CostError, Costs, End, Interval, Link},
};
use bounded::{Bounded, Columns, NoSplit};
use closure::{Closure, Side, Terms};
use criteria::{At, Ends};
use std::collections::BTreeMap;
use vitempo_graph::{Budget, Limits};

/// Steps that one split may take where nothing else is said; a step is a partial split extended, or
/// a node looked at in a minimum cut.
pub const STEPS: u64 = 1 << 30;

/// What a split keeps when nothing is bounded.
const CONSTRAINTS: &str = "what is confined and what cannot run";

/// Why there is no split.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum SplitError {
    #[error(transparent)]
    Cost(#[from] CostError),
    #[error("there is no link from `{from}` to `{to}`: the costs must say what sending takes")]
    NoLink { from: String, to: String },
    #[error("device and server are both `{processor}`")]
    OneProcessor { processor: String },
    #[error(
        "node `{node}` must be on the device and on the server: look at what cannot run there, \
        what is confined, what runs together, and which links have bandwidth 0"
    )]
    Contradiction { node: String },
    #[error("no split keeps {bounds}")]
    Impossible { bounds: String },
    #[error("no split that keeps {bounds} was found within the budget; there may be one")]
    GaveUp { bounds: String },
    #[error("the budget ended before {what} were found")]
    OutOfBudget { what: &'static str },
    #[error("the costs add up to {sum} {unit}, more than can be planned with")]
    TooLarge { sum: u128, unit: Criterion },
    #[error(
        "the device's energy is not known: processor `{device}` has neither active_w nor idle_w, \
        its nodes have no energy_nj, and the link to the server has no transmit_w"
    )]
    NoEnergy { device: String },
    #[error(
        "the link from `{from}` to `{to}` has transmit_w {transmit_w}: results come back with the \
        server's power, which is no part of the device's energy; leave it out"
    )]
    ServerPower { from: String, to: String, transmit_w: f64 },
    #[error(
        "the link from `{from}` to `{to}` has bandwidth 0: break points need the bandwidths of \
        both directions, which change in their ratio"
    )]
    LinkDown { from: String, to: String },
}

/// What to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Bound {
    pub criterion: Criterion,
    pub at_most: u64,
}

/// What to minimise, and what to keep. Memories given in the costs are kept always.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Objective {
    pub minimise: Criterion,
    pub bounds: Vec<Bound>,
}

impl Objective {
    /// The least of one criterion, nothing else to keep.
    #[must_use]
    pub const fn least(minimise: Criterion) -> Self {
        Self { minimise, bounds: Vec::new() }
    }

    /// With one more thing to keep.
    #[must_use]
    pub fn keeping(mut self, criterion: Criterion, at_most: u64) -> Self {
        self.bounds.push(Bound { criterion, at_most });
        self
    }
}

/// A split: which nodes (by index in the costs) are on the device, and the plan to print.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitPlan {
    /// For each node, whether it is on the device.
    pub on_device: Vec<bool>,
    /// Stages, transfers, predicted costs.
    pub plan: Plan,
}

/// A model, a device, and a server behind a link.
#[derive(Debug)]
pub struct Split<'a> {
    costs: &'a Costs,
    ends: Ends,
    closure: Closure,
    budget: Budget,
}

impl<'a> Split<'a> {
    /// Asks where to cut a model between two processors of its costs. Inputs arrive on the device;
    /// results come back to it when there is a link back.
    ///
    /// # Errors
    /// [`SplitError`] when there is no link, or a node would have to be on both sides.
    pub fn new(costs: &'a Costs, device: usize, server: usize) -> Result<Self, SplitError> {
        let name = |index: usize| {
            costs.processors().get(index).map_or_else(|| index.to_string(), |p| p.name.clone())
        };
        let unknown = |index| CostError::Unknown {
            owner: "the split".to_owned(),
            what: "processor",
            name: name(index),
        };
        if let Some(&index) = [device, server].iter().find(|&&p| p >= costs.processors().len()) {
            return Err(unknown(index).into());
        }
        if device == server {
            return Err(SplitError::OneProcessor { processor: name(device) });
        }
        let up = costs
            .link(device, server)
            .ok_or_else(|| SplitError::NoLink { from: name(device), to: name(server) })?;
        let ends = Ends { device, server, up: *up, down: costs.link(server, device).copied() };
        let closure = criteria::closure(costs, &ends);
        if let Some(node) = closure.contradiction() {
            return Err(SplitError::Contradiction { node: costs.nodes()[node].name.clone() });
        }
        if let Some(down) = ends.down.filter(|down| down.transmit_w > 0.0) {
            let (from, to) = (name(server), name(device));
            return Err(SplitError::ServerPower { from, to, transmit_w: down.transmit_w });
        }
        let budget = Budget::new(Limits { steps: STEPS, ..Limits::NONE });
        let split = Self { costs, ends, closure, budget };
        for unit in [
            Criterion::Latency,
            Criterion::DeviceEnergy,
            Criterion::DeviceMemory,
            Criterion::ServerMemory,
            Criterion::BytesSent,
        ] {
            split.check_size(unit)?;
        }
        Ok(split)
    }

    /// The same question with another budget for its searches: steps, and a question whether to
    /// stop. What was found by then is the answer, with the bound that was proven.
    #[must_use]
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    fn check_size(&self, unit: Criterion) -> Result<(), SplitError> {
        let sum = self.terms(unit, At::all(End::Point)).ceiling();
        if sum < criteria::LARGEST { Ok(()) } else { Err(SplitError::TooLarge { sum, unit }) }
    }

    fn check_links(&self) -> Result<(), SplitError> {
        let Ends { device, server, up, down } = self.ends;
        let links = [(device, server, Some(up)), (server, device, down)];
        let is_down =
            |link: Option<Link>| link.is_some_and(|link| link.bandwidth_bytes_per_s.point() == 0);
        let name = |processor: usize| self.costs.processors()[processor].name.clone();
        match links.into_iter().find(|(.., link)| is_down(*link)) {
            Some((from, to, _)) => Err(SplitError::LinkDown { from: name(from), to: name(to) }),
            None => Ok(()),
        }
    }

    /// Whether the costs say anything about the device's energy.
    #[must_use]
    pub fn is_energy_known(&self) -> bool {
        let Ends { device, up, .. } = self.ends;
        let processor = &self.costs.processors()[device];
        processor.active_w > 0.0
            || processor.idle_w > 0.0
            || up.transmit_w > 0.0
            || self.costs.nodes().iter().any(|n| n.energy_nj[device].is_some())
    }

    /// Whether computing on the device draws anything.
    fn is_computing_free(&self) -> bool {
        let device = self.ends.device;
        self.costs.processors()[device].active_w == 0.0
            && self.costs.nodes().iter().all(|n| n.energy_nj[device].is_none())
    }

    fn check_energy(&self, objective: &Objective) -> Result<(), SplitError> {
        let bounded = objective.bounds.iter().map(|bound| bound.criterion);
        let needed = std::iter::once(objective.minimise)
            .chain(bounded)
            .any(|criterion| criterion == Criterion::DeviceEnergy);
        if needed && !self.is_energy_known() {
            let device = self.costs.processors()[self.ends.device].name.clone();
            return Err(SplitError::NoEnergy { device });
        }
        Ok(())
    }

    /// Terms with each cost at an end; an end that is unbounded stays within what can be computed
    /// with.
    fn terms(&self, criterion: Criterion, at: At) -> Terms {
        let mut terms = criteria::terms(self.costs, &self.ends, criterion, at);
        if [at.nodes, at.up, at.down].contains(&End::Upper) {
            let all = terms.device.iter_mut().chain(&mut terms.server).chain(&mut terms.sent);
            all.for_each(|t| *t = (*t).min(criteria::LARGEST));
        }
        terms
    }

    /// The best split; among equals the one of least latency, then energy, device memory, bytes
    /// sent.
    ///
    /// # Errors
    /// [`SplitError::Impossible`] when no split keeps the bounds.
    pub fn best(&self, objective: &Objective) -> Result<SplitPlan, SplitError> {
        self.check_energy(objective)?;
        let found = self.solve(objective)?;
        let regret = self.regret(objective, &found.side);
        Ok(self.plan(objective, &found, regret))
    }

    /// Only the cut: for each node whether it is on the device, with nothing but the constraints to
    /// keep. For planning at every frame.
    ///
    /// # Errors
    /// [`SplitError::Impossible`] when no split respects the constraints.
    pub fn cut(&self, criterion: Criterion) -> Result<Vec<bool>, SplitError> {
        let none = || SplitError::Impossible { bounds: CONSTRAINTS.to_owned() };
        self.closure
            .cheapest(&self.terms(criterion, At::all(End::Point)))
            .map(|(_, side)| side)
            .ok_or_else(none)
    }

    /// The plan of a split that is given: what it would cost. Its gap and regret say how far it is
    /// from the best.
    ///
    /// # Errors
    /// As [`Split::best`]; `None` when the split lets something flow back or breaks a constraint.
    pub fn plan_of(
        &self,
        on_device: &[bool],
        objective: &Objective,
    ) -> Result<Option<SplitPlan>, SplitError> {
        self.check_energy(objective)?;
        let side = on_device.to_vec();
        if !self.closure.allows(&side) {
            return Ok(None);
        }
        let terms = self.terms(objective.minimise, At::all(End::Point));
        let at_least = self.solve_terms(&terms, objective)?.at_least;
        let value = terms.cost(&self.closure, &side);
        let regret = self.regret(objective, &side);
        Ok(Some(self.plan(objective, &Bounded { side, value, at_least }, regret)))
    }

    /// What may be used of each criterion: the objective's bounds and the memories.
    fn bounds(&self, objective: &Objective) -> Vec<Bound> {
        let memory = |processor: usize, criterion| {
            let memory = self.costs.processors()[processor].memory_bytes;
            memory.map(|at_most| Bound { criterion, at_most })
        };
        let memories = [
            memory(self.ends.device, Criterion::DeviceMemory),
            memory(self.ends.server, Criterion::ServerMemory),
        ];
        let mut least: Vec<Bound> = Vec::new();
        for bound in objective.bounds.iter().copied().chain(memories.into_iter().flatten()) {
            match least.iter_mut().find(|other| other.criterion == bound.criterion) {
                Some(other) => other.at_most = other.at_most.min(bound.at_most),
                None => least.push(bound),
            }
        }
        least
    }

    /// Columns of criteria in the order of preference, and of what is bounded.
    fn columns(&self, order: Vec<Criterion>, bounds: Vec<Bound>) -> Columns {
        let point = |criterion| self.terms(criterion, At::all(End::Point));
        let terms = order.iter().map(|&criterion| point(criterion)).collect();
        let mut columns = Columns { terms, order: (0..order.len()).collect(), within: Vec::new() };
        let mut place: BTreeMap<String, usize> = BTreeMap::new();
        for (column, criterion) in order.iter().enumerate() {
            place.insert(criterion.to_string(), column);
        }
        for Bound { criterion, at_most } in bounds {
            let column = place.get(&criterion.to_string()).copied().unwrap_or(columns.terms.len());
            if column == columns.terms.len() {
                columns.terms.push(point(criterion));
            }
            // A bound that every split keeps is none.
            if u128::from(at_most) < columns.terms[column].ceiling() {
                columns.within.push((column, at_most));
            }
        }
        columns
    }

    fn solve(&self, objective: &Objective) -> Result<Bounded, SplitError> {
        let order = objective.minimise.then_ties();
        self.search(&self.columns(order, self.bounds(objective)), objective)
    }

    /// The least of other terms than the objective's, within its bounds.
    fn solve_terms(&self, terms: &Terms, objective: &Objective) -> Result<Bounded, SplitError> {
        let mut columns = self.columns(Vec::new(), self.bounds(objective));
        columns.terms.insert(0, terms.clone());
        columns.order = vec![0];
        columns.within.iter_mut().for_each(|(column, _)| *column += 1);
        self.search(&columns, objective)
    }

    fn search(&self, columns: &Columns, objective: &Objective) -> Result<Bounded, SplitError> {
        if columns.within.is_empty() {
            let order: Vec<&Terms> = columns.order.iter().map(|&c| &columns.terms[c]).collect();
            let best = self.closure.cheapest_in_order(&order);
            let (value, side) = best.ok_or_else(|| self.impossible(objective))?;
            return Ok(Bounded { side, value, at_least: value });
        }
        bounded::cheapest(&self.closure, columns, &self.budget).map_err(|nothing| match nothing {
            NoSplit::Impossible => self.impossible(objective),
            NoSplit::GaveUp => {
                SplitError::GaveUp { bounds: self.describe_bounds(objective).join(" and ") }
            }
        })
    }

    fn impossible(&self, objective: &Objective) -> SplitError {
        let mut bounds = self.describe_bounds(objective);
        if bounds.is_empty() {
            bounds.push(CONSTRAINTS.to_owned());
        }
        let down = self.check_links().err().map(|_| {
            let name = |processor: usize| &self.costs.processors()[processor].name;
            let (device, server) = (name(self.ends.device), name(self.ends.server));
            format!("; a link between `{device}` and `{server}` has bandwidth 0")
        });
        SplitError::Impossible { bounds: bounds.join(" and ") + &down.unwrap_or_default() }
    }

    fn describe_bounds(&self, objective: &Objective) -> Vec<String> {
        let describe = |bound: &Bound| match bound.criterion {
            Criterion::Latency => {
                format!("latency at most {}", crate::plan::duration(Interval::exact(bound.at_most)))
            }
            Criterion::DeviceEnergy => {
                format!("device energy at most {}", crate::plan::energy(bound.at_most))
            }
            other => format!("{other} at most {} B", bound.at_most),
        };
        self.bounds(objective).iter().map(describe).collect()
    }

    fn plan(&self, objective: &Objective, found: &Bounded, regret: Option<Regret>) -> SplitPlan {
        let side = &found.side;
        let costs = self.costs;
        let stage = |processor: usize, here: bool| {
            let nodes = || (0..side.len()).filter(move |&n| side[n] == here);
            Stage {
                processor: costs.processors()[processor].name.clone(),
                nodes: nodes().map(|n| costs.nodes()[n].name.clone()).collect(),
                latency_ns: nodes().filter_map(|n| costs.nodes()[n].latency_ns[processor]).sum(),
                memory_bytes: nodes().map(|n| costs.nodes()[n].memory_bytes).sum(),
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

    fn cost_model(&self) -> String {
        let free = if self.is_energy_known() && self.is_computing_free() {
            "; the device draws power to send and to wait only, as no active power is given"
        } else {
            ""
        };
        format!(
            "device, link and server work one after the other, a tensor is sent once, nothing \
            flows back{free}"
        )
    }

    fn interval(&self, criterion: Criterion, side: &Side) -> Interval {
        let at = |end| {
            let terms = self.terms(criterion, At::all(end));
            u64::try_from(terms.cost(&self.closure, side)).unwrap_or(u64::MAX)
        };
        let point = at(End::Point);
        Interval::new(point, at(End::Lower).min(point), at(End::Upper).max(point))
            .unwrap_or(Interval::exact(point))
    }

    fn transfers(&self, side: &Side) -> Vec<Transfer> {
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
            let link = link.filter(|_| !tensors.is_empty())?;
            Some(Transfer {
                from: name(from),
                to: name(to),
                tensors: tensors.iter().map(|t| t.name.clone()).collect(),
                size_bytes: tensors.iter().map(|t| t.size_bytes).sum(),
                latency_ns: tensors
                    .iter()
                    .filter_map(|t| link.transfer_ns(t.size_bytes))
                    .sum::<Interval>(),
            })
        };
        ways.into_iter().filter_map(transfer).collect()
    }
}

#[cfg(test)]
mod tests;
