//! [`replay`]: runs queries whose service times are known, as measured on engines: the queues of
//! [`Dispatcher`] with a simulated clock. [`forecast`]: the same with planned times and contention,
//! by the evaluator's own event loop. Times are ns.

use super::{
    dispatcher::{Admission, Dispatcher, Ended, Start},
    expectation::Step,
    lanes::Lanes,
    model::MOST_PROCESSORS,
    queueing::Queueing,
};
use std::{cmp::Reverse, collections::BinaryHeap, ops::ControlFlow};

/// A way of a task, in pieces, with the priority of its queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Processors with planned times.
    pub steps: Vec<Step>,
    /// The lowest number is next.
    pub priority: u32,
}

/// A query that takes a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Time of its arrival; queries are sorted by it.
    pub arrived_ns: u64,
    /// Number of the lane.
    pub lane: usize,
    /// Service time of each step.
    pub service_ns: Vec<u64>,
}

/// A step of a query in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedStep {
    /// Index of the query.
    pub query: usize,
    /// Number of the step.
    pub step: usize,
    /// Index of the processor.
    pub processor: usize,
    /// From when.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
}

/// Steps in the order of their starts, and the end of each query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Steps that ran.
    pub steps: Vec<ReplayedStep>,
    /// End of each query; `None` for those that a full queue refused.
    pub completed_ns: Vec<Option<u64>>,
}

/// Why queries cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A lane without steps, or with a processor that does not exist.
    #[error("lane {0} has no steps, or one on a processor that does not exist")]
    Lane(usize),
    /// A query that does not fit its lane, or arrives before an earlier one.
    #[error(
        "query {0} names an unknown lane, has not one time for each step, or arrives too early"
    )]
    Query(usize),
    /// More processors than plans may have.
    #[error("{0} processors; at most {MOST_PROCESSORS}")]
    Processors(usize),
}

/// Replays queries on processors whose queues hold at most `bound` queries.
///
/// # Errors
/// [`ReplayError`] naming the lane or the query.
pub fn replay(
    processors: usize,
    bound: usize,
    lanes: &[Lane],
    queries: &[Replayed],
) -> Result<Replay, ReplayError> {
    let mut queues = Dispatcher::new(processors, bound);
    for (number, lane) in lanes.iter().enumerate() {
        let steps = lane.steps.iter().map(|step| step.processor).collect();
        queues.add_lane(steps, lane.priority).ok_or(ReplayError::Lane(number))?;
    }
    check(lanes, queries)?;
    let mut replay = Replay { steps: Vec::new(), completed_ns: vec![None; queries.len()] };
    // By time, then in the order in which they were scheduled.
    let mut ends: BinaryHeap<Reverse<(u64, usize, usize)>> = BinaryHeap::new();
    let (mut starts, mut arriving) = (Vec::new(), queries.iter().enumerate().peekable());
    loop {
        let next_end = ends.peek().map(|Reverse((at, ..))| *at);
        let arrives = arriving.next_if(|(_, q)| next_end.is_none_or(|end| q.arrived_ns <= end));
        let now = if let Some((number, query)) = arrives {
            // A refused query has no end.
            let _: Admission = queues.arrive(query.lane, number, &mut starts);
            query.arrived_ns
        } else if let Some(Reverse((at, _, processor))) = ends.pop() {
            if let Some(Ended::Finished(query)) = queues.end(processor, &mut starts) {
                replay.completed_ns[query] = Some(at);
            }
            at
        } else {
            return Ok(replay);
        };
        for Start { query, step, processor } in starts.drain(..) {
            let end_ns = now.saturating_add(queries[query].service_ns[step]);
            ends.push(Reverse((end_ns, replay.steps.len(), processor)));
            replay.steps.push(ReplayedStep { query, step, processor, start_ns: now, end_ns });
        }
    }
}

fn check(lanes: &[Lane], queries: &[Replayed]) -> Result<(), ReplayError> {
    let mut before = 0;
    for (number, query) in queries.iter().enumerate() {
        let steps = lanes.get(query.lane).map(|lane| lane.steps.len());
        if steps != Some(query.service_ns.len()) || query.arrived_ns < before {
            return Err(ReplayError::Query(number));
        }
        before = query.arrived_ns;
    }
    Ok(())
}

