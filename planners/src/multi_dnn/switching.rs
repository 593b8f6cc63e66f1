//! [`Switching`]: when a task falls back to a faster way, and when it returns. It reads no clock: the
//! caller reports what becomes of queries.
//!
//! Each task has levels: 0 are the ways of its plan, the others its fallbacks. Where
//! [`Rule::violations`] of the last [`Rule::window`] queries of a level are late, the task goes one
//! level on. Where [`Rule::calm`] queries of a level in a row would have been in time on the level
//! before, by the planned times and with a margin, it goes one level back; each return doubles the
//! number of queries that the next one takes. Queries of other levels do not count: they were under
//! way when the level changed.

use std::collections::VecDeque;

/// The rule's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Queries that are looked back on.
    pub window: usize,
    /// Late ones among them after which a task falls back.
    pub violations: usize,
    /// Queries in a row after which it returns for the first time.
    pub calm: usize,
    /// The largest share of the objective that their latency may be, as expected on the level
    /// before.
    pub margin: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self { window: 8, violations: 4, calm: 16, margin: 0.8 }
    }
}

/// Largest number of queries in a row that a return takes.
const MOST_CALM: usize = 1024;

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Index of its task.
    pub task: usize,
    /// The level that it arrived at.
    pub level: usize,
    /// Its latency, ns; `None` where it has no result.
    pub latency_ns: Option<u64>,
    /// The largest latency that its objective allows, ns.
    pub slo_ns: u64,
}

/// A change of a task's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// Index of the task.
    pub task: usize,
    /// The level before.
    pub from: usize,
    /// The level of queries that arrive from now on.
    pub to: usize,
}

#[derive(Clone, Debug)]
struct Task {
    /// Planned time by level, ns.
    planned_ns: Vec<u64>,
    level: usize,
    late: VecDeque<bool>,
    calm: usize,
    needed: usize,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Switching {
    rule: Rule,
    tasks: Vec<Task>,
}

impl Switching {
    /// All tasks at level 0; `planned_ns` has the planned time of a query by task and level.
    #[must_use]
    pub fn new(rule: Rule, planned_ns: Vec<Vec<u64>>) -> Self {
        let task = |planned_ns| Task {
            planned_ns,
            level: 0,
            late: VecDeque::new(),
            calm: 0,
            needed: rule.calm,
        };
        Self { rule, tasks: planned_ns.into_iter().map(task).collect() }
    }

    /// The level of a task.
    #[must_use]
    pub fn level(&self, task: usize) -> usize {
        self.tasks.get(task).map_or(0, |task| task.level)
    }

    /// A query ended; returns the change that follows.
    pub fn observe(&mut self, observed: Observed) -> Option<Switched> {
        let Observed { task, level, latency_ns, slo_ns } = observed;
        let Rule { window, violations, margin, .. } = self.rule;
        let found = self.tasks.get_mut(task).filter(|found| found.level == level)?;
        let is_late = latency_ns.is_none_or(|ns| ns > slo_ns);
        found.late.push_back(is_late);
        if found.late.len() > window {
            found.late.pop_front();
        }
        let is_calm = !is_late && level > 0 && found.slower(latency_ns) <= margin * slo_ns as f64;
        found.calm = if is_calm { found.calm + 1 } else { 0 };
        let late = found.late.iter().filter(|late| **late).count();
        let to = if late >= violations && level + 1 < found.planned_ns.len() {
            level + 1
        } else if found.calm >= found.needed && level > 0 {
            found.needed = found.needed.saturating_mul(2).min(MOST_CALM);
            level - 1
        } else {
            return None;
        };
        (found.level, found.calm) = (to, 0);
        found.late.clear();
        Some(Switched { task, from: level, to })
    }
}

impl Task {
    /// The latency that is expected on the level before, ns.
    fn slower(&self, latency_ns: Option<u64>) -> f64 {
        let planned = |level: usize| self.planned_ns.get(level).copied().unwrap_or(1).max(1) as f64;
        let factor = planned(self.level.saturating_sub(1)) / planned(self.level);
        latency_ns.unwrap_or(u64::MAX) as f64 * factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels that take 40, 20 and 10 ns.
    fn switching() -> Switching {
        Switching::new(Rule::default(), vec![vec![40, 20, 10], vec![40]])
    }

    fn query(of: &Switching, task: usize, latency_ns: u64) -> Observed {
        Observed { task, level: of.level(task), latency_ns: Some(latency_ns), slo_ns: 100 }
    }

    /// Reports queries of this latency until the level changes; their number.
    fn until_switched(
        of: &mut Switching,
        latency_ns: u64,
        most: usize,
    ) -> Option<(usize, Switched)> {
        (1..=most).find_map(|count| {
            let observed = query(of, 0, latency_ns);
            of.observe(observed).map(|switched| (count, switched))
        })
    }

    #[test]
    fn repeated_violations_fall_back_to_the_last_level_and_no_further() {
        let mut of = switching();
        let down = |from, to| Some((4, Switched { task: 0, from, to }));
        assert_eq!(until_switched(&mut of, 101, 9), down(0, 1));
        assert_eq!(until_switched(&mut of, 101, 9), down(1, 2));
        assert_eq!(until_switched(&mut of, 101, 99), None);
        for _ in 0..9 {
            let observed = Observed { latency_ns: None, ..query(&of, 1, 0) };
            assert_eq!(of.observe(observed), None, "it has no fallback");
        }
    }

    #[test]
    fn single_violations_and_queries_of_another_level_do_not_count() {
        let mut of = switching();
        for index in 0..99 {
            let latency = if index % 3 == 0 { 101 } else { 99 };
            let observed = query(&of, 0, latency);
            assert_eq!(of.observe(observed), None, "3 of 8 are late");
        }
        assert!(until_switched(&mut of, 101, 9).is_some());
        for _ in 0..99 {
            assert_eq!(of.observe(Observed { level: 0, ..query(&of, 0, 101) }), None);
        }
        assert_eq!(of.observe(query(&switching(), 7, 0)), None, "there is no such task");
    }

    #[test]
    fn a_task_returns_when_the_level_before_would_be_in_time_and_each_time_later() {
        let mut of = switching();
        assert!(until_switched(&mut of, 101, 9).is_some());
        assert_eq!(until_switched(&mut of, 41, 99), None, "82 on the level before: above 80 %");
        let up = Switched { task: 0, from: 1, to: 0 };
        assert_eq!(until_switched(&mut of, 40, 99), Some((16, up)));
        assert!(until_switched(&mut of, 101, 9).is_some());
        assert_eq!(until_switched(&mut of, 40, 99), Some((32, up)));
    }
}
