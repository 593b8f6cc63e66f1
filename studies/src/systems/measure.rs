//! [`measure`] plans every configuration of the grid with every system, and runs each distinct plan
//! on engines: one query of each task at once, in every order of arrival, and runs with many waiting
//! queries.

use super::{Configuration, PlanRecord, Planned, Query, Record, TasksStudy};
use crate::record::{self, RecordError};
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};
use vitempo::{
    graph::onnx::ReadOptions,
    plan::{
        live::Engine,
        multi_dnn::{Placing, PlacingError, Request, place, place_systems},
        run::{
            CostsOrigin, Limit, Made, Outcome, PhaseTask, PlanProcessor, PlanWay, RunError,
            RunEvent, RunLog, RunOptions, RunPlan, run,
        },
        stitch::{record::Record as Costs, systems::objectives},
    },
    planners::{
        multi_dnn::{Arrivals, Objective, Settings, TaskArrivals, systems::Orders},
        stitch::{Slo, StitchError, Zoo, slo::Ranges},
    },
    zoo::tasks::TasksFile,
};

/// What is measured.
#[derive(Debug)]
pub struct Protocol<'a> {
    /// The zoo.
    pub tasks: &'a TasksFile,
    /// Its costs, measured on these engines.
    pub costs: &'a Costs,
    /// The engines, instead of the costs' own; empty: those.
    pub engines: Vec<Engine>,
    /// Numbers of tasks: the first of the zoo.
    pub counts: Vec<usize>,
    /// Runs of every order of arrival.
    pub rounds: usize,
    /// Queries of each task that wait from the start.
    pub saturation: usize,
    /// Plans that the planner evaluates for one configuration.
    pub evaluations: u64,
    /// Where the record is; plans that it has runs of are not run again.
    pub record: &'a Path,
    /// Set it from another thread to stop after the current plan.
    pub interrupted: Arc<AtomicBool>,
}

