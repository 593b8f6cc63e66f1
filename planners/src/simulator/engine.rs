//! [`simulate`]: the event loop. Frames move through workers, tasks through processors, heat
//! through the device.

use super::{
    application::Application,
    device::ProcessorModel,
    events::{Event, EventQueue},
    noise::Noise,
    outcome::{Outcome, ProcessorOutcome, Reading, Span, StreamOutcome},
    scenario::{Gate, Policy, Scenario, ScenarioError, Source, StageModel, Stream, Task},
    thermal::{Thermal, ThermalState, Throttle},
};
use crate::Evidence;
use std::collections::VecDeque;

/// Simulates a scenario. Equal seeds give equal outcomes.
///
/// # Errors
/// [`ScenarioError`] when the scenario is not consistent.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<Outcome, ScenarioError> {
    if scenario.streams.iter().any(|stream| stream.source == Source::Application) {
        return Err(ScenarioError::Scenario {
            reason: "a stream that an application decides on needs one".to_owned(),
        });
    }
    run(scenario, None, seed)
}

/// The same with a program that chooses the work of its streams.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_application(
    scenario: &Scenario,
    application: &mut dyn Application,
    seed: u64,
) -> Result<Outcome, ScenarioError> {
    run(scenario, Some(application), seed)
}

fn run(
    scenario: &Scenario,
    application: Option<&mut dyn Application>,
    seed: u64,
) -> Result<Outcome, ScenarioError> {
    scenario.check()?;
    let mut engine = Engine::new(scenario, application, seed);
    engine.run();
    Ok(engine.outcome())
}

#[derive(Clone, Copy)]
struct Frame {
    number: u64,
    captured_ns: u64,
    alternative: usize,
}

/// A task of a frame on a processor.
#[derive(Clone, Copy)]
struct Job {
    stream: usize,
    stage: usize,
    frame: Frame,
    task: Task,
}

struct Running {
    job: Job,
    start_ns: u64,
    /// Parts of the task, ns: the fixed part, which depends on neither frequency nor spread;
    /// computing; waiting for memory.
    fixed_ns: f64,
    compute_ns: f64,
    memory_ns: f64,
    /// Share of the task that is left, and the time since which it holds.
    left: f64,
    since_ns: u64,
    /// Time for the whole task at the current rate.
    whole_ns: f64,
}

struct ProcessorState {
    waiting: VecDeque<Job>,
    running: Option<Running>,
    generation: u32,
    level: usize,
    last_model: Option<u32>,
    busy_ns: u64,
    /// Time for which it worked for each stream, up to `accounted_ns`.
    busy_by_stream_ns: Vec<u64>,
    energy_j: f64,
    accounted_ns: u64,
}

#[derive(Clone, Copy)]
enum Worker {
    Idle,
    Working { frame: Frame, step: usize, pending: usize },
    Blocked(Frame),
}

struct StreamState {
    noise: Noise,
    workers: Vec<Worker>,
    queues: Vec<VecDeque<Frame>>,
    taken: u64,
    last_grid: Option<u64>,
    phase_ns: u64,
    alternative: usize,
    switches: u64,
    checked_ns: u64,
    /// By processor, the work for other streams at the last check, ns.
    checked_others_ns: Vec<u64>,
    /// Steps of the current frame, where an application chooses them.
    steps: Vec<Vec<Task>>,
    outcome: StreamOutcome,
}

struct Engine<'a, 'b> {
    scenario: &'a Scenario,
    application: Option<&'b mut dyn Application>,
    now_ns: u64,
    events: EventQueue,
    processed: u64,
    processors: Vec<ProcessorState>,
    streams: Vec<StreamState>,
    thermal: Option<(&'a Thermal, ThermalState)>,
    ticked_energy_j: f64,
    readings: Vec<Reading>,
    spans: Vec<Span>,
}

impl<'a, 'b> Engine<'a, 'b> {
    fn new(
        scenario: &'a Scenario,
        application: Option<&'b mut dyn Application>,
        seed: u64,
    ) -> Self {
        let processor = |p: &ProcessorModel| ProcessorState {
            waiting: VecDeque::new(),
            running: None,
            generation: 0,
            level: p.top_level(),
            last_model: None,
            busy_ns: 0,
            busy_by_stream_ns: vec![0; scenario.streams.len()],
            energy_j: 0.0,
            accounted_ns: 0,
        };
        let stream = |(index, s): (usize, &Stream)| {
            let stages = s.alternatives.first().map_or(0, Vec::len);
            let mut noise = Noise::new(seed, index);
            let phase_ns = if let Source::Camera(camera) = &s.source {
                noise.below(camera.period_ns)
            } else {
                0
            };
            let outcome = StreamOutcome {
                name: s.name.clone(),
                completed: 0,
                dropped: 0,
                latency_ns: vec![],
                completed_ns: vec![],
                late: 0,
            };
            let (workers, queues) = (vec![Worker::Idle; stages], vec![VecDeque::new(); stages]);
            StreamState {
                noise,
                workers,
                queues,
                taken: 0,
                last_grid: None,
                phase_ns,
                alternative: 0,
                switches: 0,
                checked_ns: 0,
                checked_others_ns: Vec::new(),
                steps: Vec::new(),
                outcome,
            }
        };
        Self {
            scenario,
            application,
            now_ns: 0,
            events: EventQueue::default(),
            processed: 0,
            processors: scenario.processors.iter().map(processor).collect(),
            streams: scenario.streams.iter().enumerate().map(stream).collect(),
            thermal: scenario.thermal.as_ref().map(|model| (model, ThermalState::new(model))),
            ticked_energy_j: 0.0,
            readings: Vec::new(),
            spans: Vec::new(),
        }
    }

