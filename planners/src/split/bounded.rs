//! The best split under bounds.
//!
//! First, Lagrangian bounds from minimum cuts give a split and a lower bound. Then dynamic
//! programming over the frontier ([`super::frontier`]) finds the best split, unless the graph is
//! too wide. On a wide graph, the search branches on nodes, least bound first, until the bound
//! proves the best split found or the budget of steps is spent. The remaining difference shows in
//! the bound.
//!
//! For multipliers m >= 0, min over splits of (cost + sum of m x (used - allowed)) is a lower bound
//! on every split within the bounds (Everett 1963). Multipliers are whole multiples of 1/[`GRAIN`].
//! The best multiplier of one bound is found by moving between the two lines that meet there.

use super::{
    closure::{Closure, Side, Terms},
    flow::INFINITE,
    frontier::{self, OutOfSteps, Question},
};
use std::{cmp::Reverse, collections::BinaryHeap};
use vitempo_graph::Budget as Steps;

/// Multipliers are counted in units of 1/GRAIN.
const GRAIN: u128 = 1 << 20;
/// Rounds over all multipliers for one lower bound, where there are several.
const SWEEPS: usize = 2;
/// Steps for one multiplier; each is a minimum cut.
const STEPS: usize = 24;

/// The quantities by which splits are compared: sums of terms by column.
pub(super) struct Columns {
    /// The first is minimised.
    pub terms: Vec<Terms>,
    /// Columns that break ties, the minimised one first.
    pub order: Vec<usize>,
    /// Bounded columns, each with its bound.
    pub within: Vec<(usize, u64)>,
}

impl Columns {
    /// The question that minimises the first column.
    pub(super) fn question(&self, at_most: u64) -> Question<'_> {
        Question {
            columns: &self.terms,
            order: &self.order,
            leading: 1,
            within: &self.within,
            at_most,
            hull: false,
        }
    }
}

/// A bounded quantity of a split.
struct Budget<'a> {
    terms: &'a Terms,
    allowed: u128,
}

/// The best split found, and its proven bound.
pub(super) struct Bounded {
    pub side: Side,
    pub value: u128,
    /// No split within the bounds costs less than this.
    pub at_least: u128,
}

/// No split satisfies the bounds, or none was found within the budget.
pub(super) enum NoSplit {
    Impossible,
    GaveUp,
}

struct Search<'a> {
    closure: &'a Closure,
    cost: &'a Terms,
    budgets: Vec<Budget<'a>>,
    best: Option<(u128, Side)>,
}

/// A part of all splits: those with these nodes pinned. `over` and `within` are splits of it that
/// violate and satisfy the bounds.
struct Relaxed {
    bound: u128,
    over: Side,
    within: Option<Side>,
}

/// An open part: ordered by its bound, then by when it was opened.
struct Part {
    rank: Reverse<(u128, usize)>,
    relaxed: Relaxed,
    pins: (Side, Side),
}

impl Ord for Part {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Part {}

/// Spends up to half of the remaining budget.
pub(super) fn half(budget: &Steps) -> impl FnMut(u64) -> bool + '_ {
    let mut left = budget.limits().steps.saturating_sub(budget.steps_spent()) / 2;
    move |steps| {
        left = left.saturating_sub(steps);
        left > 0 && budget.steps(steps).is_ok()
    }
}

/// The cheapest split within the bounds; among equals the first by the order of the columns,
/// unless the graph is too wide for dynamic programming.
pub(super) fn cheapest(
    closure: &Closure,
    columns: &Columns,
    budget: &Steps,
) -> Result<Bounded, NoSplit> {
    let mut search = Search::new(closure, columns);
    let pins = (closure.on_device.clone(), closure.on_server.clone());
    let root = search.relax(&pins.0, &pins.1);
    if root.is_none() && search.best.is_none() {
        return Err(NoSplit::Impossible);
    }
    let at_most = search
        .best
        .as_ref()
        .map_or(u64::MAX, |(value, _)| u64::try_from(*value).unwrap_or(u64::MAX));
    match frontier::undominated(closure, &columns.question(at_most), &mut half(budget)) {
        Ok(splits) => {
            let side = splits.into_iter().next().ok_or(NoSplit::Impossible)?.side;
            let value = search.cost.cost(closure, &side);
            Ok(Bounded { side, value, at_least: value })
        }
        Err(OutOfSteps) => search.branch(root.map(|relaxed| (relaxed, pins)), budget),
    }
}

