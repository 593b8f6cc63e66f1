//! PyTorch's eager mode, through the C functions of libtorch's shared library ([`library`]): no
//! Python, no C++, nothing to link.
//!
//! [`vitempo_graph::lowering::torch`] derives the ATen operators that the author of a model wrote;
//! `calls` maps each to torch's dispatcher and `executor` runs them one after the other,
//! without gradients. Two things differ from a Python program: nothing is interpreted between two
//! operators, and activations never run in place, because the file does not show which did. On CUDA
//! all other settings are torch's defaults too (TF32 in convolutions, cuDNN's heuristics).

mod calls;
mod cuda;
mod dispatch;
mod executor;
pub mod library;
mod messages;
mod tensor;

use super::{
    availability::{AbsentDevice, Availability, Capabilities},
    discovery::Missing,
    engine::{Backend, Model, ModelSource, ProfiledRuns, Session},
    error::BackendError,
    options::RunOptions,
    values::OutputValues,
};
use crate::{
    clock::{RunTime, Stopwatch},
    inputs, memory,
};
use cuda::Cuda;
use executor::{Executor, Setting};
use library::Torch;
use std::borrow::Cow;
use tensor::Tensor;
use vitempo_graph::{
    Measurement, MemoryFormat, Precision, Processor, Samples, Status, lowering, onnx::Constants,
};

const NAME: &str = vitempo_graph::Framework::Torch.name();

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct TorchEager;

struct TorchSession {
    model: String,
    executor: Executor,
    cuda: Option<Cuda>,
    /// Names of the outputs in the model.
    outputs: Vec<String>,
}

impl Backend for TorchEager {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "PyTorch's eager mode, from the library of its Python wheel"
    }

    fn probe(&self, options: &RunOptions) -> Availability {
        let torch = match library::torch(options.library.as_deref()) {
            Ok(torch) => torch,
            Err(Missing { reason, hint }) => return Availability::Unavailable { reason, hint },
        };
        match (options.processor, cuda::available(torch)) {
            (Processor::Gpu, Err(Missing { reason, hint })) => {
                Availability::Unavailable { reason, hint }
            }
            (processor, cuda) => {
                Availability::Available(capabilities(torch, processor, cuda.is_ok()))
            }
        }
    }

    fn absent_devices(&self, options: &RunOptions) -> Vec<AbsentDevice> {
        let missing = library::torch(options.library.as_deref()).and_then(cuda::available).err();
        missing
            .map(|Missing { reason, hint }| AbsentDevice {
                processor: Processor::Gpu,
                reason,
                hint,
            })
            .into_iter()
            .collect()
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        self.probe(options).require(NAME)?.check(NAME, options)?;
        let unavailable =
            |Missing { reason, hint }| BackendError::Unavailable { backend: NAME, reason, hint };
        let refuse = |reason: String| BackendError::Load {
            backend: NAME,
            model: model.name.clone(),
            reason,
        };
        let torch = library::torch(options.library.as_deref()).map_err(unavailable)?;
        let cuda = if options.processor == Processor::Gpu {
            Some(Cuda::open(torch).map_err(unavailable)?)
        } else {
            None
        };
        let setting = Setting {
            torch,
            device: if cuda.is_some() { torch.cuda() } else { torch.cpu() },
            add: cuda.as_ref().map_or(torch.functions.add, |c| c.add),
            precision: options.precision,
            format: options.memory_format.unwrap_or_default(),
        };
        set_up(torch, options.threads);
        let executor = messages::explained(|| executor(model, options, setting)).map_err(refuse)?;
        let outputs =
            model.graph.outputs().iter().map(|&id| model.graph.value(id).name.clone()).collect();
        Ok(Box::new(TorchSession { model: model.name.clone(), executor, cuda, outputs }))
    }
}

/// Half precision has no vector kernels on most CPUs: a convolution takes a hundred times as long
/// as in single precision.
fn capabilities(torch: &Torch, processor: Processor, cuda: bool) -> Capabilities {
    let mut devices = vec![Processor::Cpu];
    devices.extend(cuda.then_some(Processor::Gpu));
    let mut precisions = vec![Precision::F32, Precision::Bf16];
    precisions.extend((processor == Processor::Gpu).then_some(Precision::F16));
    Capabilities {
        version: torch.library.version.clone(),
        path: Some(torch.library.path.clone()),
        devices,
        precisions,
        memory_formats: vec![MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast],
        operator_timing: true,
    }
}

/// No gradients in this thread, `threads` threads inside an operator, and memory that stays: torch
/// takes every tensor from the C library's allocator.
fn set_up(torch: &Torch, threads: usize) {
    memory::keep_freed();
    // SAFETY: both functions take one plain value.
    unsafe {
        (torch.functions.set_gradients)(false);
        (torch.functions.set_threads)(i32::try_from(threads).unwrap_or(i32::MAX));
    }
}

