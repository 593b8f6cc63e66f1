//! The interface of inference engines: [`Backend`] finds the engine and loads models, [`Session`]
//! runs one model.
//!
//! An engine is one file here behind a cargo feature and one line in [`all`]. Times are
//! nanoseconds. A session runs in the process that loads it: [`crate::worker`] starts a process for
//! each engine and thread count.

#[cfg(any(feature = "litert", feature = "rten", feature = "torch"))]
mod capture;
pub mod discovery;
#[cfg(feature = "litert")]
pub mod litert;
#[cfg(feature = "null")]
pub mod null;
#[cfg(feature = "onnxruntime")]
pub mod onnxruntime;
#[cfg(feature = "openvino")]
pub mod openvino;
#[cfg(feature = "rten")]
pub mod rten;
#[cfg(feature = "torch")]
pub mod torch;
#[cfg(feature = "tract")]
pub mod tract;

use crate::{clock::RunTime, coverage::Coverage, inputs::InputDistribution};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use vitempo_graph::{
    Graph, Measurement, MemoryFormat, Precision, Processor, Samples, quantize::Conversion,
};

/// An inference engine.
pub trait Backend: Send + Sync {
    /// The name in flags, files and [`vitempo_graph::Environment::framework`].
    fn name(&self) -> &'static str;

    /// One line that describes the engine.
    fn description(&self) -> &'static str;

    /// Whether the engine can run on this machine, and what it offers. Loads no model; must neither
    /// print to stdout nor panic.
    fn probe(&self, options: &RunOptions) -> Availability;

    /// The conversion of a model for these options before it is loaded; `None`: the engine takes it
    /// unchanged.
    fn conversion(&self, _options: &RunOptions) -> Option<Conversion> {
        None
    }

    /// Processors this engine can run on elsewhere but not here, each with the engine's own reason.
    /// Asked only of an engine that is available.
    fn absent_devices(&self, _options: &RunOptions) -> Vec<AbsentDevice> {
        Vec::new()
    }

    /// Whether a model for these options is to have its images transposed when they enter
    /// ([`vitempo_graph::images_channels_last`]).
    fn wants_images_channels_last(&self, _options: &RunOptions) -> bool {
        false
    }

    /// Makes a model ready to run: reads it, optimises it, fills its inputs.
    ///
    /// # Errors
    /// [`BackendError`] with the model's name and the engine's reason.
    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError>;

    /// Compiles a model and reports which operators its processor takes, for backends that leave
    /// operators to another one.
    ///
    /// # Errors
    /// [`BackendError::Load`] with the compiler's reason; [`BackendError::Option`] where every
    /// operator runs on one processor.
    fn coverage(&self, _model: &Model, _options: &RunOptions) -> Result<Coverage, BackendError> {
        let offered = "latencies only: all operators run on one processor".to_owned();
        Err(BackendError::Option {
            backend: self.name(),
            asked: "to leave operators to another processor".to_owned(),
            offered,
        })
    }
}

/// One model, loaded.
pub trait Session {
    /// One run with profiling off, end to end: inputs exist beforehand, outputs are created in the
    /// run and dropped after the clock is read.
    ///
    /// # Errors
    /// [`BackendError::Run`].
    fn run(&mut self) -> Result<RunTime, BackendError>;

    /// `warmups` runs thrown away, then `repeats` runs in which every executed kernel is timed in
    /// place.
    ///
    /// # Errors
    /// [`BackendError::Run`]; [`BackendError::Profile`] when the engine's account of its kernels
    /// cannot be read.
    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError>;

    /// What the model computes from its inputs: one run, the graph's outputs in its order. Empty
    /// for an engine that computes nothing.
    ///
    /// # Errors
    /// [`BackendError::Run`].
    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError>;

    /// Sets inputs by name, to what another part of a divided model gave out. Inputs that are not
    /// named keep their values; values that are no input of this model are passed over.
    ///
    /// # Errors
    /// [`BackendError::Run`] when values do not fit their input; [`BackendError::NotFed`] from
    /// engines whose inputs stay as they were filled.
    fn feed(&mut self, _values: &[&OutputValues]) -> Result<(), BackendError> {
        Err(BackendError::NotFed)
    }
}

/// One output of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputValues {
    /// Its name in the graph.
    pub name: String,
    /// Extent of each dimension, in the graph's order whatever the engine's.
    pub shape: Vec<usize>,
    /// The values, row by row; integers and booleans as floats.
    pub values: Vec<f32>,
}

/// What [`Session::profile`] brings.
#[derive(Clone, Debug, Default)]
pub struct ProfiledRuns {
    /// End to end, profiling on; one sample per repeat.
    pub e2e: Samples,
    /// One per executed kernel, in execution order, with one sample per repeat. Of a kernel the
    /// engine names but vitempo cannot describe, the kind is [`vitempo_graph::OpKind::Unsupported`]
    /// with the engine's name.
    pub operators: Vec<Measurement>,
}

/// A model as a backend gets it.
#[derive(Clone, Debug)]
pub struct Model {
    /// Name for messages.
    pub name: String,
    /// Its operators; all shapes static.
    pub graph: Graph,
    /// Where its bytes are.
    pub source: ModelSource,
}

/// Where a model's bytes are. Weights are present: the caller of [`Backend::load`] fills them if
/// the file lacks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// An ONNX file.
    File(PathBuf),
    /// ONNX bytes.
    Bytes(Vec<u8>),
}

