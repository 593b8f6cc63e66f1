//! [`Summary`]: the figures of a log: violation rate, queries per second, latencies per task,
//! measured beside the plan's forecast for the same queries.

use super::{LogProcessor, Outcome, QueryRecord, RunError, RunEvent, RunLog};
use vitempo_planners::{
    multi_dnn::{Lane, Step, forecast},
    simulator::nearest_rank,
};

/// One task; ns.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSummary {
    /// Its name.
    pub name: String,
    /// Queries that arrived.
    pub queries: usize,
    /// Those that violate their objective, measured and forecast.
    pub violated: (usize, usize),
    /// Those that a full queue refused.
    pub refused: usize,
    /// Those that were lost with an engine.
    pub lost: usize,
    /// Those that an engine failed to run, or that an interruption left.
    pub failed: usize,
    /// How often the task changed its level: fell back to a faster way, or returned.
    pub switches: usize,
    /// Queries that took a fallback.
    pub fell_back: usize,
    /// Median latency of completed queries, measured, and forecast for the same queries.
    pub p50_ns: (u64, u64),
    /// 99th percentile of latency.
    pub p99_ns: (u64, u64),
    /// Means over completed queries: waiting, running, hand-over, loading.
    pub means_ns: [f64; 4],
    /// Largest difference of results from those of the whole model; `None`: not compared.
    pub apart: Option<f64>,
    /// Results that differ by more than the precision of the model explains.
    pub deviation: Option<Deviation>,
}

/// Results that are not those of the whole model.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// The output that differs most.
    pub output: String,
    /// By how much, as a share of its largest value.
    pub share: f64,
    /// The share that the precision of the model explains.
    pub most: f64,
}

/// An engine that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineLoss {
    /// Name of its processor.
    pub processor: String,
    /// Why it ended.
    pub reason: String,
    /// Number of queries that were lost with it.
    pub queries: usize,
    /// Whether it was started again when it was needed next.
    pub starts_again: bool,
}

/// The memory of an engine's process, measured beside what budgets count; bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineMemory {
    /// Name of its processor.
    pub processor: String,
    /// Resident with nothing loaded: before the run, after whole models ran on it; as it was started
    /// where none did. `None` where it was not reported.
    pub start_bytes: Option<u64>,
    /// The most that was resident after a subgraph was loaded or unloaded.
    pub resident_bytes: u64,
    /// The most memory of weights that was loaded at these times.
    pub loaded_bytes: u64,
    /// Number of measurements.
    pub measurements: usize,
}

impl EngineMemory {
    /// The most by which the resident memory rose above the start; `None` without a start.
    #[must_use]
    pub fn added_bytes(&self) -> Option<u64> {
        Some(self.resident_bytes.saturating_sub(self.start_bytes?))
    }
}

/// The figures of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// By task.
    pub tasks: Vec<TaskSummary>,
    /// Queries that arrived.
    pub queries: usize,
    /// Violations, measured and forecast.
    pub violated: (usize, usize),
    /// Completed queries per second over the time of all rounds, measured and forecast.
    pub queries_per_s: (f64, f64),
    /// Loads before the run and in queries, and their mean times, ns.
    pub loads: [(usize, f64); 2],
    /// Number of evicted subgraphs.
    pub evictions: usize,
    /// Most memory of loaded subgraphs at one time, bytes.
    pub largest_bytes: u64,
    /// Memory of engines in processes of their own, where the system reports it.
    pub memory: Vec<EngineMemory>,
    /// Engines that ended while they had work.
    pub engines_lost: Vec<EngineLoss>,
    /// How often an engine that had ended was started again.
    pub engines_started: usize,
    /// Whether the user interrupted the run before all queries had arrived.
    pub interrupted: bool,
}