    fn run(&mut self) {
        (0..self.streams.len()).for_each(|stream| self.ask_source(stream));
        let has_policy = self.scenario.streams.iter().any(|s| s.policy != Policy::First);
        if self.thermal.is_some() || has_policy {
            self.events.at(self.scenario.tick_ns, Event::Tick);
        }
        while let Some((time, event)) = self.events.next(self.scenario.duration_ns) {
            self.now_ns = time;
            self.processed += 1;
            match event {
                Event::Finish { processor, generation } => {
                    self.finish(processor as usize, generation);
                }
                Event::Frame { stream } => self.take_frame(stream as usize),
                Event::Tick => self.tick(),
            }
        }
        self.now_ns = self.scenario.duration_ns;
        (0..self.processors.len()).for_each(|processor| self.account(processor));
    }

    fn ask_source(&mut self, stream: usize) {
        let state = &mut self.streams[stream];
        let at = match &self.scenario.streams[stream].source {
            Source::Closed => Some(self.now_ns),
            Source::Application => self
                .application
                .as_mut()
                .and_then(|program| program.next(stream, self.now_ns))
                .map(|at| at.max(self.now_ns)),
            Source::Arrivals(times) => times.get(state.taken as usize).map(|&t| t.max(self.now_ns)),
            Source::Camera(camera) => {
                let since = self.now_ns.saturating_sub(state.phase_ns);
                let latest = (self.now_ns >= state.phase_ns).then(|| since / camera.period_ns);
                let on_grid = latest.filter(|_| since.is_multiple_of(camera.period_ns));
                let usable = if camera.gate == Gate::Latest { latest } else { on_grid };
                let fresh =
                    usable.filter(|&number| state.last_grid.is_none_or(|last| number > last));
                let next = fresh.unwrap_or_else(|| latest.map_or(0, |number| number + 1));
                Some((state.phase_ns + next * camera.period_ns).max(self.now_ns))
            }
        };
        if let Some(at) = at {
            self.events.at(at, Event::Frame { stream: stream as u32 });
        }
    }

    fn take_frame(&mut self, stream: usize) {
        let state = &mut self.streams[stream];
        let captured_ns = match &self.scenario.streams[stream].source {
            Source::Closed | Source::Application => self.now_ns,
            Source::Arrivals(times) => {
                times.get(state.taken as usize).copied().unwrap_or(self.now_ns)
            }
            Source::Camera(camera) => {
                let number = self.now_ns.saturating_sub(state.phase_ns) / camera.period_ns;
                let before = state.last_grid.map_or(0, |last| last + 1);
                state.outcome.dropped += number.saturating_sub(before);
                state.last_grid = Some(number);
                state.phase_ns + number * camera.period_ns
            }
        };
        let frame = Frame { number: state.taken, captured_ns, alternative: state.alternative };
        state.taken += 1;
        if let (Source::Application, Some(program)) =
            (&self.scenario.streams[stream].source, &mut self.application)
        {
            state.steps = program.begin(stream, self.now_ns);
            let there = self.scenario.processors.len();
            state.steps.iter_mut().for_each(|step| step.retain(|task| task.processor < there));
        }
        self.begin_stage(stream, 0, frame);
    }

    fn stage(&self, stream: usize, stage: usize, frame: Frame) -> &'a StageModel {
        &self.scenario.streams[stream].alternatives[frame.alternative][stage]
    }

    fn begin_stage(&mut self, stream: usize, stage: usize, frame: Frame) {
        self.begin_step(stream, stage, frame, 0);
    }

