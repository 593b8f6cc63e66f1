//! [`Queueing`]: runs queries: the simulator's event loop, reduced to the features that policies
//! need (arrivals, unbounded queues, priorities, slowdown by pairs; no noise, heat or frequencies),
//! without its allocations. Events, ties and rounding are the same as in the simulator.

use super::{expectation::Step, lanes::Lanes, model::MOST_PROCESSORS};
use std::{collections::VecDeque, ops::ControlFlow};

/// A query at a step; steps are numbered through all lanes.
#[derive(Clone, Copy, Debug)]
struct Job {
    lane: usize,
    step: usize,
    ns: u64,
    priority: u32,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    job: Job,
    start_ns: u64,
    /// Share of the work that is left, the time since which it holds, and the time for all of the
    /// work at the current rate.
    left: f64,
    since_ns: u64,
    whole_ns: f64,
    /// When it ends, and the number of that event.
    ends: (u64, u64),
}

#[derive(Debug, Default)]
struct Processor {
    waiting: VecDeque<Job>,
    running: Option<Running>,
    busy_ns: u64,
}

/// A step's worker takes one query at a time.
#[derive(Debug, Default)]
struct Worker {
    busy: bool,
    arrived_ns: u64,
    queue: VecDeque<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    taken: usize,
    next: Option<(u64, u64)>,
}

/// The state of a run; buffers are kept for the next.
#[derive(Debug, Default)]
pub(super) struct Queueing {
    now_ns: u64,
    scheduled: u64,
    processors: Vec<Processor>,
    workers: Vec<Worker>,
    sources: Vec<Source>,
}

/// Lane, arrival and end of a query, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub lane: usize,
    pub arrived_ns: u64,
    pub now_ns: u64,
}

impl Queueing {
    /// Runs all queries; `done` may end the run. Factors as in [`super::Contention::Known`].
    pub(super) fn run(
        &mut self,
        lanes: &Lanes,
        processors: usize,
        factors: &[Vec<f64>],
        mut done: impl FnMut(Done) -> ControlFlow<()>,
    ) {
        self.reset(lanes, processors);
        let mut run = Run { state: self, lanes, factors };
        (0..lanes.lanes.len()).for_each(|lane| run.ask(lane));
        while let Some((at, event)) = run.next() {
            run.state.now_ns = at;
            let finished = match event {
                Event::Arrival(lane) => {
                    run.arrive(lane);
                    None
                }
                Event::End(processor) => run.end(processor),
            };
            if finished.is_some_and(|finished| done(finished).is_break()) {
                return;
            }
        }
    }

    /// How long a processor was busy, ns.
    pub(super) fn busy_ns(&self, processor: usize) -> u64 {
        self.processors.get(processor).map_or(0, |p| p.busy_ns)
    }

    fn reset(&mut self, lanes: &Lanes, processors: usize) {
        debug_assert!(processors <= MOST_PROCESSORS);
        (self.now_ns, self.scheduled) = (0, 0);
        self.processors.resize_with(processors, Processor::default);
        for processor in &mut self.processors {
            processor.waiting.clear();
            (processor.running, processor.busy_ns) = (None, 0);
        }
        self.workers.resize_with(lanes.steps.len().max(self.workers.len()), Worker::default);
        for worker in &mut self.workers {
            worker.busy = false;
            worker.queue.clear();
        }
        self.sources.clear();
        self.sources.resize(lanes.lanes.len(), Source::default());
    }
}

#[derive(Clone, Copy)]
enum Event {
    Arrival(usize),
    End(usize),
}

struct Run<'a> {
    state: &'a mut Queueing,
    lanes: &'a Lanes,
    factors: &'a [Vec<f64>],
}

