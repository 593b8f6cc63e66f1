//! A sweep measures many models on one backend: round after round over all of them, one model run
//! at a time. Each model run is passed to the caller as soon as it ends.
//!
//! Within a round the models come in a seeded, shuffled order that differs from round to round, so
//! that drift of the machine does not always affect the same models; the reference workload runs
//! before and after every model run. A resumed sweep skips the model runs that the caller already
//! has. A model that fails, crashes its worker or takes too long is a profile with its reason, and
//! the sweep continues with a fresh worker.

use crate::{
    backends::RunOptions,
    load::{Beside, Companion, LoadError},
    model_run::ModelRun,
    probe::SweepError,
    protocol::RunProtocol,
    source::Source,
    target::{Runner, Target},
    worker::{Outcome, RunRequest},
};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use vitempo_graph::{
    Environment, Executed, Graph, LoadRecord, ModelIdentity, ModelProfile, Origin, Status,
};

/// One model of a sweep.
#[derive(Clone, Debug)]
pub struct SweepModel {
    /// What it is.
    pub identity: ModelIdentity,
    /// Its operators; all shapes static.
    pub graph: Graph,
    /// Its bytes.
    pub source: Source,
}

/// What to measure, on what, and how.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The models.
    pub models: Vec<SweepModel>,
    /// Name of the backend.
    pub backend: String,
    /// How to run; `cores` empty: the last ones.
    pub options: RunOptions,
    /// How to sample; `protocol.rounds` rounds.
    pub protocol: RunProtocol,
    /// Makes this of the rounds alone; `None`: all.
    pub only_round: Option<usize>,
    /// No model run starts that is expected, at the pace so far, to end after this.
    pub budget: Option<Duration>,
    /// A model run that takes longer has failed.
    pub run_timeout: Duration,
    /// Where the engines run.
    pub target: Target,
    /// Name of this session.
    pub session: String,
    /// The load on other cores meanwhile; `None`: nothing. The target is this machine then.
    pub beside: Option<Beside>,
    /// Which model runs measure memory.
    pub memory: MemoryRuns,
}

/// Which model runs measure memory: those in a process of their own
/// ([`RunProtocol::memory_alone`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryRuns {
    /// None.
    #[default]
    Never,
    /// One after each other run of a model; networks around operators have none.
    Also,
    /// All: nothing else is measured.
    Alone,
}

/// Callbacks of a sweep.
pub struct Hooks<'a> {
    /// Whether this model run exists already.
    pub done: &'a dyn Fn(&ModelIdentity, usize) -> bool,
    /// Takes every profile, failed ones included, as soon as it ends; an error ends the sweep.
    pub sink: &'a mut dyn FnMut(&ModelProfile) -> Result<(), String>,
    /// Called before the first and after every model run.
    pub progress: &'a mut dyn FnMut(&Progress<'_>),
    /// Set from outside to end the sweep; the current model run is discarded.
    pub interrupted: &'a AtomicBool,
}

/// How far a sweep is.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Model runs finished or skipped.
    pub done: usize,
    /// Model runs in all.
    pub total: usize,
    /// Model runs that failed.
    pub failed: usize,
    /// The model measured last.
    pub model: Option<&'a str>,
    /// Time since the start.
    pub elapsed: Duration,
    /// What remains at the pace so far; `None` before the first model run.
    pub remaining: Option<Duration>,
}

/// How a sweep ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Model runs that brought samples.
    pub measured: usize,
    /// Model and reason of model runs that did not.
    pub failed: Vec<(String, String)>,
    /// How many of the model runs that brought samples have no peak memory, by reason.
    pub without_peak_memory: BTreeMap<String, usize>,
    /// Model runs that were there already.
    pub skipped: usize,
    /// Model runs not made: the budget was spent, or someone interrupted.
    pub left: usize,
    /// Someone interrupted.
    pub interrupted: bool,
    /// Time it took.
    pub elapsed: Duration,
    /// Median of the reference workload beside each model run that brought samples, ns.
    pub reference_ns: Vec<u64>,
}

/// Fewest model runs that show how steady the machine was.
const FEWEST_STEADY: usize = 20;