/// As [`cheapest`], without dynamic programming.
#[cfg(test)]
pub(super) fn by_branching(
    closure: &Closure,
    columns: &Columns,
    budget: &Steps,
) -> Result<Bounded, NoSplit> {
    let mut search = Search::new(closure, columns);
    let pins = (closure.on_device.clone(), closure.on_server.clone());
    let root = search.relax(&pins.0, &pins.1);
    search.branch(root.map(|relaxed| (relaxed, pins)), budget)
}

/// A free node on which the two splits differ, in the middle of them; any free node where there is
/// only one split.
fn branching_node(
    closure: &Closure,
    relaxed: &Relaxed,
    on_device: &[bool],
    on_server: &[bool],
) -> Option<usize> {
    let free = |node: &usize| !on_device[*node] && !on_server[*node];
    let differs = |node: &usize| {
        relaxed.within.as_ref().is_some_and(|within| within[*node] != relaxed.over[*node])
    };
    let candidates: Vec<usize> = (0..closure.nodes).filter(|n| free(n) && differs(n)).collect();
    let all = || (0..closure.nodes).filter(free).collect::<Vec<usize>>();
    let candidates = if candidates.is_empty() { all() } else { candidates };
    candidates.get(candidates.len() / 2).copied()
}

impl<'a> Search<'a> {
    fn new(closure: &'a Closure, columns: &'a Columns) -> Self {
        let budget = |&(column, allowed): &(usize, u64)| Budget {
            terms: &columns.terms[column],
            allowed: u128::from(allowed),
        };
        let budgets = columns.within.iter().map(budget).collect();
        Self { closure, cost: &columns.terms[0], budgets, best: None }
    }

    /// Branches until no open part can be better than the best split, or the budget is spent.
    fn branch(
        mut self,
        root: Option<(Relaxed, (Side, Side))>,
        budget: &Steps,
    ) -> Result<Bounded, NoSplit> {
        let part = |opened: usize, relaxed: Relaxed, pins| Part {
            rank: Reverse((relaxed.bound, opened)),
            relaxed,
            pins,
        };
        let mut open: BinaryHeap<Part> =
            root.map(|(relaxed, pins)| part(0, relaxed, pins)).into_iter().collect();
        let (mut opened, mut unproven) = (0, u128::MAX);
        // Two relaxations of several cuts each, through all nodes and tensors.
        let step = 64 * (self.closure.nodes + self.closure.tensors.len()) as u64;
        while let Some(Part { relaxed, pins, .. }) = open.pop() {
            if self.best.as_ref().is_some_and(|(value, _)| relaxed.bound >= *value) {
                break; // Everything open has at least this bound.
            }
            if budget.steps(step).is_err() {
                unproven = relaxed.bound;
                break;
            }
            let Some(node) = branching_node(self.closure, &relaxed, &pins.0, &pins.1) else {
                continue;
            };
            for to_device in [true, false] {
                let mut pins = pins.clone();
                *(if to_device { &mut pins.0[node] } else { &mut pins.1[node] }) = true;
                if let Some(mut child) = self.relax(&pins.0, &pins.1) {
                    child.bound = child.bound.max(relaxed.bound);
                    opened += 1;
                    open.push(part(opened, child, pins));
                }
            }
        }
        match self.best {
            Some((value, side)) => Ok(Bounded { at_least: unproven.min(value), side, value }),
            None if unproven < u128::MAX => Err(NoSplit::GaveUp),
            None => Err(NoSplit::Impossible),
        }
    }

    fn used(&self, side: &Side) -> Vec<u128> {
        self.budgets.iter().map(|b| b.terms.cost(self.closure, side)).collect()
    }

    fn keeps(&self, side: &Side) -> bool {
        self.used(side).iter().zip(&self.budgets).all(|(used, budget)| *used <= budget.allowed)
    }

