//! The best split under bounds: Lagrangian bounds from minimum cuts, and branching on nodes until
//! the bound proves the best split found.
//!
//! For multipliers m >= 0, min over splits of (cost + sum of m x (used - allowed)) is a lower bound
//! on every split within the bounds (Everett 1963). Multipliers are whole multiples of 1/[`GRAIN`].
//! The best multiplier of one bound is found by moving between the two lines that meet there.

use super::closure::{Closure, Side, Terms};

/// Multipliers are counted in units of 1/GRAIN.
const GRAIN: u128 = 1 << 20;
/// Rounds over all multipliers for one lower bound.
const SWEEPS: usize = 2;
/// Steps for one multiplier; each is a minimum cut.
const STEPS: usize = 24;

/// Something a split may use only so much of.
pub(super) struct Budget {
    pub terms: Terms,
    pub allowed: u128,
}

/// The best split found, and what is proven about it.
pub(super) struct Bounded {
    pub side: Side,
    pub value: u128,
    /// No split within the bounds costs less than this.
    pub at_least: u128,
}

/// Nothing fits, or nothing was found within the limit of cuts.
pub(super) enum NoSplit {
    Impossible,
    GaveUp,
}

struct Search<'a> {
    closure: &'a Closure,
    cost: &'a Terms,
    budgets: &'a [Budget],
    best: Option<(u128, Side)>,
    cuts: usize,
}

/// A part of all splits: those with these nodes pinned. `over` and `within` are splits of it that
/// break and keep the bounds.
struct Relaxed {
    bound: u128,
    over: Side,
    within: Option<Side>,
}

/// The cheapest split within the budgets, by at most `limit` minimum cuts; what is left unproven
/// then shows in `at_least`.
pub(super) fn cheapest(
    closure: &Closure,
    cost: &Terms,
    budgets: &[Budget],
    limit: usize,
) -> Result<Bounded, NoSplit> {
    let mut search = Search { closure, cost, budgets, best: None, cuts: 0 };
    let mut open = Vec::new();
    let root = (closure.on_device.clone(), closure.on_server.clone());
    if let Some(relaxed) = search.relax(&root.0, &root.1) {
        open.push((relaxed, root));
    }
    let mut unproven = u128::MAX;
    while let Some((relaxed, (on_device, on_server))) = open.pop() {
        if search.best.as_ref().is_some_and(|(value, _)| relaxed.bound >= *value) {
            continue;
        }
        if search.cuts >= limit {
            unproven = unproven.min(relaxed.bound);
            continue;
        }
        let node = branching_node(closure, &relaxed, &on_device, &on_server);
        let Some(node) = node else { continue };
        let mut children = Vec::new();
        for to_device in [true, false] {
            let mut pins = (on_device.clone(), on_server.clone());
            *(if to_device { &mut pins.0[node] } else { &mut pins.1[node] }) = true;
            if let Some(relaxed) = search.relax(&pins.0, &pins.1) {
                children.push((relaxed, pins));
            }
        }
        children.sort_by_key(|(relaxed, _)| std::cmp::Reverse(relaxed.bound));
        open.extend(children);
    }
    match search.best {
        Some((value, side)) => Ok(Bounded { at_least: unproven.min(value), side, value }),
        None if unproven < u128::MAX => Err(NoSplit::GaveUp),
        None => Err(NoSplit::Impossible),
    }
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

impl Search<'_> {
    fn used(&self, side: &Side) -> Vec<u128> {
        self.budgets.iter().map(|b| b.terms.cost(self.closure, side)).collect()
    }

    fn keeps(&self, side: &Side) -> bool {
        self.used(side).iter().zip(self.budgets).all(|(used, budget)| *used <= budget.allowed)
    }

    fn solve(
        &mut self,
        multipliers: &[u128],
        on_device: &[bool],
        on_server: &[bool],
    ) -> Option<(u128, Side)> {
        self.cuts += 1;
        let mut terms = self.cost.combined(GRAIN, self.cost, 0);
        for (budget, &multiplier) in self.budgets.iter().zip(multipliers) {
            terms = terms.combined(1, &budget.terms, multiplier);
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

    /// A lower bound over all splits with these pins; `None` when none of them keeps the bounds or
    /// can be better than the best.
    fn relax(&mut self, on_device: &[bool], on_server: &[bool]) -> Option<Relaxed> {
        for index in 0..self.budgets.len() {
            let least =
                self.closure.cheapest_with(&self.budgets[index].terms, on_device, on_server)?;
            self.cuts += 1;
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
        for _ in 0..SWEEPS {
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
        self.cuts += 1;
        let (_, mut within) =
            self.closure.cheapest_with(&self.budgets[index].terms, on_device, on_server)?;
        let mut best = 0;
        for _ in 0..STEPS {
            let ((over_value, over_used), (within_value, within_used)) =
                (line(self, &over, multipliers), line(self, &within, multipliers));
            let multiplier =
                within_value.saturating_sub(over_value) / (over_used - within_used).max(1);
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
