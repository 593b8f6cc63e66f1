//! [`EngineProcess`]: an engine in a process of its own, seen from here. A process that ends, or
//! that does not answer within its time, loses the work that it has; the next work starts it again,
//! a few times. Every wait has an end.

use super::{
    LiveError, LiveProcessor, LoadTime, PartError, PartFile, Started,
    piece::{Computed, Piece},
    server::{Done, Ready, Serve, Timed},
    tensors::{Pool, Tensors},
};
use crate::{
    backends::OutputValues,
    clock::{Stopwatch, monotonic_ns},
    source,
    worker::{
        PartsReply, PartsRequest, PieceReply, PieceRequest, Reply, Request, Worker, WorkerCommand,
    },
};
use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use vitempo_graph::Graph;

/// A process is ended when it takes so many times as long as its work is expected to take.
const LATE: u64 = 100;
/// Loading a part may take so many times the timeout.
const LOADING: u32 = 10;
/// Time for a process and its engine to start.
const START: Duration = Duration::from_secs(60);

/// How engines run in processes of their own.
#[derive(Clone, Debug)]
pub struct Workers {
    /// How to start one.
    pub command: WorkerCommand,
    /// An engine that has not answered for so long is ended; for 100 times as long as its work is
    /// expected to take, if that is longer; ten times as long where it loads a part.
    pub timeout: Duration,
    /// How often an engine that ended is started again.
    pub restarts: usize,
    /// Whether engines keep their cores awake while nothing runs.
    pub keep_awake: bool,
}

impl Workers {
    /// With a timeout of 5 s and 3 restarts; cores may sleep.
    #[must_use]
    pub const fn new(command: WorkerCommand) -> Self {
        Self { command, timeout: Duration::from_secs(5), restarts: 3, keep_awake: false }
    }
}

/// Parts as files that all processes read; each is written when it is first needed.
#[derive(Debug)]
pub(super) struct PartFiles {
    graphs: Arc<Vec<Graph>>,
    files: Vec<PartFile>,
    written: Vec<OnceLock<Result<(), String>>>,
    _folder: TempDir,
}

impl PartFiles {
    pub fn new(graphs: Arc<Vec<Graph>>) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("vitempo-parts").tempdir()?;
        let file = |(index, graph): (usize, &Graph)| PartFile {
            name: graph.name().to_owned(),
            path: folder.path().join(format!("part-{index}.onnx")),
        };
        let files = graphs.iter().enumerate().map(file).collect();
        let written = graphs.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { graphs, files, written, _folder: folder })
    }

    fn write(&self, part: usize, seed: u64) -> Result<(), PartError> {
        let missing = || PartError { part, reason: "there is no such part".to_owned() };
        let file = self.files.get(part).ok_or_else(missing)?;
        let write = || {
            let bytes = source::bytes_of_graph(&self.graphs[part], seed)?;
            fs::write(&file.path, bytes).map_err(|e| format!("{}: {e}", file.path.display()))
        };
        let written = self.written[part].get_or_init(write).clone();
        written.map_err(|reason| PartError { part, reason })
    }

    /// The values that are inputs of a part.
    fn inputs(&self, part: usize, values: &[Arc<OutputValues>]) -> Vec<Arc<OutputValues>> {
        let Some(graph) = self.graphs.get(part) else { return Vec::new() };
        let is_input = |value: &&Arc<OutputValues>| {
            graph.inputs().iter().any(|&id| graph.value(id).name == value.name)
        };
        values.iter().filter(is_input).cloned().collect()
    }
}

/// See the module.
pub(super) struct EngineProcess {
    processor: LiveProcessor,
    workers: Workers,
    parts: Arc<PartFiles>,
    pool: Pool,
    /// `None`: it ended.
    worker: Option<Worker>,
    /// Parts that the worker has loaded.
    loaded: BTreeSet<usize>,
    losses: usize,
    /// Why it last ended.
    reason: String,
    /// The last start that was not reported.
    started: Option<Started>,
    /// Set when nobody waits for an answer any more.
    closing: Arc<AtomicBool>,
}