/// The planned end of each query, given by arrival and lane: with the planned times of lanes, with
/// slowdown by busy processors ([`super::Contention::factors`]), without bounds of queues.
///
/// # Errors
/// [`ReplayError`] naming the lane or the query.
pub fn forecast(
    processors: usize,
    factors: &[Vec<f64>],
    lanes: &[Lane],
    queries: &[(u64, usize)],
) -> Result<Vec<u64>, ReplayError> {
    if processors > MOST_PROCESSORS {
        return Err(ReplayError::Processors(processors));
    }
    let runs = |lane: &Lane| {
        !lane.steps.is_empty() && lane.steps.iter().all(|step| step.processor < processors)
    };
    if let Some(lane) = lanes.iter().position(|lane| !runs(lane)) {
        return Err(ReplayError::Lane(lane));
    }
    let mut before = 0;
    for (number, &(at, lane)) in queries.iter().enumerate() {
        if lane >= lanes.len() || at < before {
            return Err(ReplayError::Query(number));
        }
        before = at;
    }
    let filled = Lanes::of(lanes, queries);
    // A lane passes its queries on in the order of their arrivals.
    let mut own: Vec<std::vec::IntoIter<usize>> = (0..lanes.len())
        .map(|lane| {
            let of_lane = queries.iter().enumerate().filter(|(_, query)| query.1 == lane);
            of_lane.map(|(number, _)| number).collect::<Vec<_>>().into_iter()
        })
        .collect();
    let mut completed = vec![0; queries.len()];
    Queueing::default().run(&filled, processors, factors, |done| {
        if let Some(query) = own[filled.lanes[done.lane].task].next() {
            completed[query] = done.now_ns;
        }
        ControlFlow::Continue(())
    });
    Ok(completed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(steps: &[(usize, u64)], priority: u32) -> Lane {
        let step = |&(processor, ns): &(usize, u64)| Step { processor, ns };
        Lane { steps: steps.iter().map(step).collect(), priority }
    }

    fn query(arrived_ns: u64, lane: usize, service_ns: &[u64]) -> Replayed {
        Replayed { arrived_ns, lane, service_ns: service_ns.to_vec() }
    }

    #[test]
    fn queries_wait_for_processors_and_for_each_other() {
        let lanes = [lane(&[(0, 10), (1, 5)], 0), lane(&[(1, 20)], 0)];
        let queries = [query(0, 0, &[10, 5]), query(0, 1, &[20]), query(3, 0, &[12, 6])];
        let found = replay(2, 9, &lanes, &queries).expect("a replay");
        assert_eq!(found.completed_ns, [Some(25), Some(20), Some(31)]);
        let order: Vec<_> = found.steps.iter().map(|s| (s.query, s.step, s.start_ns)).collect();
        assert_eq!(order, [(0, 0, 0), (1, 0, 0), (2, 0, 10), (0, 1, 20), (2, 1, 25)]);
        let planned = [(0, 0), (0, 1), (3, 0)];
        assert_eq!(forecast(2, &[], &lanes, &planned), Ok(vec![25, 20, 30]));
        // While both are busy, the second processor takes twice as long.
        let factors = [vec![1.0, 1.0], vec![2.0, 1.0]];
        assert_eq!(forecast(2, &factors, &lanes, &[(0, 0), (0, 1)]), Ok(vec![30, 30 - 5]));
    }

    #[test]
    fn what_cannot_be_replayed_is_named() {
        let lanes = [lane(&[(0, 1)], 0)];
        let refused = |queries: &[Replayed]| replay(1, 1, &lanes, queries).map(|_| ());
        assert_eq!(refused(&[query(0, 1, &[1])]), Err(ReplayError::Query(0)));
        assert_eq!(refused(&[query(0, 0, &[1, 2])]), Err(ReplayError::Query(0)));
        assert_eq!(refused(&[query(5, 0, &[1]), query(4, 0, &[1])]), Err(ReplayError::Query(1)));
        assert_eq!(replay(1, 1, &[lane(&[(1, 1)], 0)], &[]).map(|_| ()), Err(ReplayError::Lane(0)));
        assert_eq!(forecast(1, &[], &[lane(&[], 0)], &[]), Err(ReplayError::Lane(0)));
        assert_eq!(forecast(9, &[], &lanes, &[]), Err(ReplayError::Processors(9)));
        assert_eq!(forecast(1, &[], &lanes, &[(0, 3)]), Err(ReplayError::Query(0)));
        let full = [query(0, 0, &[9]), query(0, 0, &[9]), query(0, 0, &[9])];
        let found = replay(1, 1, &lanes, &full).expect("a replay");
        assert_eq!(found.completed_ns, [Some(9), Some(18), None]);
    }
}