    fn solve(
        &mut self,
        multipliers: &[u128],
        on_device: &[bool],
        on_server: &[bool],
    ) -> Option<(u128, Side)> {
        let mut terms = self.cost.combined(GRAIN, self.cost, 0);
        for (budget, &multiplier) in self.budgets.iter().zip(multipliers) {
            terms = terms.combined(1, budget.terms, multiplier);
        }
        let (value, side) = self.closure.cheapest_with(&terms, on_device, on_server)?;
        if self.keeps(&side) {
            let cost = self.cost.cost(self.closure, &side);
            if self.best.as_ref().is_none_or(|(best, _)| cost < *best) {
                self.best = Some((cost, side.clone()));
            }
        }
        let discount: u128 =
            self.budgets.iter().zip(multipliers).map(|(budget, m)| budget.allowed * m).sum();
        Some((value.saturating_sub(discount).div_ceil(GRAIN), side))
    }

    /// A lower bound over all splits with these pins; `None` when none of them satisfies the bounds
    /// or can be better than the best split.
    fn relax(&mut self, on_device: &[bool], on_server: &[bool]) -> Option<Relaxed> {
        for index in 0..self.budgets.len() {
            let least =
                self.closure.cheapest_with(self.budgets[index].terms, on_device, on_server)?;
            if least.0 > self.budgets[index].allowed {
                return None;
            }
        }
        let mut multipliers = vec![0; self.budgets.len()];
        let (mut bound, mut over) = self.solve(&multipliers, on_device, on_server)?;
        let mut within = None;
        if self.keeps(&over) {
            return None; // The cheapest of all keeps the bounds: nothing better here.
        }
        let sweeps = if self.budgets.len() > 1 { SWEEPS } else { 1 };
        for _ in 0..sweeps {
            for index in 0..self.budgets.len() {
                let step = self.best_multiplier(index, &mut multipliers, on_device, on_server)?;
                bound = bound.max(step.bound);
                over = step.over;
                within = step.within.or(within);
            }
        }
        Some(Relaxed { bound, over, within })
    }

    /// Raises the lower bound by one multiplier, others fixed.
    fn best_multiplier(
        &mut self,
        index: usize,
        multipliers: &mut [u128],
        on_device: &[bool],
        on_server: &[bool],
    ) -> Option<Relaxed> {
        let allowed = self.budgets[index].allowed;
        let line = |search: &Self, side: &Side, multipliers: &[u128]| {
            // The Lagrangian of one split, without this budget: a line in this multiplier has this
            // value at 0 and slope `used`.
            let used = search.used(side);
            let rest: u128 = multipliers
                .iter()
                .zip(&used)
                .enumerate()
                .filter(|(i, _)| *i != index)
                .map(|(_, (m, u))| m * u)
                .sum();
            (search.cost.cost(search.closure, side) * GRAIN + rest, used[index])
        };
        multipliers[index] = 0;
        let (mut bound, mut over) = self.solve(multipliers, on_device, on_server)?;
        if line(self, &over, multipliers).1 <= allowed {
            return Some(Relaxed { bound, over: over.clone(), within: Some(over) });
        }
        let (_, mut within) =
            self.closure.cheapest_with(self.budgets[index].terms, on_device, on_server)?;
        let mut best = 0;
        for _ in 0..STEPS {
            let ((over_value, over_used), (within_value, within_used)) =
                (line(self, &over, multipliers), line(self, &within, multipliers));
            // A smaller multiplier than the best also gives a bound, so the limit keeps sums below
            // `INFINITE`.
            let most = (INFINITE >> 4) / self.budgets[index].terms.ceiling();
            let multiplier = (within_value.saturating_sub(over_value)
                / (over_used - within_used).max(1))
            .min(most);
            multipliers[index] = multiplier;
            let (value, side) = self.solve(multipliers, on_device, on_server)?;
            if value > bound {
                (bound, best) = (value, multiplier);
            }
            let (side_value, side_used) = line(self, &side, multipliers);
            if side_value + multiplier * side_used >= over_value + multiplier * over_used {
                break; // The two lines meet on the lower envelope: this is the best multiplier.
            }
            if side_used > allowed { over = side } else { within = side }
        }
        multipliers[index] = best;
        Some(Relaxed { bound, over, within: Some(within) })
    }
}