impl EngineProcess {
    /// Starts the process and its engine.
    pub fn start(
        processor: LiveProcessor,
        workers: Workers,
        parts: Arc<PartFiles>,
        pool: Pool,
        closing: Arc<AtomicBool>,
    ) -> Result<(Self, Ready), LiveError> {
        let mut process = Self {
            processor,
            workers,
            parts,
            pool,
            worker: None,
            loaded: BTreeSet::new(),
            losses: 0,
            reason: String::new(),
            started: None,
            closing,
        };
        let PartsReply { environment, resident_bytes } = process.begin()?;
        let id = process.worker.as_ref().map(Worker::process_id);
        Ok((process, Ready { environment, process: id, resident_bytes }))
    }

    fn begin(&mut self) -> Result<PartsReply, LiveError> {
        let mut worker =
            Worker::start(&self.workers.command).map_err(|e| self.refuse(e.to_string()))?;
        let request = Request::Parts(Box::new(PartsRequest {
            backend: self.processor.backend.clone(),
            options: self.processor.options.clone(),
            parts: self.parts.files.clone(),
            keep_awake: self.workers.keep_awake,
        }));
        match worker.ask(&request, START, &self.closing) {
            Ok(Reply::Started(reply)) => {
                self.worker = Some(worker);
                Ok(*reply)
            }
            Ok(Reply::Failed { reason, .. }) => Err(self.refuse(reason)),
            Ok(_) => Err(self.refuse("the worker answered another question".to_owned())),
            Err(error) => Err(self.refuse(error.to_string())),
        }
    }

    fn refuse(&self, reason: String) -> LiveError {
        LiveError::Processor { processor: self.processor.name.clone(), reason }
    }

    /// The process is ended, if it has not ended by itself.
    fn lose(&mut self, reason: String) -> LiveError {
        self.worker = None;
        self.loaded.clear();
        self.losses += 1;
        self.reason = reason;
        self.ended()
    }

    fn ended(&self) -> LiveError {
        LiveError::Ended {
            processor: self.processor.name.clone(),
            reason: self.reason.clone(),
            starts_again: self.losses <= self.workers.restarts,
        }
    }

    /// A process that runs; one that ended is started again.
    fn running(&mut self) -> Result<(), LiveError> {
        if let Some(error) = self.worker.as_mut().and_then(Worker::ended) {
            let _ = self.lose(error.to_string());
        }
        if self.worker.is_some() {
            return Ok(());
        }
        if self.losses > self.workers.restarts {
            return Err(self.ended());
        }
        let watch = Stopwatch::start();
        self.begin()?;
        self.started = Some(Started {
            process: self.worker.as_ref().map(Worker::process_id),
            ns: watch.stop().wall_ns,
            reason: self.reason.clone(),
        });
        Ok(())
    }

    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Reply, LiveError> {
        let Some(worker) = self.worker.as_mut() else { return Err(self.ended()) };
        match worker.ask(request, limit, &self.closing) {
            Ok(Reply::Failed { reason, .. }) => Err(self.lose(reason)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.lose(error.to_string())),
        }
    }

    fn failed(&self, error: PartError) -> LiveError {
        let PartError { part, reason } = error;
        LiveError::of_part(&self.parts.graphs, part, &self.processor.name, reason)
    }

    fn other_answer(&mut self) -> LiveError {
        self.lose("the worker answered another question".to_owned())
    }

    /// The time after which the process counts as hung.
    fn limit(&self, parts: &[usize], expected_ns: u64) -> Duration {
        let timeout = self.workers.timeout;
        let limit = timeout.max(Duration::from_nanos(expected_ns.saturating_mul(LATE)));
        if parts.iter().all(|part| self.loaded.contains(part)) {
            limit
        } else {
            limit.saturating_mul(LOADING)
        }
    }

