//! [`Dispatcher`]: the queues of a runtime: which query runs next on which processor. It reads no
//! clock: the caller reports arrivals and ends, and gets what to start.
//!
//! The rules are those of [`super::Evaluator`] and of the simulator. Queries that take the same way
//! form a lane; each step of a lane has a worker that takes one query at a time, in the order of
//! arrival. A worker's query waits for its processor; the lowest priority number is next, among
//! equals the one that waits longest. What runs is not interrupted. (The evaluator orders events at
//! exactly the same time by when they were scheduled; here the caller's order counts.)
//!
//! Unlike in the simulator, queues may be bounded: a query that finds as many queries waiting for
//! its first processor as the bound allows is refused. A processor may be lost, and with it all
//! queries that need it.

use std::collections::VecDeque;

/// A piece of work that starts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The query, as the caller numbers it.
    pub query: usize,
    /// Number of the step.
    pub step: usize,
    /// Index of the processor.
    pub processor: usize,
}

/// What becomes of a query that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It waits or starts.
    Admitted,
    /// The queue of its first processor is full.
    Full,
    /// A processor that it needs is lost.
    Lost,
}

/// What becomes of a query whose step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It goes on to its next step.
    Continues(usize),
    /// It is complete.
    Finished(usize),
    /// It needs a processor that is lost.
    Lost(usize),
}

#[derive(Clone, Copy, Debug)]
struct Job {
    query: usize,
    lane: usize,
    step: usize,
    priority: u32,
}

#[derive(Debug, Default)]
struct Processor {
    waiting: VecDeque<Job>,
    running: Option<Job>,
    /// Queries that wait for it, also those whose worker has another query.
    queued: usize,
    lost: bool,
}

#[derive(Debug, Default)]
struct Worker {
    busy: bool,
    queue: VecDeque<usize>,
}

#[derive(Debug)]
struct Lane {
    /// Processor by step.
    steps: Vec<usize>,
    workers: Vec<Worker>,
    priority: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Dispatcher {
    processors: Vec<Processor>,
    lanes: Vec<Lane>,
    bound: usize,
}

impl Dispatcher {
    /// Idle processors with empty queues; at most `bound` queries may wait for a processor when
    /// another arrives that starts there.
    #[must_use]
    pub fn new(processors: usize, bound: usize) -> Self {
        let processors = (0..processors).map(|_| Processor::default()).collect();
        Self { processors, lanes: Vec::new(), bound }
    }

    /// Adds a lane: its processors by step, and its priority (the lowest number is next). Returns
    /// its number; `None` without steps, or for a processor that does not exist.
    pub fn add_lane(&mut self, steps: Vec<usize>, priority: u32) -> Option<usize> {
        if steps.is_empty() || steps.iter().any(|&p| p >= self.processors.len()) {
            return None;
        }
        let workers = steps.iter().map(|_| Worker::default()).collect();
        self.lanes.push(Lane { steps, workers, priority });
        Some(self.lanes.len() - 1)
    }

    /// A query arrives and takes a lane.
    pub fn arrive(&mut self, lane: usize, query: usize, starts: &mut Vec<Start>) -> Admission {
        let Some(found) = self.lanes.get(lane) else { return Admission::Lost };
        if self.needs_lost(lane, 0) {
            return Admission::Lost;
        }
        let first = &self.processors[found.steps[0]];
        if first.running.is_some() && first.queued >= self.bound {
            return Admission::Full;
        }
        self.enter(lane, 0, query, starts);
        Admission::Admitted
    }

    /// The step that runs on a processor ends; `None` where nothing ran.
    pub fn end(&mut self, processor: usize, starts: &mut Vec<Start>) -> Option<Ended> {
        let job = self.processors.get_mut(processor)?.running.take()?;
        self.start_next(processor, starts);
        Some(self.hand_on(job, starts))
    }

    /// The query that runs on a processor is given up; the others go on.
    pub fn fail(&mut self, processor: usize, starts: &mut Vec<Start>) -> Option<usize> {
        let job = self.processors.get_mut(processor)?.running.take()?;
        self.start_next(processor, starts);
        self.release(job, starts);
        Some(job.query)
    }

