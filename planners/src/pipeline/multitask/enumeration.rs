//! Every placement of a multi-task model, and the best of them within a budget.

use super::{Execution, MultiTask, Part, Schedule, plan::receivers};
use crate::cost::{CostError, End};
use std::collections::BinaryHeap;
use vitempo_graph::{Budget, Limits};

/// Default budget of an enumeration, steps: one step per part of each placement.
pub const STEPS: u64 = 1 << 26;

/// The best of all placements.
#[derive(Clone, Debug, PartialEq)]
pub struct Leading {
    /// Best first.
    pub schedules: Vec<Schedule>,
    /// No placement has a shorter period, ns.
    pub at_least: u64,
    /// Whether every placement was tried.
    pub is_complete: bool,
}

struct Ranked {
    key: ((u64, u64, usize), usize),
    schedule: Schedule,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Ranked {}

impl Schedule {
    /// Period, latency, and how many processors receive the features: less is better.
    pub(super) fn rank(&self) -> (u64, u64, usize) {
        (self.period_ns.point(), self.latency_ns.point(), receivers(self).len())
    }
}

/// The default budget of an enumeration.
#[must_use]
pub fn default_budget() -> Budget {
    Budget::new(Limits { steps: STEPS, ..Limits::NONE })
}

impl MultiTask {
    /// Number of placements, including those that cannot run.
    #[must_use]
    pub fn placements(&self) -> u128 {
        let parts = u32::try_from(self.parts().count()).unwrap_or(u32::MAX);
        (self.processors.len() as u128).saturating_pow(parts)
    }

    /// Calls the function with every placement that can run, in a fixed order (the encoder changes
    /// slowest). Returns whether the budget sufficed.
    pub(super) fn each(
        &self,
        execution: Execution,
        budget: &Budget,
        mut visit: impl FnMut(Schedule),
    ) -> bool {
        let count = self.processors.len();
        let mut placement = vec![0; self.parts().count()];
        loop {
            if budget.steps(placement.len() as u64).is_err() {
                return false;
            }
            self.schedule(&placement, execution).into_iter().for_each(&mut visit);
            let Some(digit) = placement.iter().rposition(|&p| p + 1 < count) else { return true };
            placement[digit] += 1;
            placement[digit + 1..].fill(0);
        }
    }

    /// Every placement that can run, in a fixed order (the encoder changes slowest).
    ///
    /// # Errors
    /// As [`MultiTask::check`].
    pub fn all(&self, execution: Execution) -> Result<Vec<Schedule>, CostError> {
        self.check()?;
        let mut schedules = Vec::new();
        self.each(execution, &default_budget(), |schedule| schedules.push(schedule));
        Ok(schedules)
    }

    /// The best placements, up to a maximum number: least period first; among equals the least
    /// latency, then the fewest processors that receive the features, then the first.
    ///
    /// # Errors
    /// As [`MultiTask::check`].
    pub fn leading(
        &self,
        execution: Execution,
        most: usize,
        budget: &Budget,
    ) -> Result<Leading, CostError> {
        self.check()?;
        let mut heap: BinaryHeap<Ranked> = BinaryHeap::new();
        let mut found = 0usize;
        let mut offer = |schedule: Schedule| {
            heap.push(Ranked { key: (schedule.rank(), found), schedule });
            found += 1;
            if heap.len() > most {
                heap.pop();
            }
        };
        // If there are too many placements to try, those that balance the load are tried at least.
        let is_complete = self.each(execution, budget, &mut offer);
        if !is_complete {
            let encoders = 0..self.processors.len();
            encoders.filter_map(|encoder| self.balanced(encoder, execution)).for_each(&mut offer);
        }
        let ranked = heap.into_sorted_vec();
        let mut schedules: Vec<Schedule> = ranked.into_iter().map(|r| r.schedule).collect();
        schedules.dedup();
        let least = |end: End| schedules.iter().map(|s| s.period_ns.at(end)).min().unwrap_or(0);
        let at_least =
            if is_complete { least(End::Point) } else { self.period_at_least(execution) };
        Ok(Leading { schedules, at_least, is_complete })
    }

    /// Places decoders from the longest to the shortest, each where it ends first, then
    /// postprocessing likewise.
    fn balanced(&self, encoder: usize, execution: Execution) -> Option<Schedule> {
        let mut load = vec![0u64; self.processors.len()];
        let mut places = vec![encoder];
        let after: Vec<&Part> = self.postprocessing.iter().map(|p| &p.part).collect();
        for step in [self.decoders.iter().collect(), after] {
            match execution {
                Execution::Pipelined if places.len() == 1 => {
                    load[encoder] = self.encoder.latency_ns[encoder]?.point();
                }
                Execution::Pipelined => {}
                Execution::Sequential => load.fill(0),
            }
            places.extend(spread(&step, &mut load)?);
        }
        self.schedule(&places, execution)
    }

    /// No placement has a shorter period, ns: the longest part, and all work divided evenly.
    pub(super) fn period_at_least(&self, execution: Execution) -> u64 {
        let encoder = shortest(&self.encoder);
        let decoders: Vec<u64> = self.decoders.iter().map(shortest).collect();
        let after: Vec<u64> = self.postprocessing.iter().map(|p| shortest(&p.part)).collect();
        let longest = |step: &[u64]| step.iter().copied().max().unwrap_or(0);
        let work = |step: &[u64]| step.iter().copied().fold(0, u64::saturating_add);
        let processors = self.processors.len().max(1) as u64;
        match execution {
            Execution::Sequential => [&decoders, &after]
                .map(|step| longest(step).max(work(step) / processors))
                .into_iter()
                .fold(encoder, u64::saturating_add),
            Execution::Pipelined => {
                let all = [&[encoder][..], &decoders, &after].concat();
                longest(&all).max(work(&all) / processors)
            }
        }
    }

    /// The first of [`MultiTask::leading`].
    ///
    /// # Errors
    /// As [`MultiTask::check`].
    pub fn best(&self, execution: Execution) -> Result<Option<Schedule>, CostError> {
        Ok(self.leading(execution, 1, &default_budget())?.schedules.pop())
    }
}

/// Shortest time of a part, ns.
fn shortest(part: &Part) -> u64 {
    part.latency_ns.iter().flatten().map(|ns| ns.point()).min().unwrap_or(0)
}

/// The processors of parts of one step, placed from the longest to the shortest, each where it ends
/// first after the load that is there already.
fn spread(parts: &[&Part], load: &mut [u64]) -> Option<Vec<usize>> {
    let mut by_length: Vec<usize> = (0..parts.len()).collect();
    by_length.sort_by_key(|&part| std::cmp::Reverse(shortest(parts[part])));
    let mut places = vec![0; parts.len()];
    for index in by_length {
        let part = parts[index];
        let done = |p: usize| Some((load[p].saturating_add(part.latency_ns[p]?.point()), p));
        let (ns, processor) = (0..load.len()).filter_map(done).min()?;
        load[processor] = ns;
        places[index] = processor;
    }
    Some(places)
}