impl Summary {
    /// The figures of a log.
    ///
    /// # Errors
    /// [`RunError::Replay`] where lanes and queries do not fit each other.
    pub fn of(log: &RunLog) -> Result<Self, RunError> {
        let mut queries: Vec<&QueryRecord> = log.queries().collect();
        queries.sort_by_key(|query| (query.arrived_ns, query.query));
        let planned = planned(log, &queries)?;
        let all: Vec<(&QueryRecord, Option<u64>)> = queries.into_iter().zip(planned).collect();
        let task = |(index, name): (usize, &String)| {
            let own: Vec<_> = all.iter().filter(|(q, _)| q.task == index).copied().collect();
            task_summary(log, index, name, &own)
        };
        let tasks: Vec<TaskSummary> = log.header.tasks.iter().enumerate().map(task).collect();
        let sum = |of: fn(&TaskSummary) -> usize| tasks.iter().map(of).sum::<usize>();
        let mut summary = Self {
            queries: all.len(),
            violated: (sum(|t| t.violated.0), sum(|t| t.violated.1)),
            queries_per_s: rates(&all),
            tasks,
            loads: [(0, 0.0); 2],
            evictions: 0,
            largest_bytes: 0,
            memory: memory(log),
            engines_lost: Vec::new(),
            engines_started: 0,
            interrupted: false,
        };
        log.events.iter().for_each(|event| summary.add(log, event));
        for (count, ns) in &mut summary.loads {
            *ns /= (*count).max(1) as f64;
        }
        Ok(summary)
    }

    /// Violation rate, measured and forecast.
    #[must_use]
    pub fn violation_rate(&self) -> (f64, f64) {
        let share = |count: usize| count as f64 / self.queries.max(1) as f64;
        (share(self.violated.0), share(self.violated.1))
    }

    fn add(&mut self, log: &RunLog, event: &RunEvent) {
        match event {
            RunEvent::Load { ns, when, .. } => {
                let (count, sum) = &mut self.loads[*when as usize];
                *count += 1;
                *sum += *ns as f64;
            }
            RunEvent::Evict { .. } => self.evictions += 1,
            RunEvent::EngineLost { processor, reason, queries, starts_again, .. } => {
                let found = log.header.processors.get(*processor);
                self.engines_lost.push(EngineLoss {
                    processor: found.map_or_else(String::new, |p| p.name.clone()),
                    reason: reason.clone(),
                    queries: queries.len(),
                    starts_again: *starts_again,
                });
            }
            RunEvent::EngineStarted { .. } => self.engines_started += 1,
            RunEvent::End { interrupted, largest_bytes, .. } => {
                (self.interrupted, self.largest_bytes) = (*interrupted, *largest_bytes);
            }
            _ => {}
        }
    }
}

/// The memory of each engine that reported it.
fn memory(log: &RunLog) -> Vec<EngineMemory> {
    let of_engine = |(index, engine): (usize, &LogProcessor)| {
        let found: Vec<(u64, u64)> = log
            .events
            .iter()
            .filter_map(|event| match event {
                RunEvent::Resident { processor, resident_bytes, loaded_bytes, .. } => {
                    (*processor == index).then_some((*resident_bytes, *loaded_bytes))
                }
                _ => None,
            })
            .collect();
        let empty = found.first().filter(|(_, loaded)| *loaded == 0).map(|(resident, _)| *resident);
        Some(EngineMemory {
            processor: engine.name.clone(),
            start_bytes: empty.or(engine.resident_bytes),
            resident_bytes: found.iter().map(|(resident, _)| *resident).max()?,
            loaded_bytes: found.iter().map(|(_, loaded)| *loaded).max()?,
            measurements: found.len(),
        })
    };
    log.header.processors.iter().enumerate().filter_map(of_engine).collect()
}

/// The planned end of each query that has a way.
fn planned(log: &RunLog, queries: &[&QueryRecord]) -> Result<Vec<Option<u64>>, RunError> {
    let lane = |lane: &super::LogLane| Lane {
        steps: lane.steps.iter().map(|&(processor, ns)| Step { processor, ns }).collect(),
        priority: lane.priority,
    };
    let lanes: Vec<Lane> = log.header.lanes.iter().map(lane).collect();
    let known: Vec<(u64, usize)> =
        queries.iter().filter_map(|query| Some((query.arrived_ns, query.lane?))).collect();
    let factors = log.header.slowdown.clone().unwrap_or_default();
    let ends = forecast(log.header.processors.len(), &factors, &lanes, &known)
        .map_err(|source| RunError::Replay { path: log.path.clone(), source })?;
    let mut ends = ends.into_iter();
    Ok(queries.iter().map(|query| query.lane.and_then(|_| ends.next())).collect())
}

