//! [`Search`]: the fastest stitched variant above an accuracy, for accuracies that are not sums: a
//! depth-first search in rising latency, with two bounds.
//!
//! A prefix is abandoned when it cannot become faster than the best variant found, or cannot become
//! accurate enough. A subgraph is left out if another at its position is no slower and
//! [`Accuracy::no_worse`]. Optionally a second latency, in another order, is bounded as well
//! (algorithm 1 as printed). When the budget ends, the best found so far is returned.

use super::{Accuracy, Stitched, zoo::Part};
use crate::meter::Meter;
use std::cmp::Reverse;

/// Steps of a budget for each prefix that is looked at.
const PREFIX_STEPS: usize = 8;

pub(super) struct Search<'a> {
    accuracy: &'a dyn Accuracy,
    /// The subgraphs by position, fastest first.
    parts: Vec<Vec<Part>>,
    /// The least latency of each position and all later ones, in both orders.
    rest: Vec<(u64, u64)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(accuracy: &'a dyn Accuracy, parts: &[Vec<Part>]) -> Self {
        let mut parts: Vec<Vec<Part>> = parts
            .iter()
            .enumerate()
            .map(|(position, row)| undominated(accuracy, position, row))
            .collect();
        let mut rest = vec![(0u64, 0u64); parts.len() + 1];
        for (position, row) in parts.iter_mut().enumerate().rev() {
            row.sort_by_key(|part| part.latency_ns);
            let least = |ns: fn(&Part) -> u64| row.iter().map(ns).min().unwrap_or(u64::MAX);
            let (after, other_after) = rest[position + 1];
            rest[position] = (
                least(|p| p.latency_ns).saturating_add(after),
                least(|p| p.other_ns).saturating_add(other_after),
            );
        }
        Self { accuracy, parts, rest }
    }

    fn runs(&self) -> bool {
        self.parts.iter().all(|row| !row.is_empty())
    }

    /// The fastest at least this accurate, and within this latency in the other order; among equals
    /// the most accurate.
    pub(super) fn fastest(
        &self,
        at_least_bp: u32,
        other_at_most_ns: u64,
        meter: &mut Meter<'_>,
    ) -> Option<Stitched> {
        let mut descent = Descent {
            search: self,
            at_least_bp,
            other_at_most_ns,
            meter,
            chosen: Vec::with_capacity(self.parts.len()),
            best: None,
        };
        if self.runs() {
            descent.go_on(0, 0);
        }
        descent.best
    }

    /// The most accurate; among equals the fastest.
    pub(super) fn most_accurate(&self, meter: &mut Meter<'_>) -> Option<Stitched> {
        let mut highest = None;
        if self.runs() {
            self.climb(&mut Vec::with_capacity(self.parts.len()), &mut highest, meter);
        }
        self.fastest(highest?, u64::MAX, meter)
    }

    /// The fastest at each position.
    pub(super) fn lightest(&self) -> Option<Stitched> {
        let variants = self.parts.iter().map(|row| Some(row.first()?.variant));
        let variants: Vec<usize> = variants.collect::<Option<_>>()?;
        let accuracy_bp = self.accuracy.of(&variants);
        Some(Stitched { variants, latency_ns: self.rest.first()?.0, accuracy_bp })
    }

    fn climb(&self, chosen: &mut Vec<usize>, highest: &mut Option<u32>, meter: &mut Meter<'_>) {
        let Some(row) = self.parts.get(chosen.len()) else {
            *highest = (*highest).max(Some(self.accuracy.of(chosen)));
            return;
        };
        let mut promising: Vec<(u32, usize)> = Vec::with_capacity(row.len());
        for part in row {
            chosen.push(part.variant);
            promising.push((self.accuracy.at_most(chosen), part.variant));
            chosen.pop();
        }
        promising.sort_by_key(|&(at_most, _)| Reverse(at_most));
        for (at_most, variant) in promising {
            if *highest >= Some(at_most) || meter.spend(PREFIX_STEPS).is_err() {
                return;
            }
            chosen.push(variant);
            self.climb(chosen, highest, meter);
            chosen.pop();
        }
    }
}

struct Descent<'a, 'b, 'c> {
    search: &'b Search<'a>,
    at_least_bp: u32,
    other_at_most_ns: u64,
    meter: &'b mut Meter<'c>,
    chosen: Vec<usize>,
    best: Option<Stitched>,
}

impl Descent<'_, '_, '_> {
    fn go_on(&mut self, latency_ns: u64, other_ns: u64) {
        let search = self.search;
        let Some(row) = search.parts.get(self.chosen.len()) else { return self.offer(latency_ns) };
        let (rest, other_rest) = search.rest[self.chosen.len() + 1];
        for part in row {
            let (reached, other) = (
                latency_ns.saturating_add(part.latency_ns),
                other_ns.saturating_add(part.other_ns),
            );
            let least = reached.saturating_add(rest);
            if self.best.as_ref().is_some_and(|best| least > best.latency_ns)
                || self.meter.spend(PREFIX_STEPS).is_err()
            {
                return;
            }
            if other.saturating_add(other_rest) > self.other_at_most_ns {
                continue;
            }
            self.chosen.push(part.variant);
            let at_most = search.accuracy.at_most(&self.chosen);
            let no_better = self
                .best
                .as_ref()
                .is_some_and(|best| least == best.latency_ns && at_most <= best.accuracy_bp);
            if at_most >= self.at_least_bp && !no_better {
                self.go_on(reached, other);
            }
            self.chosen.pop();
        }
    }

    fn offer(&mut self, latency_ns: u64) {
        let accuracy_bp = self.search.accuracy.of(&self.chosen);
        let better = |best: &Stitched| {
            (latency_ns, Reverse(accuracy_bp)) < (best.latency_ns, Reverse(best.accuracy_bp))
        };
        if accuracy_bp >= self.at_least_bp && self.best.as_ref().is_none_or(better) {
            self.best = Some(Stitched { variants: self.chosen.clone(), latency_ns, accuracy_bp });
        }
    }
}

/// The parts of one position that no other dominates; the first of several equivalent ones.
fn undominated(accuracy: &dyn Accuracy, position: usize, row: &[Part]) -> Vec<Part> {
    let replaces = |a: &Part, b: &Part| {
        a.latency_ns <= b.latency_ns
            && a.other_ns <= b.other_ns
            && accuracy.no_worse(position, a.variant, b.variant)
    };
    let left_out = |index: usize, part: &Part| {
        row.iter().enumerate().any(|(other, by)| {
            other != index && replaces(by, part) && (other < index || !replaces(part, by))
        })
    };
    row.iter()
        .enumerate()
        .filter(|(index, part)| !left_out(*index, part))
        .map(|(_, part)| *part)
        .collect()
}
