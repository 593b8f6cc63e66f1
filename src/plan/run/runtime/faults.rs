//! Engines that end and queries that are given up. What an engine ran is lost with it; the queries
//! that wait for it are lost only if it is not started again. The others go on.

use super::{
    super::{Outcome, QueryRecord, RunEvent},
    Runtime,
};
use vitempo_profiler::live::{LiveError, Started, Tensors};

impl Runtime<'_> {
    pub(super) fn give_up(&mut self, query: usize, outcome: Outcome, reason: &str) {
        let found = &mut self.queries[query];
        if std::mem::replace(&mut found.ended, true) {
            return;
        }
        found.values = Tensors::default();
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
        self.observe(query, None);
    }

    /// An engine ended. The query that it ran (`is_running`) is lost; if it is not started again, so
    /// are those that wait for it.
    pub(super) fn engine_failed(&mut self, processor: usize, error: &LiveError, is_running: bool) {
        if self.queues.is_lost(processor) {
            return;
        }
        let (reason, starts_again) = match error {
            LiveError::Ended { reason, starts_again, .. } => (reason.clone(), *starts_again),
            other => (other.to_string(), false),
        };
        let mut starts = Vec::new();
        let queries = match (starts_again, is_running) {
            (true, true) => self.queues.fail(processor, &mut starts).into_iter().collect(),
            (true, false) => Vec::new(),
            (false, _) => self.queues.lose(processor, &mut starts),
        };
        if starts_again && !is_running {
            // The piece that waits for it, if there is one, starts it again.
            self.memory.lose_unused(processor);
        } else {
            self.busy[processor] = false;
            self.memory.lose(processor);
        }
        for &query in &queries {
            self.give_up(query, Outcome::Lost, &reason);
        }
        let name = &self.plan.processors[processor].name;
        let then = if starts_again { "it is started again" } else { "it is not started again" };
        let lost = queries.len();
        let said = format!("{name}: its engine ended: {reason}; {lost} queries are lost; {then}");
        self.events.push(RunEvent::EngineLost {
            processor,
            at_ns: self.pieces.now_ns(),
            reason,
            queries,
            starts_again,
        });
        self.held.extend(starts);
        self.say(&said);
    }

    pub(super) fn engine_started(&mut self, processor: usize, started: Started, at_ns: u64) {
        let Started { process, ns, reason } = started;
        let name = &self.plan.processors[processor].name;
        let process_name = process.map_or_else(String::new, |id| format!(": process {id}"));
        let said = format!("{name}: its engine was started again{process_name}");
        self.events.push(RunEvent::EngineStarted { processor, at_ns, process, ns, reason });
        self.say(&said);
    }
}
