//! Tasks on processors: start, end, and the rate in between, which depends on frequency and
//! contention.

use super::{Engine, Event, Job, Running, Span};

impl Engine<'_, '_> {
    pub(super) fn start(&mut self, processor: usize, job: Job) {
        let model = &self.scenario.processors[processor];
        self.account(processor);
        let state = &mut self.processors[processor];
        let switched = state.last_model.is_some_and(|last| last != job.task.model);
        state.last_model = Some(job.task.model);
        let factor = self.streams[job.stream].noise.factor(job.task.cv);
        let fixed_ns = (model.dispatch_ns + if switched { model.switch_ns } else { 0 }) as f64;
        let (compute_ns, memory_ns) =
            (job.task.compute_ns as f64 * factor, job.task.memory_ns as f64 * factor);
        let (start_ns, left) = (self.now_ns, 1.0);
        state.running = Some(Running {
            job,
            start_ns,
            fixed_ns,
            compute_ns,
            memory_ns,
            left,
            since_ns: start_ns,
            whole_ns: 0.0,
        });
        self.reschedule(processor);
        self.neighbours_changed(processor);
    }

    pub(super) fn finish(&mut self, processor: usize, generation: u32) {
        if self.processors[processor].generation != generation {
            return;
        }
        self.account(processor);
        let state = &mut self.processors[processor];
        let Some(running) = state.running.take() else { return };
        state.busy_ns += self.now_ns - running.start_ns;
        if self.spans.len() < self.scenario.keep_spans {
            let Job { stream, stage, frame, .. } = running.job;
            self.spans.push(Span {
                processor,
                stream,
                stage,
                frame: frame.number,
                start_ns: running.start_ns,
                end_ns: self.now_ns,
            });
        }
        if let Some(program) = &mut self.application {
            program.task_done(
                running.job.stream,
                &running.job.task,
                self.now_ns - running.start_ns,
            );
        }
        match self.next_waiting(processor) {
            Some(next) => self.start(processor, next),
            None => self.neighbours_changed(processor),
        }
        self.task_done(&running.job);
    }

    /// Reschedules the end of the running task, for the current frequency and contention.
    pub(super) fn reschedule(&mut self, processor: usize) {
        let stretch = self.scenario.processors[processor].stretch(self.processors[processor].level);
        let slowdown = self.slowdown(processor);
        let now = self.now_ns;
        let state = &mut self.processors[processor];
        let Some(running) = &mut state.running else { return };
        let whole =
            running.fixed_ns + (running.compute_ns * stretch + running.memory_ns) * slowdown;
        if running.whole_ns > 0.0 {
            running.left =
                (running.left - (now - running.since_ns) as f64 / running.whole_ns).max(0.0);
        }
        (running.since_ns, running.whole_ns) = (now, whole);
        let end = now.saturating_add((running.left * whole).round() as u64);
        state.generation = state.generation.wrapping_add(1);
        self.events
            .at(end, Event::Finish { processor: processor as u32, generation: state.generation });
    }

    /// The waiting task with the lowest priority number; among equals the first that arrived.
    fn next_waiting(&mut self, processor: usize) -> Option<Job> {
        let waiting = &mut self.processors[processor].waiting;
        let streams = &self.scenario.streams;
        let (next, _) =
            waiting.iter().enumerate().min_by_key(|(_, job)| streams[job.stream].priority)?;
        waiting.remove(next)
    }

    pub(super) fn slowdown(&self, processor: usize) -> f64 {
        let busy = |other: &usize| *other != processor && self.processors[*other].running.is_some();
        let others = || (0..self.processors.len()).filter(busy);
        let shared = if self.scenario.contention.most > 1.0 {
            let share: f64 = others().map(|o| self.scenario.processors[o].bandwidth_share).sum();
            self.scenario.contention.slowdown(share)
        } else {
            1.0
        };
        match self.scenario.slowdown.get(processor) {
            Some(row) => shared * (1.0 + others().map(|other| row[other] - 1.0).sum::<f64>()),
            None => shared,
        }
    }

    pub(super) fn neighbours_changed(&mut self, processor: usize) {
        let asks = self.scenario.contention.most > 1.0
            && self.scenario.processors[processor].bandwidth_share != 0.0;
        if !asks && self.scenario.slowdown.is_empty() {
            return;
        }
        for other in (0..self.processors.len()).filter(|&other| other != processor) {
            if self.processors[other].running.is_some() {
                self.reschedule(other);
            }
        }
    }
}
