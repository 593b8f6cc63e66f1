//! LiteRT (TensorFlow Lite) on the CPU, through the shared library of its Python wheel
//! ([`discovery`] finds it): as `litert` with XNNPACK, the default of applications, and as
//! `litert-builtin` with the interpreter's own kernels.
//!
//! Models are written as .tflite from their graph and their ONNX weights
//! ([`vitempo_graph::tflite`]), images channels last. End-to-end runs use a model compiled without
//! profiling. It is dropped before the profiled one is compiled, so that only one is in memory.
//! Which kernels ran is reported by the library's profiler (`events`) and matched with the
//! operators that were written (`label`).
//!
//! Int8 is static and in the file: products read and write integers, inputs and outputs remain
//! floats. Half precision is XNNPACK's own: it runs its F16 kernels on every processor, and
//! converts inputs and outputs.

mod align;
mod api;
pub mod discovery;
mod events;
mod kernel_names;
mod label;
mod model;
mod order;
mod runtime;
mod stored;

use super::{
    availability::{AbsentDevice, Availability, Capabilities},
    capture,
    engine::{Backend, Loader, Model, ModelSource, ProfiledRuns, Session},
    error::BackendError,
    options::RunOptions,
    values::OutputValues,
};
use crate::clock::{RunTime, Stopwatch};
use discovery::Missing;
use events::Kernel;
use model::{CompiledModel, Stored};
use runtime::Runtime;
use std::sync::Arc;
use vitempo_graph::{
    Framework, MemoryFormat, Precision, Processor, Samples,
    tflite::{self, Written},
};

/// LiteRT with one kind of kernels.
#[derive(Clone, Copy, Debug)]
pub struct LiteRt {
    name: &'static str,
    xnnpack: bool,
}

/// See the module: `litert`.
pub const XNNPACK: LiteRt = LiteRt { name: Framework::LiteRt.name(), xnnpack: true };

/// See the module: `litert-builtin`.
pub const BUILTIN: LiteRt = LiteRt { name: Framework::LiteRtBuiltin.name(), xnnpack: false };

struct LiteRtSession {
    backend: &'static str,
    name: String,
    runtime: &'static Runtime,
    written: Written,
    bytes: Arc<Vec<u8>>,
    /// The engine's own text of CPU options.
    cpu: String,
    inputs: Vec<(Stored, Vec<u8>)>,
    outputs: Vec<Stored>,
    /// The model without profiling; compiled when it is needed.
    plain: Option<CompiledModel>,
}

impl Backend for LiteRt {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        if self.xnnpack {
            "LiteRT (TensorFlow Lite) on the CPU with XNNPACK"
        } else {
            "LiteRT (TensorFlow Lite) on the CPU with its own kernels"
        }
    }

    fn probe(&self, options: &RunOptions) -> Availability {
        match runtime::get(options.library.as_deref()) {
            Ok(runtime) => Availability::Available(self.capabilities(runtime)),
            Err(Missing { reason, hint }) => Availability::Unavailable { reason, hint },
        }
    }

    fn absent_devices(&self, options: &RunOptions) -> Vec<AbsentDevice> {
        let Ok(runtime) = runtime::get(options.library.as_deref()) else { return Vec::new() };
        let absent = |processor| {
            let Missing { reason, hint } = runtime.refusal(processor);
            AbsentDevice { processor, reason, hint }
        };
        [Processor::Gpu, Processor::Npu].map(absent).to_vec()
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        Ok(Box::new(self.written(model, options)?.compiled()?))
    }

    fn prepare<'a>(
        &'a self,
        model: &'a Model,
        options: &'a RunOptions,
    ) -> Result<Loader<'a>, BackendError> {
        let mut session = self.written(model, options)?;
        let refuse =
            |reason| BackendError::Load { backend: self.name, model: model.name.clone(), reason };
        let file = crate::source::in_temporary_file(&std::mem::take(&mut session.bytes), ".tflite")
            .map_err(refuse)?;
        Ok(Box::new(move || {
            let bytes = std::fs::read(&file);
            session.bytes = Arc::new(bytes.map_err(|e| refuse(format!("its .tflite file: {e}")))?);
            Ok(Box::new(session.compiled()?))
        }))
    }
}

