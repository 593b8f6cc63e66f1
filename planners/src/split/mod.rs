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
mod pareto;

pub use bandwidth::BandwidthRange;
pub use criteria::Criterion;

use crate::{
    Evidence, Optimality, Plan, Predicted, Regret, Stage, Transfer,
    cost::{CostError, Costs, End, Interval},
};
use bounded::{Bounded, Budget, NoSplit};
use closure::{Closure, Side, Terms};
use criteria::Ends;

/// Minimum cuts spent on one bounded search before its answer is given with a gap.
const CUT_LIMIT: usize = 20_000;

/// What a split keeps when nothing is bounded.
const CONSTRAINTS: &str = "what is confined and what cannot run";

/// Why there is no split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The costs are refused.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// Nothing can be sent from the device to the server.
    #[error("there is no link from `{from}` to `{to}`: the costs must say what sending takes")]
    NoLink {
        /// The device.
        from: String,
        /// The server.
        to: String,
    },
    /// Device and server are the same.
    #[error("device and server are both `{processor}`")]
    OneProcessor {
        /// Its name.
        processor: String,
    },
    /// A node that would have to be on both sides.
    #[error(
        "node `{node}` must be on the device and on the server: look at what cannot run there, \
        what is confined, and what runs together"
    )]
    Contradiction {
        /// Its name.
        node: String,
    },
    /// No split is within the bounds.
    #[error("no split keeps {bounds}")]
    Impossible {
        /// The bounds.
        bounds: String,
    },
    /// The search ended before a split within the bounds was found.
    #[error("no split that keeps {bounds} was found among {cuts} cuts; there may be one")]
    GaveUp {
        /// The bounds.
        bounds: String,
        /// How many cuts were looked at.
        cuts: usize,
    },
    /// Costs above what the planner can add up.
    #[error("the costs add up to {sum} {unit}, more than can be planned with")]
    TooLarge {
        /// Their sum, in the unit.
        sum: u128,
        /// What is added up.
        unit: Criterion,
    },
}

/// What to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What is bounded.
    pub criterion: Criterion,
    /// In the unit of the criterion: ns, nJ or bytes.
    pub at_most: u64,
}