    /// A processor is gone. Returns the queries that are lost now; queries that run elsewhere and
    /// need it later are lost when their step ends.
    pub fn lose(&mut self, processor: usize, starts: &mut Vec<Start>) -> Vec<usize> {
        let Some(found) = self.processors.get_mut(processor) else { return Vec::new() };
        found.lost = true;
        let mut lost: Vec<usize> = found.running.take().map(|job| job.query).into_iter().collect();
        for lane in 0..self.lanes.len() {
            for step in 0..self.lanes[lane].steps.len() {
                if self.needs_lost(lane, step) {
                    self.give_up(lane, step, &mut lost);
                }
            }
        }
        (0..self.processors.len()).for_each(|p| {
            if self.processors[p].running.is_none() {
                self.start_next(p, starts);
            }
        });
        lost
    }

    /// Whether a processor is gone.
    #[must_use]
    pub fn is_lost(&self, processor: usize) -> bool {
        self.processors.get(processor).is_none_or(|p| p.lost)
    }

    /// Whether nothing runs and nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.processors.iter().all(|p| p.running.is_none() && p.queued == 0)
    }

    /// The query and the step that run on a processor.
    #[must_use]
    pub fn running(&self, processor: usize) -> Option<(usize, usize)> {
        self.processors.get(processor)?.running.map(|job| (job.query, job.step))
    }

    fn needs_lost(&self, lane: usize, from: usize) -> bool {
        self.lanes[lane].steps[from..].iter().any(|&p| self.processors[p].lost)
    }

    /// Removes what waits at a step.
    fn give_up(&mut self, lane: usize, step: usize, lost: &mut Vec<usize>) {
        let state = &mut self.processors[self.lanes[lane].steps[step]];
        let is_here = |job: &Job| job.lane == lane && job.step == step;
        let before = lost.len();
        lost.extend(state.waiting.iter().filter(|job| is_here(job)).map(|job| job.query));
        state.waiting.retain(|job| !is_here(job));
        let worker = &mut self.lanes[lane].workers[step];
        lost.extend(worker.queue.drain(..));
        state.queued = state.queued.saturating_sub(lost.len() - before);
        worker.busy = state.running.as_ref().is_some_and(is_here);
    }

    fn enter(&mut self, lane: usize, step: usize, query: usize, starts: &mut Vec<Start>) {
        let found = &mut self.lanes[lane];
        self.processors[found.steps[step]].queued += 1;
        let worker = &mut found.workers[step];
        if worker.busy || !worker.queue.is_empty() {
            worker.queue.push_back(query);
        } else {
            self.begin(lane, step, query, starts);
        }
    }

    fn begin(&mut self, lane: usize, step: usize, query: usize, starts: &mut Vec<Start>) {
        let found = &mut self.lanes[lane];
        found.workers[step].busy = true;
        let (processor, priority) = (found.steps[step], found.priority);
        let job = Job { query, lane, step, priority };
        if self.processors[processor].running.is_none() {
            self.start(processor, job, starts);
        } else {
            self.processors[processor].waiting.push_back(job);
        }
    }

    fn start(&mut self, processor: usize, job: Job, starts: &mut Vec<Start>) {
        let state = &mut self.processors[processor];
        state.running = Some(job);
        state.queued = state.queued.saturating_sub(1);
        starts.push(Start { query: job.query, step: job.step, processor });
    }

    fn start_next(&mut self, processor: usize, starts: &mut Vec<Start>) {
        let waiting = &mut self.processors[processor].waiting;
        let next = waiting.iter().enumerate().min_by_key(|(_, job)| job.priority).map(|(at, _)| at);
        if let Some(job) = next.and_then(|at| waiting.remove(at)) {
            self.start(processor, job, starts);
        }
    }

    /// Passes the query to the next step's worker, and gives this step's worker the next query.
    fn hand_on(&mut self, job: Job, starts: &mut Vec<Start>) -> Ended {
        let next = job.step + 1;
        let ended = if next == self.lanes[job.lane].steps.len() {
            Ended::Finished(job.query)
        } else if self.needs_lost(job.lane, next) {
            Ended::Lost(job.query)
        } else {
            self.enter(job.lane, next, job.query, starts);
            Ended::Continues(job.query)
        };
        self.release(job, starts);
        ended
    }

