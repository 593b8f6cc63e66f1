//! The first line of a log: environment, engines, tasks and ways.

use super::{
    LogHeader, LogLane, LogProcessor, PlanProcessor, Routes, RunOptions, RunPlan,
    log::{FORMAT, VERSION},
    routes::Route,
    session::Session,
};
use vitempo_graph::Environment;

pub(super) fn header(
    plan: &RunPlan,
    routes: &Routes,
    session: &Session,
    options: &RunOptions,
    (budget, runs_first): (Option<u64>, bool),
) -> LogHeader {
    let environments: Vec<&Environment> = session.rig.environments().collect();
    let first = environments.first();
    let processes = session.rig.processes().zip(session.rig.resident_bytes());
    let found = plan.processors.iter().zip(&environments).zip(processes);
    LogHeader {
        format: FORMAT.to_owned(),
        version: VERSION,
        made_by: format!("vitempo {}", env!("CARGO_PKG_VERSION")),
        plan: plan.path.clone(),
        device: first.map(|e| e.device.clone()).unwrap_or_default(),
        os: first.map(|e| e.os.clone()).unwrap_or_default(),
        isa: first.map(|e| e.isa.clone()).unwrap_or_default(),
        processors: found.map(|((own, found), process)| processor(own, found, process)).collect(),
        tasks: plan.tasks.iter().map(|task| task.name.clone()).collect(),
        lanes: routes.routes.iter().map(|route| lane(plan, route)).collect(),
        slowdown: plan.slowdown.clone(),
        bound: options.bound,
        memory_bytes: budget,
        cold: options.cold || plan.cold,
        runs_first: Some(runs_first),
        kept_awake: options.workers.as_ref().is_some_and(|workers| workers.keep_awake),
    }
}

fn processor(
    processor: &PlanProcessor,
    environment: &Environment,
    (process, resident_bytes): (Option<u32>, Option<u64>),
) -> LogProcessor {
    LogProcessor {
        name: processor.name.clone(),
        engine: environment.framework.clone(),
        engine_version: environment.framework_version.clone(),
        cores: environment.cores.clone(),
        threads: environment.threads,
        process,
        resident_bytes,
    }
}

fn lane(plan: &RunPlan, route: &Route) -> LogLane {
    LogLane {
        task: route.task,
        phase: route.phase,
        way: route.way,
        level: route.level,
        variants: plan.tasks[route.task].ways[route.way].variants.clone(),
        priority: route.lane.priority,
        accurate: route.accurate,
        slo_ns: route.slo_ns,
        steps: route.lane.steps.iter().map(|step| (step.processor, step.ns)).collect(),
    }
}
