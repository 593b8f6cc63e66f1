//! [`Lanes`]: the queries of a scenario, grouped by the way that they take. The first query of a
//! way that has to fetch subgraphs has its own lane, in which the first run of each subgraph
//! includes fetching it.
//!
//! Where a task has several ways, a query takes the one that is expected to end first
//! ([`Expectation`]).

use super::{
    arrivals::Arrival,
    expectation::{Expectation, Step},
    model::Model,
    policy::Way,
    replay,
};
use crate::simulator::{
    ProcessorModel, Scenario, Source, StageModel, Stream, Task as SimulatedTask,
};
use std::ops::Range;

/// Queries of one task that take one way.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub task: usize,
    /// Index among the task's ways.
    pub way: usize,
    pub steps: Range<usize>,
    pub arrivals: Range<usize>,
    pub priority: u32,
    pub accurate: bool,
    first: bool,
}

/// Buffers that are filled anew for each scenario.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    pub lanes: Vec<Lane>,
    pub steps: Vec<Step>,
    /// Arrival times by lane, ns.
    pub arrivals: Vec<u64>,
    lane_of: Vec<usize>,
    options: Vec<Vec<Step>>,
}

impl Lanes {
    /// Divides a scenario's queries. `loaded`: nothing has to be fetched.
    pub(super) fn fill(
        &mut self,
        model: &Model<'_>,
        ways: &[&[Way]],
        priorities: &[u32],
        scenario: &[Arrival],
        loaded: bool,
    ) {
        self.lanes.clear();
        self.steps.clear();
        self.lane_of.clear();
        let chooses = ways.iter().any(|ways| ways.len() > 1);
        let mut expected = Expectation::default();
        for arrival in scenario {
            let task = arrival.task;
            let way = if chooses {
                self.chosen(model, task, ways[task], arrival.at_ns, &mut expected)
            } else {
                0
            };
            let lane = self.lane(model, task, way, ways[task][way], loaded);
            self.lanes[lane].priority = priorities[task];
            self.lanes[lane].arrivals.end += 1;
            self.lane_of.push(lane);
        }
        self.place(scenario);
    }

    /// Chooses the way that is expected to end first, and adds its load to the processors.
    fn chosen(
        &mut self,
        model: &Model<'_>,
        task: usize,
        ways: &[Way],
        at_ns: u64,
        expected: &mut Expectation,
    ) -> usize {
        self.options.resize_with(ways.len().max(self.options.len()), Vec::new);
        for (&way, steps) in ways.iter().zip(&mut self.options) {
            steps.clear();
            // A way that cannot run is in no policy.
            let _ = model.steps(task, way, false, steps);
        }
        let options = self.options[..ways.len()].iter().map(Vec::as_slice);
        expected.choose(at_ns, options).unwrap_or(0)
    }

    /// Lanes with their queries, given by arrival and lane, in the order of their first queries;
    /// `task` is the number of the lane.
    pub(super) fn of(lanes: &[replay::Lane], queries: &[(u64, usize)]) -> Self {
        let mut filled = Self::default();
        let mut order: Vec<usize> = Vec::new();
        for &(_, lane) in queries {
            if !order.contains(&lane) {
                order.push(lane);
            }
        }
        for number in order {
            let lane = &lanes[number];
            let (start, first) = (filled.steps.len(), filled.arrivals.len());
            filled.steps.extend(&lane.steps);
            let own = queries.iter().filter(|query| query.1 == number).map(|query| query.0);
            filled.arrivals.extend(own);
            filled.lanes.push(Lane {
                task: number,
                way: 0,
                steps: start..filled.steps.len(),
                arrivals: first..filled.arrivals.len(),
                priority: lane.priority,
                accurate: true,
                first: false,
            });
        }
        filled
    }

    fn lane(
        &mut self,
        model: &Model<'_>,
        task: usize,
        index: usize,
        way: Way,
        loaded: bool,
    ) -> usize {
        let of_way = |lane: &Lane| lane.task == task && lane.way == index;
        let seen = self.lanes.iter().any(of_way);
        let first = !loaded && !seen && model.fetches(task, way);
        if !first && let Some(lane) = self.lanes.iter().position(|lane| of_way(lane) && !lane.first)
        {
            return lane;
        }
        let start = self.steps.len();
        // A way that cannot run is in no policy.
        let _ = model.steps(task, way, first, &mut self.steps);
        self.lanes.push(Lane {
            task,
            way: index,
            steps: start..self.steps.len(),
            arrivals: 0..0,
            priority: 0,
            accurate: model.is_accurate(task, way),
            first,
        });
        self.lanes.len() - 1
    }

    /// Stores the arrival times lane by lane.
    fn place(&mut self, scenario: &[Arrival]) {
        let mut start = 0;
        for lane in &mut self.lanes {
            let count = lane.arrivals.end;
            lane.arrivals = start..start;
            start += count;
        }
        self.arrivals.clear();
        self.arrivals.resize(start, 0);
        for (arrival, &lane) in scenario.iter().zip(&self.lane_of) {
            let lane = &mut self.lanes[lane];
            self.arrivals[lane.arrivals.end] = arrival.at_ns;
            lane.arrivals.end += 1;
        }
    }

    /// The same for the simulator.
    pub(super) fn scenario(&self, model: &Model<'_>) -> Scenario {
        let names = model.problem.zoo.processors();
        let stream = |lane: &Lane| {
            let arrivals = self.arrivals[lane.arrivals.clone()].to_vec();
            let stage = |step: &Step| StageModel {
                name: names[step.processor].clone(),
                queue: arrivals.len(),
                steps: vec![vec![SimulatedTask {
                    processor: step.processor,
                    memory_ns: step.ns,
                    ..SimulatedTask::default()
                }]],
            };
            let stages = self.steps[lane.steps.clone()].iter().map(stage).collect();
            let name = model.problem.zoo.tasks()[lane.task].name.clone();
            Stream {
                priority: lane.priority,
                ..Stream::new(name, Source::Arrivals(arrivals.clone()), stages)
            }
        };
        let streams: Vec<Stream> = self.lanes.iter().map(stream).collect();
        // An upper bound on the duration: all queries one after the other, each with the slowdown
        // by all other processors.
        let factors = model.problem.contention.factors();
        let slowest = factors
            .iter()
            .map(|row| 1.0 + row.iter().map(|f| f - 1.0).sum::<f64>())
            .fold(1.0, f64::max);
        let work = |lane: &Lane| {
            let steps = &self.steps[lane.steps.clone()];
            steps.iter().map(|s| s.ns as f64).sum::<f64>() * lane.arrivals.len() as f64
        };
        let last = self.arrivals.iter().max().copied().unwrap_or(0) as f64;
        let duration = last + self.lanes.iter().map(work).sum::<f64>() * slowest * 1.01 + 1e3;
        let processors = names.iter().map(ProcessorModel::named).collect();
        let mut scenario = Scenario::new(processors, streams, duration as u64);
        scenario.slowdown = factors.to_vec();
        scenario
    }
}
