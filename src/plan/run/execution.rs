//! [`run`]: executes a plan on engines. One thread owns all queues: it lets queries arrive, hands
//! pieces to engines, and notices their ends. The clock is the profiler's.

use super::{
    LoadWhen, LogHeader, LogLane, LogProcessor, Outcome, PieceRecord, QueryRecord, Routes,
    RunError, RunEvent, RunLog, RunOptions, RunPlan,
    log::{FORMAT, VERSION},
    memory::{Memory, Place, Room},
    schedule::{Schedule, schedule},
    session::{Session, apart},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::Ordering},
};
use vitempo_planners::multi_dnn::{
    Admission, Arrival, Dispatcher, Ended, Expectation, MOST_QUERIES, Start,
};
use vitempo_profiler::{
    OutputValues,
    live::{Computed, Finished, LiveError, LoadTime, Piece, Pieces},
};

/// Interval of checks for an interruption, ns.
const SLICE_NS: u64 = 50_000_000;

/// Runs a plan; `progress` gets what is done before the clock starts.
///
/// ```no_run
/// use vitempo::plan::run::{RunOptions, RunPlan, Summary, run};
///
/// let plan = RunPlan::read("plan.json".as_ref())?;
/// let log = run(&plan, &RunOptions::default(), &mut |_| ())?;
/// println!("{:.1} %", 100.0 * Summary::of(&log)?.violation_rate().0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`RunError`] before the first query: a plan for another machine, an engine or a core that is not
/// there, a budget that is too small, a subgraph that does not run. Later failures are events of
/// the log.
pub fn run(
    plan: &RunPlan,
    options: &RunOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<RunLog, RunError> {
    plan.check()?;
    let routes = Routes::of(plan);
    let schedule = schedule(plan, options.limit)?;
    let budget = options.memory_bytes.or(plan.memory_bytes);
    progress("starting engines");
    let session = Session::start(plan, &routes, options)?;
    check_budget(plan, &routes, &session, budget)?;
    let planned = planned(&routes, &schedule, &session);
    let memory = Memory::new(budget, options.eviction, planned);
    let mut runtime = Runtime::new(plan, &routes, &session, options, memory);
    progress("loading subgraphs, and comparing results with those of whole models");
    runtime.prepare()?;
    runtime.events.retain(|event| matches!(event, RunEvent::Load { .. } | RunEvent::Evict { .. }));
    progress("running queries");
    // The clock starts now.
    runtime.pieces = session.rig.pieces();
    runtime.rounds(&schedule);
    Ok(RunLog {
        header: header(plan, &routes, &session, options, budget),
        events: runtime.events,
        path: "".into(),
    })
}

/// Every piece has to fit by itself.
fn check_budget(
    plan: &RunPlan,
    routes: &Routes,
    session: &Session,
    budget: Option<u64>,
) -> Result<(), RunError> {
    let Some(budget) = budget else { return Ok(()) };
    for (route, steps) in routes.routes.iter().zip(&session.steps) {
        for (step, parts) in route.lane.steps.iter().zip(steps) {
            let needed: u64 = parts.iter().map(|(_, bytes)| *bytes).sum();
            if needed > budget {
                return Err(RunError::Memory {
                    task: plan.tasks[route.task].name.clone(),
                    processor: plan.processors[step.processor].name.clone(),
                    needed,
                    budget,
                });
            }
        }
    }
    Ok(())
}

/// Number of planned queries of each subgraph on each processor.
fn planned(routes: &Routes, schedule: &Schedule, session: &Session) -> BTreeMap<Place, u64> {
    let mut planned = BTreeMap::new();
    for (lane, route) in routes.routes.iter().enumerate() {
        for (step, parts) in route.lane.steps.iter().zip(&session.steps[lane]) {
            for (part, _) in parts {
                planned.entry((step.processor, *part)).or_insert(0);
            }
        }
    }
    for round in &schedule.rounds {
        let mut expected = Expectation::default();
        for arrival in round {
            let chosen = routes.choose(&mut expected, arrival.task, arrival.at_ns, |_| true);
            let Some(lane) = chosen else { continue };
            for (step, parts) in routes.routes[lane].lane.steps.iter().zip(&session.steps[lane]) {
                for (part, _) in parts {
                    *planned.entry((step.processor, *part)).or_insert(0) += 1;
                }
            }
        }
    }
    planned
}

fn header(
    plan: &RunPlan,
    routes: &Routes,
    session: &Session,
    options: &RunOptions,
    budget: Option<u64>,
) -> LogHeader {
    let environments: Vec<_> = session.rig.environments().collect();
    let first = environments.first();
    let processor =
        |(processor, environment): (&super::PlanProcessor, &&vitempo_graph::Environment)| {
            LogProcessor {
                name: processor.name.clone(),
                engine: environment.framework.clone(),
                engine_version: environment.framework_version.clone(),
                cores: environment.cores.clone(),
                threads: environment.threads,
            }
        };
    let lane = |route: &super::routes::Route| LogLane {
        task: route.task,
        phase: route.phase,
        way: route.way,
        variants: plan.tasks[route.task].ways[route.way].variants.clone(),
        priority: route.lane.priority,
        accurate: route.accurate,
        slo_ns: route.slo_ns,
        steps: route.lane.steps.iter().map(|step| (step.processor, step.ns)).collect(),
    };
    LogHeader {
        format: FORMAT.to_owned(),
        version: VERSION,
        made_by: format!("vitempo {}", env!("CARGO_PKG_VERSION")),
        plan: plan.path.clone(),
        device: first.map(|e| e.device.clone()).unwrap_or_default(),
        os: first.map(|e| e.os.clone()).unwrap_or_default(),
        isa: first.map(|e| e.isa.clone()).unwrap_or_default(),
        processors: plan.processors.iter().zip(&environments).map(processor).collect(),
        tasks: plan.tasks.iter().map(|task| task.name.clone()).collect(),
        lanes: routes.routes.iter().map(lane).collect(),
        slowdown: plan.slowdown.clone(),
        bound: options.bound,
        memory_bytes: budget,
        cold: options.cold || plan.cold,
    }
}

/// A query under way.
struct Query {
    round: usize,
    task: usize,
    lane: usize,
    arrived_ns: u64,
    ready_ns: u64,
    dispatched_ns: u64,
    pieces: Vec<PieceRecord>,
    values: Vec<Arc<OutputValues>>,
    ended: bool,
}

struct Runtime<'a> {
    plan: &'a RunPlan,
    routes: &'a Routes,
    session: &'a Session,
    options: &'a RunOptions,
    pieces: Pieces<'a>,
    queues: Dispatcher,
    memory: Memory,
    expected: Expectation,
    queries: Vec<Query>,
    /// Pieces whose processor is free for them, but that wait for memory.
    held: VecDeque<Start>,
    /// Whether an engine has a piece, by processor.
    busy: Vec<bool>,
    events: Vec<RunEvent>,
    /// Results of whole models, and of the last query, by lane.
    wholes: Vec<Vec<OutputValues>>,
    last: Vec<Option<Vec<Arc<OutputValues>>>>,
    phase: usize,
}

