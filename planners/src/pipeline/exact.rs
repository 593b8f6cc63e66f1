//! Exact search over cuts and processor orders: dynamic programming over (processors used, the last
//! of them, nodes done), as for a travelling salesman.
//!
//! Two passes give the best throughput: the first finds the least bottleneck, the second the least
//! latency with no stage above it. Work per pass: at most P^2 2^P n^2 / 4; the time of a stage
//! rises with its end, so scans stop early.

use super::{Cut, stages::StageTimes};

const NONE: u32 = u32::MAX;

/// The limits of a pipeline.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The longest stage, ns.
    pub period: u64,
    /// The longest latency, ns.
    pub latency: u64,
}

/// The best path to each state (used, last, nodes done): latency, slowest stage, and the previous
/// state.
pub(super) struct Table<'a> {
    times: &'a StageTimes,
    latency: Vec<u64>,
    period: Vec<u64>,
    before: Vec<u32>,
    end: usize,
}

impl<'a> Table<'a> {
    /// Least latency with every stage within the limits; among equals the least period.
    pub(super) fn least_latency(times: &'a StageTimes, limits: Limits) -> Option<Self> {
        let size = states(times);
        let mut table = Self {
            times,
            latency: vec![u64::MAX; size],
            period: vec![u64::MAX; size],
            before: vec![NONE; size],
            end: 0,
        };
        table.extend_all(None, limits);
        for used in 1..1usize << times.processors {
            for last in (0..times.processors).filter(|last| used >> last & 1 == 1) {
                table.extend_all(Some((used, last)), limits);
            }
        }
        let ends = (1..1usize << times.processors)
            .flat_map(|used| (0..times.processors).map(move |last| (used, last)));
        let ends = ends.map(|(used, last)| state(times, used, last) + times.nodes);
        table.end = ends.min_by_key(|&end| (table.latency[end], table.period[end])).unwrap_or(0);
        (table.latency[table.end] < u64::MAX).then_some(table)
    }

    /// All stages that can follow those that end with `last` (all first stages, from home, for
    /// `None`).
    fn extend_all(&mut self, ended: Option<(usize, usize)>, limits: Limits) {
        let times = self.times;
        let (used, from, row) = ended.map_or((0, times.home, None), |(used, last)| {
            (used, last, Some(state(times, used, last)))
        });
        let starts = if row.is_some() { 1..times.nodes } else { 0..1 };
        for next in (0..times.processors).filter(|next| used >> next & 1 == 0) {
            for start in starts.clone() {
                let (latency, period) =
                    row.map_or((0, 0), |row| (self.latency[row + start], self.period[row + start]));
                if latency == u64::MAX {
                    continue;
                }
                let Some(receive) = times.receive(from, next, start) else { continue };
                let before = row.map_or(NONE, |row| (row + start) as u32);
                self.extend(
                    start,
                    next,
                    used | 1 << next,
                    receive,
                    (latency, period, before),
                    limits,
                );
            }
        }
    }

    /// Stages on `next` from one start, after which the processors `used` are taken.
    fn extend(
        &mut self,
        start: usize,
        next: usize,
        used: usize,
        receive: u64,
        so_far: (u64, u64, u32),
        limits: Limits,
    ) {
        let times = self.times;
        let (latency, period, before) = so_far;
        let (target, prefix) = (state(times, used, next), times.prefix(next));
        let (fastest, rest, room) =
            (times.at_least(0), times.at_least(used), times.room(used, limits.period));
        for end in start + 1..=times.reach(next, start) {
            let stage = receive.saturating_add(prefix[end] - prefix[start]);
            if stage > limits.period {
                return;
            }
            let reached = (latency.saturating_add(stage), period.max(stage));
            if reached.0.saturating_add(fastest[end]) > limits.latency {
                return; // Going on adds at least what it takes out of the rest.
            }
            if reached.0.saturating_add(rest[end]) > limits.latency {
                continue; // What is left cannot be done within the limits.
            }
            if rest[end] > room {
                continue; // Nor within the period.
            }
            let slot = target + end;
            if reached.0 <= self.latency[slot]
                && reached < (self.latency[slot], self.period[slot])
                && times.cuttable(end)
            {
                (self.latency[slot], self.period[slot]) = reached;
                self.before[slot] = before;
            }
        }
    }

    /// The stages of the best pipeline.
    pub(super) fn cuts(&self) -> Vec<Cut> {
        let places = self.times.nodes + 1;
        let mut cuts = Vec::new();
        let mut at = self.end;
        loop {
            let before = self.before[at];
            let from = if before == NONE { 0 } else { before as usize % places };
            cuts.push(Cut {
                processor: at / places % self.times.processors,
                from,
                to: at % places,
            });
            if before == NONE {
                cuts.reverse();
                return cuts;
            }
            at = before as usize;
        }
    }
}

pub(super) fn states(times: &StageTimes) -> usize {
    ((times.nodes + 1) * times.processors) << times.processors
}

/// Index of (used, last, 0 nodes done).
pub(super) fn state(times: &StageTimes, used: usize, last: usize) -> usize {
    (used * times.processors + last) * (times.nodes + 1)
}

/// The least possible period, ns.
pub(super) fn bottleneck(times: &StageTimes) -> Option<u64> {
    let mut least = vec![u64::MAX; states(times)];
    let mut best = u64::MAX;
    let mut extend = |least: &mut Vec<u64>, row: Option<usize>, used: usize, from: usize| {
        let starts = if row.is_some() { 1..times.nodes } else { 0..1 };
        for next in (0..times.processors).filter(|next| used >> next & 1 == 0) {
            let (target, prefix) = (state(times, used | 1 << next, next), times.prefix(next));
            let rest = times.at_least(used | 1 << next);
            for start in starts.clone() {
                let so_far = row.map_or(0, |row| least[row + start]);
                if so_far >= best {
                    continue;
                }
                let Some(receive) = times.receive(from, next, start) else { continue };
                for end in start + 1..=times.reach(next, start) {
                    let slowest = so_far.max(receive.saturating_add(prefix[end] - prefix[start]));
                    if slowest >= best {
                        break;
                    }
                    let possible = rest[end] <= times.room(used | 1 << next, best);
                    if slowest < least[target + end] && possible && times.cuttable(end) {
                        least[target + end] = slowest;
                        if end == times.nodes {
                            best = slowest;
                        }
                    }
                }
            }
        }
    };
    extend(&mut least, None, 0, times.home);
    for used in 1..1usize << times.processors {
        for last in (0..times.processors).filter(|last| used >> last & 1 == 1) {
            extend(&mut least, Some(state(times, used, last)), used, last);
        }
    }
    (best < u64::MAX).then_some(best)
}

/// The first node that no pipeline can run.
pub(super) fn furthest(times: &StageTimes) -> usize {
    let runs = |node: usize| (0..times.processors).any(|p| times.reach(p, node) > node);
    (0..times.nodes).find(|&node| !runs(node)).unwrap_or(0)
}
