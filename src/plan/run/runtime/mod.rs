//! [`Runtime`]: one thread that owns all queues: it lets queries arrive, hands pieces to engines, and
//! notices their ends. The clock is the profiler's.
//!
//! | what | where |
//! |---|---|
//! | loading and warm-up before the clock starts | `preparation` |
//! | rounds, arrivals, and which way a query takes | `arrivals` |
//! | pieces: handed to engines, ended | `pieces` |
//! | subgraphs that make room for others | `unloading` |
//! | tasks that fall back to faster ways | `switching` |
//! | engines that end, queries that are given up | `faults` |

mod arrivals;
mod faults;
mod pieces;
mod preparation;
mod switching;
mod unloading;

use super::{
    LoadWhen, PieceRecord, Routes, RunEvent, RunOptions, RunPlan,
    memory::{Memory, Place},
    session::Session,
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::Ordering,
};
use vitempo_planners::multi_dnn::{Dispatcher, Expectation, Start, Switching};
use vitempo_profiler::{
    OutputValues,
    live::{LoadTime, Pieces, Tensors},
};

/// A query under way.
struct Query {
    round: usize,
    task: usize,
    lane: usize,
    arrived_ns: u64,
    ready_ns: u64,
    dispatched_ns: u64,
    pieces: Vec<PieceRecord>,
    values: Tensors,
    ended: bool,
}

/// See the module.
pub(super) struct Runtime<'a> {
    plan: &'a RunPlan,
    routes: &'a Routes,
    session: &'a Session,
    options: &'a RunOptions,
    progress: &'a mut dyn FnMut(&str),
    pub pieces: Pieces<'a>,
    queues: Dispatcher,
    memory: Memory,
    expected: Expectation,
    /// Levels of tasks in this phase.
    levels: Switching,
    queries: Vec<Query>,
    /// Pieces whose processor is free for them, but that wait for memory.
    held: VecDeque<Start>,
    /// Whether an engine has a piece, by processor.
    busy: Vec<bool>,
    /// When each processor was asked to unload what it has not unloaded yet, ns.
    unloads: Vec<VecDeque<u64>>,
    /// Longest time of each piece so far, by lane and step, ns.
    longest: BTreeMap<(usize, usize), u64>,
    pub events: Vec<RunEvent>,
    /// Results of whole models, and of the last query, by lane.
    wholes: Vec<Vec<OutputValues>>,
    last: Vec<Option<Tensors>>,
    phase: usize,
    /// Whether an interruption kept queries from arriving.
    is_cut_short: bool,
}

impl<'a> Runtime<'a> {
    pub fn new(
        plan: &'a RunPlan,
        routes: &'a Routes,
        session: &'a Session,
        options: &'a RunOptions,
        memory: Memory,
        progress: &'a mut dyn FnMut(&str),
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
            progress,
            pieces: session.rig.pieces(),
            queues,
            memory,
            expected: Expectation::default(),
            levels: switching::levels(routes, 0),
            queries: Vec::new(),
            held: VecDeque::new(),
            busy: vec![false; processors],
            unloads: vec![VecDeque::new(); processors],
            longest: BTreeMap::new(),
            events: Vec::new(),
            wholes: Vec::new(),
            last: vec![None; routes.routes.len()],
            phase: 0,
            is_cut_short: false,
        }
    }

    pub fn say(&mut self, what: &str) {
        (self.progress)(what);
    }

    fn interrupted(&self) -> bool {
        self.options.interrupted.load(Ordering::Relaxed)
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

    /// What an engine's process has in memory, beside what the model of memory says.
    fn resident(
        &mut self,
        processor: usize,
        resident_bytes: Option<u64>,
        loaded_bytes: u64,
        at_ns: u64,
    ) {
        self.events.extend(resident_bytes.map(|resident_bytes| RunEvent::Resident {
            at_ns,
            processor,
            resident_bytes,
            loaded_bytes,
        }));
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
}
