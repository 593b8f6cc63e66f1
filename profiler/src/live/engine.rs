//! [`Engine`]: one engine with the parts that it has loaded. It runs in a thread of this process, or
//! in a process of its own ([`crate::worker`]). Times are ns of the wall clock.

use super::LoadTime;
use crate::{
    backends::{Backend, Model, ModelSource, OutputValues, RunOptions, Session},
    clock::Stopwatch,
    environment, memory, pinning,
    source::{self, Source},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
};
use tempfile::TempDir;
use vitempo_graph::{
    Environment, Graph,
    onnx::{self, ReadOptions},
};

/// A part as an ONNX file with weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartFile {
    /// Its name, for messages.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// Where an engine finds its parts.
#[derive(Clone, Debug)]
pub(crate) enum Parts {
    Graphs(Arc<Vec<Graph>>),
    Files(Vec<PartFile>),
}

/// Why a part failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartError {
    /// Index of the part.
    pub part: usize,
    /// What is wrong.
    pub reason: String,
}

/// What parts computed, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// The outputs of the last part, then the earlier values that were kept.
    pub values: Vec<Arc<OutputValues>>,
    pub loads: Vec<LoadTime>,
    pub feed_ns: u64,
    pub run_ns: u64,
}

/// See the module.
pub(crate) struct Engine<'a> {
    backend: &'a dyn Backend,
    options: RunOptions,
    parts: Parts,
    sessions: HashMap<usize, Box<dyn Session>>,
    /// Parts as files in the engine's form, from which they are loaded.
    models: HashMap<usize, Model>,
    folder: TempDir,
}

impl<'a> Engine<'a> {
    /// Pins this thread, and with it the engine's; also returns the environment in which it runs.
    pub fn start(
        backend: &'a dyn Backend,
        options: &RunOptions,
        parts: Parts,
    ) -> Result<(Self, Environment), String> {
        pinning::pin(&options.cores).map_err(|e| e.to_string())?;
        let capabilities =
            backend.probe(options).require(backend.name()).map_err(|e| e.to_string())?;
        capabilities.check(backend.name(), options).map_err(|e| e.to_string())?;
        let environment = environment::detect(backend.name(), &capabilities, options)
            .map_err(|e| e.to_string())?;
        let folder = tempfile::Builder::new().prefix("vitempo-parts").tempdir();
        let folder = folder.map_err(|e| format!("no temporary folder: {e}"))?;
        let (sessions, models) = (HashMap::new(), HashMap::new());
        let options = options.clone();
        Ok((Self { backend, options, parts, sessions, models, folder }, environment))
    }

    /// Loads a part that is not loaded, and returns how long the engine took.
    pub fn load(&mut self, part: usize) -> Result<Option<LoadTime>, PartError> {
        self.guarded(part, |engine| engine.loaded(part))
    }

    /// Unloads parts. In a process of its own, the memory goes back to the system, and what is still
    /// resident is returned; `None` elsewhere, and where the system does not report it.
    pub fn unload(&mut self, parts: &[usize]) -> Option<u64> {
        parts.iter().for_each(|part| drop(self.sessions.remove(part)));
        if parts.is_empty() || !self.is_alone() {
            return None;
        }
        memory::hand_back();
        memory::resident_bytes()
    }

    /// Whether the process has no other engine, so that its memory is this engine's.
    const fn is_alone(&self) -> bool {
        matches!(self.parts, Parts::Files(_))
    }

    /// Runs a part on the values that are its inputs; also returns the time with their transfer.
    pub fn run(
        &mut self,
        part: usize,
        values: &[Arc<OutputValues>],
    ) -> Result<(Vec<OutputValues>, u64), PartError> {
        self.guarded(part, |engine| {
            engine.loaded(part)?;
            let session = engine.sessions.get_mut(&part).ok_or("it is not loaded")?;
            let values: Vec<&OutputValues> = values.iter().map(AsRef::as_ref).collect();
            let watch = Stopwatch::start();
            let outputs = session.feed(&values).and_then(|()| session.outputs());
            let busy_ns = watch.stop().wall_ns;
            Ok((outputs.map_err(|e| e.to_string())?, busy_ns))
        })
    }

