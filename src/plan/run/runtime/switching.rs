//! Tasks fall back to faster ways when they violate their objectives repeatedly, and return
//! ([`Switching`]). A phase begins with the ways of its plan. Queries under way end as they began.

use super::{
    super::{Routes, RunEvent},
    Runtime,
};
use vitempo_planners::multi_dnn::{Observed, Rule, Switched, Switching};

/// All tasks at the ways of a phase's plan.
pub(super) fn levels(routes: &Routes, phase: usize) -> Switching {
    let planned_ns = (0..routes.tasks()).map(|task| routes.planned_ns(phase, task));
    Switching::new(Rule::default(), planned_ns.collect())
}

impl Runtime<'_> {
    /// A query ended, or was given up after it had arrived.
    pub(super) fn observe(&mut self, query: usize, latency_ns: Option<u64>) {
        let found = &self.queries[query];
        let Some(route) = self.routes.routes.get(found.lane) else { return };
        if route.phase != self.phase {
            return;
        }
        let observed =
            Observed { task: route.task, level: route.level, latency_ns, slo_ns: route.slo_ns };
        if let Some(Switched { task, from, to }) = self.levels.observe(observed) {
            let at_ns = self.pieces.now_ns();
            self.events.push(RunEvent::Switch { task, at_ns, from, to });
        }
    }
}
