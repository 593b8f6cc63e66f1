//! One engine's thread: pinned, it loads parts when they are first asked for and runs one task
//! after the other, in the order they come.

use super::{LiveError, LiveProcessor};
use crate::{
    backends::{self, Backend, OutputValues, Session},
    clock::Stopwatch,
    pinning,
    source::{self, Source},
};
use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread::JoinHandle,
};
use vitempo_graph::Graph;

/// Engines may go deep in large graphs; the main thread has as much.
const STACK_BYTES: usize = 16 << 20;

/// One part of one frame to be run.
pub(super) struct Job {
    pub(super) part: usize,
    /// All values of the frame so far.
    pub(super) values: Vec<Arc<OutputValues>>,
    pub(super) reply: mpsc::Sender<Result<Done, LiveError>>,
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
            Ok(engine) => {
                let _ = ready.send(Ok(()));
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
        started.recv().map_err(|_| refuse("its thread ended while it started".to_owned()))??;
        Ok(Self {
            name: processor.name.clone(),
            cores: processor.options.cores.clone(),
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    pub(super) fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// Appends a job to the queue.
    pub(super) fn submit(&self, job: Job) -> Result<(), LiveError> {
        let sent = self.jobs.as_ref().and_then(|jobs| jobs.send(job).ok());
        sent.ok_or_else(|| LiveError::Processor {
            processor: self.name.clone(),
            reason: "its engine ended".to_owned(),
        })
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
}

impl Engine {
    fn start(processor: LiveProcessor, parts: Arc<Vec<Graph>>) -> Result<Self, LiveError> {
        let refuse = |e: &dyn std::fmt::Display| LiveError::Processor {
            processor: processor.name.clone(),
            reason: e.to_string(),
        };
        pinning::pin(&processor.options.cores)?;
        let backend = backends::by_name(&processor.backend).map_err(|e| refuse(&e))?;
        let capabilities =
            backend.probe(&processor.options).require(backend.name()).map_err(|e| refuse(&e))?;
        capabilities.check(backend.name(), &processor.options).map_err(|e| refuse(&e))?;
        Ok(Self { processor, backend, parts, sessions: HashMap::new() })
    }

    fn serve(mut self, requests: &mpsc::Receiver<Job>) {
        while let Ok(Job { part, values, reply }) = requests.recv() {
            let done = catch_unwind(AssertUnwindSafe(|| self.run(part, &values)))
                .unwrap_or_else(|_| Err("the engine panicked".to_owned()));
            let name =
                self.parts.get(part).map_or_else(String::new, |graph| graph.name().to_owned());
            let error = |reason| LiveError::Task {
                part: name,
                processor: self.processor.name.clone(),
                reason,
            };
            // The requester may have given up.
            let _ = reply.send(done.map_err(error));
        }
    }

    fn run(&mut self, part: usize, values: &[Arc<OutputValues>]) -> Result<Done, String> {
        let mut session = match self.sessions.remove(&part) {
            Some(session) => session,
            None => self.load(part)?,
        };
        let values: Vec<&OutputValues> = values.iter().map(AsRef::as_ref).collect();
        let watch = Stopwatch::start();
        let outputs = session.feed(&values).and_then(|()| session.outputs());
        let busy_ns = watch.stop().wall_ns;
        self.sessions.insert(part, session);
        Ok(Done { part, values: outputs.map_err(|e| e.to_string())?, busy_ns })
    }

    fn load(&self, part: usize) -> Result<Box<dyn Session>, String> {
        let graph = self.parts.get(part).ok_or_else(|| format!("there is no part {part}"))?;
        let model = source::ready(
            graph.name(),
            &Source::Graph,
            graph,
            self.backend.as_ref(),
            &self.processor.options,
        )?;
        self.backend.load(&model, &self.processor.options).map_err(|e| e.to_string())
    }
}