    fn compute(&mut self, piece: &Piece) -> Result<(PieceReply, Tensors), LiveError> {
        let Piece { parts, keep, unload, values, expected_ns, .. } = piece;
        for &part in parts {
            self.parts.write(part, self.processor.options.seed).map_err(|e| self.failed(e))?;
        }
        let first = parts.first().copied().unwrap_or_default();
        let no_file = |e: std::io::Error| PartError {
            part: first,
            reason: format!("tensors cannot be handed over: {e}"),
        };
        let inputs = self.pool.shared(values).map_err(|e| self.failed(no_file(e)))?;
        let mut outputs = self.pool.take().map_err(|e| self.failed(no_file(e)))?;
        self.loaded.retain(|part| !unload.contains(part));
        let request = Request::Piece(Box::new(PieceRequest {
            parts: parts.clone(),
            keep: keep.clone(),
            unload: unload.clone(),
            inputs: inputs.path(),
            tensors: inputs.tensors().to_vec(),
            outputs: outputs.path(),
        }));
        let limit = self.limit(parts, *expected_ns);
        match self.ask(&request, limit)? {
            Reply::Computed(Ok(mut reply)) => {
                self.loaded.extend(parts);
                outputs.written(std::mem::take(&mut reply.tensors));
                let values = self.pool.kept(outputs).map_err(|e| self.failed(no_file(e)))?;
                Ok((*reply, values))
            }
            Reply::Computed(Err(error)) => Err(self.failed(error)),
            _ => Err(self.other_answer()),
        }
    }
}

impl Serve for EngineProcess {
    fn part(&mut self, part: usize, values: &[Arc<OutputValues>]) -> Result<Done, LiveError> {
        self.running()?;
        let piece = Piece {
            id: 0,
            processor: 0,
            parts: vec![part],
            keep: Vec::new(),
            unload: Vec::new(),
            values: Tensors::Here(self.parts.inputs(part, values)),
            expected_ns: 0,
        };
        let (reply, values) = self.compute(&piece)?;
        let values = values.read().map_err(|e| self.refuse(e.to_string()))?;
        let values = values.into_iter().map(Arc::unwrap_or_clone).collect();
        Ok(Done { part, values, busy_ns: reply.feed_ns + reply.run_ns })
    }

    fn piece(&mut self, piece: Piece) -> Timed {
        let begun = Instant::now();
        let computed = self.running().and_then(|()| self.compute(&piece));
        let (ended, started) = (Instant::now(), self.started.take());
        let (reply, values) = match computed {
            Ok(computed) => computed,
            Err(error) => return Timed { begun, ended, started, result: Err(error) },
        };
        let since = |ns: Option<u64>| {
            let ago = Duration::from_nanos(monotonic_ns()?.checked_sub(ns?)?);
            Instant::now().checked_sub(ago).filter(|at| (begun..=ended).contains(at))
        };
        let (worker_begun, worker_ended) = (since(reply.begun_ns), since(reply.ended_ns));
        let PieceReply { unloaded_resident_bytes, loads, feed_ns, run_ns, .. } = reply;
        Timed {
            begun: worker_begun.filter(|_| started.is_none()).unwrap_or(begun),
            ended: worker_ended.unwrap_or(ended),
            started,
            result: Ok(Computed { values, unloaded_resident_bytes, loads, feed_ns, run_ns }),
        }
    }

    fn load(&mut self, part: usize) -> Result<Option<LoadTime>, LiveError> {
        self.running()?;
        self.parts.write(part, self.processor.options.seed).map_err(|e| self.failed(e))?;
        let limit = self.limit(&[part], 0);
        match self.ask(&Request::LoadPart(part), limit)? {
            Reply::PartLoaded(Ok(time)) => {
                self.loaded.insert(part);
                Ok(time)
            }
            Reply::PartLoaded(Err(error)) => Err(self.failed(error)),
            _ => Err(self.other_answer()),
        }
    }

    /// A process that ended holds nothing.
    fn unload(&mut self, parts: &[usize]) -> Result<Option<u64>, LiveError> {
        if self.worker.is_none() {
            return Ok(None);
        }
        self.loaded.retain(|part| !parts.contains(part));
        match self.ask(&Request::UnloadParts(parts.to_vec()), self.workers.timeout)? {
            Reply::PartsUnloaded(resident_bytes) => Ok(resident_bytes),
            _ => Err(self.other_answer()),
        }
    }
}
