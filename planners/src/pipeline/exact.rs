//! Exact search over cuts and processor orders: dynamic programming over (processors used, the last
//! of them, nodes done), as for a travelling salesman.
//!
//! Two passes give the best throughput: the first finds the least bottleneck, the second the least
//! latency with no stage above it. Work per pass: at most P^2 2^P n^2 / 4; the time of a stage
//! rises with its end, so scans stop early. A step of the budget is one end of one stage.

use super::{
    Cut,
    search::{NoPipeline, Times},
    stages::StageTimes,
};
use crate::meter::Meter;

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
    times: Times<'a>,
    latency: Vec<u64>,
    period: Vec<u64>,
    before: Vec<u32>,
    end: usize,
}

impl<'a> Table<'a> {
    /// Least latency with every stage within the limits; among equals the least period.
    pub(super) fn least_latency(
        times: Times<'a>,
        limits: Limits,
        meter: &mut Meter<'_>,
    ) -> Result<Self, NoPipeline> {
        let (size, processors) = (states(times.stages), times.stages.processors);
        let mut table = Self {
            times,
            latency: vec![u64::MAX; size],
            period: vec![u64::MAX; size],
            before: vec![NONE; size],
            end: 0,
        };
        table.extend_all(None, limits, meter)?;
        for used in 1..1usize << processors {
            for last in (0..processors).filter(|last| used >> last & 1 == 1) {
                table.extend_all(Some((used, last)), limits, meter)?;
            }
        }
        let ends =
            (1..1usize << processors).flat_map(|used| (0..processors).map(move |p| (used, p)));
        let ends = ends.map(|(used, last)| state(times.stages, used, last) + times.stages.nodes);
        table.end = ends.min_by_key(|&end| (table.latency[end], table.period[end])).unwrap_or(0);
        if table.latency_ns() < u64::MAX { Ok(table) } else { Err(NoPipeline::Impossible) }
    }

    /// The latency of the best pipeline, ns.
    pub(super) fn latency_ns(&self) -> u64 {
        self.latency[self.end]
    }

    /// All stages that can follow those that end with `last` (all first stages, from home, for
    /// `None`).
    fn extend_all(
        &mut self,
        ended: Option<(usize, usize)>,
        limits: Limits,
        meter: &mut Meter<'_>,
    ) -> Result<(), NoPipeline> {
        let stages = self.times.stages;
        let (used, from, row) = ended.map_or((0, stages.home, None), |(used, last)| {
            (used, last, Some(state(stages, used, last)))
        });
        let starts = if row.is_some() { 1..stages.nodes } else { 0..1 };
        for next in (0..stages.processors).filter(|next| used >> next & 1 == 0) {
            for start in starts.clone() {
                let (latency, period) =
                    row.map_or((0, 0), |row| (self.latency[row + start], self.period[row + start]));
                if latency == u64::MAX {
                    continue;
                }
                let Some(receive) = self.times.receive(from, next, start) else { continue };
                let before = row.map_or(NONE, |row| (row + start) as u32);
                let so_far = (latency, period, before);
                let visited = self.extend(start, next, used | 1 << next, receive, so_far, limits);
                meter.spend(visited)?;
            }
        }
        Ok(())
    }

    /// Stages on `next` from one start, after which the processors `used` are taken; `receive` is
    /// the time of receiving as summed and as bounded. Returns the number of ends visited.
    fn extend(
        &mut self,
        start: usize,
        next: usize,
        used: usize,
        receive: (u64, u64),
        so_far: (u64, u64, u32),
        limits: Limits,
    ) -> usize {
        let Times { sums, stages } = self.times;
        let (latency, period, before) = so_far;
        let target = state(stages, used, next);
        let (summed, staged) = (sums.prefix(next), stages.prefix(next));
        let (fastest, rest) = (sums.at_least(0), sums.at_least(used));
        let (work, room) = (stages.at_least(used), stages.room(used, limits.period));
        let reach = stages.reach(next, start);
        for end in start + 1..=reach {
            let stage = receive.1.saturating_add(staged[end] - staged[start]);
            if stage > limits.period {
                return end - start;
            }
            let more = receive.0.saturating_add(summed[end] - summed[start]);
            let reached = (latency.saturating_add(more), period.max(stage));
            if reached.0.saturating_add(fastest[end]) > limits.latency {
                return end - start; // Going on adds at least what it takes out of the rest.
            }
            if reached.0.saturating_add(rest[end]) > limits.latency {
                continue; // What is left cannot be done within the limits.
            }
            if work[end] > room {
                continue; // Nor within the period.
            }
            let slot = target + end;
            if reached.0 <= self.latency[slot]
                && reached < (self.latency[slot], self.period[slot])
                && stages.cuttable(end)
            {
                (self.latency[slot], self.period[slot]) = reached;
                self.before[slot] = before;
            }
        }
        reach.saturating_sub(start)
    }