/// How to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Threads that compute inside one operator.
    pub threads: usize,
    /// Logical cores to pin the process to; empty: not pinned.
    pub cores: Vec<usize>,
    /// Which of the machine's processors runs.
    pub processor: Processor,
    /// Precision asked for.
    pub precision: Precision,
    /// Memory format asked for; `None`: left to the engine.
    pub memory_format: Option<MemoryFormat>,
    /// Values of the inputs.
    pub inputs: InputDistribution,
    /// Seed of inputs and of weights the file lacks.
    pub seed: u64,
    /// The engine's shared library, where it has one; `None`: look for it.
    pub library: Option<PathBuf>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            cores: Vec::new(),
            processor: Processor::Cpu,
            precision: Precision::F32,
            memory_format: None,
            inputs: InputDistribution::default(),
            seed: 0,
            library: None,
        }
    }
}

/// Whether an engine can run here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Availability {
    /// It can.
    Available(Capabilities),
    /// It cannot.
    Unavailable {
        /// What was found, or not.
        reason: String,
        /// What to do about it.
        hint: String,
    },
}

/// A processor an engine could use if it were there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentDevice {
    /// Which.
    pub processor: Processor,
    /// The engine's own words.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

/// What an available engine offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The engine's own version string.
    pub version: String,
    /// Its library; `None` when it is compiled in.
    pub path: Option<PathBuf>,
    /// Processors it can run on here.
    pub devices: Vec<Processor>,
    /// Precisions that can be asked for.
    pub precisions: Vec<Precision>,
    /// Memory formats that can be asked for.
    pub memory_formats: Vec<MemoryFormat>,
    /// Whether it reports the time of every operator in place.
    pub operator_timing: bool,
}

/// Why an engine did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no backend of this name.
    #[error("no backend is called `{name}`; there are: {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Its library is not here.
    #[error("backend `{backend}` is not available: {reason}; {hint}")]
    Unavailable {
        /// Name of the backend.
        backend: &'static str,
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: String,
    },
    /// It does not offer what was asked for.
    #[error("backend `{backend}` does not offer {asked}; it offers {offered}")]
    Option {
        /// Name of the backend.
        backend: &'static str,
        /// What was asked for.
        asked: String,
        /// What there is.
        offered: String,
    },
    /// It does not take a model.
    #[error("backend `{backend}` does not take model `{model}`: {reason}")]
    Load {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: String,
    },
    /// It failed while running.
    #[error("backend `{backend}` failed while running model `{model}`: {reason}")]
    Run {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: String,
    },
    /// It takes no values from outside.
    #[error(
        "this backend does not accept input values, so it cannot run parts of a divided model; rten \
         and onnxruntime can"
    )]
    NotFed,
    /// The operators' times cannot be read.
    #[error(
        "backend `{backend}` timed the operators of model `{model}` in a way that cannot be read: \
        {reason}"
    )]
    Profile {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: String,
    },
}

/// Every backend compiled in; the default first.
#[must_use]
pub fn all() -> Vec<Box<dyn Backend>> {
    vec![
        #[cfg(feature = "rten")]
        Box::new(rten::Rten),
        #[cfg(feature = "onnxruntime")]
        Box::new(onnxruntime::OnnxRuntime),
        #[cfg(feature = "onnxruntime")]
        Box::new(onnxruntime::qnn::Qnn),
        #[cfg(feature = "torch")]
        Box::new(torch::TorchEager),
        #[cfg(feature = "openvino")]
        Box::new(openvino::OpenVino),
        #[cfg(feature = "tract")]
        Box::new(tract::Tract),
        #[cfg(feature = "litert")]
        Box::new(litert::XNNPACK),
        #[cfg(feature = "litert")]
        Box::new(litert::BUILTIN),
        #[cfg(feature = "null")]
        Box::new(null::Null),
    ]
}

/// The backend of that name.
///
/// # Errors
/// [`BackendError::Unknown`], which lists the names there are.
pub fn by_name(name: &str) -> Result<Box<dyn Backend>, BackendError> {
    let all = all();
    let known = all.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
    all.into_iter()
        .find(|b| b.name() == name)
        .ok_or_else(|| BackendError::Unknown { name: name.to_owned(), known })
}

impl Capabilities {
    /// Refuses options that the engine does not offer.
    ///
    /// # Errors
    /// [`BackendError::Option`].
    pub fn check(&self, backend: &'static str, options: &RunOptions) -> Result<(), BackendError> {
        let names = |list: Vec<String>| list.join(", ");
        let refuse = |asked: String, offered: Vec<String>| {
            Err(BackendError::Option { backend, asked, offered: names(offered) })
        };
        if !self.devices.contains(&options.processor) {
            return refuse(
                format!("device {}", options.processor),
                self.devices.iter().map(ToString::to_string).collect(),
            );
        }
        if !self.precisions.contains(&options.precision) {
            return refuse(
                format!("precision {}", options.precision),
                self.precisions.iter().map(ToString::to_string).collect(),
            );
        }
        if let Some(format) = options.memory_format.filter(|f| !self.memory_formats.contains(f)) {
            return refuse(
                format!("memory format {format}"),
                self.memory_formats.iter().map(ToString::to_string).collect(),
            );
        }
        if options.threads == 0 {
            return refuse("0 threads".to_owned(), vec!["1 and more".to_owned()]);
        }
        Ok(())
    }
}

impl Availability {
    /// The capabilities, or the error that says why there are none.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`].
    pub fn require(self, backend: &'static str) -> Result<Capabilities, BackendError> {
        match self {
            Self::Available(capabilities) => Ok(capabilities),
            Self::Unavailable { reason, hint } => {
                Err(BackendError::Unavailable { backend, reason, hint })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_backend_is_told_what_there_is() {
        let error = by_name("nope").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("`nope`") && error.contains("null"), "{error}");
    }
}