impl Run<'_> {
    /// The earliest event; among equals the one that was scheduled first.
    fn next(&self) -> Option<(u64, Event)> {
        let mut best: Option<((u64, u64), Event)> = None;
        let mut offer = |key: (u64, u64), event: Event| {
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                best = Some((key, event));
            }
        };
        for (index, processor) in self.state.processors.iter().enumerate() {
            if let Some(running) = &processor.running {
                offer(running.ends, Event::End(index));
            }
        }
        for (index, source) in self.state.sources.iter().enumerate() {
            if let Some(next) = source.next {
                offer(next, Event::Arrival(index));
            }
        }
        best.map(|((at, _), event)| (at, event))
    }

    fn number(&mut self) -> u64 {
        self.state.scheduled += 1;
        self.state.scheduled
    }

    /// The first worker of a lane is idle: it takes the next query when that arrives.
    fn ask(&mut self, lane: usize) {
        let arrivals = &self.lanes.arrivals[self.lanes.lanes[lane].arrivals.clone()];
        let Some(&at) = arrivals.get(self.state.sources[lane].taken) else { return };
        let key = (at.max(self.state.now_ns), self.number());
        self.state.sources[lane].next = Some(key);
    }

    fn arrive(&mut self, lane: usize) {
        let found = &self.lanes.lanes[lane];
        let source = &mut self.state.sources[lane];
        let arrived_ns = self.lanes.arrivals[found.arrivals.start + source.taken];
        source.taken += 1;
        source.next = None;
        self.begin(lane, found.steps.start, arrived_ns);
    }

    fn begin(&mut self, lane: usize, step: usize, arrived_ns: u64) {
        let worker = &mut self.state.workers[step];
        (worker.busy, worker.arrived_ns) = (true, arrived_ns);
        let Step { processor, ns } = self.lanes.steps[step];
        let job = Job { lane, step, ns, priority: self.lanes.lanes[lane].priority };
        if self.state.processors[processor].running.is_none() {
            self.start(processor, job);
        } else {
            self.state.processors[processor].waiting.push_back(job);
        }
    }

    fn start(&mut self, processor: usize, job: Job) {
        let now = self.state.now_ns;
        self.state.processors[processor].running = Some(Running {
            job,
            start_ns: now,
            left: 1.0,
            since_ns: now,
            whole_ns: 0.0,
            ends: (now, 0),
        });
        self.reschedule(processor);
        self.neighbours_changed(processor);
    }

    fn reschedule(&mut self, processor: usize) {
        let slowdown = self.slowdown(processor);
        let (now, number) = (self.state.now_ns, self.number());
        let Some(running) = &mut self.state.processors[processor].running else { return };
        let whole = running.job.ns as f64 * slowdown;
        if running.whole_ns > 0.0 {
            running.left =
                (running.left - (now - running.since_ns) as f64 / running.whole_ns).max(0.0);
        }
        (running.since_ns, running.whole_ns) = (now, whole);
        running.ends = (now.saturating_add((running.left * whole).round() as u64), number);
    }

    fn slowdown(&self, processor: usize) -> f64 {
        let Some(row) = self.factors.get(processor) else { return 1.0 };
        let others = self.state.processors.iter().zip(row).enumerate();
        let excess = others
            .filter(|(other, (state, _))| *other != processor && state.running.is_some())
            .map(|(_, (_, factor))| factor - 1.0);
        1.0 + excess.sum::<f64>()
    }

    fn neighbours_changed(&mut self, processor: usize) {
        if self.factors.is_empty() {
            return;
        }
        for other in 0..self.state.processors.len() {
            if other != processor && self.state.processors[other].running.is_some() {
                self.reschedule(other);
            }
        }
    }

    fn end(&mut self, processor: usize) -> Option<Done> {
        let now = self.state.now_ns;
        let state = &mut self.state.processors[processor];
        let running = state.running.take()?;
        state.busy_ns += now - running.start_ns;
        let waiting = &mut state.waiting;
        let next = waiting.iter().enumerate().min_by_key(|(_, job)| job.priority).map(|(at, _)| at);
        match next.and_then(|at| waiting.remove(at)) {
            Some(job) => self.start(processor, job),
            None => self.neighbours_changed(processor),
        }
        self.hand_on(running.job)
    }

    /// Passes the query to the next step's worker, and gives this step's worker the next query.
    fn hand_on(&mut self, Job { lane, step, .. }: Job) -> Option<Done> {
        let steps = self.lanes.lanes[lane].steps.clone();
        let arrived_ns = self.state.workers[step].arrived_ns;
        let finished = step + 1 == steps.end;
        if !finished {
            let next = &mut self.state.workers[step + 1];
            if next.busy || !next.queue.is_empty() {
                next.queue.push_back(arrived_ns);
            } else {
                self.begin(lane, step + 1, arrived_ns);
            }
        }
        self.state.workers[step].busy = false;
        if step == steps.start {
            self.ask(lane);
        } else if let Some(waiting) = self.state.workers[step].queue.pop_front() {
            self.begin(lane, step, waiting);
        }
        finished.then_some(Done { lane, arrived_ns, now_ns: self.state.now_ns })
    }
}
