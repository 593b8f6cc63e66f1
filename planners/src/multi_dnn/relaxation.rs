//! Upper bounds on the number of queries that meet their objectives in any plan: waiting is relaxed
//! until the problem can be solved exactly. Each bound holds for every plan, also with several ways
//! and any priorities, because contention, fetching and ties can only add time.
//!
//! | arrivals | relaxation |
//! |---|---|
//! | at once | each processor works without gaps, in the order of deadlines, on pieces of any size: for each deadline, the queries up to it take no more than that of each processor. Dynamic programming over the load of all processors |
//! | any | all processors are one that is as fast as all together, and queries from a point in time on arrive at that point (Moore 1968); summed over the best division of time |

use super::{
    candidates::{Loaded, unbeaten},
    model::{Load, MOST_PROCESSORS},
    policy::Way,
};
use std::collections::BinaryHeap;

/// Largest number of states per number of queries that meet their objective; with more, loads are
/// rounded down.
const MOST_STATES: usize = 1500;
/// Largest number of points at which time is divided.
const MOST_DIVISIONS: usize = 24;

#[derive(Clone, Debug)]
struct State {
    load: Load,
    /// By task in the order of deadlines.
    picks: Vec<Option<Way>>,
}

/// The most tasks whose queries, arriving at once, can meet their objectives together, and a way
/// for each of them. `options`: by task, the ways that can meet it alone.
pub(super) fn most_met(options: &[Vec<Loaded>], deadlines_ns: &[u64]) -> (usize, Vec<Option<Way>>) {
    let mut tasks: Vec<usize> = (0..options.len()).collect();
    tasks.sort_by_key(|&task| deadlines_ns[task]);
    // By number of tasks that meet their objective.
    let mut states = vec![vec![State { load: [0; MOST_PROCESSORS], picks: Vec::new() }]];
    for &task in &tasks {
        states = extended(&states, &unbeaten(&options[task]), deadlines_ns[task]);
    }
    let most = states.len() - 1;
    let balanced = |state: &&State| state.load.iter().max().copied();
    let best = states[most].iter().min_by_key(balanced);
    let mut picks = vec![None; options.len()];
    for (&task, pick) in tasks.iter().zip(best.map_or(&[][..], |state| &state.picks)) {
        picks[task] = *pick;
    }
    (most, picks)
}

fn extended(states: &[Vec<State>], options: &[Loaded], deadline_ns: u64) -> Vec<Vec<State>> {
    let mut next: Vec<Vec<State>> = vec![Vec::new(); states.len() + 1];
    for (met, states) in states.iter().enumerate() {
        for state in states {
            let with = |load: Load, pick: Option<Way>| State {
                load,
                picks: state.picks.iter().copied().chain([pick]).collect(),
            };
            next[met].push(with(state.load, None));
            for option in options {
                let mut load = state.load;
                for (sum, ns) in load.iter_mut().zip(&option.load) {
                    *sum = sum.saturating_add(*ns);
                }
                if load.iter().all(|&ns| ns <= deadline_ns) {
                    next[met + 1].push(with(load, Some(option.way)));
                }
            }
        }
    }
    while next.last().is_some_and(Vec::is_empty) {
        next.pop();
    }
    next.into_iter().map(reduced).collect()
}

/// States that no other dominates; loads are rounded down until there are few enough of them.
fn reduced(mut states: Vec<State>) -> Vec<State> {
    let mut grid = 1u64;
    loop {
        states.sort_by_key(|state| {
            (state.load.iter().fold(0u64, |sum, &ns| sum.saturating_add(ns)), state.load)
        });
        let mut front: Vec<State> = Vec::new();
        for state in &states {
            let beaten = |by: &State| by.load.iter().zip(&state.load).all(|(a, b)| a <= b);
            if !front.iter().any(beaten) {
                front.push(state.clone());
            }
            if front.len() > MOST_STATES {
                break;
            }
        }
        if front.len() <= MOST_STATES {
            return front;
        }
        let largest = states.iter().flat_map(|s| s.load).max().unwrap_or(0);
        grid = (grid * 2).max(largest / 256).max(2);
        for state in &mut states {
            state.load.iter_mut().for_each(|ns| *ns -= *ns % grid);
        }
    }
}

/// A query for the relaxation to one fast processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub arrival_ns: u64,
    pub deadline_ns: u64,
    /// The least load on all processors together, ns; `None`: the query cannot meet its objective.
    pub least_ns: Option<u64>,
}

/// A lower bound on the number of these queries, sorted by arrival, that violate their objective.
pub(super) fn least_violated(queries: &[Demand], processors: usize) -> u64 {
    let count = queries.len();
    let divisions = MOST_DIVISIONS.min(count);
    let point = |k: usize| (count * k).checked_div(divisions).unwrap_or(0);
    // By division: the most violations that are proven up to it.
    let mut sure = vec![0u64; divisions + 1];
    for end in 1..=divisions {
        for start in 0..end {
            let within = violated_within(&queries[point(start)..point(end)], processors);
            sure[end] = sure[end].max(sure[start] + within);
        }
    }
    sure.last().copied().unwrap_or(0)
}

/// Moore's algorithm: queries are added in the order of deadlines, and the longest is dropped
/// whenever one would be late.
fn violated_within(queries: &[Demand], processors: usize) -> u64 {
    let Some(start) = queries.iter().map(|q| q.arrival_ns).min() else { return 0 };
    let mut sorted: Vec<&Demand> = queries.iter().collect();
    sorted.sort_by_key(|q| q.deadline_ns);
    let (mut kept, mut sum, mut violated) = (BinaryHeap::new(), 0u128, 0);
    for query in sorted {
        let Some(least_ns) = query.least_ns else {
            violated += 1;
            continue;
        };
        kept.push(least_ns);
        sum += u128::from(least_ns);
        let room = u128::from(query.deadline_ns.saturating_sub(start)) * processors as u128;
        if sum > room {
            sum -= u128::from(kept.pop().unwrap_or(0));
            violated += 1;
        }
    }
    violated
}