impl<'a> Runtime<'a> {
    fn new(
        plan: &'a RunPlan,
        routes: &'a Routes,
        session: &'a Session,
        options: &'a RunOptions,
        memory: Memory,
    ) -> Self {
        let processors = plan.processors.len();
        let mut queues = Dispatcher::new(processors, options.bound);
        for route in &routes.routes {
            let steps = route.lane.steps.iter().map(|step| step.processor).collect();
            // A checked plan has known processors only.
            let _ = queues.add_lane(steps, route.lane.priority);
        }
        Self {
            plan,
            routes,
            session,
            options,
            pieces: session.rig.pieces(),
            queues,
            memory,
            expected: Expectation::default(),
            queries: Vec::new(),
            held: VecDeque::new(),
            busy: vec![false; processors],
            events: Vec::new(),
            wholes: Vec::new(),
            last: vec![None; routes.routes.len()],
            phase: 0,
        }
    }

    /// Results of whole models; then loads what fits and runs each way once that is loaded wholly.
    fn prepare(&mut self) -> Result<(), RunError> {
        for (lane, route) in self.routes.routes.iter().enumerate() {
            let processor = route.lane.steps[0].processor;
            self.wholes.push(self.session.expected(lane, processor, route.task)?);
        }
        if self.options.cold || self.plan.cold {
            return Ok(());
        }
        let sizes: BTreeMap<Place, u64> = (0..self.plan.processors.len())
            .flat_map(|p| (0..self.session.parts.len()).map(move |part| (p, part)))
            .map(|place| (place, self.session.parts[place.1].bytes))
            .collect();
        for (processor, part) in self.memory.first(&sizes) {
            if let Some(load) = self.session.rig.load(processor, part)? {
                self.loaded(processor, load, 0, LoadWhen::Before);
            }
            let parts = [(part, self.session.parts[part].bytes)];
            self.memory.pin(processor, &parts);
            self.memory.unpin(processor, &parts);
        }
        self.warm_up()
    }