/// Why the study cannot go on. Plans that ran are in the record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemsError {
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A configuration cannot be planned.
    #[error(transparent)]
    Placing(#[from] PlacingError),
    /// The costs are not consistent.
    #[error(transparent)]
    Stitch(#[from] StitchError),
    /// A plan does not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// More tasks than there are, or fewer than two.
    #[error("{asked} tasks; the zoo has {there}, and two or more share processors")]
    Count {
        /// The number.
        asked: usize,
        /// Tasks of the zoo.
        there: usize,
    },
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// Plans, and runs the plans that the record lacks; `progress` gets what comes next.
///
/// # Errors
/// [`SystemsError`]; the record has every plan that ran before.
pub fn measure(protocol: &Protocol<'_>, progress: &dyn Fn(&str)) -> Result<Record, SystemsError> {
    let processors = protocol.costs.processors.iter();
    let processors: Vec<PlanProcessor> =
        processors.map(|(name, what)| PlanProcessor::of_record(name, what)).collect();
    let studies = protocol.counts.iter().map(|&count| {
        progress(&format!("planning for {count} tasks"));
        planned(protocol, &processors, count)
    });
    let (studies, plans): (Vec<_>, Vec<_>) =
        studies.collect::<Result<Vec<_>, SystemsError>>()?.into_iter().unzip();
    let empty = Record {
        device: String::new(),
        processors,
        hand_over_ns: protocol
            .costs
            .hand_over
            .as_ref()
            .map(|found| found.piece_ns.iter().map(|ns| ns.point()).collect()),
        rounds: protocol.rounds,
        saturation: protocol.saturation,
        studies,
    };
    let mut record = record::continued(protocol.record, empty, |found, asked| {
        let planned = |of: &Record| of.studies.iter().map(TasksStudy::unmeasured).collect();
        let (found_plans, asked_plans): (Vec<_>, Vec<_>) = (planned(found), planned(asked));
        [
            ("rounds", found.rounds != asked.rounds),
            ("waiting queries", found.saturation != asked.saturation),
            ("processors", found.processors != asked.processors),
            ("hand-over", found.hand_over_ns != asked.hand_over_ns),
            ("plans", found_plans != asked_plans),
        ]
    })?;
    for (study, plans) in plans.iter().enumerate() {
        for (index, plan) in plans.iter().enumerate() {
            if !record.studies[study].plans[index].at_once.is_empty() {
                continue;
            }
            let names = record.studies[study].tasks.join(", ");
            progress(&format!("plan {} of {} for {names}", index + 1, plans.len()));
            let device = runs(protocol, plan, &mut record.studies[study].plans[index])?;
            record.device = device;
            record::write(&record, protocol.record)?;
        }
    }
    Ok(record)
}

impl TasksStudy {
    /// The same plans, without runs.
    fn unmeasured(&self) -> Self {
        let plan = |p: &PlanRecord| PlanRecord::unmeasured(p.ways.clone(), p.priorities.clone());
        Self { plans: self.plans.iter().map(plan).collect(), ..self.clone() }
    }
}

impl PlanRecord {
    fn unmeasured(ways: Vec<Vec<PlanWay>>, priorities: Vec<u32>) -> Self {
        Self {
            ways,
            priorities,
            at_once: Vec::new(),
            waiting: 0,
            spans_ns: Vec::new(),
            apart: None,
        }
    }
}

/// Every system's plan for every configuration of the first tasks, and the distinct plans.
fn planned(
    protocol: &Protocol<'_>,
    processors: &[PlanProcessor],
    count: usize,
) -> Result<(TasksStudy, Vec<RunPlan>), SystemsError> {
    let there = protocol.tasks.tasks.len().min(protocol.costs.tasks.len());
    if !(2..=there).contains(&count) {
        return Err(SystemsError::Count { asked: count, there });
    }
    let (mut file, mut costs) = (protocol.tasks.clone(), protocol.costs.clone());
    file.tasks.truncate(count);
    costs.tasks.truncate(count);
    let zoo = costs.zoo()?;
    let names: Vec<String> = file.tasks.iter().map(|task| task.name.clone()).collect();
    let request = Request {
        saturation: protocol.saturation,
        settings: Settings { evaluations: protocol.evaluations, ..Settings::default() },
        ..Request::default()
    };
    let made = Made {
        file: &file,
        read: &ReadOptions::default(),
        request: &request,
        costs: CostsOrigin::Measured,
        processors: processors.to_vec(),
        path: protocol.record,
    };
    let mut study = TasksStudy { tasks: names, configurations: Vec::new(), plans: Vec::new() };
    let mut plans = Vec::new();
    for slos in objectives(&zoo, &Orders::of(&zoo)?.fixed, Ranges::grid)? {
        let (mut systems, mut least_violated) = (Vec::new(), 0);
        for (system, mut placing) in all(&zoo, &slos, &request)? {
            // The plans of systems are compared as they are.
            placing.plan.tasks.iter_mut().for_each(|task| task.fallbacks.clear());
            let plan = RunPlan::of(&[(0, placing.clone())], &made)?;
            let of_task = |phase: &PhaseTask| phase.priority;
            let ways = plan.tasks.iter().map(|task| task.ways.clone()).collect();
            let priorities = plan.phases[0].tasks.iter().map(of_task).collect();
            let new = PlanRecord::unmeasured(ways, priorities);
            let known = study.plans.iter().position(|known| *known == new);
            let index = known.unwrap_or_else(|| {
                study.plans.push(new);
                plans.push(plan);
                plans.len() - 1
            });
            let score = placing.plan.score;
            least_violated = placing.plan.bound.violated;
            systems.push(Planned {
                system,
                plan: index,
                violated: score.violated,
                queries_per_s: score.queries_per_s(),
            });
        }
        let objectives = slos.iter().map(|slo| (slo.accuracy_bp, slo.latency_ns)).collect();
        study.configurations.push(Configuration { objectives, systems, least_violated });
    }
    Ok((study, plans))
}

/// The plans of all systems that can run, then those of the planner.
fn all(zoo: &Zoo, slos: &[Slo], request: &Request) -> Result<Vec<(String, Placing)>, SystemsError> {
    let mut placings = Vec::new();
    for (system, placing) in place_systems(zoo, slos, request)? {
        // Some systems have no plan for a configuration.
        placings.extend(placing.ok().map(|placing| (system.to_string(), placing)));
    }
    for (name, objective) in [
        ("planned together, fewest violations", Objective::Violations),
        ("planned together, most queries/s", Objective::Throughput),
    ] {
        let request = Request { objective, ..request.clone() };
        placings.push((name.to_owned(), place(zoo.clone(), slos, &request)?));
    }
    Ok(placings)
}

/// Runs a plan; returns the device.
fn runs(
    protocol: &Protocol<'_>,
    plan: &RunPlan,
    into: &mut PlanRecord,
) -> Result<String, SystemsError> {
    let orders: usize = (1..=plan.tasks.len()).product();
    let options = RunOptions {
        engines: protocol.engines.clone(),
        limit: Limit::Queries(protocol.rounds * orders * plan.tasks.len()),
        interrupted: Arc::clone(&protocol.interrupted),
        ..RunOptions::default()
    };
    let once = run(plan, &options, &mut |_| ())?;
    let mut logs = vec![once];
    for _ in 0..protocol.rounds {
        let many = saturated(protocol, plan, &options)?;
        into.waiting = queries(&many).iter().filter(|query| query.latency_ns.is_some()).count();
        into.spans_ns.push(span_ns(&many));
        logs.push(many);
    }
    let events = || logs.iter().flat_map(|log| &log.events);
    if events().any(|e| matches!(e, RunEvent::End { interrupted: true, .. })) {
        return Err(SystemsError::Interrupted);
    }
    into.at_once = queries(&logs[0]);
    into.apart = events().filter_map(apart).reduce(f64::max);
    Ok(logs[0].header.device.clone())
}

/// A run in which many queries of each task wait from the start.
fn saturated(
    protocol: &Protocol<'_>,
    plan: &RunPlan,
    options: &RunOptions,
) -> Result<RunLog, RunError> {
    let waiting = (0..protocol.saturation as u64).collect();
    let tasks = vec![TaskArrivals::Trace(waiting); plan.tasks.len()];
    let horizon_ns = protocol.saturation.max(1) as u64;
    let plan = RunPlan { arrivals: Arrivals::Over { horizon_ns, tasks }, ..plan.clone() };
    let bound = protocol.saturation * plan.tasks.len() + 1;
    run(&plan, &RunOptions { limit: Limit::Plan, bound, ..options.clone() }, &mut |_| ())
}

fn apart(event: &RunEvent) -> Option<f64> {
    match event {
        RunEvent::Apart { share, .. } => Some(*share),
        _ => None,
    }
}

fn queries(log: &RunLog) -> Vec<Query> {
    let query = |event: &RunEvent| {
        let RunEvent::Query(query) = event else { return None };
        let latency_ns = query.latency_ns.filter(|_| query.outcome == Outcome::Done);
        let way = query.lane.and_then(|lane| log.header.lanes.get(lane)).map_or(0, |lane| lane.way);
        Some(Query { round: query.round, task: query.task, way, latency_ns })
    };
    log.events.iter().filter_map(query).collect()
}

/// Time from the first arrival to the last result.
fn span_ns(log: &RunLog) -> u64 {
    let times = || {
        log.events.iter().filter_map(|event| match event {
            RunEvent::Query(query) => Some((query.arrived_ns, query.latency_ns?)),
            _ => None,
        })
    };
    let first = times().map(|(arrived, _)| arrived).min().unwrap_or(0);
    times().map(|(arrived, ns)| arrived.saturating_add(ns)).max().unwrap_or(0).saturating_sub(first)
}