/// How many times as long the reference workload took beside the slowest tenth of model runs as
/// beside the fastest, of its medians in ns; `None` with few of them. Datasets of machines at rest
/// have 1.1 to 1.2, and forecasts can be no better than what the machine itself varies by.
#[must_use]
pub fn unsteadiness(reference_ns: &[u64]) -> Option<f64> {
    let mut sorted: Vec<u64> = reference_ns.iter().copied().filter(|ns| *ns > 0).collect();
    sorted.sort_unstable();
    let (tenth, count) = (sorted.len() / 10, sorted.len());
    let (fast, slow) = (*sorted.get(tenth)?, *sorted.get(count.checked_sub(1 + tenth)?)?);
    (count >= FEWEST_STEADY).then(|| slow as f64 / fast as f64)
}

/// [`unsteadiness`] from which on a machine was not at rest.
pub const UNSTEADY: f64 = 1.2;

impl Sweep {
    /// Runs it.
    ///
    /// # Errors
    /// [`SweepError`] when no model run is possible or a profile cannot be kept. A model that fails
    /// is not an error.
    pub fn run(&self, hooks: Hooks<'_>) -> Result<Summary, SweepError> {
        let environment = self.environment()?;
        let options = RunOptions { cores: environment.cores.clone(), ..self.options.clone() };
        let companion = self.companion(&environment.cores, hooks.interrupted)?;
        Run {
            sweep: self,
            options,
            environment,
            runner: self.target.runner(),
            companion,
            hooks,
            start: Instant::now(),
            summary: Summary::default(),
        }
        .all_rounds()
    }

    /// Where it measures, and beside which load.
    ///
    /// # Errors
    /// As [`Target::probe`].
    pub fn environment(&self) -> Result<Environment, SweepError> {
        let alone = self.target.probe(&self.backend, &self.options)?;
        let beside = self.beside.as_ref().map(|beside| beside.load.name());
        Ok(Environment { beside, ..alone })
    }

    /// How each model run samples.
    #[must_use]
    pub fn run_protocol(&self) -> RunProtocol {
        match self.memory {
            MemoryRuns::Alone => self.protocol.memory_alone(),
            MemoryRuns::Never | MemoryRuns::Also => self.protocol.clone(),
        }
    }

    fn companion(
        &self,
        measured: &[usize],
        interrupted: &AtomicBool,
    ) -> Result<Option<Companion>, SweepError> {
        let Some(beside) = &self.beside else { return Ok(None) };
        let Target::Local(worker) = &self.target else { return Err(LoadError::Remote.into()) };
        let (worker, seed) = (worker.clone(), self.options.seed);
        Ok(Some(Companion::start(worker, beside, measured, seed, interrupted)?))
    }

    /// Each model with each of the rounds in which it is run.
    pub fn model_rounds(&self) -> impl Iterator<Item = (&ModelIdentity, usize)> {
        self.runs().into_iter().map(|(round, model)| (&self.models[model].identity, round))
    }

    /// The model runs in order: round and index of the model.
    fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs = Vec::new();
        let is_made = |round: &usize| self.only_round.is_none_or(|only| only == *round);
        for round in (0..self.protocol.protocol.rounds).filter(is_made) {
            let mut order: Vec<usize> = (0..self.models.len()).collect();
            order.shuffle(&mut StdRng::seed_from_u64(
                self.protocol.protocol.seed.wrapping_add(round as u64),
            ));
            runs.extend(order.into_iter().map(|model| (round, model)));
        }
        runs
    }
}

/// A sweep under way.
struct Run<'a, 'h> {
    sweep: &'a Sweep,
    options: RunOptions,
    environment: Environment,
    runner: Runner,
    companion: Option<Companion>,
    hooks: Hooks<'h>,
    start: Instant,
    summary: Summary,
}

impl Run<'_, '_> {
    fn all_rounds(mut self) -> Result<Summary, SweepError> {
        let sweep = self.sweep;
        let (there, wanted): (Vec<_>, Vec<_>) = sweep
            .runs()
            .into_iter()
            .partition(|&(round, model)| (self.hooks.done)(&sweep.models[model].identity, round));
        self.summary.skipped = there.len();
        self.report(None, wanted.len());
        for (index, &(round, model)) in wanted.iter().enumerate() {
            self.summary.left = wanted.len() - index;
            if self.out_of_time(index) || !self.run(&sweep.models[model], round)? {
                break;
            }
            self.summary.left -= 1;
            self.report(Some(&sweep.models[model].identity.name), self.summary.left);
        }
        self.summary.interrupted = self.interrupted();
        self.summary.elapsed = self.start.elapsed();
        Ok(self.summary)
    }