    fn begin_step(&mut self, stream: usize, stage: usize, frame: Frame, step: usize) {
        let decided = if self.application.is_some() {
            std::mem::take(&mut self.streams[stream].steps)
        } else {
            Vec::new()
        };
        let steps =
            if decided.is_empty() { &self.stage(stream, stage, frame).steps } else { &decided };
        let Some(next) = (step..steps.len()).find(|&s| !steps[s].is_empty()) else {
            return self.stage_done(stream, stage, frame);
        };
        let tasks = &steps[next];
        self.streams[stream].workers[stage] =
            Worker::Working { frame, step: next, pending: tasks.len() };
        for &task in tasks {
            let job = Job { stream, stage, frame, task };
            if self.processors[task.processor].running.is_none() {
                self.start(task.processor, job);
            } else {
                self.processors[task.processor].waiting.push_back(job);
            }
        }
        if !decided.is_empty() {
            self.streams[stream].steps = decided;
        }
    }

    fn task_done(&mut self, job: &Job) {
        let worker = &mut self.streams[job.stream].workers[job.stage];
        let Worker::Working { frame, step, pending } = worker else { return };
        *pending -= 1;
        if *pending == 0 {
            let (frame, step) = (*frame, *step);
            self.begin_step(job.stream, job.stage, frame, step + 1);
        }
    }

    fn stage_done(&mut self, stream: usize, stage: usize, frame: Frame) {
        let next = stage + 1;
        let state = &self.streams[stream];
        if next == state.workers.len() {
            self.complete(stream, frame);
        } else if matches!(state.workers[next], Worker::Idle) && state.queues[next].is_empty() {
            self.begin_stage(stream, next, frame);
        } else if state.queues[next].len() < self.stage(stream, next, frame).queue {
            self.streams[stream].queues[next].push_back(frame);
        } else {
            self.streams[stream].workers[stage] = Worker::Blocked(frame);
            return;
        }
        self.refill(stream, stage);
    }

    /// An idle worker takes the next frame, and a worker that waits for space in its queue passes a
    /// frame on.
    fn refill(&mut self, stream: usize, stage: usize) {
        self.streams[stream].workers[stage] = Worker::Idle;
        if stage == 0 {
            return self.ask_source(stream);
        }
        let next = self.streams[stream].queues[stage].pop_front();
        let blocked = match self.streams[stream].workers[stage - 1] {
            Worker::Blocked(frame) => Some(frame),
            _ => None,
        };
        match (next, blocked) {
            (Some(frame), None) => self.begin_stage(stream, stage, frame),
            (Some(frame), Some(handed_over)) => {
                self.streams[stream].queues[stage].push_back(handed_over);
                self.begin_stage(stream, stage, frame);
                self.refill(stream, stage - 1);
            }
            (None, Some(handed_over)) => {
                self.begin_stage(stream, stage, handed_over);
                self.refill(stream, stage - 1);
            }
            (None, None) => {}
        }
    }

    fn complete(&mut self, stream: usize, frame: Frame) {
        let latency = self.now_ns - frame.captured_ns;
        let late =
            self.scenario.streams[stream].deadline_ns.is_some_and(|deadline| latency > deadline);
        let outcome = &mut self.streams[stream].outcome;
        outcome.completed += 1;
        outcome.late += u64::from(late);
        outcome.latency_ns.push(latency);
        outcome.completed_ns.push(self.now_ns);
        if let (Source::Application, Some(program)) =
            (&self.scenario.streams[stream].source, &mut self.application)
        {
            program.frame_done(stream, frame.captured_ns, self.now_ns);
        }
    }

    fn outcome(self) -> Outcome {
        let duration_ns = self.scenario.duration_ns;
        let processors: Vec<ProcessorOutcome> = self
            .processors
            .iter()
            .zip(&self.scenario.processors)
            .map(|(state, model)| {
                let running = state.running.as_ref().map_or(0, |r| duration_ns - r.start_ns);
                ProcessorOutcome {
                    name: model.name.clone(),
                    busy_ns: state.busy_ns + running,
                    energy_j: state.energy_j,
                }
            })
            .collect();
        let energy_j = self.scenario.base_w * duration_ns as f64 / 1e9
            + processors.iter().map(|p| p.energy_j).sum::<f64>();
        Outcome {
            duration_ns,
            switches: self.streams.iter().map(|s| s.switches).collect(),
            streams: self.streams.into_iter().map(|s| s.outcome).collect(),
            processors,
            energy_j,
            readings: self.readings,
            spans: self.spans,
            events: self.processed,
            evidence: Evidence::Simulation,
        }
    }
}

mod heat;
mod processors;
#[cfg(test)]
mod tests;