    /// The stages of the best pipeline.
    pub(super) fn cuts(&self) -> Vec<Cut> {
        let (places, processors) = (self.times.stages.nodes + 1, self.times.stages.processors);
        let mut cuts = Vec::new();
        let mut at = self.end;
        loop {
            let before = self.before[at];
            let from = if before == NONE { 0 } else { before as usize % places };
            cuts.push(Cut { processor: at / places % processors, from, to: at % places });
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
pub(super) fn bottleneck(times: &StageTimes, meter: &mut Meter<'_>) -> Result<u64, NoPipeline> {
    let (_, best) = forward(times, u64::MAX, true, meter)?;
    if best < u64::MAX { Ok(best) } else { Err(NoPipeline::Impossible) }
}

/// By state, the longest stage before it, at best; only of ways whose stages are all shorter than
/// `below`, which no pipeline of interest exceeds.
pub(super) fn longest_before(
    times: &StageTimes,
    below: u64,
    meter: &mut Meter<'_>,
) -> Result<Vec<u64>, NoPipeline> {
    Ok(forward(times, below, false, meter)?.0)
}

/// The longest stage before each state, at best; with `lowers`, each complete pipeline lowers
/// `below` to its period. Returns `below` as well.
fn forward(
    times: &StageTimes,
    mut below: u64,
    lowers: bool,
    meter: &mut Meter<'_>,
) -> Result<(Vec<u64>, u64), NoPipeline> {
    let mut least = vec![u64::MAX; states(times)];
    let mut extend = |least: &mut Vec<u64>, row: Option<usize>, used: usize, from: usize| {
        let starts = if row.is_some() { 1..times.nodes } else { 0..1 };
        for next in (0..times.processors).filter(|next| used >> next & 1 == 0) {
            let (target, prefix) = (state(times, used | 1 << next, next), times.prefix(next));
            let rest = times.at_least(used | 1 << next);
            for start in starts.clone() {
                let so_far = row.map_or(0, |row| least[row + start]);
                if so_far >= below {
                    continue;
                }
                let Some(receive) = times.receive(from, next, start) else { continue };
                let mut visited = 0;
                for end in start + 1..=times.reach(next, start) {
                    visited += 1;
                    let slowest = so_far.max(receive.saturating_add(prefix[end] - prefix[start]));
                    if slowest >= below {
                        break;
                    }
                    let possible = rest[end] <= times.room(used | 1 << next, below);
                    if slowest < least[target + end] && possible && times.cuttable(end) {
                        least[target + end] = slowest;
                        if lowers && end == times.nodes {
                            below = slowest;
                        }
                    }
                }
                meter.spend(visited)?;
            }
        }
        Ok::<(), NoPipeline>(())
    };
    extend(&mut least, None, 0, times.home)?;
    for used in 1..1usize << times.processors {
        for last in (0..times.processors).filter(|last| used >> last & 1 == 1) {
            extend(&mut least, Some(state(times, used, last)), used, last)?;
        }
    }
    Ok((least, below))
}

/// By state, the longest stage after it, at best; only of ways whose stages are all shorter than
/// `below`.
pub(super) fn longest_after(
    times: &StageTimes,
    below: u64,
    meter: &mut Meter<'_>,
) -> Result<Vec<u64>, NoPipeline> {
    let mut least = vec![u64::MAX; states(times)];
    for used in (1..1usize << times.processors).rev() {
        for last in (0..times.processors).filter(|last| used >> last & 1 == 1) {
            let row = state(times, used, last);
            least[row + times.nodes] = 0;
            for next in (0..times.processors).filter(|next| used >> next & 1 == 0) {
                let (target, prefix) = (state(times, used | 1 << next, next), times.prefix(next));
                for start in (1..times.nodes).filter(|&start| times.cuttable(start)) {
                    let Some(receive) = times.receive(last, next, start) else { continue };
                    let mut visited = 0;
                    for end in start + 1..=times.reach(next, start) {
                        visited += 1;
                        let stage = receive.saturating_add(prefix[end] - prefix[start]);
                        if stage >= below {
                            break;
                        }
                        let slowest = stage.max(least[target + end]);
                        if times.cuttable(end) && slowest < least[row + start] {
                            least[row + start] = slowest;
                        }
                    }
                    meter.spend(visited)?;
                }
            }
        }
    }
    Ok(least)
}

/// The first node that no pipeline can run.
pub(super) fn furthest(times: &StageTimes) -> usize {
    let runs = |node: usize| (0..times.processors).any(|p| times.reach(p, node) > node);
    (0..times.nodes).find(|&node| !runs(node)).unwrap_or(0)
}
