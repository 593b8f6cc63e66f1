//! ONNX Runtime on the CPU, through the shared library of its Python wheel ([`discovery`] finds it).
//!
//! Sessions run with all graph optimisations (blocked convolutions included), operators one after the other, `threads` threads inside each. All
//! else is as the engine has it by default, since that is what applications get: with two threads and more, idle ones spin for a while, and CPU time
//! is then close to threads x wall time whatever the operators do. End-to-end runs use a session without profiling. It is dropped before the
//! profiled session is made, so that only one is in memory; that one also writes down the optimised model, which says what each kernel is.

pub mod discovery;
mod trace;

use super::{Availability, Backend, BackendError, Capabilities, Model, ModelSource, OutputValues, ProfiledRuns, RunOptions, Session};
use crate::{
    clock::{RunTime, Stopwatch},
    inputs::{self, InputDistribution},
};
use discovery::{Library, Missing};
use ort::{
    environment::Environment,
    logging::LogLevel,
    memory::Allocator,
    session::{SessionInputValue, builder::GraphOptimizationLevel},
    value::{DynTensor, TensorElementType},
};
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};
use vitempo_graph::{Graph, MemoryFormat, Precision, Processor, Samples, TensorSpec, onnx};

const NAME: &str = "onnxruntime";

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct OnnxRuntime;

/// The library as it was first loaded: a process can load only one.
struct Runtime {
    library: Library,
    environment: Environment,
}

static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

struct OrtSession {
    environment: &'static Environment,
    model: Model,
    options: RunOptions,
    /// Values of the inputs by name.
    inputs: Vec<(String, DynTensor)>,
    /// The session without profiling; made when it is needed.
    plain: Option<ort::session::Session>,
}

impl Backend for OnnxRuntime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "ONNX Runtime on the CPU, from the library of its Python wheel"
    }

    fn probe(&self, options: &RunOptions) -> Availability {
        match runtime(options.library.as_deref()) {
            Ok(runtime) => Availability::Available(capabilities(&runtime.library)),
            Err(Missing { reason, hint }) => Availability::Unavailable { reason, hint },
        }
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        self.probe(options).require(NAME)?.check(NAME, options)?;
        let runtime = runtime(options.library.as_deref()).map_err(|m| BackendError::Unavailable { backend: NAME, reason: m.reason, hint: m.hint })?;
        let inputs = input_values(&model.graph, options.inputs, options.seed).map_err(|reason| load_error(model, reason))?;
        let mut session = OrtSession { environment: &runtime.environment, model: model.clone(), options: options.clone(), inputs, plain: None };
        session.plain = Some(session.open(None)?);
        Ok(Box::new(session))
    }
}

fn capabilities(library: &Library) -> Capabilities {
    Capabilities {
        version: library.version.clone(),
        path: Some(library.path.clone()),
        devices: vec![Processor::Cpu],
        precisions: vec![Precision::F32],
        memory_formats: vec![MemoryFormat::ChannelsFirst],
        operator_timing: true,
    }
}

fn load_error(model: &Model, reason: impl ToString) -> BackendError {
    BackendError::Load { backend: NAME, model: model.name.clone(), reason: reason.to_string() }
}

/// The library, loaded by the first call.
fn runtime(explicit: Option<&Path>) -> Result<&'static Runtime, Missing> {
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = *slot {
        let same =
            explicit.is_none_or(|path| path.canonicalize().is_ok_and(|p| p == runtime.library.path || Some(p.as_path()) == runtime.library.path.parent()));
        let loaded = || Missing {
            hint: "use one library per process".to_owned(),
            ..discovery::LIBRARY.missing(format!("{} is loaded already", runtime.library.path.display()))
        };
        return if same { Ok(runtime) } else { Err(loaded()) };
    }
    let library = discovery::find(explicit)?;
    let refused = |e: &dyn std::fmt::Display| discovery::LIBRARY.missing(format!("{} does not start: {e}", library.path.display()));
    let environment = ort::init_from(&library.path).map_err(|e| refused(&e))?.with_name("vitempo").with_telemetry(false).build().map_err(|e| refused(&e))?;
    environment.set_log_level(LogLevel::Error);
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime { library, environment }));
    *slot = Some(runtime);
    Ok(runtime)
}

