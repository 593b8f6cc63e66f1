//! One engine's thread: pinned, it loads parts when they are first asked for and runs one job after
//! the other, in the order they come.

use super::{
    LiveError, LiveProcessor,
    piece::{Computed, LoadTime, Reported},
};
use crate::{
    backends::{self, Backend, Model, ModelSource, OutputValues, Session},
    clock::Stopwatch,
    environment, pinning,
    source::{self, Source},
};
use std::{
    collections::HashMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Instant,
};
use tempfile::TempDir;
use vitempo_graph::{Environment, Graph};

/// Engines may go deep in large graphs; the main thread has as much.
const STACK_BYTES: usize = 16 << 20;

/// What an engine is asked to do.
pub(super) enum Job {
    Part(PartJob),
    Piece(PieceJob),
    Load { part: usize, reply: mpsc::Sender<Result<Option<LoadTime>, LiveError>> },
    Unload { parts: Vec<usize>, reply: mpsc::Sender<()> },
}

/// One part of one frame to be run.
pub(super) struct PartJob {
    pub(super) part: usize,
    /// All values of the frame so far.
    pub(super) values: Vec<Arc<OutputValues>>,
    pub(super) reply: mpsc::Sender<Result<Done, LiveError>>,
}

/// Parts to be run one after the other.
pub(super) struct PieceJob {
    pub(super) id: usize,
    pub(super) processor: usize,
    pub(super) parts: Vec<usize>,
    pub(super) unload: Vec<usize>,
    pub(super) values: Vec<Arc<OutputValues>>,
    pub(super) reply: mpsc::Sender<Reported>,
}

/// The results of a part, and its time including the transfer of inputs, ns.
pub(super) struct Done {
    pub(super) part: usize,
    pub(super) values: Vec<OutputValues>,
    pub(super) busy_ns: u64,
}