    fn interrupted(&self) -> bool {
        self.hooks.interrupted.load(Ordering::Relaxed)
    }

    fn measured(&self) -> usize {
        self.summary.measured + self.summary.failed.len()
    }

    fn out_of_time(&self, measured: usize) -> bool {
        let pace = if measured == 0 {
            Duration::ZERO
        } else {
            self.start.elapsed() / u32::try_from(measured).unwrap_or(u32::MAX)
        };
        self.sweep.budget.is_some_and(|budget| self.start.elapsed() + pace >= budget)
    }

    fn report(&mut self, model: Option<&str>, left: usize) {
        let (measured, elapsed) = (self.measured(), self.start.elapsed());
        let pace = elapsed.checked_div(u32::try_from(measured).unwrap_or(u32::MAX));
        let done = measured + self.summary.skipped;
        let remaining =
            pace.map(|pace| pace.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX)));
        (self.hooks.progress)(&Progress {
            done,
            total: done + left,
            failed: self.summary.failed.len(),
            model,
            elapsed,
            remaining,
        });
    }

    /// One model run; `false` when it was interrupted.
    fn run(&mut self, model: &SweepModel, round: usize) -> Result<bool, SweepError> {
        if self.interrupted() {
            return Ok(false);
        }
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some((outcome, load)) = self.beside_load(model)? else { return Ok(false) };
        let (run, status) = match outcome {
            Ok(run) => {
                let Some(run) = self.with_memory(model, run)? else { return Ok(false) };
                (run, Status::Ok)
            }
            Err(reason) => (ModelRun::default(), Status::Failed(reason)),
        };
        let profile = ModelProfile {
            model: model.identity.clone(),
            environment: self.environment.clone(),
            session: self.sweep.session.clone(),
            round,
            started_unix_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
            origin: Origin::Measured,
            source: None,
            protocol: self.sweep.run_protocol().recorded(&self.options),
            e2e: run.e2e,
            e2e_profiled: run.e2e_profiled,
            reference: run.reference,
            executed: Executed::of(&run.operators),
            operators: run.operators,
            peak_memory_bytes: run.peak_memory_bytes,
            running_memory_bytes: run.running_memory_bytes,
            energy_per_inference_uj: run.energy_per_inference_uj,
            load,
            status,
        };
        (self.hooks.sink)(&profile)
            .map_err(|reason| SweepError::Sink { model: model.identity.name.clone(), reason })?;
        match profile.status {
            Status::Ok => {
                self.summary.measured += 1;
                let reference = profile.reference.median_ns().map(|ns| ns as u64);
                self.summary.reference_ns.extend(reference);
                if let Some(reason) = run.no_peak_memory {
                    *self.summary.without_peak_memory.entry(reason).or_default() += 1;
                }
            }
            Status::Failed(reason) => {
                self.summary.failed.push((model.identity.name.clone(), reason));
            }
        }
        Ok(true)
    }

    /// The result of the model run, and what the load did meanwhile; `None` if interrupted. Where
    /// the load did not run, or the model not without it, the model run has failed.
    fn beside_load(
        &mut self,
        model: &SweepModel,
    ) -> Result<Option<(Outcome, Option<LoadRecord>)>, SweepError> {
        if self.companion.is_none() {
            let outcome = self.ask(model, self.sweep.run_protocol())?;
            return Ok(outcome.map(|outcome| (outcome, None)));
        }
        let alone = match self.ask(model, self.sweep.protocol.end_to_end_alone())? {
            None => return Ok(None),
            Some(Err(reason)) => return Ok(Some((Err(reason), None))),
            Some(Ok(run)) => run.e2e.wall_ns,
        };
        let interrupted = self.hooks.interrupted;
        match self.companion.as_mut().and_then(|companion| companion.begin(interrupted)) {
            None => return Ok(None),
            Some(Err(reason)) => return Ok(Some((Err(reason), None))),
            Some(Ok(())) => {}
        }
        let Some(outcome) = self.ask(model, self.sweep.protocol.clone())? else { return Ok(None) };
        let ended = self.companion.as_mut().and_then(|companion| companion.end(alone, interrupted));
        Ok(ended.map(|load| match load {
            Ok(load) => (outcome, Some(load)),
            Err(reason) => (outcome.and(Err(reason)), None),
        }))
    }

    /// The run with the model's memory, where that is measured; `None` if interrupted.
    fn with_memory(
        &mut self,
        model: &SweepModel,
        run: ModelRun,
    ) -> Result<Option<ModelRun>, SweepError> {
        if self.sweep.memory != MemoryRuns::Also || model.identity.is_operator() {
            return Ok(Some(run));
        }
        let fresh = self.ask(model, self.sweep.protocol.memory_alone())?;
        Ok(fresh.map(|fresh| run.with_memory_of(fresh)))
    }

    /// The result of the model run; `None` if interrupted.
    fn ask(
        &mut self,
        model: &SweepModel,
        protocol: RunProtocol,
    ) -> Result<Option<Outcome>, SweepError> {
        let protocol = RunProtocol { keeps_memory: model.identity.is_operator(), ..protocol };
        let request = RunRequest {
            backend: self.sweep.backend.clone(),
            options: self.options.clone(),
            protocol,
            name: model.identity.name.clone(),
            graph: model.graph.clone(),
            source: model.source.clone(),
        };
        self.runner.run(request, self.sweep.run_timeout, self.hooks.interrupted)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::reference;
    use crate::worker::WorkerCommand;

    #[test]
    fn a_machine_at_rest_is_steady_and_a_tenth_of_outliers_does_not_count() {
        let at_rest: Vec<u64> = (0..100).map(|i| 1000 + i % 10).collect();
        assert!(unsteadiness(&at_rest).is_some_and(|times| times < 1.02));
        let outliers: Vec<u64> = (0..100).map(|i| if i < 9 { 9000 } else { 1000 }).collect();
        assert_eq!(unsteadiness(&outliers), Some(1.0));
        let beside_others: Vec<u64> = (0..100).map(|i| 1000 + 10 * i).collect();
        assert!(unsteadiness(&beside_others).is_some_and(|times| times > UNSTEADY));
        assert_eq!(unsteadiness(&at_rest[..FEWEST_STEADY - 1]), None);
        assert_eq!(unsteadiness(&[0; 50]), None);
    }

    fn sweep(models: usize, rounds: usize) -> Sweep {
        let graph = reference::graph().unwrap();
        let identity = |i: usize| ModelIdentity {
            name: format!("m{i}"),
            architecture: graph.architecture(),
            space: None,
            encoding: None,
        };
        let mut protocol = RunProtocol::default();
        protocol.protocol.rounds = rounds;
        Sweep {
            models: (0..models)
                .map(|i| SweepModel {
                    identity: identity(i),
                    graph: graph.clone(),
                    source: Source::Graph,
                })
                .collect(),
            backend: "null".into(),
            options: RunOptions::default(),
            protocol,
            only_round: None,
            budget: None,
            run_timeout: Duration::from_secs(10),
            target: WorkerCommand {
                program: "/nonexistent/worker".into(),
                args: Vec::new(),
                env: Vec::new(),
            }
            .into(),
            session: "s".into(),
            beside: None,
            memory: MemoryRuns::Never,
        }
    }

    #[test]
    fn every_round_visits_every_model_once_in_another_order() {
        let runs = sweep(50, 2).runs();
        let round = |r: usize| runs.iter().filter(|v| v.0 == r).map(|v| v.1).collect::<Vec<_>>();
        let sorted = |mut v: Vec<usize>| {
            v.sort_unstable();
            v
        };
        assert_ne!(round(0), round(1));
        assert_eq!(sorted(round(0)), (0..50).collect::<Vec<_>>());
        assert_eq!(sorted(round(1)), (0..50).collect::<Vec<_>>());
        assert_eq!(runs, sweep(50, 2).runs());
        let second = Sweep { only_round: Some(1), ..sweep(50, 2) };
        assert_eq!(second.runs(), runs[50..]);
    }

    #[test]
    fn a_worker_that_cannot_start_ends_the_sweep_with_its_name() {
        let hooks = Hooks {
            done: &|_, _| false,
            sink: &mut |_| Ok(()),
            progress: &mut |_| {},
            interrupted: &AtomicBool::new(false),
        };
        let error = sweep(1, 1).run(hooks).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/worker"), "{error}");
    }
}