/// What to minimise, and what to keep. A device memory given in the costs is kept always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// What is minimised.
    pub minimise: Criterion,
    /// All of them hold.
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
        let split = Self { costs, ends, closure };
        for unit in [
            Criterion::Latency,
            Criterion::DeviceEnergy,
            Criterion::DeviceMemory,
            Criterion::BytesSent,
        ] {
            split.check_size(unit)?;
        }
        Ok(split)
    }

    fn check_size(&self, unit: Criterion) -> Result<(), SplitError> {
        let mut terms = self.terms(unit, End::Point);
        terms.sent.retain(|&sent| sent < flow::INFINITE); // A link that is down is no large sum.
        let sum = terms.ceiling();
        if sum < criteria::LARGEST { Ok(()) } else { Err(SplitError::TooLarge { sum, unit }) }
    }

    /// Terms at one end; an end that is unbounded stays within what can be computed with.
    fn terms(&self, criterion: Criterion, end: End) -> Terms {
        let mut terms = criteria::terms(self.costs, &self.ends, criterion, end);
        if end == End::Upper {
            let all = terms.device.iter_mut().chain(&mut terms.server).chain(&mut terms.sent);
            all.filter(|t| **t < flow::INFINITE).for_each(|t| *t = (*t).min(criteria::LARGEST));
        }
        terms
    }

    /// The best split.
    ///
    /// # Errors
    /// [`SplitError::Impossible`] when no split keeps the bounds.
    pub fn best(&self, objective: &Objective) -> Result<SplitPlan, SplitError> {
        let bounded = self.solve(&self.terms(objective.minimise, End::Point), objective)?;
        Ok(self.plan(objective, &bounded))
    }

    /// Only the cut: for each node whether it is on the device, with nothing but the constraints to
    /// keep. For planning at every frame.
    ///
    /// # Errors
    /// [`SplitError::Impossible`] when no split respects the constraints.
    pub fn cut(&self, criterion: Criterion) -> Result<Vec<bool>, SplitError> {
        let none = || SplitError::Impossible { bounds: CONSTRAINTS.to_owned() };
        self.closure
            .cheapest(&self.terms(criterion, End::Point))
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
        let terms = self.terms(objective.minimise, End::Point);
        let not = |side: &[bool]| side.iter().map(|here| !here).collect::<Vec<bool>>();
        if on_device.len() != self.closure.nodes
            || self.closure.cheapest_with(&terms, on_device, &not(on_device)).is_none()
        {
            return Ok(None);
        }
        let best = self.solve(&terms, objective)?;
        let value = terms.cost(&self.closure, &on_device.to_vec());
        Ok(Some(self.plan(
            objective,
            &Bounded { side: on_device.to_vec(), value, at_least: best.at_least },
        )))
    }

    fn budgets(&self, objective: &Objective) -> Vec<Budget> {
        let budget = |bound: &Bound| Budget {
            terms: self.terms(bound.criterion, End::Point),
            allowed: u128::from(bound.at_most),
        };
        self.bounds(objective).iter().map(budget).collect()
    }

    fn bounds(&self, objective: &Objective) -> Vec<Bound> {
        let memory = self.costs.processors()[self.ends.device].memory_bytes;
        let memory = memory.map(|at_most| Bound { criterion: Criterion::DeviceMemory, at_most });
        objective.bounds.iter().copied().chain(memory).collect()
    }

    fn solve(&self, terms: &Terms, objective: &Objective) -> Result<Bounded, SplitError> {
        let budgets = self.budgets(objective);
        let bounds = || self.describe_bounds(objective).join(" and ");
        if budgets.is_empty() {
            let best = self
                .closure
                .cheapest(terms)
                .ok_or_else(|| SplitError::Impossible { bounds: CONSTRAINTS.to_owned() });
            return best.map(|(value, side)| Bounded { side, value, at_least: value });
        }
        bounded::cheapest(&self.closure, terms, &budgets, CUT_LIMIT).map_err(
            |nothing| match nothing {
                NoSplit::Impossible => SplitError::Impossible { bounds: bounds() },
                NoSplit::GaveUp => SplitError::GaveUp { bounds: bounds(), cuts: CUT_LIMIT },
            },
        )
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

    fn plan(&self, objective: &Objective, found: &Bounded) -> SplitPlan {
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
            cost_model: "device, link and server work one after the other, a tensor is sent once, \
                nothing flows back"
                .to_owned(),
            gap: (found.value - found.at_least.min(found.value)) as f64
                / (found.at_least as f64).max(1.0),
        };
        let energy_known = costs.processors()[self.ends.device].active_w > 0.0
            || costs.nodes().iter().any(|n| n.energy_nj[self.ends.device].is_some());
        let predicted = Predicted {
            latency_ns: self.interval(Criterion::Latency, side),
            period_ns: None,
            device_energy_nj: energy_known.then(|| self.interval(Criterion::DeviceEnergy, side)),
        };
        let plan = Plan {
            model: costs.model().to_owned(),
            stages: stages.into_iter().filter(|s| !s.nodes.is_empty()).collect(),
            transfers: self.transfers(side),
            predicted,
            optimal,
            regret: self.regret(objective, side),
            evidence: Evidence::CostModel,
        };
        SplitPlan { on_device: side.clone(), plan }
    }

    fn interval(&self, criterion: Criterion, side: &Side) -> Interval {
        let at = |end| {
            u64::try_from(self.terms(criterion, end).cost(&self.closure, side)).unwrap_or(u64::MAX)
        };
        let point = at(End::Point);
        Interval::clamped(point, at(End::Lower), at(End::Upper))
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
            Option<crate::cost::Link>,
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

    /// The worst case over all costs in their intervals of (this split - the best split): what this
    /// split pays at its upper end, everything else at its lower end, is that worst case (Kasperski
    /// 2008, minmax regret of sums).
    fn regret(&self, objective: &Objective, side: &Side) -> Option<Regret> {
        let (lower, upper) = (
            self.terms(objective.minimise, End::Lower),
            self.terms(objective.minimise, End::Upper),
        );
        let worst_terms = upper.where_paid(&self.closure, side, &lower);
        let best = self.solve(&worst_terms, objective).ok()?;
        let worst = worst_terms.cost(&self.closure, side).saturating_sub(best.at_least);
        let predicted = self.terms(objective.minimise, End::Point).cost(&self.closure, side);
        Some(Regret::of(
            u64::try_from(worst).unwrap_or(u64::MAX),
            u64::try_from(predicted).unwrap_or(u64::MAX),
        ))
    }
}

#[cfg(test)]
mod tests;
