//! [`cheapest`]: the least memory whose subgraphs meet all of several objectives, each by some
//! variant of its list, by branch and bound.
//!
//! The bound is by dual ascent. Each objective in turn pays for its cheapest variant with memory
//! that is not yet paid for; of each subgraph it uses no more than its cheapest variant through it
//! needs, and leaves the remainder to the objectives after it. The sum paid is a lower bound,
//! because no byte is paid for twice. The linear relaxation of the integer programme is weaker: it
//! loads a tenth of each of ten subgraphs.

use crate::meter::Meter;

/// Variants of one task, each as one subgraph index per position.
pub(super) type Variants = [Vec<usize>];

/// A subgraph that may not be loaded.
const NEVER: u64 = u64::MAX;

/// Subgraphs that meet the objectives, and their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cheapest {
    pub memory_bytes: u64,
    pub subgraphs: Vec<usize>,
}

/// The result of a search.
pub(super) struct Found {
    /// The best below the limit, if there is one.
    pub best: Option<Cheapest>,
    /// No solution takes less than the smaller of this and the best found.
    pub at_least: u64,
}

struct Search<'a, 'b> {
    memory: &'a [u64],
    objectives: &'a [&'a Variants],
    below: u64,
    best: Option<Cheapest>,
    meter: &'a mut Meter<'b>,
    /// Steps for each case.
    steps: usize,
    unproven: u64,
}

/// The least memory below a limit. `memory` by subgraph; each objective lists the variants that
/// meet it. Each case takes as many steps; when the budget ends, `at_least` has what is open.
pub(super) fn cheapest(
    memory: &[u64],
    objectives: &[&Variants],
    below: u64,
    meter: &mut Meter<'_>,
    steps: usize,
) -> Found {
    let mut search =
        Search { memory, objectives, below, best: None, meter, steps, unproven: NEVER };
    search.branch(memory.to_vec(), 0);
    let Search { best, below, unproven, .. } = search;
    Found { best, at_least: below.min(unproven) }
}

impl Search<'_, '_> {
    /// Searches all solutions that load the subgraphs of cost 0 (paid for by `spent`) and none of
    /// cost [`NEVER`].
    fn branch(&mut self, costs: Vec<u64>, spent: u64) {
        let Some(greedy) = self.greedy(&costs) else { return };
        if greedy.memory_bytes < self.below {
            self.below = greedy.memory_bytes;
            self.best = Some(greedy.clone());
        }
        let bound = self.bound(&costs).saturating_add(spent);
        if bound >= self.below {
            return;
        }
        if self.meter.spend(self.steps).is_err() {
            self.unproven = self.unproven.min(bound);
            return;
        }
        let undecided = greedy.subgraphs.iter().copied().filter(|&s| costs[s] > 0);
        let Some(subgraph) = undecided.max_by_key(|&s| costs[s]) else { return };
        let with = |cost: u64| {
            let mut costs = costs.clone();
            costs[subgraph] = cost;
            costs
        };
        let (loaded, left_out) = (with(0), with(NEVER));
        self.branch(loaded, spent.saturating_add(costs[subgraph]));
        self.branch(left_out, spent);
    }

    /// Meets one objective after the other, each by the variant that is cheapest given the loaded
    /// subgraphs; `None` where one cannot be met.
    fn greedy(&self, costs: &[u64]) -> Option<Cheapest> {
        let mut left = costs.to_vec();
        let mut subgraphs = Vec::new();
        for variants in self.objectives {
            let variant = variants
                .iter()
                .min_by_key(|variant| cost(variant, &left))
                .filter(|variant| cost(variant, &left) < NEVER)?;
            for &subgraph in variant {
                left[subgraph] = 0;
                if !subgraphs.contains(&subgraph) {
                    subgraphs.push(subgraph);
                }
            }
        }
        Some(Cheapest {
            memory_bytes: subgraphs.iter().map(|&s| self.memory[s]).fold(0, u64::saturating_add),
            subgraphs,
        })
    }

    fn bound(&self, costs: &[u64]) -> u64 {
        let mut left = costs.to_vec();
        let mut paid = 0u64;
        for variants in self.objectives {
            let least = variants.iter().map(|variant| cost(variant, &left)).min().unwrap_or(NEVER);
            paid = paid.saturating_add(least);
            if least > 0 && least < NEVER {
                leave_the_rest(variants, &mut left, least);
            }
        }
        paid
    }
}

fn cost(variant: &[usize], costs: &[u64]) -> u64 {
    variant.iter().map(|&subgraph| costs[subgraph]).fold(0, u64::saturating_add)
}

/// Subtracts from `left` the memory that an objective pays with: position by position, the least
/// that the cheapest variant of each subgraph allows.
fn leave_the_rest(variants: &Variants, left: &mut [u64], least: u64) {
    let positions = variants.first().map_or(0, Vec::len);
    // The memory that this objective can still use; the remainder is left to others.
    let mut used = left.to_vec();
    for position in 0..positions {
        let mut through = vec![None; left.len()];
        for variant in variants {
            let slot = &mut through[variant[position]];
            *slot = Some(slot.unwrap_or(NEVER).min(cost(variant, &used)));
        }
        for (used, through) in used.iter_mut().zip(through) {
            if let Some(through) = through.filter(|_| *used < NEVER) {
                *used -= (through - least).min(*used);
            }
        }
    }
    let mut touched = vec![false; left.len()];
    variants.iter().flatten().for_each(|&subgraph| touched[subgraph] = true);
    for ((left, used), touched) in left.iter_mut().zip(used).zip(touched) {
        if touched && *left < NEVER {
            *left -= used.min(*left);
        }
    }
}
