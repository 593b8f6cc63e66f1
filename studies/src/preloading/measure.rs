//! [`measure`]: plans every configuration of the grid, and runs them one after the other with each
//! memory budget.

use super::{BudgetRun, Measured, Record, Resident};
use crate::record::{self, RecordError};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};
use vitempo::{
    graph::onnx::ReadOptions,
    plan::{
        multi_dnn::{Placing, PlacingError, Request, place},
        run::{
            CostsOrigin, EngineMemory, Made, PlanProcessor, PlanTask, RunError, RunOptions,
            RunPlan, Summary, memory::Eviction, run,
        },
        stitch::{record::Record as Costs, systems::objectives},
    },
    planners::{
        multi_dnn::{Arrivals, Settings, TaskArrivals, systems::Orders},
        stitch::{StitchError, slo::Ranges},
    },
    profiler::{WorkerCommand, live::Workers},
    zoo::tasks::TasksFile,
};

/// What is measured.
#[derive(Debug)]
pub struct Protocol<'a> {
    /// The zoo.
    pub tasks: &'a TasksFile,
    /// Its costs, measured on the engines that run.
    pub costs: &'a Costs,
    /// Budgets, as shares of the weights of all subgraphs that the plans use.
    pub budgets: Vec<f64>,
    /// Time between two queries of a task, ns.
    pub period_ns: u64,
    /// Queries of each task in each configuration.
    pub queries: usize,
    /// Plans that the planner evaluates for one configuration.
    pub evaluations: u64,
    /// How to start the processes of engines.
    pub worker: WorkerCommand,
    /// Whether engines keep their cores awake between queries.
    pub keep_awake: bool,
    /// Where the record is; budgets that it has a run of are not run again.
    pub record: &'a Path,
    /// Set it from another thread to stop after the current run.
    pub interrupted: Arc<AtomicBool>,
}

/// Why the study cannot go on. Runs that ended are in the record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreloadingError {
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
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// Plans, and runs the budgets that the record lacks; `progress` gets what comes next.
///
/// # Errors
/// [`PreloadingError`]; the record has every run that ended before.
pub fn measure(
    protocol: &Protocol<'_>,
    progress: &dyn Fn(&str),
) -> Result<Record, PreloadingError> {
    progress("planning");
    let (plan, forecast) = planned(protocol)?;
    let empty = Record {
        device: String::new(),
        processors: plan.processors.clone(),
        tasks: plan.tasks.iter().map(|task| task.name.clone()).collect(),
        period_ns: protocol.period_ns,
        queries: protocol.queries,
        configurations: plan.phases.len(),
        full_bytes: plan.tasks.iter().map(used_bytes).sum(),
        kept_awake: protocol.keep_awake,
        runs: Vec::new(),
    };
    let mut record = record::continued(protocol.record, empty, |found, asked| {
        [
            ("tasks", found.tasks != asked.tasks),
            ("periods", found.period_ns != asked.period_ns),
            ("queries", found.queries != asked.queries),
            ("processors", found.processors != asked.processors),
            ("plans", found.full_bytes != asked.full_bytes),
            ("cores kept awake", found.kept_awake != asked.kept_awake),
        ]
    })?;
    for &share in &protocol.budgets {
        for evicts_planned in [false, true] {
            let is_it = |run: &BudgetRun| {
                (run.share - share).abs() < 1e-9 && run.evicts_planned == evicts_planned
            };
            if record.runs.iter().any(is_it) {
                continue;
            }
            let budget_bytes = (record.full_bytes as f64 * share) as u64;
            progress(&format!("{budget_bytes} bytes of {}", record.full_bytes));
            let measured = one(protocol, &plan, budget_bytes, evicts_planned, &mut record.device)?;
            let measured = measured.map(|found| Measured { forecast, ..found });
            record.runs.push(BudgetRun { share, evicts_planned, budget_bytes, measured });
            record::write(&record, protocol.record)?;
        }
    }
    Ok(record)
}