    /// Runs parts one after the other; the outputs of each are the inputs of the next, and so are
    /// earlier values with the names that are kept after a part.
    pub fn piece(
        &mut self,
        parts: &[usize],
        keep: &[Vec<String>],
        values: Vec<Arc<OutputValues>>,
    ) -> Result<Ran, PartError> {
        let mut ran = Ran { values, ..Ran::default() };
        for (index, &part) in parts.iter().enumerate() {
            let keep = keep.get(index).map_or(&[][..], Vec::as_slice);
            self.guarded(part, |engine| engine.compute(part, keep, &mut ran))?;
        }
        Ok(ran)
    }

    /// A failure or a panic of the engine as an error that names the part.
    fn guarded<T>(
        &mut self,
        part: usize,
        act: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, PartError> {
        let done = catch_unwind(AssertUnwindSafe(|| act(self))).unwrap_or_else(|_| {
            // Its state is uncertain.
            self.sessions.remove(&part);
            Err("the engine panicked".to_owned())
        });
        done.map_err(|reason| PartError { part, reason })
    }

    /// Runs a part on the values so far, and replaces those that are not kept.
    fn compute(&mut self, part: usize, keep: &[String], ran: &mut Ran) -> Result<(), String> {
        ran.loads.extend(self.loaded(part)?);
        let session = self.sessions.get_mut(&part).ok_or("it is not loaded")?;
        let watch = Stopwatch::start();
        let values: Vec<&OutputValues> = ran.values.iter().map(AsRef::as_ref).collect();
        session.feed(&values).map_err(|e| e.to_string())?;
        ran.feed_ns += watch.stop().wall_ns;
        let watch = Stopwatch::start();
        let outputs = session.outputs().map_err(|e| e.to_string())?;
        ran.run_ns += watch.stop().wall_ns;
        let mut kept = std::mem::take(&mut ran.values);
        kept.retain(|value| {
            keep.contains(&value.name) && outputs.iter().all(|output| output.name != value.name)
        });
        ran.values = outputs.into_iter().map(Arc::new).chain(kept).collect();
        Ok(())
    }

    /// The file is made when the part is first loaded, which is not counted.
    fn loaded(&mut self, part: usize) -> Result<Option<LoadTime>, String> {
        if self.sessions.contains_key(&part) {
            return Ok(None);
        }
        self.prepare(part)?;
        let model = self.models.get(&part).ok_or("it has no file")?;
        let watch = Stopwatch::start();
        let session = self.backend.load(model, &self.options);
        let ns = watch.stop().wall_ns;
        self.sessions.insert(part, session.map_err(|e| e.to_string())?);
        let resident_bytes = self.is_alone().then(memory::resident_bytes).flatten();
        Ok(Some(LoadTime { part, ns, resident_bytes }))
    }

    fn prepare(&mut self, part: usize) -> Result<(), String> {
        if self.models.contains_key(&part) {
            return Ok(());
        }
        let mut model = self.model(part)?;
        if let ModelSource::Bytes(bytes) = &model.source {
            let path = self.folder.path().join(format!("part-{part}.onnx"));
            fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
            model.source = ModelSource::File(path);
        }
        self.models.insert(part, model);
        Ok(())
    }

    fn model(&self, part: usize) -> Result<Model, String> {
        let missing = || format!("there is no part {part}");
        match &self.parts {
            Parts::Graphs(graphs) => {
                let graph = graphs.get(part).ok_or_else(missing)?;
                source::ready(graph.name(), &Source::Graph, graph, self.backend, &self.options)
            }
            Parts::Files(files) => {
                let PartFile { name, path } = files.get(part).ok_or_else(missing)?;
                let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
                let graph = onnx::read_bytes(name, &bytes, &ReadOptions::default())
                    .map_err(|e| e.to_string())?;
                drop(bytes);
                let source = Source::File(path.clone());
                source::ready(name, &source, &graph, self.backend, &self.options)
            }
        }
    }
}
