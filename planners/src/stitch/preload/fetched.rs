//! [`partly_loaded`]: the subgraphs that must be loaded where a task fetches the others, to meet its
//! objective.

use super::super::{Order, Slo, Task, Zoo, menu::Menu};
use super::Loaded;
use crate::meter::Meter;
use std::collections::BTreeSet;

/// Largest number of prefixes of partly loaded variants that are looked at.
const MOST_PREFIXES: usize = 1 << 20;
/// Largest number of partly loaded variants.
const MOST_VARIANTS: usize = 1 << 14;

/// How a task can meet its objective by fetching subgraphs.
pub(super) enum Fetched {
    /// With nothing loaded.
    Meets,
    /// With these loaded, each as one subgraph index per position; an index beyond all subgraphs,
    /// one for each position, is any that is fetched.
    Partly(Vec<Vec<usize>>),
    /// There are too many ways to list them, or the budget ended.
    TooMany,
}

/// A subgraph that can run at a position.
struct Part {
    variant: usize,
    loaded_ns: u64,
    /// Where the time of loading is known.
    fetched_ns: Option<u64>,
}

/// The ways to meet an objective with some subgraphs fetched.
pub(super) fn partly_loaded(
    zoo: &Zoo,
    task: usize,
    order: &Order,
    slo: Slo,
    meter: &mut Meter<'_>,
) -> Fetched {
    let fetching = zoo.with_known_fetches(order, &Loaded::nothing(zoo));
    let fastest = Menu::new(&fetching, task, order, None).and_then(|m| m.fastest(slo.accuracy_bp));
    if fastest.is_some_and(|fastest| fastest.latency_ns <= slo.latency_ns) {
        return Fetched::Meets;
    }
    let Some(found) = zoo.tasks().get(task) else { return Fetched::Partly(Vec::new()) };
    let fetched = fetching.parts(task, order);
    let fetched_ns = |position: usize, variant: usize| {
        fetched.get(position)?.iter().find(|part| part.variant == variant).map(|p| p.latency_ns)
    };
    let row = |(position, row): (usize, Vec<_>)| {
        let part = |part: super::super::zoo::Part| Part {
            variant: part.variant,
            loaded_ns: part.latency_ns,
            fetched_ns: fetched_ns(position, part.variant),
        };
        row.into_iter().map(part).collect()
    };
    let rows: Vec<Vec<Part>> = zoo.parts(task, order).into_iter().enumerate().map(row).collect();
    let mut rest = vec![0u64; rows.len() + 1];
    for (position, row) in rows.iter().enumerate().rev() {
        let least = row.iter().map(|part| part.loaded_ns).min().unwrap_or(u64::MAX);
        rest[position] = rest[position + 1].saturating_add(least);
    }
    let mut listing = Listing {
        found,
        slo,
        rows: &rows,
        rest: &rest,
        meter,
        prefixes: 0,
        chosen: Vec::new(),
        loaded: Vec::new(),
        ways: BTreeSet::new(),
    };
    match listing.go_on(0) {
        true => Fetched::Partly(listing.ways.into_iter().collect()),
        false => Fetched::TooMany,
    }
}

struct Listing<'a, 'b> {
    found: &'a Task,
    slo: Slo,
    rows: &'a [Vec<Part>],
    /// The least latency of each position and all later ones.
    rest: &'a [u64],
    meter: &'a mut Meter<'b>,
    prefixes: usize,
    chosen: Vec<usize>,
    /// The subgraph indices of `chosen`; at each position whether it is loaded.
    loaded: Vec<(usize, bool)>,
    ways: BTreeSet<Vec<usize>>,
}

impl Listing<'_, '_> {
    /// Adds the ways that begin as chosen; false where there are too many.
    fn go_on(&mut self, latency_ns: u64) -> bool {
        let position = self.chosen.len();
        let Some(row) = self.rows.get(position) else { return self.add() };
        let (width, subgraphs) =
            (self.found.variants.len(), self.found.variants.len() * self.rows.len());
        for part in row {
            self.chosen.push(part.variant);
            let is_accurate = self.found.accuracy.at_most(&self.chosen) >= self.slo.accuracy_bp;
            let ways = [
                (part.fetched_ns, (subgraphs + position, false)),
                (Some(part.loaded_ns), (position * width + part.variant, true)),
            ];
            for (ns, subgraph) in ways {
                let Some(ns) = ns.filter(|_| is_accurate) else { continue };
                let reached = latency_ns.saturating_add(ns);
                if reached.saturating_add(self.rest[position + 1]) > self.slo.latency_ns {
                    continue;
                }
                self.prefixes += 1;
                let ends = self.prefixes > MOST_PREFIXES || self.meter.spend(1).is_err();
                self.loaded.push(subgraph);
                let goes_on = !ends && self.go_on(reached);
                self.loaded.pop();
                if !goes_on {
                    self.chosen.pop();
                    return false;
                }
            }
            self.chosen.pop();
        }
        true
    }

    /// Adds the way that is chosen, unless all of it is loaded.
    fn add(&mut self) -> bool {
        if self.found.accuracy.of(&self.chosen) >= self.slo.accuracy_bp
            && self.loaded.iter().any(|&(_, is_loaded)| !is_loaded)
        {
            self.ways.insert(self.loaded.iter().map(|&(subgraph, _)| subgraph).collect());
        }
        self.ways.len() <= MOST_VARIANTS
    }
}