    fn warm_up(&self) -> Result<(), RunError> {
        for (route, steps) in self.routes.routes.iter().zip(&self.session.steps) {
            let places = || {
                let each = route.lane.steps.iter().zip(steps);
                each.flat_map(|(step, parts)| parts.iter().map(|part| (step.processor, part.0)))
            };
            if !places().all(|place| self.memory.holds(place)) {
                continue;
            }
            let mut values = self.session.inputs[route.task].clone();
            for (processor, part) in places() {
                let answer = self.session.rig.ask(part, processor, &values)?.wait()?;
                values = answer.values.into_iter().map(Arc::new).collect();
            }
        }
        Ok(())
    }

    fn rounds(&mut self, schedule: &Schedule) {
        for (round, arrivals) in schedule.rounds.iter().cycle().enumerate() {
            let begun_ns = self.pieces.now_ns();
            let over = match schedule.repeated_until_ns {
                Some(until_ns) => begun_ns >= until_ns || self.queries.len() >= MOST_QUERIES,
                None => round >= schedule.rounds.len(),
            };
            if over || self.interrupted() {
                break;
            }
            self.events.push(RunEvent::Round { round, at_ns: begun_ns });
            self.round(round, begun_ns, arrivals);
        }
        for (lane, last) in self.last.iter().enumerate() {
            let found = last.as_ref().and_then(|last| apart(&self.wholes[lane], last));
            self.events.extend(found.map(|share| RunEvent::Apart { lane, share }));
        }
        self.events.push(RunEvent::End {
            at_ns: self.pieces.now_ns(),
            interrupted: self.interrupted(),
            largest_bytes: self.memory.largest_bytes(),
        });
    }

    fn interrupted(&self) -> bool {
        self.options.interrupted.load(Ordering::Relaxed)
    }

    /// Lets the queries of a round arrive, and waits until all have ended.
    fn round(&mut self, round: usize, begun_ns: u64, arrivals: &[Arrival]) {
        self.expected = Expectation::default();
        let mut arriving = arrivals.iter().peekable();
        loop {
            let now = self.pieces.now_ns();
            if self.interrupted() {
                arriving = [].iter().peekable();
            }
            if let Some(arrival) = arriving.next_if(|a| begun_ns.saturating_add(a.at_ns) <= now) {
                self.arrive(round, begun_ns, arrival);
                continue;
            }
            let next = arriving.peek().map(|arrival| begun_ns.saturating_add(arrival.at_ns));
            if next.is_none() && self.queues.is_idle() {
                return;
            }
            let until = next.unwrap_or(u64::MAX).min(now.saturating_add(SLICE_NS));
            match self.pieces.next(until) {
                Some(finished) => self.finished(finished),
                None if !self.held.is_empty() => self.start_all(Vec::new()),
                None => {}
            }
        }
    }