fn input_values(graph: &Graph, distribution: InputDistribution, seed: u64) -> Result<Vec<(String, DynTensor)>, String> {
    let mut values = Vec::new();
    for (index, &id) in graph.inputs().iter().enumerate() {
        let value = graph.value(id);
        let tensor = value.tensor.as_ref().ok_or_else(|| format!("input `{}` has no static shape", value.name))?;
        let bytes = inputs::bytes(tensor, distribution, seed, index).map_err(|e| format!("input `{}`: {e}", value.name))?;
        values.push((value.name.clone(), dyn_tensor(tensor, &bytes).map_err(|e| format!("input `{}`: {e}", value.name))?));
    }
    Ok(values)
}

fn dyn_tensor(tensor: &TensorSpec, bytes: &[u8]) -> Result<DynTensor, ort::Error> {
    let mut value = DynTensor::new(&Allocator::default(), element_type(tensor.precision), tensor.shape.clone())?;
    let place = value.data_ptr_mut().cast::<u8>();
    if !bytes.is_empty() && !place.is_null() {
        // SAFETY: the tensor was just made with this shape and element type, so it has room for exactly `bytes`, which `inputs::bytes`
        // made for the same specification; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    }
    Ok(value)
}

fn element_type(precision: Precision) -> TensorElementType {
    match precision {
        Precision::F64 => TensorElementType::Float64,
        Precision::F32 => TensorElementType::Float32,
        Precision::F16 => TensorElementType::Float16,
        Precision::Bf16 => TensorElementType::Bfloat16,
        Precision::I64 => TensorElementType::Int64,
        Precision::I32 => TensorElementType::Int32,
        Precision::I16 => TensorElementType::Int16,
        Precision::I8 => TensorElementType::Int8,
        Precision::U8 => TensorElementType::Uint8,
        Precision::Bool => TensorElementType::Bool,
    }
}

impl OrtSession {
    /// A session; with a folder: one that profiles into it and leaves the optimised model there.
    fn open(&self, profile: Option<&Path>) -> Result<ort::session::Session, BackendError> {
        let configure = || -> ort::Result<ort::session::Session> {
            let mut builder = ort::session::Session::builder(self.environment)?
                .with_intra_threads(self.options.threads)?
                .with_inter_threads(1)?
                .with_optimization_level(GraphOptimizationLevel::All)?;
            if let Some(folder) = profile {
                builder = builder.with_profiling(folder.join("profile"))?.with_optimized_model_path(folder.join(OPTIMIZED))?;
            }
            match &self.model.source {
                ModelSource::File(path) => builder.commit_from_file(path),
                ModelSource::Bytes(bytes) => builder.commit_from_memory(bytes),
            }
        };
        configure().map_err(|e| load_error(&self.model, e))
    }

    fn run_error(&self, reason: impl ToString) -> BackendError {
        BackendError::Run { backend: NAME, model: self.model.name.clone(), reason: reason.to_string() }
    }

    fn profile_error(&self, reason: impl ToString) -> BackendError {
        BackendError::Profile { backend: NAME, model: self.model.name.clone(), reason: reason.to_string() }
    }
}

const OPTIMIZED: &str = "optimized.onnx";

/// The inputs a session wants: one that nothing reads may be gone.
fn input_list<'a>(session: &ort::session::Session, inputs: &'a [(String, DynTensor)]) -> Vec<(&'a str, SessionInputValue<'a>)> {
    let wanted = |name: &str| session.inputs().iter().any(|input| input.name() == name);
    inputs.iter().filter(|(name, _)| wanted(name)).map(|(name, value)| (name.as_str(), value.into())).collect()
}

