//! Parts of models in a worker: requests of [`crate::live`], and the engine that serves them.
//! Messages are lines as for all requests; tensors go through shared files. Times are ns.

use crate::{
    backends::{Backend, RunOptions},
    clock::monotonic_ns,
    live::{
        LoadTime, PartError, PartFile, SharedTensor,
        engine::{Engine, Parts, Ran},
        tensors,
    },
    memory, pinning, priority,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
};
use vitempo_graph::Environment;

/// Parts of models for one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartsRequest {
    /// Name of the backend.
    pub backend: String,
    /// How to run it; the worker is pinned to exactly `cores`.
    pub options: RunOptions,
    /// The parts; a file is read when its part is first loaded.
    pub parts: Vec<PartFile>,
    /// Whether a thread that runs last keeps the cores awake while nothing runs.
    #[serde(default)]
    pub keep_awake: bool,
}

/// Parts to be run one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PieceRequest {
    /// Indices of the parts.
    pub parts: Vec<usize>,
    /// By part, names of earlier values that are handed on beside its outputs.
    pub keep: Vec<Vec<String>>,
    /// Parts that are unloaded first.
    pub unload: Vec<usize>,
    /// File of the inputs.
    pub inputs: PathBuf,
    /// The inputs.
    pub tensors: Vec<SharedTensor>,
    /// File for the outputs of the last part.
    pub outputs: PathBuf,
}

/// What became of a piece.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PieceReply {
    /// When the worker began and ended, on the clock that all processes share; `None` where there is
    /// none.
    pub begun_ns: Option<u64>,
    /// When the results were written.
    pub ended_ns: Option<u64>,
    /// Resident memory after parts were unloaded, bytes; `None` where none was, or the system does
    /// not report it.
    pub unloaded_resident_bytes: Option<u64>,
    /// Parts that had to be loaded.
    pub loads: Vec<LoadTime>,
    /// Transfer of inputs into the engine.
    pub feed_ns: u64,
    /// Running, with the transfer of outputs out of the engine.
    pub run_ns: u64,
    /// The outputs, and the values that are kept.
    pub tensors: Vec<SharedTensor>,
}

/// An engine that has started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartsReply {
    /// Where it runs.
    pub environment: Environment,
    /// Resident memory with nothing loaded, bytes; `None` where the system does not report it.
    pub resident_bytes: Option<u64>,
}

/// The engine of a worker, with the shared files that it has opened.
pub(super) struct Held<'a> {
    engine: Engine<'a>,
    files: HashMap<PathBuf, File>,
}

/// A thread on each core that spins where no other wants the core, until the process ends.
fn keep_cores_awake(cores: &[usize]) -> Result<(), String> {
    for &core in cores {
        let (sender, allowed) = mpsc::channel();
        std::thread::spawn(move || {
            let is_last = pinning::pin(&[core]).is_ok() && priority::run_last();
            let _ = sender.send(is_last);
            if is_last {
                loop {
                    std::hint::spin_loop();
                }
            }
        });
        if !allowed.recv().unwrap_or(false) {
            return Err(format!("core {core} cannot be kept awake: this needs Linux"));
        }
    }
    Ok(())
}

impl<'a> Held<'a> {
    /// Starts the engine.
    pub fn start(
        backend: &'a dyn Backend,
        request: PartsRequest,
    ) -> Result<(Self, PartsReply), String> {
        let PartsRequest { options, parts, keep_awake, .. } = request;
        if keep_awake {
            keep_cores_awake(&options.cores)?;
        }
        let (engine, environment) = Engine::start(backend, &options, Parts::Files(parts))?;
        let reply = PartsReply { environment, resident_bytes: memory::resident_bytes() };
        Ok((Self { engine, files: HashMap::new() }, reply))
    }

    pub fn load(&mut self, part: usize) -> Result<Option<LoadTime>, PartError> {
        self.engine.load(part)
    }

    pub fn unload(&mut self, parts: &[usize]) -> Option<u64> {
        self.engine.unload(parts)
    }

    /// Reads the inputs, runs the parts, and writes the outputs.
    pub fn piece(&mut self, request: &PieceRequest) -> Result<PieceReply, PartError> {
        let begun_ns = monotonic_ns();
        let first = request.parts.first().copied().unwrap_or_default();
        let refuse = |reason: String| PartError { part: first, reason };
        let unloaded_resident_bytes = self.engine.unload(&request.unload);
        let inputs = tensors::read(self.file(&request.inputs).map_err(refuse)?, &request.tensors);
        let inputs = inputs.map_err(|e| refuse(format!("its inputs cannot be read: {e}")))?;
        let inputs = inputs.into_iter().map(Arc::new).collect();
        let ran = self.engine.piece(&request.parts, &request.keep, inputs)?;
        let Ran { values, loads, feed_ns, run_ns } = ran;
        let written = tensors::write(self.file(&request.outputs).map_err(refuse)?, &values);
        let tensors = written.map_err(|e| refuse(format!("its outputs cannot be written: {e}")))?;
        let ended_ns = monotonic_ns();
        Ok(PieceReply {
            begun_ns,
            ended_ns,
            unloaded_resident_bytes,
            loads,
            feed_ns,
            run_ns,
            tensors,
        })
    }

    fn file(&mut self, path: &Path) -> Result<&File, String> {
        if !self.files.contains_key(path) {
            let file = File::options().read(true).write(true).open(path);
            let file = file.map_err(|e| format!("{}: {e}", path.display()))?;
            self.files.insert(path.to_owned(), file);
        }
        self.files.get(path).ok_or_else(|| format!("{} is not open", path.display()))
    }
}