    fn release(&mut self, job: Job, starts: &mut Vec<Start>) {
        let worker = &mut self.lanes[job.lane].workers[job.step];
        worker.busy = false;
        if let Some(waiting) = worker.queue.pop_front() {
            self.begin(job.lane, job.step, waiting, starts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(starts: &mut Vec<Start>) -> Vec<(usize, usize, usize)> {
        starts.drain(..).map(|s| (s.query, s.step, s.processor)).collect()
    }

    #[test]
    fn priorities_decide_who_is_next_and_lanes_alternate() {
        let (mut queues, mut starts) = (Dispatcher::new(1, 9), Vec::new());
        let low = queues.add_lane(vec![0], 1).expect("a lane");
        let high = queues.add_lane(vec![0], 0).expect("a lane");
        let other = queues.add_lane(vec![0], 1).expect("a lane");
        for (lane, query) in [(low, 0), (low, 1), (other, 2), (high, 3)] {
            assert_eq!(queues.arrive(lane, query, &mut starts), Admission::Admitted);
        }
        let mut order = started(&mut starts);
        while let Some(ended) = queues.end(0, &mut starts) {
            assert!(matches!(ended, Ended::Finished(_)));
            order.extend(started(&mut starts));
        }
        // The worker of the first lane has one query at a time: query 2 waits longer than query 1.
        assert_eq!(order, [(0, 0, 0), (3, 0, 0), (2, 0, 0), (1, 0, 0)]);
        assert!(queues.is_idle());
    }

    #[test]
    fn full_queues_refuse_but_queries_under_way_go_on() {
        let (mut queues, mut starts) = (Dispatcher::new(2, 1), Vec::new());
        let lane = queues.add_lane(vec![0, 1], 0).expect("a lane");
        let mut arrive = |query| queues.arrive(lane, query, &mut starts);
        assert_eq!(
            [arrive(0), arrive(1), arrive(2)],
            [Admission::Admitted, Admission::Admitted, Admission::Full]
        );
        assert_eq!(queues.end(0, &mut starts), Some(Ended::Continues(0)));
        assert_eq!(queues.end(0, &mut starts), Some(Ended::Continues(1)));
        // The second query waits for the lane's worker, which first hands on.
        assert_eq!(started(&mut starts), [(0, 0, 0), (0, 1, 1), (1, 0, 0)]);
        assert_eq!(queues.end(1, &mut starts), Some(Ended::Finished(0)));
        assert_eq!(queues.end(1, &mut starts), Some(Ended::Finished(1)));
        assert!(queues.is_idle() && queues.end(1, &mut starts).is_none());
    }

    #[test]
    fn a_lost_processor_takes_its_queries_along_and_no_others() {
        let (mut queues, mut starts) = (Dispatcher::new(2, 9), Vec::new());
        let both = queues.add_lane(vec![0, 1], 0).expect("a lane");
        let back = queues.add_lane(vec![1, 0], 0).expect("a lane");
        let first = queues.add_lane(vec![0], 0).expect("a lane");
        for (lane, query) in [(both, 0), (both, 1), (first, 2), (back, 3), (back, 4)] {
            assert_eq!(queues.arrive(lane, query, &mut starts), Admission::Admitted);
        }
        assert_eq!(started(&mut starts), [(0, 0, 0), (3, 0, 1)]);
        let mut lost = queues.lose(1, &mut starts);
        lost.sort_unstable();
        // Query 0 runs on the other processor; it is lost when it is handed on.
        assert_eq!((lost, started(&mut starts)), (vec![1, 3, 4], vec![]));
        assert_eq!(queues.arrive(both, 5, &mut starts), Admission::Lost);
        assert_eq!(queues.end(0, &mut starts), Some(Ended::Lost(0)));
        assert_eq!(started(&mut starts), [(2, 0, 0)]);
        assert_eq!(queues.arrive(first, 6, &mut starts), Admission::Admitted);
        assert_eq!(queues.fail(0, &mut starts), Some(2));
        assert_eq!(queues.end(0, &mut starts), Some(Ended::Finished(6)));
        assert!(queues.is_idle() && queues.is_lost(1) && !queues.is_lost(0));
    }

    #[test]
    fn lanes_name_processors_that_exist() {
        let mut queues = Dispatcher::new(1, 1);
        assert_eq!((queues.add_lane(vec![1], 0), queues.add_lane(vec![], 0)), (None, None));
        assert_eq!(queues.arrive(7, 0, &mut Vec::new()), Admission::Lost);
    }
}
