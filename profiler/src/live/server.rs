//! One engine's thread: it starts the engine, in itself or in a process of its own, and runs one job
//! after the other, in the order in which they come.

use super::{
    LiveError, LiveProcessor, LoadTime, PartError, Started,
    engine::{Engine, Parts, Ran},
    piece::{Computed, Piece, Reported},
    process::{EngineProcess, PartFiles, Workers},
    tensors::{Pool, Tensors},
};
use crate::{
    backends::{self, OutputValues},
    priority::RunFirst,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Instant,
};
use vitempo_graph::{Environment, Graph};

/// Engines may go deep in large graphs; the main thread has as much.
const STACK_BYTES: usize = 16 << 20;

/// What an engine is asked to do.
pub(super) enum Job {
    Part(PartJob),
    Piece(PieceJob),
    Load { part: usize, reply: mpsc::Sender<Result<Option<LoadTime>, LiveError>> },
    Unload { processor: usize, parts: Vec<usize>, reply: mpsc::Sender<Reported> },
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
    pub(super) piece: Piece,
    pub(super) reply: mpsc::Sender<Reported>,
}

/// The results of a part, and its time including the transfer of inputs, ns.
pub(super) struct Done {
    pub(super) part: usize,
    pub(super) values: Vec<OutputValues>,
    pub(super) busy_ns: u64,
}

/// What came of a piece.
pub(super) struct Timed {
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    /// The engine was started again before.
    pub(super) started: Option<Started>,
    pub(super) result: Result<Computed, LiveError>,
}

/// An engine that does one thing after the other.
pub(super) trait Serve {
    fn part(&mut self, part: usize, values: &[Arc<OutputValues>]) -> Result<Done, LiveError>;
    fn piece(&mut self, piece: Piece) -> Timed;
    fn load(&mut self, part: usize) -> Result<Option<LoadTime>, LiveError>;
    /// The resident memory of its process afterwards.
    fn unload(&mut self, parts: &[usize]) -> Result<Option<u64>, LiveError>;
}

/// Where an engine runs.
pub(super) enum Seat {
    /// In its thread.
    Here(Arc<Vec<Graph>>),
    /// In a process of its own.
    Process(Workers, Arc<PartFiles>, Pool),
}

/// An engine that has started.
pub(super) struct Ready {
    pub(super) environment: Environment,
    /// Identifier of its process, if that is not this one.
    pub(super) process: Option<u32>,
    /// Resident memory of that process with the engine started and nothing loaded.
    pub(super) resident_bytes: Option<u64>,
}