/// The model ready to run, after one run that inspected its tensors.
fn executor(model: &Model, options: &RunOptions, setting: Setting) -> Result<Executor, String> {
    let bytes = match &model.source {
        ModelSource::File(path) => {
            Cow::Owned(std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?)
        }
        ModelSource::Bytes(bytes) => Cow::Borrowed(bytes.as_slice()),
    };
    let constants = Constants::read(&model.name, &bytes).map_err(|e| e.to_string())?;
    let program = lowering::torch::program(&model.graph, setting.precision, setting.format)
        .map_err(|e| e.to_string())?;
    let inputs = input_tensors(model, options, setting.torch)?;
    let mut executor = Executor::new(&program, &constants, inputs, setting)?;
    executor.inspect()?;
    executor.clear();
    Ok(executor)
}

fn input_tensors(
    model: &Model,
    options: &RunOptions,
    torch: &'static Torch,
) -> Result<Vec<Tensor>, String> {
    let one = |(index, &id): (usize, &vitempo_graph::ValueId)| {
        let value = model.graph.value(id);
        let tensor = value
            .tensor
            .as_ref()
            .ok_or_else(|| format!("input `{}` has no static shape", value.name))?;
        let bytes = inputs::bytes(tensor, options.inputs, options.seed, index)
            .map_err(|e| format!("input `{}`: {e}", value.name))?;
        Tensor::from_bytes(torch, &tensor.shape, tensor.precision, &bytes)
            .map_err(|e| format!("input `{}`: {e}", value.name))
    };
    model.graph.inputs().iter().enumerate().map(one).collect()
}

impl TorchSession {
    fn run_error(&self, reason: String) -> BackendError {
        BackendError::Run { backend: NAME, model: self.model.clone(), reason }
    }

    /// Waits for a device that runs asynchronously.
    fn wait(&self) -> Result<(), String> {
        self.cuda.as_ref().map_or(Ok(()), Cuda::synchronize)
    }

    fn whole_run(&mut self) -> Result<RunTime, String> {
        self.wait()?;
        let watch = Stopwatch::start();
        self.executor.run()?;
        self.wait()?;
        let time = watch.stop();
        self.executor.clear();
        Ok(time)
    }

    /// A run with the time of each operator, including the freeing of tensors after their last
    /// reader.
    fn timed_run(&mut self) -> Result<(RunTime, Vec<RunTime>), String> {
        let count = self.executor.steps.len();
        let mut times = Vec::with_capacity(count);
        let whole = Stopwatch::start();
        for index in 0..count {
            let watch = Stopwatch::start();
            self.executor.step(index)?;
            times.push(watch.stop());
        }
        let whole = whole.stop();
        self.executor.clear();
        Ok((whole, times))
    }

    /// The same on CUDA: times on the device, between events.
    fn marked_run(&mut self) -> Result<(RunTime, Vec<RunTime>), String> {
        let Some(cuda) = &self.cuda else { return self.timed_run() };
        let count = self.executor.steps.len();
        let marks = cuda.marks(count)?;
        cuda.synchronize()?;
        let whole = Stopwatch::start();
        marks.set(0)?;
        for index in 0..count {
            self.executor.step(index)?;
            marks.set(index + 1)?;
        }
        cuda.synchronize()?;
        let whole = whole.stop();
        let times = marks
            .distances()?
            .into_iter()
            .map(|wall_ns| RunTime { wall_ns, cpu_ns: None })
            .collect();
        drop(marks);
        self.executor.clear();
        Ok((whole, times))
    }
}

impl Session for TorchSession {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        self.whole_run().map_err(|reason| self.run_error(reason))
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        let row = |step: &executor::Step| Measurement {
            op: step.op.clone().into(),
            node: step.name.clone(),
            kernel: step.call.name.to_owned(),
            samples: Samples::default(),
            memory_bytes: None,
            status: Status::Ok,
        };
        let mut runs = ProfiledRuns {
            e2e: Samples::default(),
            operators: self.executor.steps.iter().map(row).collect(),
        };
        for repeat in 0..warmups.saturating_add(repeats) {
            let (whole, times) = self.marked_run().map_err(|reason| self.run_error(reason))?;
            if repeat >= warmups {
                whole.append_to(&mut runs.e2e);
                runs.operators
                    .iter_mut()
                    .zip(times)
                    .for_each(|(row, time)| time.append_to(&mut row.samples));
            }
        }
        Ok(runs)
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        let read =
            |executor: &mut Executor, names: &[String]| -> Result<Vec<OutputValues>, String> {
                executor.run()?;
                let one = |(name, tensor): (&String, &Tensor)| {
                    Ok(OutputValues {
                        name: name.clone(),
                        shape: tensor.strided()?.sizes,
                        values: tensor.values()?,
                    })
                };
                names.iter().zip(executor.outputs()?).map(one).collect()
            };
        let values =
            read(&mut self.executor, &self.outputs).map_err(|reason| self.run_error(reason));
        self.executor.clear();
        values
    }
}
