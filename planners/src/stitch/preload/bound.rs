//! [`cheapest`]: the least memory whose subgraphs keep every one of a few objectives, each by some
//! variant out of its list. Branch and bound.
//!
//! The bound is by dual ascent. Each objective in turn pays its cheapest variant out of what memory
//! is not paid for yet; of each subgraph it uses up no more than its cheapest variant through it
//! needs, and leaves the rest for the objectives after it. What is paid is a lower bound, since no
//! byte is paid twice. The integer programme's own relaxation is weaker: it loads a tenth of each
//! of ten subgraphs.

/// A variant as one subgraph index per position; of any task only one at a time is looked at.
pub(super) type Variants = [Vec<usize>];

/// A subgraph that may not be loaded.
const NEVER: u64 = u64::MAX;

/// Subgraphs that do, and what they take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cheapest {
    pub memory_bytes: u64,
    pub subgraphs: Vec<usize>,
}

/// What a search found out.
pub(super) struct Found {
    /// The best below the limit, if there is one.
    pub best: Option<Cheapest>,
    /// Nothing takes less than this and the best found.
    pub at_least: u64,
}

struct Search<'a> {
    memory: &'a [u64],
    objectives: &'a [&'a Variants],
    below: u64,
    best: Option<Cheapest>,
    nodes: &'a mut usize,
    unproven: u64,
}

/// The least memory below a limit. `memory` by subgraph; each objective lists the variants that
/// keep it. Looks at no more than `nodes` cases, counting down.
pub(super) fn cheapest(
    memory: &[u64],
    objectives: &[&Variants],
    below: u64,
    nodes: &mut usize,
) -> Found {
    let mut search = Search { memory, objectives, below, best: None, nodes, unproven: NEVER };
    search.branch(memory.to_vec(), 0);
    let Search { best, below, unproven, .. } = search;
    Found { best, at_least: below.min(unproven) }
}

impl Search<'_> {
    /// Everything that loads what costs 0 now (paid for by `spent`) and nothing that costs
    /// [`NEVER`].
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
        if *self.nodes == 0 {
            self.unproven = self.unproven.min(bound);
            return;
        }
        *self.nodes -= 1;
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

    /// One objective after the other, each by what is cheapest beside what is loaded already;
    /// `None` where one cannot be kept.
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

/// Takes out of `left` what an objective pays with: position by position, each subgraph as little
/// as its cheapest variant allows.
fn leave_the_rest(variants: &Variants, left: &mut [u64], least: u64) {
    let positions = variants.first().map_or(0, Vec::len);
    // What this objective could still pay with; what it gives back remains for others.
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