fn task_summary(
    log: &RunLog,
    task: usize,
    name: &str,
    own: &[(&QueryRecord, Option<u64>)],
) -> TaskSummary {
    let count = |outcome: Outcome| own.iter().filter(|(q, _)| q.outcome == outcome).count();
    let done: Vec<&(&QueryRecord, Option<u64>)> =
        own.iter().filter(|(q, _)| q.outcome == Outcome::Done).collect();
    let mut measured: Vec<u64> = done.iter().filter_map(|(q, _)| q.latency_ns).collect();
    let latency =
        |(query, end): &(&QueryRecord, Option<u64>)| Some((*end)?.saturating_sub(query.arrived_ns));
    let mut expected: Vec<u64> = done.iter().filter_map(|one| latency(one)).collect();
    measured.sort_unstable();
    expected.sort_unstable();
    let late = |one: &&(&QueryRecord, Option<u64>)| {
        let lane = one.0.lane.and_then(|lane| log.header.lanes.get(lane));
        lane.is_none_or(|lane| !lane.accurate || latency(one).is_none_or(|ns| ns > lane.slo_ns))
    };
    let is_fallback = |query: &QueryRecord| {
        let lane = query.lane.and_then(|lane| log.header.lanes.get(lane));
        lane.is_some_and(|lane| lane.level > 0)
    };
    let mean = |of: fn(&QueryRecord) -> u64| {
        done.iter().map(|(q, _)| of(q) as f64).sum::<f64>() / done.len().max(1) as f64
    };
    let deviations = || deviations(log, task);
    let is_beyond = |found: &Deviation| found.share > found.most;
    TaskSummary {
        name: name.to_owned(),
        queries: own.len(),
        violated: (own.iter().filter(|(q, _)| q.violated).count(), own.iter().filter(late).count()),
        refused: count(Outcome::Refused),
        lost: count(Outcome::Lost),
        failed: count(Outcome::Failed) + count(Outcome::Interrupted),
        switches: log
            .events
            .iter()
            .filter(|event| matches!(event, RunEvent::Switch { task: own, .. } if *own == task))
            .count(),
        fell_back: own.iter().filter(|(query, _)| is_fallback(query)).count(),
        p50_ns: (quantile(&measured, 0.5), quantile(&expected, 0.5)),
        p99_ns: (quantile(&measured, 0.99), quantile(&expected, 0.99)),
        means_ns: [
            mean(|q| q.waiting_ns),
            mean(|q| q.running_ns),
            mean(|q| q.handover_ns),
            mean(|q| q.loading_ns),
        ],
        apart: deviations().map(|found| found.share).reduce(f64::max),
        deviation: deviations()
            .filter(is_beyond)
            .max_by(|a, b| (a.share / a.most).total_cmp(&(b.share / b.most))),
    }
}

/// How far the results of each way of a task are from those of the whole model.
fn deviations(log: &RunLog, task: usize) -> impl Iterator<Item = Deviation> {
    log.events.iter().filter_map(move |event| match event {
        RunEvent::Apart { lane, share, output, most } => {
            let is_own = log.header.lanes.get(*lane)?.task == task;
            let most = most.unwrap_or(f64::INFINITY);
            is_own.then(|| Deviation { output: output.clone(), share: *share, most })
        }
        _ => None,
    })
}

/// Queries per second, measured and forecast: over the time from the first arrival of each round to
/// its last result.
fn rates(all: &[(&QueryRecord, Option<u64>)]) -> (f64, f64) {
    let rounds: std::collections::BTreeSet<usize> = all.iter().map(|(q, _)| q.round).collect();
    let (mut measured_ns, mut planned_ns, mut done, mut known) = (0u64, 0u64, 0usize, 0usize);
    for round in rounds {
        let own = || all.iter().filter(move |(q, _)| q.round == round);
        let first = own().map(|(q, _)| q.arrived_ns).min().unwrap_or(0);
        let end = own().filter_map(|(q, _)| Some(q.arrived_ns + q.latency_ns?)).max();
        measured_ns += end.map_or(0, |end| end.saturating_sub(first));
        let end = own().filter_map(|(_, end)| *end).max();
        planned_ns += end.map_or(0, |end| end.saturating_sub(first));
        done += own().filter(|(q, _)| q.outcome == Outcome::Done).count();
        known += own().filter(|(_, end)| end.is_some()).count();
    }
    let rate = |count: usize, ns: u64| count as f64 / (ns.max(1) as f64 / 1e9);
    (rate(done, measured_ns), rate(known, planned_ns))
}

/// Nearest rank among sorted values; 0 without any.
pub(super) fn quantile(sorted: &[u64], share: f64) -> u64 {
    nearest_rank(sorted, share).unwrap_or(0)
}
