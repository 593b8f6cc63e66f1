//! Qualcomm's Hexagon NPU through ONNX Runtime's QNN provider, a plugin library of its own (wheel
//! `onnxruntime-qnn`).
//!
//! For machines without such an NPU, the wheel has an emulator. It compiles the same graphs and
//! computes the same numbers, but its time is that of the host and not a latency, so
//! [`Session::run`] and [`Session::profile`] refuse. Valid results are the operators that the NPU
//! takes, whether a graph compiles ([`Backend::coverage`]), and outputs ([`Session::outputs`]).
//!
//! Operators that the provider does not take are an error when a model is loaded; they never run
//! silently on the CPU. f16: the model stays in f32 and the NPU computes in 16 bits; int8: the
//! model with Q/DQ pairs, also behind every product: an integer product that leaves floats is not
//! taken.

use super::assignment;
use super::runtime::{Runtime, runtime};
use super::session::{Leaves, OrtSession};
use super::tensors;
use crate::{
    backends::{
        availability::{Availability, Capabilities},
        coverage::Coverage,
        discovery::{self, EngineLibrary, Library, Missing},
        engine::{Backend, Model, ProfiledRuns, Session},
        error::BackendError,
        options::RunOptions,
        values::OutputValues,
    },
    clock::RunTime,
};
use ort::session::builder::SessionBuilder;
use std::{path::Path, sync::OnceLock};
use vitempo_graph::{MemoryFormat, Precision, Processor, quantize::Conversion};

const NAME: &str = vitempo_graph::Framework::Qnn.name();
const PROVIDER: &str = "QNNExecutionProvider";
/// The emulated chip: SM8650 (Snapdragon 8 Gen 3; 57 is its number in Qualcomm's SDK) with a
/// Hexagon v75, in half precision. The default is a v68 without half precision: it silently
/// computes floats in 32 bits, and most graphs fail to compile with a memory error.
const EMULATED: [(&str, &str); 2] = [("soc_model", "57"), ("enable_htp_fp16_precision", "1")];

/// What to look for.
pub const LIBRARY: EngineLibrary = EngineLibrary {
    engine: NAME,
    title: "ONNX Runtime's QNN provider",
    variables: &[],
    folder: "onnxruntime_qnn",
    stem: "libonnxruntime_providers_qnn",
    wanted: "2.7 or newer",
};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Qnn;

impl Backend for Qnn {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Hexagon NPU through ONNX Runtime's QNN provider; reports what the NPU takes, no latency"
    }

    fn probe(&self, _options: &RunOptions) -> Availability {
        match found() {
            Ok(library) => Availability::Available(Capabilities {
                version: library.version.clone(),
                path: Some(library.path.clone()),
                devices: vec![Processor::Npu],
                precisions: vec![Precision::F16, Precision::I8],
                memory_formats: vec![MemoryFormat::ChannelsFirst],
                settings: Vec::new(),
                operator_timing: false,
            }),
            Err(Missing { reason, hint }) => Availability::Unavailable { reason, hint },
        }
    }

    fn conversion(&self, options: &RunOptions) -> Option<Conversion> {
        (options.precision == Precision::I8).then_some(Conversion::QdqResults)
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        let mut session = session(model, options, false)?;
        session.plain = Some(session.open(Leaves::Nothing)?);
        Ok(Box::new(Untimed(session)))
    }

    fn coverage(&self, model: &Model, options: &RunOptions) -> Result<Coverage, BackendError> {
        let session = session(model, options, true)?.open(Leaves::Nothing)?;
        let refused =
            |reason| BackendError::Load { backend: NAME, model: model.name.clone(), reason };
        let (taken, left) = assignment::assigned(&session)
            .map_err(refused)?
            .into_iter()
            .partition(|a| a.provider == PROVIDER);
        Ok(Coverage { taken, left })
    }
}

/// A session that computes, but reports no times.
struct Untimed(OrtSession);