/// A running engine; it ends with this value.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    cores: Vec<usize>,
    environment: Environment,
    process: Option<u32>,
    resident_bytes: Option<u64>,
    jobs: Option<mpsc::Sender<Job>>,
    /// Set when nobody waits for an answer of its process any more.
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the thread and the engine, on its cores.
    pub(super) fn start(processor: &LiveProcessor, seat: Seat) -> Result<Self, LiveError> {
        let refuse =
            |reason: String| LiveError::Processor { processor: processor.name.clone(), reason };
        let (jobs, requests) = mpsc::channel::<Job>();
        let (ready, started) = mpsc::channel();
        let own = processor.clone();
        let closing = Arc::new(AtomicBool::new(false));
        let is_closing = Arc::clone(&closing);
        let body = move || {
            let failed = match seat {
                Seat::Here(parts) => run_here(&own, parts, &ready, &requests),
                Seat::Process(workers, parts, pool) => {
                    // It hands on; its process computes.
                    RunFirst::always();
                    let started = EngineProcess::start(own, workers, parts, pool, is_closing);
                    started.map(|(mut engine, found)| {
                        let _ = ready.send(Ok(found));
                        serve(&mut engine, &requests);
                    })
                }
            };
            if let Err(error) = failed {
                let _ = ready.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new()
            .name(processor.name.clone())
            .stack_size(STACK_BYTES)
            .spawn(body);
        let thread = thread.map_err(|e| refuse(format!("its thread does not start: {e}")))?;
        let ended = |_| refuse("its thread ended while it started".to_owned());
        let Ready { environment, process, resident_bytes } = started.recv().map_err(ended)??;
        Ok(Self {
            environment,
            process,
            resident_bytes,
            closing,
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

    /// Identifier of the process that the engine was started in, if that is not this one.
    pub(super) fn process(&self) -> Option<u32> {
        self.process
    }

    /// Resident memory of that process with nothing loaded, bytes.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        self.resident_bytes
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
        self.closing.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts an engine in this thread and serves requests.
fn run_here(
    processor: &LiveProcessor,
    parts: Arc<Vec<Graph>>,
    ready: &mpsc::Sender<Result<Ready, LiveError>>,
    requests: &mpsc::Receiver<Job>,
) -> Result<(), LiveError> {
    let refuse =
        |reason: String| LiveError::Processor { processor: processor.name.clone(), reason };
    let backend = backends::by_name(&processor.backend).map_err(|e| refuse(e.to_string()))?;
    let given = Parts::Graphs(Arc::clone(&parts));
    let started = Engine::start(backend.as_ref(), &processor.options, given);
    let (engine, environment) = started.map_err(refuse)?;
    let _ = ready.send(Ok(Ready { environment, process: None, resident_bytes: None }));
    serve(&mut Here { engine, parts, processor: &processor.name }, requests);
    Ok(())
}

fn serve(engine: &mut dyn Serve, requests: &mpsc::Receiver<Job>) {
    while let Ok(job) = requests.recv() {
        // The requester may have given up.
        match job {
            Job::Part(PartJob { part, values, reply }) => {
                let _ = reply.send(engine.part(part, &values));
            }
            Job::Piece(PieceJob { piece, reply }) => {
                let (id, processor) = (piece.id, piece.processor);
                let _ = reply.send(Reported::Piece { id, processor, timed: engine.piece(piece) });
            }
            Job::Load { part, reply } => {
                let _ = reply.send(engine.load(part));
            }
            Job::Unload { processor, parts, reply } => {
                let result = engine.unload(&parts);
                let _ = reply.send(Reported::Unloaded { processor, parts, result });
            }
        }
    }
}

/// An engine in this thread.
struct Here<'a> {
    engine: Engine<'a>,
    parts: Arc<Vec<Graph>>,
    processor: &'a str,
}

impl Here<'_> {
    fn failed(&self, PartError { part, reason }: PartError) -> LiveError {
        LiveError::of_part(&self.parts, part, self.processor, reason)
    }

    fn compute(&mut self, piece: &Piece) -> Result<Computed, LiveError> {
        let first = piece.parts.first().copied().unwrap_or_default();
        let unread = |e: std::io::Error| PartError { part: first, reason: e.to_string() };
        let values = piece.values.read().map_err(|e| self.failed(unread(e)))?;
        let ran = self.engine.piece(&piece.parts, &piece.keep, values);
        let Ran { values, loads, feed_ns, run_ns } = ran.map_err(|e| self.failed(e))?;
        let values = Tensors::Here(values);
        Ok(Computed { values, loads, feed_ns, run_ns, ..Computed::default() })
    }
}

impl Serve for Here<'_> {
    fn part(&mut self, part: usize, values: &[Arc<OutputValues>]) -> Result<Done, LiveError> {
        let ran = self.engine.run(part, values);
        let (values, busy_ns) = ran.map_err(|e| self.failed(e))?;
        Ok(Done { part, values, busy_ns })
    }

    fn piece(&mut self, piece: Piece) -> Timed {
        let begun = Instant::now();
        self.engine.unload(&piece.unload);
        let result = self.compute(&piece);
        Timed { begun, ended: Instant::now(), started: None, result }
    }

    fn load(&mut self, part: usize) -> Result<Option<LoadTime>, LiveError> {
        self.engine.load(part).map_err(|e| self.failed(e))
    }

    fn unload(&mut self, parts: &[usize]) -> Result<Option<u64>, LiveError> {
        Ok(self.engine.unload(parts))
    }
}