fn output_values(name: String, value: &ort::value::ValueRef<'_>) -> Result<OutputValues, String> {
    let dtype = value.dtype().tensor_type().ok_or_else(|| format!("output `{name}` is no tensor"))?;
    let extract = || -> ort::Result<Option<(Vec<i64>, Vec<f32>)>> {
        macro_rules! floats {
            ($type:ty, $convert:expr) => {{
                let (shape, data) = value.try_extract_tensor::<$type>()?;
                (shape.to_vec(), data.iter().map($convert).collect())
            }};
        }
        Ok(Some(match dtype {
            TensorElementType::Float32 => floats!(f32, |&v| v),
            TensorElementType::Float64 => floats!(f64, |&v| v as f32),
            TensorElementType::Float16 => floats!(half::f16, |v| v.to_f32()),
            TensorElementType::Int64 => floats!(i64, |&v| v as f32),
            TensorElementType::Int32 => floats!(i32, |&v| v as f32),
            TensorElementType::Int8 => floats!(i8, |&v| f32::from(v)),
            TensorElementType::Uint8 => floats!(u8, |&v| f32::from(v)),
            TensorElementType::Bool => floats!(bool, |&v| f32::from(u8::from(v))),
            _ => return Ok(None),
        }))
    };
    let (shape, values) = extract().map_err(|e| format!("output `{name}`: {e}"))?.ok_or_else(|| format!("output `{name}` is of type {dtype}"))?;
    Ok(OutputValues { name, shape: shape.into_iter().map(|d| usize::try_from(d).unwrap_or(0)).collect(), values })
}

/// One timed run; outputs are dropped after the clock is stopped.
fn timed_run(session: &mut ort::session::Session, inputs: &[(String, DynTensor)]) -> ort::Result<RunTime> {
    let values = input_list(session, inputs);
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
            None => self.open(None)?,
        };
        let time = timed_run(&mut session, &self.inputs).map_err(|e| self.run_error(e));
        self.plain = Some(session);
        time
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        self.plain = None;
        let folder = tempfile::Builder::new().prefix("vitempo-profile").tempdir().map_err(|e| self.profile_error(format!("no temporary folder: {e}")))?;
        let mut session = self.open(Some(folder.path()))?;
        let executed = self.read_optimized(&folder.path().join(OPTIMIZED));
        let mut e2e = Samples::default();
        for repeat in 0..warmups.saturating_add(repeats) {
            let time = timed_run(&mut session, &self.inputs).map_err(|e| self.run_error(e))?;
            if repeat >= warmups {
                time.append_to(&mut e2e);
            }
        }
        let file = session.end_profiling().map_err(|e| self.profile_error(e))?;
        let text = std::fs::read_to_string(&file).map_err(|e| self.profile_error(format!("{file}: {e}")))?;
        let operators = trace::kernels(&text, repeats, executed.as_ref()).map_err(|e| self.profile_error(e))?;
        Ok(ProfiledRuns { e2e, operators })
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        let mut session = match self.plain.take() {
            Some(session) => session,
            None => self.open(None)?,
        };
        let names: Vec<String> = session.outputs().iter().map(|output| output.name().to_owned()).collect();
        let values = input_list(&session, &self.inputs);
        let results = session.run(values).map_err(|e| self.run_error(e))?;
        let outputs = names.into_iter().zip(results.values()).map(|(name, value)| output_values(name, &value)).collect::<Result<_, _>>();
        drop(results);
        let outputs = outputs.map_err(|e| self.run_error(e));
        self.plain = Some(session);
        outputs
    }
}

impl OrtSession {
    /// The optimised model as a graph, with each kernel's node name; the file, which holds all weights, is deleted at once.
    fn read_optimized(&self, path: &Path) -> Option<Graph> {
        let graph = onnx::read_file(path, &onnx::ReadOptions::default());
        let _ = std::fs::remove_file(path);
        graph.inspect_err(|e| eprintln!("warning: {}: kernels are described by their names only: {e}", self.model.name)).ok()
    }
}