    fn arrive(&mut self, round: usize, begun_ns: u64, arrival: &Arrival) {
        let Arrival { at_ns, task } = *arrival;
        let arrived_ns = begun_ns.saturating_add(at_ns);
        let phase = self.routes.phase(at_ns);
        if phase != self.phase {
            self.phase = phase;
            let from_ns = self.plan.phases[phase].from_ns;
            let at_ns = begun_ns.saturating_add(from_ns);
            self.events.push(RunEvent::Phase { phase, at_ns });
        }
        let queues = &self.queues;
        let lane = self.routes.choose(&mut self.expected, task, at_ns, |route| {
            route.lane.steps.iter().all(|step| !queues.is_lost(step.processor))
        });
        let query = self.queries.len();
        self.queries.push(Query {
            round,
            task,
            lane: lane.unwrap_or(usize::MAX),
            arrived_ns,
            ready_ns: self.pieces.now_ns(),
            dispatched_ns: 0,
            pieces: Vec::new(),
            values: self.session.inputs[task].clone(),
            ended: false,
        });
        let mut starts = Vec::new();
        let admission =
            lane.map_or(Admission::Lost, |lane| self.queues.arrive(lane, query, &mut starts));
        match admission {
            Admission::Admitted => self.start_all(starts),
            Admission::Full => {
                let reason = format!("{} queries wait for its processor", self.options.bound);
                self.give_up(query, Outcome::Refused, &reason);
            }
            Admission::Lost => self.give_up(query, Outcome::Lost, "its engine has ended"),
        }
    }

    fn start_all(&mut self, starts: Vec<Start>) {
        self.held.extend(starts);
        let waiting = std::mem::take(&mut self.held);
        for start in waiting {
            if !self.start(start) {
                self.held.push_back(start);
            }
        }
    }

    /// Hands a piece to its engine, if there is room for its subgraphs.
    fn start(&mut self, start: Start) -> bool {
        let Start { query, step, processor } = start;
        if self.queries[query].ended {
            return true;
        }
        let parts = self.session.steps[self.queries[query].lane][step].clone();
        let busy = &self.busy;
        let Room::Now(victims) = self.memory.room(processor, &parts, |p| !busy[p]) else {
            return false;
        };
        let now = self.pieces.now_ns();
        let mut unload = Vec::new();
        for place in victims {
            self.memory.forget(place);
            self.evicted(place, now);
            if place.0 == processor {
                unload.push(place.1);
            } else if let Err(error) = self.session.rig.unload(place.0, &[place.1]) {
                self.engine_lost(place.0, &error.to_string());
            }
        }
        self.memory.pin(processor, &parts);
        self.busy[processor] = true;
        let found = &mut self.queries[query];
        found.dispatched_ns = now;
        let values = std::mem::take(&mut found.values);
        let parts = parts.iter().map(|(part, _)| *part).collect();
        let piece = Piece { id: query, processor, parts, unload, values };
        if let Err(error) = self.pieces.submit(piece) {
            self.engine_lost(processor, &error.to_string());
        }
        true
    }

    fn finished(&mut self, finished: Finished) {
        let Finished { id: query, processor, begun_ns, ended_ns, noticed_ns, result } = finished;
        self.busy[processor] = false;
        let running = self.queues.running(processor).filter(|(found, _)| *found == query);
        let Some((_, step)) = running else { return };
        let parts = self.session.steps[self.queries[query].lane][step].clone();
        self.memory.unpin(processor, &parts);
        let mut starts = Vec::new();
        match result {
            Ok(computed) => {
                let times = (begun_ns, ended_ns, noticed_ns);
                self.computed(query, processor, computed, times);
                match self.queues.end(processor, &mut starts) {
                    Some(Ended::Finished(query)) => self.done(query),
                    Some(Ended::Lost(query)) => {
                        self.give_up(query, Outcome::Lost, "the engine of a later piece has ended");
                    }
                    _ => {}
                }
            }
            Err(LiveError::Task { reason, .. }) => {
                // Which subgraphs the engine still has is not known: they are loaded again.
                let held: Vec<usize> = parts.iter().map(|(part, _)| *part).collect();
                if let Err(error) = self.session.rig.unload(processor, &held) {
                    self.engine_lost(processor, &error.to_string());
                }
                for part in held {
                    self.memory.forget((processor, part));
                }
                self.queues.fail(processor, &mut starts);
                self.give_up(query, Outcome::Failed, &reason);
            }
            Err(error) => self.engine_lost(processor, &error.to_string()),
        }
        self.start_all(starts);
    }

