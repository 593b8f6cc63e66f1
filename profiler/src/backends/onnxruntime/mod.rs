//! ONNX Runtime on the CPU and on NVIDIA's GPUs, through the shared library of its Python wheel
//! ([`discovery`] finds it); [`qnn`] for Hexagon NPUs.
//!
//! Operators run one after the other, `threads` threads inside each. All other settings are the
//! engine's defaults, as in most applications: with two threads and more, idle ones spin for a
//! while, and CPU time is then close to threads x wall time for all operators. End-to-end runs use
//! a session without profiling. It is dropped before the profiled session is made, so that only one
//! is in memory; the profiled session also saves the optimised model, which describes each kernel.
//!
//! | asked for | what runs |
//! |---|---|
//! | no format, blocked | all graph optimisations: convolutions in blocked channels (NCHWc) |
//! | channels first | optimisations up to level 2, which leaves the order of channels alone |
//! | channels last | all optimisations; images enter N, H, W, C behind a transposition, which the engine folds into its reorders |
//! | int8 | the model with Q/DQ pairs ([`vitempo_graph::quantize::qdq`]), which the engine fuses |
//! | f16 | refused on the CPU, where the engine would cast to f32 and back; on a GPU the model in f16 |
//! | gpu | the CUDA provider of the library of `onnxruntime-gpu` |

mod assignment;
pub mod discovery;
pub mod qnn;
mod runtime;
mod session;
mod tensors;
mod trace;

use super::{
    availability::{AbsentDevice, Availability, Capabilities},
    engine::{Backend, Model, Session},
    error::BackendError,
    options::RunOptions,
};
use ort::session::builder::GraphOptimizationLevel;
use runtime::{Runtime, runtime};
use session::{Leaves, OrtSession};
use vitempo_graph::{MemoryFormat, Precision, Processor, quantize::Conversion};

const NAME: &str = vitempo_graph::Framework::OnnxRuntime.name();

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct OnnxRuntime;

impl Backend for OnnxRuntime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "ONNX Runtime on the CPU or CUDA, from the library of its Python wheel"
    }

    fn probe(&self, options: &RunOptions) -> Availability {
        let runtime = match runtime(options.library.as_deref()) {
            Ok(runtime) => runtime,
            Err(missing) => {
                return Availability::Unavailable { reason: missing.reason, hint: missing.hint };
            }
        };
        match (options.processor, runtime.cuda()) {
            (Processor::Gpu, Err(reason)) => {
                Availability::Unavailable { reason, hint: CUDA_HINT.to_owned() }
            }
            (processor, cuda) => {
                Availability::Available(capabilities(runtime, processor, cuda.is_ok()))
            }
        }
    }

    fn absent_devices(&self, options: &RunOptions) -> Vec<AbsentDevice> {
        let reason =
            runtime(options.library.as_deref()).ok().and_then(|runtime| runtime.cuda().err());
        reason
            .into_iter()
            .map(|reason| AbsentDevice {
                processor: Processor::Gpu,
                reason,
                hint: CUDA_HINT.to_owned(),
            })
            .collect()
    }

    fn conversion(&self, options: &RunOptions) -> Option<Conversion> {
        match options.precision {
            Precision::I8 => Some(Conversion::Qdq),
            Precision::F16 => Some(Conversion::Half),
            _ => None,
        }
    }

    fn wants_images_channels_last(&self, options: &RunOptions) -> bool {
        options.memory_format == Some(MemoryFormat::ChannelsLast)
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        let capabilities = self.probe(options).require(NAME)?;
        if (options.processor, options.precision) == (Processor::Cpu, Precision::F16) {
            let offered = capabilities
                .precisions
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(BackendError::Option {
                backend: NAME,
                asked: "precision f16 on the cpu (it would cast to f32 and back)".to_owned(),
                offered,
            });
        }
        capabilities.check(NAME, options)?;
        let runtime = runtime(options.library.as_deref()).map_err(|m| {
            BackendError::Unavailable { backend: NAME, reason: m.reason, hint: m.hint }
        })?;
        let inputs = tensors::input_values(
            &model.graph,
            options.inputs,
            options.seed,
            self.wants_images_channels_last(options),
        );
        let inputs = inputs.map_err(|reason| BackendError::Load {
            backend: NAME,
            model: model.name.clone(),
            reason,
        })?;
        let options = options.clone();
        let configure =
            move |runtime: &'static Runtime| -> ort::Result<ort::session::builder::SessionBuilder> {
                let builder = ort::session::Session::builder(&runtime.environment)?
                    .with_intra_threads(options.threads)?
                    .with_inter_threads(1)?
                    .with_optimization_level(level(&options))?;
                Ok(match options.processor {
                    Processor::Gpu => {
                        builder.with_execution_providers([runtime::cuda_provider()])?
                    }
                    _ => builder,
                })
            };
        let mut session = OrtSession {
            backend: NAME,
            runtime,
            configure: Box::new(configure),
            model: model.clone(),
            inputs,
            plain: None,
        };
        session.plain = Some(session.open(Leaves::Nothing)?);
        Ok(Box::new(session))
    }
}

const CUDA_HINT: &str = "install onnxruntime-gpu with its CUDA libraries, set VITEMPO_ONNXRUNTIME \
    to the libonnxruntime in it, and let the loader find \
                         libcudart, libcublasLt and libcudnn (LD_LIBRARY_PATH)";

fn level(options: &RunOptions) -> GraphOptimizationLevel {
    match options.memory_format {
        Some(MemoryFormat::ChannelsFirst) => GraphOptimizationLevel::Level2,
        _ => GraphOptimizationLevel::All,
    }
}

/// What a processor offers; `cuda`: whether there is a GPU besides the CPU.
fn capabilities(runtime: &Runtime, processor: Processor, cuda: bool) -> Capabilities {
    let on_gpu = processor == Processor::Gpu;
    Capabilities {
        version: runtime.library.version.clone(),
        path: Some(runtime.library.path.clone()),
        devices: if cuda { vec![Processor::Cpu, Processor::Gpu] } else { vec![Processor::Cpu] },
        precisions: if on_gpu {
            vec![Precision::F32, Precision::F16]
        } else {
            vec![Precision::F32, Precision::I8]
        },
        memory_formats: if on_gpu {
            vec![MemoryFormat::ChannelsFirst]
        } else {
            vec![MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast, MemoryFormat::Blocked]
        },
        settings: Vec::new(),
        operator_timing: true,
    }
}