const NO_LATENCY: &str = "an emulated NPU runs on the host's processor, so it has no latency of its \
    own; only its operator coverage can be checked";

impl Session for Untimed {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        Err(BackendError::Run {
            backend: NAME,
            model: self.0.model.name.clone(),
            reason: NO_LATENCY.to_owned(),
        })
    }

    fn profile(&mut self, _warmups: usize, _repeats: usize) -> Result<ProfiledRuns, BackendError> {
        Err(BackendError::Profile {
            backend: NAME,
            model: self.0.model.name.clone(),
            reason: NO_LATENCY.to_owned(),
        })
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        self.0.outputs()
    }
}

fn session(
    model: &Model,
    options: &RunOptions,
    fallback: bool,
) -> Result<OrtSession, BackendError> {
    Qnn.probe(options).require(NAME)?.check(NAME, options)?;
    let unavailable =
        |m: Missing| BackendError::Unavailable { backend: NAME, reason: m.reason, hint: m.hint };
    let (runtime, library) = ready().map_err(unavailable)?;
    let inputs = tensors::input_values(&model.graph, options.inputs, options.seed, false);
    let inputs = inputs.map_err(|reason| BackendError::Load {
        backend: NAME,
        model: model.name.clone(),
        reason,
    })?;
    let backend = library.path.with_file_name("libQnnHtp.so");
    let configure = move |runtime: &'static Runtime| -> ort::Result<SessionBuilder> {
        let (key, value) = assignment::RECORD;
        let builder =
            ort::session::Session::builder(&runtime.environment)?.with_config_entry(key, value)?;
        let builder = if fallback { builder } else { builder.with_disable_cpu_fallback()? };
        let devices =
            runtime.environment.devices().filter(|device| device.ep().ok() == Some(PROVIDER));
        let library = backend.to_string_lossy();
        let emulated: &[_] = if cfg!(target_arch = "x86_64") { &EMULATED } else { &[] };
        let settings = [("backend_path", library.as_ref()), ("offload_graph_io_quantization", "0")];
        let settings: Vec<_> = settings
            .iter()
            .chain(emulated)
            .map(|(key, value)| (format!("{PROVIDER}.{key}"), (*value).to_owned()))
            .collect();
        Ok(builder.with_devices(devices, Some(&settings))?)
    };
    Ok(OrtSession {
        backend: NAME,
        runtime,
        configure: Box::new(configure),
        model: model.clone(),
        inputs,
        plain: None,
    })
}

/// The provider's library, if the engine is also installed.
fn found() -> Result<Library, Missing> {
    let library = LIBRARY.find(None, version_of)?;
    super::discovery::find(None)?;
    Ok(library)
}

/// The engine with the provider registered, once per process. From then on the engine sees an NPU
/// in every session: only models for it belong here.
fn ready() -> Result<(&'static Runtime, &'static Library), Missing> {
    static READY: OnceLock<Result<(&'static Runtime, Library), Missing>> = OnceLock::new();
    let register = || {
        let library = found()?;
        let runtime = runtime(None)?;
        let refused = |e: ort::Error| {
            LIBRARY.missing(format!("{} cannot be registered: {e}", library.path.display()))
        };
        runtime.environment.register_ep_library(PROVIDER, &library.path).map_err(refused)?;
        Ok((runtime, library))
    };
    match READY.get_or_init(register) {
        Ok((runtime, library)) => Ok((runtime, library)),
        Err(missing) => Err(missing.clone()),
    }
}

/// The wheel's version: the library has no function that says it.
fn version_of(file: &Path) -> Result<String, String> {
    let version = discovery::wheel_version(file, "onnxruntime_qnn")
        .ok_or_else(|| format!("{}: no dist-info beside it says its version", file.display()))?;
    match discovery::at_least(&version, &[2, 7]) {
        true => Ok(version),
        false => Err(format!(
            "{} is version {version}, but {} is needed",
            file.display(),
            LIBRARY.wanted
        )),
    }
}
