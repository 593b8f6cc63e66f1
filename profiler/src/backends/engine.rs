//! What an inference engine must offer to be measured: [`Backend`] finds and loads, [`Session`]
//! runs one model. Times are nanoseconds.

use super::{
    availability::{AbsentDevice, Availability},
    coverage::Coverage,
    error::BackendError,
    options::RunOptions,
    values::OutputValues,
};
use crate::clock::RunTime;
use std::path::PathBuf;
use vitempo_graph::{Graph, Measurement, Samples, quantize::Conversion};

/// An inference engine.
pub trait Backend: Send + Sync {
    /// The name in flags, files and [`vitempo_graph::Environment::framework`].
    fn name(&self) -> &'static str;

    /// One line for people: what engine this is.
    fn description(&self) -> &'static str;

    /// Whether the engine can run here, and with what. Loads no model; must neither print to stdout
    /// nor panic.
    fn probe(&self, options: &RunOptions) -> Availability;

    /// What is made of a model for these options before it is loaded; `None`: the engine takes it
    /// as it is.
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

    /// Makes of a model what a program that is shipped with it would have in a file. What the
    /// loader does then is the engine's own work, in its own memory.
    ///
    /// # Errors
    /// As [`load`](Self::load), of which this is the first part.
    fn prepare<'a>(
        &'a self,
        model: &'a Model,
        options: &'a RunOptions,
    ) -> Result<Loader<'a>, BackendError> {
        Ok(Box::new(move || self.load(model, options)))
    }

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

/// Loads a model that was prepared.
pub type Loader<'a> = Box<dyn FnOnce() -> Result<Box<dyn Session>, BackendError> + 'a>;

/// One model, loaded.
pub trait Session {
    /// One run with profiling off, end to end: inputs are there, outputs are made and dropped after
    /// the clock is read.
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

    /// The model as the engine's optimizer leaves it, as an ONNX file with weights, in the engine's
    /// own operators; `None` from engines that save none.
    ///
    /// # Errors
    /// [`BackendError::Load`] and [`BackendError::Profile`], when the engine cannot write it.
    fn optimized(&mut self) -> Result<Option<Vec<u8>>, BackendError> {
        Ok(None)
    }

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

/// Where a model's bytes are. Weights are there: who calls [`Backend::load`] fills them when the
/// file lacks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// An ONNX file.
    File(PathBuf),
    /// ONNX bytes.
    Bytes(Vec<u8>),
}