/// A running engine; it ends with this value.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    cores: Vec<usize>,
    environment: Environment,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the thread, pins it to the cores and finds the backend.
    pub(super) fn start(
        processor: &LiveProcessor,
        parts: Arc<Vec<Graph>>,
    ) -> Result<Self, LiveError> {
        let refuse =
            |reason: String| LiveError::Processor { processor: processor.name.clone(), reason };
        let (jobs, requests) = mpsc::channel::<Job>();
        let (ready, started) = mpsc::channel();
        let own = processor.clone();
        let serve = move || match Engine::start(own, parts) {
            Ok((engine, environment)) => {
                let _ = ready.send(Ok(environment));
                engine.serve(&requests);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new()
            .name(processor.name.clone())
            .stack_size(STACK_BYTES)
            .spawn(serve);
        let thread = thread.map_err(|e| refuse(format!("its thread does not start: {e}")))?;
        let ended = |_| refuse("its thread ended while it started".to_owned());
        let environment = started.recv().map_err(ended)??;
        Ok(Self {
            environment,
            name: processor.name.clone(),
            cores: processor.options.cores.clone(),
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(super) fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// Appends a job to the queue.
    pub(super) fn submit(&self, job: Job) -> Result<(), LiveError> {
        let sent = self.jobs.as_ref().and_then(|jobs| jobs.send(job).ok());
        sent.ok_or_else(|| self.ended())
    }

    pub(super) fn ended(&self) -> LiveError {
        LiveError::Processor { processor: self.name.clone(), reason: "its engine ended".to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Engine {
    processor: LiveProcessor,
    backend: Box<dyn Backend>,
    parts: Arc<Vec<Graph>>,
    sessions: HashMap<usize, Box<dyn Session>>,
    /// Parts as files in the engine's form, from which they are loaded.
    models: HashMap<usize, Model>,
    folder: TempDir,
}

impl Engine {
    /// The engine, and the environment in which it runs.
    fn start(
        processor: LiveProcessor,
        parts: Arc<Vec<Graph>>,
    ) -> Result<(Self, Environment), LiveError> {
        let refuse = |e: &dyn std::fmt::Display| LiveError::Processor {
            processor: processor.name.clone(),
            reason: e.to_string(),
        };
        pinning::pin(&processor.options.cores)?;
        let backend = backends::by_name(&processor.backend).map_err(|e| refuse(&e))?;
        let capabilities =
            backend.probe(&processor.options).require(backend.name()).map_err(|e| refuse(&e))?;
        capabilities.check(backend.name(), &processor.options).map_err(|e| refuse(&e))?;
        let environment = environment::detect(backend.name(), &capabilities, &processor.options)?;
        let folder = tempfile::Builder::new().prefix("vitempo-parts").tempdir();
        let folder = folder.map_err(|e| refuse(&format!("no temporary folder: {e}")))?;
        let (sessions, models) = (HashMap::new(), HashMap::new());
        Ok((Self { processor, backend, parts, sessions, models, folder }, environment))
    }

    fn serve(mut self, requests: &mpsc::Receiver<Job>) {
        while let Ok(job) = requests.recv() {
            // The requester may have given up.
            match job {
                Job::Part(PartJob { part, values, reply }) => {
                    let done = self.guarded(part, |engine| engine.run(part, &values));
                    let _ = reply.send(done);
                }
                Job::Piece(job) => self.piece(job),
                Job::Load { part, reply } => {
                    let loaded = self.guarded(part, |engine| engine.loaded(part));
                    let _ = reply.send(loaded);
                }
                Job::Unload { parts, reply } => {
                    parts.iter().for_each(|part| drop(self.sessions.remove(part)));
                    let _ = reply.send(());
                }
            }
        }
    }

    /// A failure or a panic of the engine as an error that names the part.
    fn guarded<T>(
        &mut self,
        part: usize,
        act: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, LiveError> {
        let done = catch_unwind(AssertUnwindSafe(|| act(self))).unwrap_or_else(|_| {
            // Its state is uncertain.
            self.sessions.remove(&part);
            Err("the engine panicked".to_owned())
        });
        done.map_err(|reason| LiveError::Task {
            part: self.parts.get(part).map_or_else(String::new, |graph| graph.name().to_owned()),
            processor: self.processor.name.clone(),
            reason,
        })
    }

    fn piece(&mut self, job: PieceJob) {
        let PieceJob { id, processor, parts, unload, values, reply } = job;
        let begun = Instant::now();
        unload.iter().for_each(|part| drop(self.sessions.remove(part)));
        let mut computed = Computed { values, ..Computed::default() };
        let each = parts
            .iter()
            .try_for_each(|&part| self.guarded(part, |engine| engine.compute(part, &mut computed)));
        let result = each.map(|()| computed);
        let _ = reply.send(Reported { id, processor, begun, ended: Instant::now(), result });
    }

    /// Runs a part on the values so far, and replaces them.
    fn compute(&mut self, part: usize, computed: &mut Computed) -> Result<(), String> {
        computed.loads.extend(self.loaded(part)?);
        let session = self.sessions.get_mut(&part).ok_or("it is not loaded")?;
        let watch = Stopwatch::start();
        let values: Vec<&OutputValues> = computed.values.iter().map(AsRef::as_ref).collect();
        session.feed(&values).map_err(|e| e.to_string())?;
        computed.feed_ns += watch.stop().wall_ns;
        let watch = Stopwatch::start();
        let outputs = session.outputs().map_err(|e| e.to_string())?;
        computed.run_ns += watch.stop().wall_ns;
        computed.values = outputs.into_iter().map(Arc::new).collect();
        Ok(())
    }

    fn run(&mut self, part: usize, values: &[Arc<OutputValues>]) -> Result<Done, String> {
        self.loaded(part)?;
        let session = self.sessions.get_mut(&part).ok_or("it is not loaded")?;
        let values: Vec<&OutputValues> = values.iter().map(AsRef::as_ref).collect();
        let watch = Stopwatch::start();
        let outputs = session.feed(&values).and_then(|()| session.outputs());
        let busy_ns = watch.stop().wall_ns;
        Ok(Done { part, values: outputs.map_err(|e| e.to_string())?, busy_ns })
    }

    /// Loads a part that is not loaded, and says how long the engine took. The file is made when the
    /// part is first loaded, which is not counted.
    fn loaded(&mut self, part: usize) -> Result<Option<LoadTime>, String> {
        if self.sessions.contains_key(&part) {
            return Ok(None);
        }
        self.prepare(part)?;
        let model = self.models.get(&part).ok_or("it has no file")?;
        let watch = Stopwatch::start();
        let session = self.backend.load(model, &self.processor.options);
        let ns = watch.stop().wall_ns;
        self.sessions.insert(part, session.map_err(|e| e.to_string())?);
        Ok(Some(LoadTime { part, ns }))
    }

    fn prepare(&mut self, part: usize) -> Result<(), String> {
        if self.models.contains_key(&part) {
            return Ok(());
        }
        let graph = self.parts.get(part).ok_or_else(|| format!("there is no part {part}"))?;
        let (backend, options) = (self.backend.as_ref(), &self.processor.options);
        let mut model = source::ready(graph.name(), &Source::Graph, graph, backend, options)?;
        if let ModelSource::Bytes(bytes) = &model.source {
            let path = self.folder.path().join(format!("part-{part}.onnx"));
            fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
            model.source = ModelSource::File(path);
        }
        self.models.insert(part, model);
        Ok(())
    }
}
