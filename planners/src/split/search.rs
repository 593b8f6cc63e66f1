//! Finds the best split for an objective: its bounds, the sums by which splits are compared, and
//! the search method.

use super::{
    Bound, CONSTRAINTS, Criterion, Objective, Split, SplitError,
    bounded::{self, Bounded, Columns, NoSplit},
    closure::Terms,
    criteria::At,
    frontier,
};
use crate::cost::{End, Interval};
use std::collections::BTreeMap;

/// Steps per node and tensor after which a graph counts as wide.
const STEPS_PER_NODE: u64 = 64;

impl Split<'_> {
    /// The bounds on the sums of all criteria: what engines take once is taken off those of memory.
    /// A bound that has no room for it leaves none for nodes, which add a byte or more each.
    pub(super) fn bounds(&self, objective: &Objective) -> Vec<Bound> {
        let of_sum = |Bound { criterion, at_most }: Bound| {
            let at_most = match criterion {
                Criterion::DeviceMemory => self.costs.room_bytes(self.ends.device, at_most),
                Criterion::ServerMemory => self.costs.room_bytes(self.ends.server, at_most),
                Criterion::Latency | Criterion::DeviceEnergy | Criterion::BytesSent => at_most,
            };
            Bound { criterion, at_most }
        };
        self.stated_bounds(objective).into_iter().map(of_sum).collect()
    }

    /// The bounds on all criteria: those of the objective and the memories.
    fn stated_bounds(&self, objective: &Objective) -> Vec<Bound> {
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

    /// Columns of the criteria in the order of preference, and of the bounded criteria.
    pub(super) fn columns(&self, order: Vec<Criterion>, bounds: Vec<Bound>) -> Columns {
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
            // A bound that every split satisfies is dropped.
            if u128::from(at_most) < columns.terms[column].ceiling() {
                columns.within.push((column, at_most));
            }
        }
        columns
    }

    pub(super) fn solve(&self, objective: &Objective) -> Result<Bounded, SplitError> {
        let order = objective.minimise.then_ties();
        self.search(&self.columns(order, self.bounds(objective)), objective)
    }

    /// The least of other terms than the objective's, within its bounds.
    pub(super) fn solve_terms(
        &self,
        terms: &Terms,
        objective: &Objective,
    ) -> Result<Bounded, SplitError> {
        let mut columns = self.columns(Vec::new(), self.bounds(objective));
        columns.terms.insert(0, terms.clone());
        columns.order = vec![0];
        columns.within.iter_mut().for_each(|(column, _)| *column += 1);
        self.search(&columns, objective)
    }

    pub(super) fn search(
        &self,
        columns: &Columns,
        objective: &Objective,
    ) -> Result<Bounded, SplitError> {
        if columns.within.is_empty() {
            let best =
                self.unbounded_by_frontier(columns).or_else(|| self.unbounded_by_cut(columns));
            return best.ok_or_else(|| self.impossible(objective));
        }
        bounded::cheapest(&self.closure, columns, &self.budget).map_err(|nothing| match nothing {
            NoSplit::Impossible => self.impossible(objective),
            NoSplit::GaveUp => {
                SplitError::GaveUp { bounds: self.describe_bounds(objective).join(" and ") }
            }
        })
    }

    /// The best split without bounds, on a narrow graph; `None` on a wide one, and where no split
    /// is allowed.
    fn unbounded_by_frontier(&self, columns: &Columns) -> Option<Bounded> {
        let mut left = STEPS_PER_NODE * (self.closure.nodes + self.closure.tensors.len()) as u64;
        let mut spend = |steps: u64| {
            left = left.saturating_sub(steps);
            left > 0
        };
        let question = columns.question(u64::MAX);
        let found = frontier::undominated(&self.closure, &question, &mut spend).ok()?;
        let side = found.into_iter().next()?.side;
        let value = columns.terms[0].cost(&self.closure, &side);
        // Labels end at 2^64: a sum near that may hide a smaller one.
        (value < u128::from(u64::MAX)).then_some(Bounded { side, value, at_least: value })
    }

    /// The best split without bounds, on any graph.
    pub(super) fn unbounded_by_cut(&self, columns: &Columns) -> Option<Bounded> {
        let order: Vec<&Terms> = columns.order.iter().map(|&c| &columns.terms[c]).collect();
        let (value, side) = self.closure.cheapest_in_order(&order)?;
        Some(Bounded { side, value, at_least: value })
    }

    pub(super) fn impossible(&self, objective: &Objective) -> SplitError {
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

    pub(super) fn describe_bounds(&self, objective: &Objective) -> Vec<String> {
        let describe = |bound: &Bound| match bound.criterion {
            Criterion::Latency => {
                format!("latency at most {}", crate::plan::duration(Interval::exact(bound.at_most)))
            }
            Criterion::DeviceEnergy => {
                format!("device energy at most {}", crate::plan::energy(bound.at_most))
            }
            other => format!("{other} at most {} B", bound.at_most),
        };
        self.stated_bounds(objective).iter().map(describe).collect()
    }
}