/// A plan with a phase for each configuration of the grid, and the violations that are forecast.
fn planned(protocol: &Protocol<'_>) -> Result<(RunPlan, usize), PreloadingError> {
    let zoo = protocol.costs.zoo()?;
    let period = TaskArrivals::Periodic { period_ns: protocol.period_ns, phase_ns: 0 };
    let phase_ns = protocol.period_ns.saturating_mul(protocol.queries as u64);
    let request = Request {
        arrivals: vec![(None, period.clone())],
        horizon_ns: phase_ns,
        settings: Settings { evaluations: protocol.evaluations, ..Settings::default() },
        ..Request::default()
    };
    let mut placings: Vec<(u64, Placing)> = Vec::new();
    for slos in objectives(&zoo, &Orders::of(&zoo)?.fixed, Ranges::grid)? {
        let mut placing = place(zoo.clone(), &slos, &request)?;
        // What the budget changes is to be seen, not what faster variants make up for.
        placing.plan.tasks.iter_mut().for_each(|task| task.fallbacks.clear());
        placings.push((phase_ns.saturating_mul(placings.len() as u64), placing));
    }
    let processors = protocol.costs.processors.iter();
    let made = Made {
        file: protocol.tasks,
        read: &ReadOptions::default(),
        request: &request,
        costs: CostsOrigin::Measured,
        processors: processors.map(|(name, what)| PlanProcessor::of_record(name, what)).collect(),
        path: protocol.record,
    };
    let mut plan = RunPlan::of(&placings, &made)?;
    plan.arrivals = Arrivals::Over {
        horizon_ns: phase_ns.saturating_mul(placings.len() as u64),
        tasks: vec![period; plan.tasks.len()],
    };
    let forecast = plan.forecast.iter().map(|forecast| forecast.violated as usize).sum();
    Ok((plan, forecast))
}

/// Weights of the subgraphs of a task's ways, each on its processors.
fn used_bytes(task: &PlanTask) -> u64 {
    let mut used: BTreeSet<(&str, usize, &str)> = BTreeSet::new();
    for way in &task.ways {
        for piece in &way.pieces {
            for position in piece.first..=piece.last {
                let variant = way.variants.get(position - 1).map_or("", String::as_str);
                used.insert((&piece.processor, position, variant));
            }
        }
    }
    let bytes = |(_, position, variant): &(&str, usize, &str)| {
        let own = task.subgraphs.iter();
        let mut own = own.filter(|s| s.position == *position && s.variant == *variant);
        own.next().map_or(0, |subgraph| subgraph.memory_bytes)
    };
    used.iter().map(bytes).sum()
}

/// Runs all configurations with a budget; `None` where a piece does not fit into it.
fn one(
    protocol: &Protocol<'_>,
    plan: &RunPlan,
    budget_bytes: u64,
    evicts_planned: bool,
    device: &mut String,
) -> Result<Option<Measured>, PreloadingError> {
    let eviction =
        if evicts_planned { Eviction::LeastPlanned } else { Eviction::LeastRecentlyUsed };
    let options = RunOptions {
        memory_bytes: Some(budget_bytes),
        eviction,
        workers: Some(Workers {
            keep_awake: protocol.keep_awake,
            ..Workers::new(protocol.worker.clone())
        }),
        interrupted: Arc::clone(&protocol.interrupted),
        ..RunOptions::default()
    };
    let log = match run(plan, &options, &mut |_| ()) {
        Err(RunError::Memory { .. }) => return Ok(None),
        found => found?,
    };
    log.header.device.clone_into(device);
    let summary = Summary::of(&log)?;
    if summary.interrupted {
        return Err(PreloadingError::Interrupted);
    }
    let [_, (loads, mean_load_ns)] = summary.loads;
    let resident = |memory: &EngineMemory| Resident {
        processor: memory.processor.clone(),
        start_bytes: memory.start_bytes,
        resident_bytes: memory.resident_bytes,
        loaded_bytes: memory.loaded_bytes,
    };
    Ok(Some(Measured {
        queries: summary.queries,
        violated: summary.violated.0,
        forecast: 0,
        loads,
        mean_load_ns,
        evictions: summary.evictions,
        loaded_bytes: summary.largest_bytes,
        resident: summary.memory.iter().map(resident).collect(),
        apart: summary.tasks.iter().filter_map(|task| task.apart).reduce(f64::max),
    }))
}