impl LiteRt {
    /// The model as a .tflite file, not yet compiled.
    fn written(&self, model: &Model, options: &RunOptions) -> Result<LiteRtSession, BackendError> {
        let unavailable = |m: Missing| BackendError::Unavailable {
            backend: self.name,
            reason: m.reason,
            hint: m.hint,
        };
        let runtime = runtime::get(options.library.as_deref()).map_err(unavailable)?;
        if options.processor != Processor::Cpu {
            return Err(unavailable(runtime.refusal(options.processor)));
        }
        self.capabilities(runtime).check(self.name, options)?;
        if !self.xnnpack && options.threads > 1 {
            let (asked, offered) = (
                format!("{} threads", options.threads),
                "1: its kernels do not share their work".to_owned(),
            );
            return Err(BackendError::Option { backend: self.name, asked, offered });
        }
        let refuse = |reason: String| BackendError::Load {
            backend: self.name,
            model: model.name.clone(),
            reason,
        };
        let mut written = write(model, options).map_err(refuse)?;
        let inputs = stored::inputs(&model.graph, &written.inputs, options).map_err(refuse)?;
        let bytes = Arc::new(std::mem::take(&mut written.bytes));
        let outputs = written.outputs.iter().map(stored::port).collect();
        let (name, cpu) = (model.name.clone(), self.cpu_options(options));
        Ok(LiteRtSession {
            backend: self.name,
            name,
            runtime,
            written,
            bytes,
            cpu,
            inputs,
            outputs,
            plain: None,
        })
    }

    fn capabilities(&self, runtime: &Runtime) -> Capabilities {
        Capabilities {
            version: runtime.library.version.clone(),
            path: Some(runtime.library.path.clone()),
            devices: vec![Processor::Cpu],
            precisions: if self.xnnpack {
                vec![Precision::F32, Precision::F16, Precision::I8]
            } else {
                vec![Precision::F32]
            },
            memory_formats: vec![MemoryFormat::ChannelsLast],
            settings: Vec::new(),
            operator_timing: true,
        }
    }

    /// CPU options as the engine reads them: TOML.
    fn cpu_options(&self, options: &RunOptions) -> String {
        /// `TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16`.
        const FORCE_F16: u32 = 4;
        let mut text = format!("num_threads = {}\n", options.threads);
        if !self.xnnpack {
            text += "kernel_mode = \"builtin\"\n";
        }
        if options.precision == Precision::F16 {
            text += &format!("flags = {FORCE_F16}\n");
        }
        text
    }
}

/// The model as a .tflite file.
fn write(model: &Model, options: &RunOptions) -> Result<Written, String> {
    let file;
    let onnx = match &model.source {
        ModelSource::Bytes(bytes) => bytes,
        ModelSource::File(path) => {
            file = vitempo_graph::onnx::materialize(path, 0).map_err(|e| e.to_string())?;
            &file
        }
    };
    let weights = tflite::Weights::from_onnx(onnx).map_err(|e| e.to_string())?;
    let written = match options.precision {
        Precision::I8 => {
            tflite::write_int8(&model.graph, &weights, crate::source::range(options.inputs))
        }
        _ => tflite::write(&model.graph, &weights),
    };
    written.map_err(|e| e.to_string())
}

impl LiteRtSession {
    /// With the model without profiling.
    fn compiled(mut self) -> Result<Self, BackendError> {
        self.plain = Some(self.compile(false)?);
        Ok(self)
    }

