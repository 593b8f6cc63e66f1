//! Split inference: which operators run on the device, which on a server behind a link.
//!
//! | question | where |
//! |---|---|
//! | the best split under an objective | [`Split::best`] |
//! | the Pareto front of splits | [`Split::pareto`] |
//! | the best split for each range of bandwidths | [`Split::over_bandwidth`] |
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
mod planned;
mod regret;
mod search;

pub use bandwidth::BandwidthRange;
pub use criteria::Criterion;
pub use pareto::Front;

use crate::{
    Plan,
    cost::{CostError, Costs, End, Link},
};
use bounded::Bounded;
use closure::{Closure, Terms};
use criteria::{At, Ends};
use vitempo_graph::{Budget, Limits};

/// Default budget of one split, steps; a step extends a partial split, or visits a node in a
/// minimum cut.
pub const STEPS: u64 = 1 << 30;

/// The constraints of a split without bounds.
const CONSTRAINTS: &str = "what is confined and what cannot run";

/// Why there is no split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The costs are refused.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// There is no link from the device to the server.
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
    /// A node that must be on both sides.
    #[error(
        "node `{node}` must be on the device and on the server: look at what cannot run there, \
        what is confined, what runs together, and which links have bandwidth 0"
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
    #[error("no split that keeps {bounds} was found within the budget; there may be one")]
    GaveUp {
        /// The bounds.
        bounds: String,
    },
    /// The search ended before it was complete.
    #[error("the budget ended before {what} were found")]
    OutOfBudget {
        /// The goal of the search.
        what: &'static str,
    },
    /// Costs whose sum is too large for the planner's arithmetic.
    #[error("the costs add up to {sum} {unit}, more than can be planned with")]
    TooLarge {
        /// Their sum, in the unit.
        sum: u128,
        /// The criterion.
        unit: Criterion,
    },
    /// Energy is minimised or bounded, but the costs do not contain it.
    #[error(
        "the device's energy is not known: processor `{device}` has neither active_w nor idle_w, \
        its nodes have no energy_nj, and the link to the server has no transmit_w"
    )]
    NoEnergy {
        /// The device's name.
        device: String,
    },
    /// The power of the server while it sends results.
    #[error(
        "the link from `{from}` to `{to}` has transmit_w {transmit_w}: results come back with the \
        server's power, which is no part of the device's energy; leave it out"
    )]
    ServerPower {
        /// The server.
        from: String,
        /// The device.
        to: String,
        /// The given power, W.
        transmit_w: f64,
    },
    /// Break points of a link that sends nothing.
    #[error(
        "the link from `{from}` to `{to}` has bandwidth 0: break points need the bandwidths of \
        both directions, which change in their ratio"
    )]
    LinkDown {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
}

/// A bound on a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The bounded criterion.
    pub criterion: Criterion,
    /// In the unit of the criterion: ns, nJ or bytes.
    pub at_most: u64,
}

/// The criterion to minimise, and the bounds. Memories given in the costs are always bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The criterion to minimise.
    pub minimise: Criterion,
    /// All of them hold.
    pub bounds: Vec<Bound>,
}

impl Objective {
    /// The objective that minimises one criterion, without bounds.
    #[must_use]
    pub const fn least(minimise: Criterion) -> Self {
        Self { minimise, bounds: Vec::new() }
    }

    /// The objective with one more bound.
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
    /// The plan to print: stages, transfers, predicted costs.
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
    /// The problem of splitting a model between two processors of its costs. Inputs arrive on the
    /// device; results are sent back to it when there is a link back.
    ///
    /// # Errors
    /// [`SplitError`] when there is no link, or a node must be on both sides.
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

    /// The same problem with another budget for its searches: steps, and a function that returns
    /// whether to stop. When the budget ends, the best split found is returned with the proven
    /// bound.
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

    /// Whether the costs contain the device's energy.
    #[must_use]
    pub fn is_energy_known(&self) -> bool {
        let Ends { device, up, .. } = self.ends;
        let processor = &self.costs.processors()[device];
        processor.active_w > 0.0
            || processor.idle_w > 0.0
            || up.transmit_w > 0.0
            || self.costs.nodes().iter().any(|n| n.energy_nj[device].is_some())
    }

    /// Whether computing on the device has no energy cost.
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

    /// Terms with each cost at one end of its interval; an unbounded end is limited to the range of
    /// the arithmetic.
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
    /// [`SplitError::Impossible`] when no split satisfies the bounds.
    pub fn best(&self, objective: &Objective) -> Result<SplitPlan, SplitError> {
        self.check_energy(objective)?;
        let found = self.solve(objective)?;
        let regret = self.regret(objective, &found.side);
        Ok(self.plan(objective, &found, regret))
    }

    /// The cut without a plan: for each node whether it is on the device, without bounds. It is
    /// fast enough to plan at every frame.
    ///
    /// # Errors
    /// [`SplitError::Impossible`] when no split satisfies the constraints.
    pub fn cut(&self, criterion: Criterion) -> Result<Vec<bool>, SplitError> {
        let none = || SplitError::Impossible { bounds: CONSTRAINTS.to_owned() };
        self.closure
            .cheapest(&self.terms(criterion, At::all(End::Point)))
            .map(|(_, side)| side)
            .ok_or_else(none)
    }

    /// The plan of a given split, with its cost. Its gap and regret are relative to the best split.
    ///
    /// # Errors
    /// As [`Split::best`]; `None` when a tensor would flow back or the split violates a constraint.
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
}

#[cfg(test)]
mod tests;
