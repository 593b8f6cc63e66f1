//! [`replay()`]: the queries of a log in the simulator, with their measured service times (loading,
//! transfer of inputs, running) and arrivals: simulated beside measured. What the simulator lacks is
//! hand-over outside the engines, so the difference is what that costs.

use super::{
    LogLane, Outcome, PieceRecord, QueryRecord, RunError, RunEvent, RunLog, summary::quantile,
};
use std::collections::BTreeMap;
use vitempo_planners::multi_dnn::{Lane, Replayed, Step, replay as simulate};

/// One task, measured and simulated; ns.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedTask {
    /// Its name; `None` for all tasks together.
    pub name: Option<String>,
    /// Number of queries.
    pub queries: usize,
    /// Median latency, measured and simulated.
    pub p50_ns: (u64, u64),
    /// 99th percentile of latency.
    pub p99_ns: (u64, u64),
    /// Mean latency.
    pub mean_ns: (f64, f64),
    /// Mean time between two results; `None` with fewer than two.
    pub period_ns: Option<(f64, f64)>,
}

/// A log in the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedLog {
    /// Each task, then all together.
    pub tasks: Vec<ReplayedTask>,
    /// Queries of the log that did not complete, which are left out.
    pub left_out: usize,
    /// Pieces that start at another place in the order of their processor than in the log.
    pub out_of_order: usize,
    /// Number of pieces.
    pub pieces: usize,
    /// How often tasks changed their level; each query is simulated on the way that it took.
    pub switches: usize,
    /// Simulated start and end of each piece, by query and number of the piece.
    pub steps: BTreeMap<(usize, usize), (u64, u64)>,
}

impl ReplayedTask {
    /// Simulated over measured mean latency, minus 1.
    #[must_use]
    pub fn latency_error(&self) -> f64 {
        self.mean_ns.1 / self.mean_ns.0.max(1.0) - 1.0
    }

    /// Simulated over measured period, minus 1.
    #[must_use]
    pub fn period_error(&self) -> Option<f64> {
        self.period_ns.map(|(measured, simulated)| simulated / measured.max(1.0) - 1.0)
    }
}

/// Replays the completed queries of a log.
///
/// # Errors
/// [`RunError`] where nothing completed, or a query does not fit its lane.
pub fn replay(log: &RunLog) -> Result<ReplayedLog, RunError> {
    let lanes: Vec<Lane> = log.header.lanes.iter().map(lane).collect();
    let mut done: Vec<&QueryRecord> =
        log.queries().filter(|query| query.outcome == Outcome::Done).collect();
    done.sort_by_key(|query| (query.arrived_ns, query.query));
    if done.is_empty() {
        return Err(RunError::NothingCompleted(log.path.clone()));
    }
    let left_out = log.queries().count() - done.len();
    let queries: Vec<Replayed> = done.iter().map(|query| replayed(query)).collect();
    let found = simulate(log.header.processors.len(), usize::MAX, &lanes, &queries)
        .map_err(|source| RunError::Replay { path: log.path.clone(), source })?;
    let ends: Vec<(u64, u64)> = done
        .iter()
        .zip(&found.completed_ns)
        .map(|(query, end)| {
            let measured = query.arrived_ns + query.latency_ns.unwrap_or(0);
            (measured, end.unwrap_or(query.arrived_ns))
        })
        .collect();
    let all = || done.iter().copied().zip(ends.iter().copied());
    let mut tasks = Vec::new();
    for (task, name) in log.header.tasks.iter().enumerate() {
        let own: Vec<_> = all().filter(|(query, _)| query.task == task).collect();
        if !own.is_empty() {
            tasks.push(compared(Some(name.clone()), &own));
        }
    }
    tasks.push(compared(None, &all().collect::<Vec<_>>()));
    let order = |steps: &mut Vec<(u64, usize, usize, usize)>| {
        steps.sort_unstable();
        let mut by_processor: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for &(_, processor, query, step) in steps.iter() {
            by_processor.entry(processor).or_default().push((query, step));
        }
        by_processor
    };
    let simulated = found.steps.iter();
    let mut simulated: Vec<_> =
        simulated.map(|s| (s.start_ns, s.processor, done[s.query].query, s.step)).collect();
    let mut measured: Vec<_> = done.iter().flat_map(|query| started(log, query)).collect();
    let (first, second) = (order(&mut measured), order(&mut simulated));
    let differ = |(processor, own): (&usize, &Vec<(usize, usize)>)| {
        let other = second.get(processor).map_or(&[][..], Vec::as_slice);
        own.iter().zip(other).filter(|(a, b)| a != b).count()
    };
    let steps = found.steps.iter();
    Ok(ReplayedLog {
        tasks,
        left_out,
        out_of_order: first.iter().map(differ).sum(),
        pieces: found.steps.len(),
        switches: log.events.iter().filter(|e| matches!(e, RunEvent::Switch { .. })).count(),
        steps: steps.map(|s| ((done[s.query].query, s.step), (s.start_ns, s.end_ns))).collect(),
    })
}

fn lane(lane: &LogLane) -> Lane {
    let step = |&(processor, ns): &(usize, u64)| Step { processor, ns };
    Lane { steps: lane.steps.iter().map(step).collect(), priority: lane.priority }
}

fn replayed(query: &QueryRecord) -> Replayed {
    let service = |piece: &PieceRecord| {
        piece.loading_ns.saturating_add(piece.feed_ns).saturating_add(piece.run_ns)
    };
    Replayed {
        arrived_ns: query.arrived_ns,
        lane: query.lane.unwrap_or(usize::MAX),
        service_ns: query.pieces.iter().map(service).collect(),
    }
}

/// When each piece of a query started: time, processor, query, step.
fn started<'a>(
    log: &'a RunLog,
    query: &'a QueryRecord,
) -> impl Iterator<Item = (u64, usize, usize, usize)> + 'a {
    let steps = query.lane.and_then(|lane| log.header.lanes.get(lane));
    let steps = steps.map_or(&[][..], |lane| lane.steps.as_slice());
    let pieces = query.pieces.iter().zip(steps).enumerate();
    pieces
        .map(|(step, (piece, (processor, _)))| (piece.dispatched_ns, *processor, query.query, step))
}

fn compared(name: Option<String>, own: &[(&QueryRecord, (u64, u64))]) -> ReplayedTask {
    let latencies = |end: fn(&(u64, u64)) -> u64| -> Vec<u64> {
        let mut found: Vec<u64> =
            own.iter().map(|(query, ends)| end(ends).saturating_sub(query.arrived_ns)).collect();
        found.sort_unstable();
        found
    };
    let (measured, simulated) = (latencies(|ends| ends.0), latencies(|ends| ends.1));
    let both = |share: f64| (quantile(&measured, share), quantile(&simulated, share));
    let mean = |of: &[u64]| of.iter().map(|ns| *ns as f64).sum::<f64>() / of.len().max(1) as f64;
    let period = |end: fn(&(u64, u64)) -> u64| {
        let ends = || own.iter().map(|(_, ends)| end(ends));
        let (first, last) = (ends().min()?, ends().max()?);
        (own.len() > 1).then(|| (last - first) as f64 / (own.len() - 1) as f64)
    };
    ReplayedTask {
        name,
        queries: own.len(),
        p50_ns: both(0.5),
        p99_ns: both(0.99),
        mean_ns: (mean(&measured), mean(&simulated)),
        period_ns: period(|ends| ends.0).zip(period(|ends| ends.1)),
    }
}

#[cfg(test)]
mod tests;
