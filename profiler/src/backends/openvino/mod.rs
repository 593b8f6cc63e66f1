//! OpenVINO on CPU, GPU and NPU, through the C library of its Python wheel (`library` finds it).
//!
//! One stream, the hint LATENCY, `threads` threads that are not pinned by the engine, and an
//! explicit precision, because the engine would otherwise use bf16 where the processor has it. A
//! device is always named, because the engine's AUTO may silently run elsewhere. End-to-end runs
//! use a model compiled without profiling; it is dropped before the profiled one is compiled, so
//! that only one is in memory. The profile gives times (`counter`), the executed graph
//! (`runtime_model`, `execution`) says what each kernel is (`label`).
//!
//! Images are always channels last inside the engine; the memory format is that of the input
//! images.

mod api;
mod counter;
mod device;
mod engine;
mod execution;
mod label;
mod library;
mod runtime_model;
mod session;
#[cfg(test)]
mod tests;

use super::{
    availability::{AbsentDevice, Availability, Capabilities},
    discovery::Missing,
    engine::{Backend, Model, Session},
    error::BackendError,
    options::RunOptions,
};
use vitempo_graph::{MemoryFormat, Precision, quantize::Conversion};

const NAME: &str = vitempo_graph::Framework::OpenVino.name();

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct OpenVino;

impl Backend for OpenVino {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "OpenVINO on CPU, GPU and NPU, from the library of its Python wheel"
    }

    fn probe(&self, options: &RunOptions) -> Availability {
        let found = library::runtime(options.library.as_deref()).and_then(|runtime| {
            let precisions = device::precisions(&runtime.engine, options.processor)?;
            Ok(Capabilities {
                version: runtime.library.version.clone(),
                path: Some(runtime.library.path.clone()),
                devices: device::available(&runtime.engine),
                precisions,
                memory_formats: vec![MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast],
                settings: Vec::new(),
                operator_timing: true,
            })
        });
        match found {
            Ok(capabilities) => Availability::Available(capabilities),
            Err(Missing { reason, hint }) => Availability::Unavailable { reason, hint },
        }
    }

    /// int8 comes as Q/DQ pairs in the model; f16 and bf16 are a hint to the engine.
    fn conversion(&self, options: &RunOptions) -> Option<Conversion> {
        (options.precision == Precision::I8).then_some(Conversion::Qdq)
    }

    fn absent_devices(&self, options: &RunOptions) -> Vec<AbsentDevice> {
        library::runtime(options.library.as_deref())
            .map(|runtime| device::absent(&runtime.engine))
            .unwrap_or_default()
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        self.probe(options).require(NAME)?.check(NAME, options)?;
        let runtime = library::runtime(options.library.as_deref()).map_err(|m| {
            BackendError::Unavailable { backend: NAME, reason: m.reason, hint: m.hint }
        })?;
        Ok(Box::new(session::OvSession::open(&runtime.engine, model, options)?))
    }
}