    /// Compiles the model and runs it once, since some operators are refused only then; the
    /// engine's message becomes the reason.
    fn compile(&self, profiling: bool) -> Result<CompiledModel, BackendError> {
        let compiled = capture::stderr(|| -> Result<CompiledModel, String> {
            let mut model = CompiledModel::new(self.runtime, &self.bytes, &self.cpu, profiling)?;
            model.bind(&self.inputs, &self.outputs)?;
            model.run()?;
            Ok(model)
        });
        let reason = match compiled {
            Ok((Ok(model), _)) => return Ok(model),
            Ok((Err(reason), log)) => format!("{reason} {}", runtime::complaints(&log)),
            Err(error) => error.to_string(),
        };
        Err(BackendError::Load {
            backend: self.backend,
            model: self.name.clone(),
            reason: reason.trim().to_owned(),
        })
    }

    /// The model without profiling.
    fn plain(&mut self) -> Result<&mut CompiledModel, BackendError> {
        let model = match self.plain.take() {
            Some(model) => model,
            None => self.compile(false)?,
        };
        Ok(self.plain.insert(model))
    }

    fn run_error(&self, reason: String) -> BackendError {
        BackendError::Run { backend: self.backend, model: self.name.clone(), reason }
    }
}

fn timed(model: &mut CompiledModel) -> Result<RunTime, String> {
    let watch = Stopwatch::start();
    model.run()?;
    Ok(watch.stop())
}

impl Session for LiteRtSession {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        let time = timed(self.plain()?);
        time.map_err(|reason| self.run_error(reason))
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        self.plain = None;
        let mut model = self.compile(true)?;
        let unreadable = |reason: String| BackendError::Profile {
            backend: self.backend,
            model: self.name.clone(),
            reason,
        };
        let mut e2e = Samples::default();
        let mut first: Option<Vec<Kernel>> = None;
        let mut operators = Vec::new();
        for repeat in 0..warmups.saturating_add(repeats) {
            if repeat < warmups {
                model.run().map_err(|reason| self.run_error(reason))?;
                continue;
            }
            let (time, events) = model.profiled(timed).map_err(|reason| self.run_error(reason))?;
            time.append_to(&mut e2e);
            if events.len() >= events::CAPACITY {
                return Err(unreadable(format!(
                    "it ran more kernels than the {} events that LiteRT keeps",
                    events::CAPACITY
                )));
            }
            let (kernels, times): (Vec<Kernel>, Vec<u64>) =
                events::kernels(&events).into_iter().unzip();
            match &first {
                None => {
                    let codes: Vec<&str> = self.written.operators.iter().map(|o| o.code).collect();
                    operators = label::rows(&self.written.graph, &codes, &kernels);
                    first = Some(kernels);
                }
                Some(first) if *first != kernels => {
                    return Err(unreadable("two runs ran different kernels".to_owned()));
                }
                Some(_) => {}
            }
            operators.iter_mut().zip(times).for_each(|(row, ns)| row.samples.wall_ns.push(ns));
        }
        Ok(ProfiledRuns { e2e, operators })
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        let model = self.plain()?;
        let result = model.run();
        result.map_err(|reason| self.run_error(reason))?;
        let Some(model) = &self.plain else { return Ok(Vec::new()) };
        let read = |(index, port): (usize, &tflite::Port)| {
            let bytes = model.output(index, &self.outputs[index])?;
            Ok(OutputValues {
                name: port.name.clone(),
                shape: port.shape.clone(),
                values: stored::values(port, &bytes)?,
            })
        };
        let values: Result<Vec<OutputValues>, String> =
            self.written.outputs.iter().enumerate().map(read).collect();
        values.map_err(|reason| self.run_error(reason))
    }

    fn feed(&mut self, values: &[&OutputValues]) -> Result<(), BackendError> {
        for (index, port) in self.written.inputs.iter().enumerate() {
            let Some(given) = values.iter().find(|given| given.name == port.name) else {
                continue;
            };
            let refused = |e: String| self.run_error(format!("input `{}`: {e}", port.name));
            let bytes = stored::given(port, given).map_err(refused)?;
            if let Some(model) = &self.plain {
                let stored = stored::port(port);
                model.fill(index, &stored, &bytes).map_err(refused)?;
            }
            if let Some((_, input)) = self.inputs.get_mut(index) {
                *input = bytes;
            }
        }
        Ok(())
    }
}
