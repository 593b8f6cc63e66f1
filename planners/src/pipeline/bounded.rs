//! The least period under a latency bound, by bisection over periods. Each step computes the least
//! latency of any pipeline without a longer stage.
//!
//! This latency is computed backwards over (processors used, the last of them, nodes done): a stage
//! and its successors take receiving + nodes up to its end + the least latency from there. The ends
//! that satisfy the period are a range, so the least of (nodes up to the end + latency from there)
//! is found in a stack of falling values: O(2^P P^2 n log n) per step, n P steps of the budget for
//! each set of processors and its last.

use super::{
    exact::{bottleneck, state, states},
    search::{NoPipeline, Times},
    stages::StageTimes,
};
use crate::meter::Meter;

/// The least period of a pipeline whose latency is at most `latency`, ns.
pub(super) fn least_period(
    times: Times<'_>,
    latency: u64,
    meter: &mut Meter<'_>,
) -> Result<u64, NoPipeline> {
    let mut search = Search::new(times);
    let any = search.within(u64::MAX, meter)?;
    if any.latency > latency {
        return Err(NoPipeline::Impossible);
    }
    let (mut low, mut high) = (bottleneck(times.stages, meter)?, any.longest);
    while low < high {
        let period = low + (high - low) / 2;
        let found = search.within(period, meter).map_err(|e| e.but_at_least(low))?;
        if found.latency <= latency {
            high = period.min(found.longest);
        } else {
            low = found.next;
        }
    }
    Ok(high)
}

/// The result of one step of the bisection, ns.
struct Within {
    /// Least latency of any pipeline within the period; `u64::MAX` where there is none.
    latency: u64,
    /// The longest possible stage within the period: with this period the result is the same.
    longest: u64,
    /// The next longer period at which the result may change.
    next: u64,
}

struct Search<'a> {
    times: Times<'a>,
    /// `[state + i]`: least latency of nodes `i` and after.
    rest: Vec<u64>,
    /// `[used]`: the largest number of nodes that these processors can run.
    furthest: Vec<usize>,
    /// Ends of a stage, each with the sum of the nodes up to it and the latency from there: the
    /// furthest first, sums falling with the distance.
    ends: Vec<(usize, u64)>,
}

impl<'a> Search<'a> {
    fn new(times: Times<'a>) -> Self {
        let StageTimes { nodes, processors, .. } = *times.stages;
        Self {
            times,
            rest: vec![u64::MAX; states(times.stages)],
            furthest: vec![0; 1 << processors],
            ends: Vec::with_capacity(nodes),
        }
    }

    fn within(&mut self, period: u64, meter: &mut Meter<'_>) -> Result<Within, NoPipeline> {
        let times = self.times.stages;
        self.reach(period);
        self.rest.fill(u64::MAX);
        let mut found = Within { latency: u64::MAX, longest: 0, next: u64::MAX };
        for used in (1..1usize << times.processors).rev() {
            for last in members(used) {
                self.rest[state(times, used, last) + times.nodes] = 0;
                self.prepend(used, last, period, &mut found);
                meter.spend(times.nodes * times.processors)?;
            }
        }
        Ok(found)
    }

    /// Computes how many nodes each set of processors can run if receiving takes no time.
    fn reach(&mut self, period: u64) {
        for used in 1..1usize << self.times.stages.processors {
            let far =
                |last: usize| self.furthest_end(last, self.furthest[used & !(1 << last)], period);
            let furthest = members(used).map(far).max().unwrap_or(0);
            self.furthest[used] = furthest;
        }
    }

    /// The furthest end of a stage that computes for at most this time.
    fn furthest_end(&self, processor: usize, start: usize, at_most: u64) -> usize {
        let times = self.times.stages;
        let (prefix, reach) = (times.prefix(processor), times.reach(processor, start));
        let most = prefix[start].saturating_add(at_most);
        start + prefix[start + 1..=reach].partition_point(|&sum| sum <= most)
    }

    /// Adds a stage on `next` in front of the stages that follow once `used` are taken; `next` is
    /// the last of these.
    fn prepend(&mut self, used: usize, next: usize, period: u64, found: &mut Within) {
        let (times, before) = (self.times.stages, used & !(1 << next));
        let (row, prefix, work) =
            (state(times, used, next), self.times.sums.prefix(next), times.at_least(before));
        let room = times.room(before, period);
        let low = if before == 0 { 0 } else { work.partition_point(|&ns| ns > room).max(1) };
        if low > 1 {
            // From earlier starts, the remaining processors cannot run the remaining nodes.
            found.next = found.next.min(times.period_for(before, work[low - 1]));
        }
        let high = self.furthest[before].min(times.nodes - 1);
        self.ends.clear();
        for end in (low + 1..=self.furthest[used].max(high + 1)).rev() {
            if times.cuttable(end) && self.rest[row + end] < u64::MAX {
                let sum = prefix[end].saturating_add(self.rest[row + end]);
                while self.ends.last().is_some_and(|&(_, further)| further >= sum) {
                    self.ends.pop();
                }
                self.ends.push((end, sum));
            }
            let start = end - 1;
            if start > high {
                continue;
            }
            if before == 0 {
                found.latency =
                    found.latency.min(self.starting(times.home, next, start, period, found));
                continue;
            }
            for last in members(before) {
                let slot = state(times, before, last) + start;
                self.rest[slot] =
                    self.rest[slot].min(self.starting(last, next, start, period, found));
            }
        }
    }

    /// Least latency of nodes `start` and after, the first of them in a stage on `next` that
    /// receives from `last`.
    fn starting(
        &self,
        last: usize,
        next: usize,
        start: usize,
        period: u64,
        found: &mut Within,
    ) -> u64 {
        let Some((more, receive)) = self.times.receive(last, next, start) else { return u64::MAX };
        let Times { sums, stages } = self.times;
        let (staged, summed) = (stages.prefix(next), sums.prefix(next));
        let reach = stages.reach(next, start);
        let stage = |end: usize| receive.saturating_add(staged[end] - staged[start]);
        let end = period
            .checked_sub(receive)
            .map_or(start, |computing| self.furthest_end(next, start, computing));
        if end < reach {
            found.next = found.next.min(stage(end + 1));
        }
        if end == start {
            return u64::MAX;
        }
        found.longest = found.longest.max(stage(end));
        let nearest = self.ends.partition_point(|&(at, _)| at > end);
        self.ends
            .get(nearest)
            .map_or(u64::MAX, |&(_, sum)| more.saturating_add(sum - summed[start]))
    }
}

/// Processors of a set.
fn members(set: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS as usize)
        .filter(move |processor| set >> processor & 1 == 1)
        .take(set.count_ones() as usize)
}