    fn computed(
        &mut self,
        query: usize,
        processor: usize,
        computed: Computed,
        (begun_ns, ended_ns, noticed_ns): (u64, u64, u64),
    ) {
        for load in &computed.loads {
            self.loaded(processor, *load, begun_ns, LoadWhen::Query);
        }
        let found = &mut self.queries[query];
        found.pieces.push(PieceRecord {
            ready_ns: found.ready_ns,
            dispatched_ns: found.dispatched_ns,
            begun_ns,
            loading_ns: computed.loads.iter().map(|load| load.ns).sum(),
            feed_ns: computed.feed_ns,
            run_ns: computed.run_ns,
            ended_ns,
            noticed_ns,
        });
        (found.values, found.ready_ns) = (computed.values, noticed_ns);
    }

    fn loaded(&mut self, processor: usize, load: LoadTime, at_ns: u64, when: LoadWhen) {
        let part = &self.session.parts[load.part];
        self.events.push(RunEvent::Load {
            at_ns,
            processor,
            task: part.task,
            position: part.position,
            variant: part.variant.clone(),
            bytes: part.bytes,
            ns: load.ns,
            when,
        });
    }

    fn evicted(&mut self, (processor, part): Place, at_ns: u64) {
        let part = &self.session.parts[part];
        self.events.push(RunEvent::Evict {
            at_ns,
            processor,
            task: part.task,
            position: part.position,
            variant: part.variant.clone(),
        });
    }

    fn done(&mut self, query: usize) {
        let found = &mut self.queries[query];
        found.ended = true;
        let route = &self.routes.routes[found.lane];
        let key = (query, found.round, found.task, found.lane);
        let pieces = std::mem::take(&mut found.pieces);
        let slo = (route.accurate, route.slo_ns);
        self.last[found.lane] = Some(std::mem::take(&mut found.values));
        let record = QueryRecord::done(key, found.arrived_ns, pieces, slo);
        self.events.push(RunEvent::Query(record));
    }

    fn give_up(&mut self, query: usize, outcome: Outcome, reason: &str) {
        let found = &mut self.queries[query];
        if std::mem::replace(&mut found.ended, true) {
            return;
        }
        found.values = Vec::new();
        let lane = (found.lane < self.routes.routes.len()).then_some(found.lane);
        self.events.push(RunEvent::Query(QueryRecord {
            query,
            round: found.round,
            task: found.task,
            lane,
            arrived_ns: found.arrived_ns,
            outcome,
            violated: true,
            latency_ns: None,
            waiting_ns: 0,
            running_ns: 0,
            handover_ns: 0,
            loading_ns: 0,
            reason: Some(reason.to_owned()),
            pieces: std::mem::take(&mut found.pieces),
        }));
    }

    /// An engine is gone: its queries are lost, the others go on.
    fn engine_lost(&mut self, processor: usize, reason: &str) {
        if self.queues.is_lost(processor) {
            return;
        }
        let mut starts = Vec::new();
        let queries = self.queues.lose(processor, &mut starts);
        self.busy[processor] = false;
        self.memory.lose(processor);
        for &query in &queries {
            self.give_up(query, Outcome::Lost, reason);
        }
        self.events.push(RunEvent::EngineLost {
            processor,
            at_ns: self.pieces.now_ns(),
            reason: reason.to_owned(),
            queries,
        });
        self.held.extend(starts);
    }
}
