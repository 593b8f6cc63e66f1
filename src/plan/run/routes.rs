//! [`Routes`]: the ways of a plan as lanes of the dispatcher, by phase and task.

use super::{PhaseTask, RunPlan};
use vitempo_planners::multi_dnn::{Expectation, Lane, Step};

/// A way of a task in a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the phase.
    pub phase: usize,
    /// Index of the task.
    pub task: usize,
    /// Index among the task's ways.
    pub way: usize,
    /// 0 for the ways of the plan, then one for each fallback.
    pub level: usize,
    /// Whether it is as accurate as the phase's objective.
    pub accurate: bool,
    /// Largest latency, ns.
    pub slo_ns: u64,
    /// Processors with planned times, and the priority.
    pub lane: Lane,
}

/// All ways; the index of a route is the number of its lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// In the order of phases, tasks and their ways.
    pub routes: Vec<Route>,
    from_ns: Vec<u64>,
    tasks: usize,
}

impl Routes {
    /// The ways of a checked plan.
    #[must_use]
    pub fn of(plan: &RunPlan) -> Self {
        let mut routes = Vec::new();
        for (phase, found) in plan.phases.iter().enumerate() {
            for (task, own) in found.tasks.iter().enumerate() {
                let ways = own.ways.iter().map(|&way| (way, 0));
                let fallbacks = own.fallbacks.iter().copied().zip(1..);
                routes.extend(
                    ways.chain(fallbacks)
                        .map(|(way, level)| route(plan, (phase, task), (way, level), own)),
                );
            }
        }
        let from_ns = plan.phases.iter().map(|phase| phase.from_ns).collect();
        Self { routes, from_ns, tasks: plan.tasks.len() }
    }

    /// The phase at this time since the start of a round.
    #[must_use]
    pub fn phase(&self, at_ns: u64) -> usize {
        self.from_ns.iter().filter(|from| **from <= at_ns).count().saturating_sub(1)
    }

    /// Leaves out the fallbacks for which this is false.
    pub fn keep_fallbacks(&mut self, keep: impl Fn(&Route) -> bool) {
        self.routes.retain(|route| route.level == 0 || keep(route));
        let mut before: Option<(usize, usize, usize)> = None;
        for route in self.routes.iter_mut().filter(|route| route.level > 0) {
            let last = before.filter(|last| (last.0, last.1) == (route.phase, route.task));
            route.level = last.map_or(1, |last| last.2 + 1);
            before = Some((route.phase, route.task, route.level));
        }
    }

    /// The least planned time of a task in a phase by level, ns.
    #[must_use]
    pub fn planned_ns(&self, phase: usize, task: usize) -> Vec<u64> {
        let of_level = |level: usize| {
            let key = (phase, task, level);
            let own = self.routes.iter().filter(|r| (r.phase, r.task, r.level) == key);
            own.map(|route| route.lane.steps.iter().map(|step| step.ns).sum()).min()
        };
        (0..).map_while(of_level).collect()
    }

    /// The lane of a query that arrives at this time: of the task's ways that are usable, the one
    /// that is expected to end first. `None` if none is usable.
    pub fn choose(
        &self,
        expected: &mut Expectation,
        task: usize,
        at_ns: u64,
        usable: impl Fn(&Route) -> bool,
    ) -> Option<usize> {
        let phase = self.phase(at_ns);
        let lanes: Vec<usize> = (0..self.routes.len())
            .filter(|&lane| {
                let route = &self.routes[lane];
                route.phase == phase && route.task == task && usable(route)
            })
            .collect();
        let steps = lanes.iter().map(|&lane| self.routes[lane].lane.steps.as_slice());
        expected.choose(at_ns, steps).and_then(|chosen| lanes.get(chosen).copied())
    }

    /// Number of tasks.
    #[must_use]
    pub const fn tasks(&self) -> usize {
        self.tasks
    }

    /// The lanes by number.
    #[must_use]
    pub fn lanes(&self) -> Vec<Lane> {
        self.routes.iter().map(|route| route.lane.clone()).collect()
    }
}

fn route(
    plan: &RunPlan,
    (phase, task): (usize, usize),
    (way, level): (usize, usize),
    own: &PhaseTask,
) -> Route {
    let found = &plan.tasks[task].ways[way];
    let step = |piece: &super::PlanPiece| Step {
        processor: plan.processor(&piece.processor).unwrap_or_default(),
        ns: piece.latency_ns,
    };
    let steps = found.pieces.iter().map(step).collect();
    Route {
        phase,
        task,
        way,
        level,
        accurate: found.accuracy_bp >= own.accuracy_bp,
        slo_ns: own.latency_ns,
        lane: Lane { steps, priority: own.priority },
    }
}
