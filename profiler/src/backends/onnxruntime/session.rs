//! One model in the engine: plain runs, profiled runs, and outputs.

use super::{runtime::Runtime, tensors, trace};
use crate::{
    backends::{
        engine::{Model, ModelSource, ProfiledRuns, Session},
        error::BackendError,
        values::OutputValues,
    },
    clock::{RunTime, Stopwatch},
};
use ort::{session::builder::SessionBuilder, value::DynTensor};
use std::path::Path;
use vitempo_graph::{Graph, Samples, onnx};

/// Sets up a session: threads, optimisations, providers.
pub(super) type Configure = Box<dyn Fn(&'static Runtime) -> ort::Result<SessionBuilder>>;

/// A model, loaded.
pub(super) struct OrtSession {
    pub backend: &'static str,
    pub runtime: &'static Runtime,
    pub configure: Configure,
    pub model: Model,
    /// Values of the inputs by name.
    pub inputs: Vec<(String, DynTensor)>,
    /// The session without profiling; made when it is needed.
    pub plain: Option<ort::session::Session>,
}

/// What a session leaves in a folder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaves<'a> {
    /// No file.
    Nothing,
    /// The optimised model.
    OptimizedModel(&'a Path),
    /// The optimised model and a trace of runs.
    Profile(&'a Path),
}

impl OrtSession {
    /// A session, and the files that it leaves.
    pub(super) fn open(&self, leaves: Leaves<'_>) -> Result<ort::session::Session, BackendError> {
        let open = || -> ort::Result<ort::session::Session> {
            let mut builder = (self.configure)(self.runtime)?;
            if let Leaves::Profile(folder) = leaves {
                builder = builder.with_profiling(folder.join("profile"))?;
            }
            if let Leaves::Profile(folder) | Leaves::OptimizedModel(folder) = leaves {
                builder = builder.with_optimized_model_path(folder.join(OPTIMIZED))?;
            }
            match &self.model.source {
                ModelSource::File(path) => builder.commit_from_file(path),
                ModelSource::Bytes(bytes) => builder.commit_from_memory(bytes),
            }
        };
        open().map_err(|e| BackendError::Load {
            backend: self.backend,
            model: self.model.name.clone(),
            reason: e.to_string(),
        })
    }

    fn folder(&self) -> Result<tempfile::TempDir, BackendError> {
        tempfile::Builder::new()
            .prefix("vitempo-profile")
            .tempdir()
            .map_err(|e| self.profile_error(format!("no temporary folder: {e}")))
    }

    fn run_error(&self, reason: impl ToString) -> BackendError {
        BackendError::Run {
            backend: self.backend,
            model: self.model.name.clone(),
            reason: reason.to_string(),
        }
    }

    fn profile_error(&self, reason: impl ToString) -> BackendError {
        BackendError::Profile {
            backend: self.backend,
            model: self.model.name.clone(),
            reason: reason.to_string(),
        }
    }
}

const OPTIMIZED: &str = "optimized.onnx";

/// One timed run; outputs are dropped after the clock is stopped.
fn timed_run(
    session: &mut ort::session::Session,
    inputs: &[(String, DynTensor)],
) -> ort::Result<RunTime> {
    let values = tensors::input_list(session, inputs);
    let watch = Stopwatch::start();
    let outputs = session.run(values)?;
    let time = watch.stop();
    drop(outputs);
    Ok(time)
}

impl Session for OrtSession {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        let mut session = match self.plain.take() {
            Some(session) => session,
            None => self.open(Leaves::Nothing)?,
        };
        let time = timed_run(&mut session, &self.inputs).map_err(|e| self.run_error(e));
        self.plain = Some(session);
        time
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        self.plain = None;
        let folder = self.folder()?;
        let mut session = self.open(Leaves::Profile(folder.path()))?;
        let executed = self.read_optimized(&folder.path().join(OPTIMIZED));
        let mut e2e = Samples::default();
        for repeat in 0..warmups.saturating_add(repeats) {
            let time = timed_run(&mut session, &self.inputs).map_err(|e| self.run_error(e))?;
            if repeat >= warmups {
                time.append_to(&mut e2e);
            }
        }
        let file = session.end_profiling().map_err(|e| self.profile_error(e))?;
        let text = std::fs::read_to_string(&file)
            .map_err(|e| self.profile_error(format!("{file}: {e}")))?;
        let operators =
            trace::kernels(&text, repeats, executed.as_ref()).map_err(|e| self.profile_error(e))?;
        Ok(ProfiledRuns { e2e, operators })
    }

    fn optimized(&mut self) -> Result<Option<Vec<u8>>, BackendError> {
        let folder = self.folder()?;
        drop(self.open(Leaves::OptimizedModel(folder.path()))?);
        let bytes = std::fs::read(folder.path().join(OPTIMIZED));
        bytes.map(Some).map_err(|e| self.profile_error(format!("no optimised model: {e}")))
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        let mut session = match self.plain.take() {
            Some(session) => session,
            None => self.open(Leaves::Nothing)?,
        };
        let names: Vec<String> =
            session.outputs().iter().map(|output| output.name().to_owned()).collect();
        let values = tensors::input_list(&session, &self.inputs);
        let results = session.run(values).map_err(|e| self.run_error(e))?;
        let outputs = names
            .into_iter()
            .zip(results.values())
            .map(|(name, value)| tensors::output_values(name, &value))
            .collect::<Result<_, _>>();
        drop(results);
        let outputs = outputs.map_err(|e| self.run_error(e));
        self.plain = Some(session);
        outputs
    }

    fn feed(&mut self, values: &[&OutputValues]) -> Result<(), BackendError> {
        for given in values {
            let graph = &self.model.graph;
            let Some(&id) = graph.inputs().iter().find(|&&id| graph.value(id).name == given.name)
            else {
                continue;
            };
            let made = tensors::given_value(graph.value(id).tensor.as_ref(), given);
            let made = made.map_err(|e| self.run_error(format!("input `{}`: {e}", given.name)))?;
            if let Some((_, input)) = self.inputs.iter_mut().find(|(name, _)| *name == given.name) {
                *input = made;
            }
        }
        Ok(())
    }
}

impl OrtSession {
    /// The optimised model as a graph, with each kernel's node name; the file, which holds all
    /// weights, is deleted at once.
    fn read_optimized(&self, path: &Path) -> Option<Graph> {
        let graph = onnx::read_file(path, &onnx::ReadOptions::default());
        let _ = std::fs::remove_file(path);
        graph
            .inspect_err(|e| {
                tracing::warn!(
                    "{}: kernels are described by their names only: {e}",
                    self.model.name
                );
            })
            .ok()
    }
}
