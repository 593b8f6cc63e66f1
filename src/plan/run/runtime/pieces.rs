//! Pieces of queries: handed to engines as soon as there is memory for their subgraphs, and ended.

use super::{
    super::{LoadWhen, Outcome, PieceRecord, QueryRecord, RunEvent},
    Runtime,
};
use vitempo_planners::multi_dnn::{Ended, Start};
use vitempo_profiler::live::{Computed, Finished, LiveError, LoadTime, Piece};

/// Times of a piece that ended, ns.
struct Times {
    begun_ns: u64,
    /// Starting the engine again.
    starting_ns: u64,
    ended_ns: u64,
    noticed_ns: u64,
}

impl Runtime<'_> {
    pub(super) fn start_all(&mut self, starts: Vec<Start>) {
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
        let lane = self.queries[query].lane;
        let parts = self.session.steps[lane][step].clone();
        let now = self.pieces.now_ns();
        let Some(unload) = self.make_room(processor, &parts, now) else { return false };
        for &part in &unload {
            self.memory.forget((processor, part));
            self.evicted((processor, part), now);
        }
        self.memory.pin(processor, &parts);
        self.busy[processor] = true;
        let planned_ns = self.routes.routes[lane].lane.steps[step].ns;
        let longest_ns = self.longest.get(&(lane, step)).copied().unwrap_or(0);
        let found = &mut self.queries[query];
        found.dispatched_ns = now;
        let piece = Piece {
            id: query,
            processor,
            parts: parts.iter().map(|(part, _)| *part).collect(),
            keep: self.session.keep[lane][step].clone(),
            unload,
            values: std::mem::take(&mut found.values),
            expected_ns: planned_ns.max(longest_ns),
        };
        if let Err(error) = self.pieces.submit(piece) {
            self.engine_failed(processor, &error, true);
        }
        true
    }

    pub(super) fn finished(&mut self, finished: Finished) {
        let Finished { id: query, processor, begun_ns, ended_ns, noticed_ns, .. } = finished;
        self.busy[processor] = false;
        let running = self.queues.running(processor).filter(|(found, _)| *found == query);
        let step = running.map(|(_, step)| step);
        let parts = step.map(|step| self.session.steps[self.queries[query].lane][step].clone());
        let mut times = Times { begun_ns, starting_ns: 0, ended_ns, noticed_ns };
        if let Some(started) = finished.started {
            times.starting_ns = started.ns;
            self.memory.restarted(processor, parts.as_deref().unwrap_or_default());
            self.engine_started(processor, started, begun_ns);
        }
        let (Some(step), Some(parts)) = (step, parts) else { return };
        self.memory.unpin(processor, &parts);
        let mut starts = Vec::new();
        match finished.result {
            Ok(computed) => {
                self.computed((query, step), processor, computed, &times);
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
                self.unload(processor, &held, noticed_ns);
                self.queues.fail(processor, &mut starts);
                self.give_up(query, Outcome::Failed, &reason);
            }
            Err(error) => self.engine_failed(processor, &error, true),
        }
        self.start_all(starts);
    }

    fn computed(
        &mut self,
        (query, step): (usize, usize),
        processor: usize,
        computed: Computed,
        times: &Times,
    ) {
        self.record_memory(processor, &computed, times.begun_ns);
        let loads_ns: u64 = computed.loads.iter().map(|load| load.ns).sum();
        let found = &mut self.queries[query];
        found.pieces.push(PieceRecord {
            ready_ns: found.ready_ns,
            dispatched_ns: found.dispatched_ns,
            begun_ns: times.begun_ns,
            loading_ns: loads_ns.saturating_add(times.starting_ns),
            feed_ns: computed.feed_ns,
            run_ns: computed.run_ns,
            ended_ns: times.ended_ns,
            noticed_ns: times.noticed_ns,
        });
        (found.values, found.ready_ns) = (computed.values, times.noticed_ns);
        let longest = self.longest.entry((found.lane, step)).or_default();
        *longest = (*longest).max(computed.feed_ns.saturating_add(computed.run_ns));
    }

    /// What was loaded, and the resident memory before and after.
    fn record_memory(&mut self, processor: usize, computed: &Computed, at_ns: u64) {
        let bytes = |load: &LoadTime| self.session.parts[load.part].bytes;
        let new: Vec<u64> = computed.loads.iter().map(bytes).collect();
        let all = self.memory.bytes_on(processor);
        let mut loaded_bytes = all.saturating_sub(new.iter().sum());
        self.resident(processor, computed.unloaded_resident_bytes, loaded_bytes, at_ns);
        for (load, bytes) in computed.loads.iter().zip(new) {
            loaded_bytes = loaded_bytes.saturating_add(bytes);
            self.loaded(processor, *load, at_ns, LoadWhen::Query);
            self.resident(processor, load.resident_bytes, loaded_bytes, at_ns);
        }
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
        let latency_ns = record.latency_ns;
        self.events.push(RunEvent::Query(record));
        self.observe(query, latency_ns);
    }
}
