//! [`run`]: executes a plan on engines: checks, engines, loading, queries, and the log.

use super::{
    PlanSubgraph, Routes, RunError, RunEvent, RunLog, RunOptions, RunPlan,
    header::header,
    memory::{Memory, Place},
    routes::Route,
    runtime::Runtime,
    schedule::{Schedule, schedule},
    session::Session,
};
use std::collections::BTreeMap;
use vitempo_planners::multi_dnn::Expectation;
use vitempo_profiler::priority::RunFirst;

/// Runs a plan; `progress` gets what is done before the clock starts, and engines that end.
///
/// ```no_run
/// use vitempo::plan::run::{RunOptions, RunPlan, Summary, run};
///
/// let plan = RunPlan::read("plan.json".as_ref())?;
/// let log = run(&plan, &RunOptions::default(), &mut |_| ())?;
/// println!("{:.1} %", 100.0 * Summary::of(&log)?.violation_rate().0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`RunError`] before the first query: a plan for another machine, an engine or a core that is not
/// there, a budget that is too small, a subgraph that does not run. Later failures are events of
/// the log.
pub fn run(
    plan: &RunPlan,
    options: &RunOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<RunLog, RunError> {
    plan.check()?;
    let schedule = schedule(plan, options.limit)?;
    let budget = options.memory_bytes.or(plan.memory_bytes);
    let mut routes = Routes::of(plan);
    routes.keep_fallbacks(|route| options.fallbacks && fits(plan, route, budget));
    progress("starting engines");
    let session = Session::start(plan, &routes, options)?;
    check_budget(plan, &routes, &session, budget)?;
    for (processor, process) in plan.processors.iter().zip(session.rig.processes()) {
        if let Some(process) = process {
            progress(&format!("{}: process {process}", processor.name));
        }
    }
    let planned = planned(&routes, &schedule, &session);
    let memory = Memory::new(budget, options.eviction, planned);
    let mut runtime = Runtime::new(plan, &routes, &session, options, memory, progress);
    runtime.say("loading subgraphs, and comparing results with those of whole models");
    runtime.prepare()?;
    let is_memory = |event: &RunEvent| {
        matches!(event, RunEvent::Load { .. } | RunEvent::Evict { .. } | RunEvent::Resident { .. })
    };
    runtime.events.retain(is_memory);
    runtime.say("running queries");
    // The clock starts now.
    runtime.pieces = session.rig.pieces();
    let first = RunFirst::here();
    runtime.rounds(&schedule);
    let runs_first = first.is_some();
    drop(first);
    Ok(RunLog {
        header: header(plan, &routes, &session, options, (budget, runs_first)),
        events: runtime.events,
        path: "".into(),
    })
}

/// Whether subgraphs can be evicted in runs of a plan: there is a memory budget, and not all of those
/// that its ways use fit into it.
#[must_use]
pub fn can_evict(plan: &RunPlan, options: &RunOptions) -> bool {
    let Some(budget) = options.memory_bytes.or(plan.memory_bytes) else { return false };
    let mut routes = Routes::of(plan);
    routes.keep_fallbacks(|route| options.fallbacks && fits(plan, route, Some(budget)));
    let mut loaded = BTreeMap::new();
    for route in &routes.routes {
        let task = &plan.tasks[route.task];
        let way = &task.ways[route.way];
        for (piece, step) in way.pieces.iter().zip(&route.lane.steps) {
            let is_used = |s: &&PlanSubgraph| {
                let variant = s.position.checked_sub(1).and_then(|index| way.variants.get(index));
                (piece.first..=piece.last).contains(&s.position) && variant == Some(&s.variant)
            };
            for part in task.subgraphs.iter().filter(is_used) {
                let place = (step.processor, route.task, part.position, &part.variant);
                loaded.insert(place, part.memory_bytes);
            }
        }
    }
    loaded.into_values().fold(0u64, u64::saturating_add) > budget
}

/// Whether each piece of a way fits into the memory by itself.
fn fits(plan: &RunPlan, route: &Route, budget: Option<u64>) -> bool {
    let Some(budget) = budget else { return true };
    let task = &plan.tasks[route.task];
    let way = &task.ways[route.way];
    let bytes = |position: usize| {
        let variant = &way.variants[position - 1];
        let own = task.subgraphs.iter();
        let own = own.filter(|s| s.position == position && s.variant == *variant);
        own.map(|subgraph| subgraph.memory_bytes).sum::<u64>()
    };
    way.pieces.iter().all(|piece| (piece.first..=piece.last).map(bytes).sum::<u64>() <= budget)
}

/// Every piece has to fit by itself.
fn check_budget(
    plan: &RunPlan,
    routes: &Routes,
    session: &Session,
    budget: Option<u64>,
) -> Result<(), RunError> {
    let Some(budget) = budget else { return Ok(()) };
    for (route, steps) in routes.routes.iter().zip(&session.steps) {
        for (step, parts) in route.lane.steps.iter().zip(steps) {
            let needed: u64 = parts.iter().map(|(_, bytes)| *bytes).sum();
            if needed > budget {
                return Err(RunError::Memory {
                    task: plan.tasks[route.task].name.clone(),
                    processor: plan.processors[step.processor].name.clone(),
                    needed,
                    budget,
                });
            }
        }
    }
    Ok(())
}

/// Number of planned queries of each subgraph on each processor.
fn planned(routes: &Routes, schedule: &Schedule, session: &Session) -> BTreeMap<Place, u64> {
    let mut planned = BTreeMap::new();
    for (lane, route) in routes.routes.iter().enumerate() {
        for (step, parts) in route.lane.steps.iter().zip(&session.steps[lane]) {
            for (part, _) in parts {
                planned.entry((step.processor, *part)).or_insert(0);
            }
        }
    }
    for round in &schedule.rounds {
        let mut expected = Expectation::default();
        for arrival in round {
            let own = |route: &Route| route.level == 0;
            let chosen = routes.choose(&mut expected, arrival.task, arrival.at_ns, own);
            let Some(lane) = chosen else { continue };
            for (step, parts) in routes.routes[lane].lane.steps.iter().zip(&session.steps[lane]) {
                for (part, _) in parts {
                    *planned.entry((step.processor, *part)).or_insert(0) += 1;
                }
            }
        }
    }
    planned
}
