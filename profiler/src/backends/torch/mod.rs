//! PyTorch's eager mode, through the C functions of libtorch's shared library ([`library`]): no
//! Python, no C++, nothing to link.
//!
//! [`vitempo_graph::lowering::torch`] derives the ATen operators that the author of a model wrote;
//! `calls` maps each to torch's dispatcher and `executor` runs them one after the other,
//! without gradients. Two things differ from a Python program: nothing is interpreted between two
//! operators, and activations never run in place, because the file does not show which did. On CUDA
//! all other settings are torch's defaults too (TF32 in convolutions, cuDNN's heuristics), unless
//! the options ask for others: `tf32` and `no-tf32` for both convolutions and products, `cuda-graph`
//! for a run that is one launch (`captured`).
//!
//! Times of operators on CUDA: by events on the stream (`cuda`), so that the wait for a launch
//! counts; in a graph by the ends of kernels (`cupti`). Both name the kernels of each operator.

mod alignment;
mod calls;
mod captured;
mod cuda;
mod cupti;
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
use captured::Captured;
use cuda::Cuda;
use cupti::{Activity, Recorder};
use executor::{Executor, Setting};
use library::Torch;
use std::{borrow::Cow, ffi::c_void};
use tensor::Tensor;
use vitempo_graph::{
    Measurement, MemoryFormat, Precision, Processor, Samples, Setting as EngineSetting, Status,
    lowering, onnx::Constants,
};

const NAME: &str = vitempo_graph::Framework::Torch.name();

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct TorchEager;

struct TorchSession {
    model: String,
    executor: Executor,
    cuda: Option<Cuda>,
    captured: Option<Captured>,
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
            (_, cuda) => Availability::Available(capabilities(torch, options, cuda.is_ok())),
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
        if cuda.is_some() {
            choose_tf32(torch, &options.settings).map_err(refuse)?;
        }
        let mut executor =
            messages::explained(|| executor(model, options, setting)).map_err(refuse)?;
        let captured = cuda
            .as_ref()
            .filter(|_| options.settings.contains(&EngineSetting::CudaGraph))
            .map(|cuda| messages::explained(|| Captured::record(cuda, &mut executor)))
            .transpose()
            .map_err(refuse)?;
        let outputs =
            model.graph.outputs().iter().map(|&id| model.graph.value(id).name.clone()).collect();
        Ok(Box::new(TorchSession { model: model.name.clone(), executor, cuda, captured, outputs }))
    }
}

/// Half precision has no vector kernels on most CPUs: a convolution takes a hundred times as long
/// as in single precision.
fn capabilities(torch: &Torch, options: &RunOptions, cuda: bool) -> Capabilities {
    let processor = options.processor;
    let mut devices = vec![Processor::Cpu];
    devices.extend(cuda.then_some(Processor::Gpu));
    let mut precisions = vec![Precision::F32, Precision::Bf16];
    precisions.extend((processor == Processor::Gpu).then_some(Precision::F16));
    let settings = match (processor, options.precision) {
        (Processor::Gpu, Precision::F32) => EngineSetting::ALL.to_vec(),
        (Processor::Gpu, _) => vec![EngineSetting::CudaGraph],
        _ => Vec::new(),
    };
    Capabilities {
        version: torch.library.version.clone(),
        path: Some(torch.library.path.clone()),
        devices,
        precisions,
        memory_formats: vec![MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast],
        settings,
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

/// Whether convolutions and products of single precision compute in TF32: torch's defaults, or what
/// the settings ask for.
fn choose_tf32(torch: &Torch, settings: &[EngineSetting]) -> Result<(), String> {
    type Choose = unsafe extern "C" fn(*mut c_void, bool);
    let both = settings.contains(&EngineSetting::Tf32);
    let none = settings.contains(&EngineSetting::NoTf32);
    // SAFETY: `at::globalContext()` gives the process's `at::Context &`; the other two are its
    // methods, as their mangled names say.
    unsafe {
        let context =
            torch.raw.symbol::<unsafe extern "C" fn() -> *mut c_void>("_ZN2at13globalContextEv")?;
        let products = torch.raw.symbol::<Choose>("_ZN2at7Context18setAllowTF32CuBLASEb")?;
        let convolutions = torch.raw.symbol::<Choose>("_ZN2at7Context17setAllowTF32CuDNNEb")?;
        products(context(), both);
        convolutions(context(), !none);
    }
    Ok(())
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

/// The device is done with the tensors before they are freed.
impl Drop for TorchSession {
    fn drop(&mut self) {
        let _ = self.wait();
    }
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
        self.submit()?;
        self.wait()?;
        let time = watch.stop();
        self.clear();
        Ok(time)
    }

    fn submit(&mut self) -> Result<(), String> {
        match (&self.captured, &self.cuda) {
            (Some(captured), Some(cuda)) => captured.launch(cuda),
            _ => self.executor.run(),
        }
    }

    /// Frees the results of a run; those of a graph stay where they are.
    fn clear(&mut self) {
        if self.captured.is_none() {
            self.executor.clear();
        }
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

    /// What the device does for each operator: a run of its own that waits after each.
    fn kernels(&mut self, recorder: &Recorder) -> Result<Vec<Vec<Activity>>, String> {
        self.wait()?;
        recorder.take()?;
        let cuda = self.cuda.as_ref();
        let count = self.executor.steps.len();
        self.executor.apart(|executor| {
            let of_step = |index| {
                executor.step(index)?;
                cuda.map_or(Ok(()), Cuda::synchronize)?;
                recorder.take()
            };
            (0..count).map(of_step).collect()
        })
    }

    /// What the device does in a run of the graph.
    fn launched(&mut self, recorder: &Recorder) -> Result<Vec<Activity>, String> {
        self.wait()?;
        recorder.take()?;
        self.submit()?;
        self.wait()?;
        recorder.take()
    }

    /// A run of the graph, from the start of its first kernel to the end of its last (records make
    /// the launch itself slow), with the time of each operator: from the end of what the device did
    /// before it to the end of what it did for it. `owners` has the operator of each kernel.
    fn divided_run(
        &mut self,
        recorder: &Recorder,
        owners: &[usize],
    ) -> Result<(RunTime, Vec<RunTime>), String> {
        let activities = self.launched(recorder)?;
        if activities.len() != owners.len() {
            return Err(format!(
                "a launch of the graph ran {} kernels, another {}: its operators cannot be timed",
                activities.len(),
                owners.len()
            ));
        }
        let mut times = vec![RunTime { wall_ns: 0, cpu_ns: None }; self.executor.steps.len()];
        let start = activities.first().map_or(0, |first| first.start);
        let mut before = start;
        for (activity, &owner) in activities.iter().zip(owners) {
            let end = before.max(activity.end);
            let took = end - std::mem::replace(&mut before, end);
            times.get_mut(owner).into_iter().for_each(|time| time.wall_ns += took);
        }
        Ok((RunTime { wall_ns: before - start, cpu_ns: None }, times))
    }

    /// A run with operators timed, whichever way it is done.
    fn profiled_run(
        &mut self,
        launched: Option<&(Recorder, Vec<usize>)>,
    ) -> Result<(RunTime, Vec<RunTime>), String> {
        match launched {
            Some((recorder, owners)) => self.divided_run(recorder, owners),
            None => self.marked_run(),
        }
    }

    fn timed_operators(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, String> {
        let recorder = self.recorder()?;
        let mut kernels = match &recorder {
            Some(recorder) => self.kernels(recorder)?,
            None => vec![Vec::new(); self.executor.steps.len()],
        };
        // Events time an eager run alone, without a recorder.
        let launched = match recorder.filter(|_| self.captured.is_some()) {
            Some(recorder) => {
                let ran = self.launched(&recorder)?;
                let owners = alignment::owners(&kernels, &ran);
                kernels = alignment::divided(&ran, &owners, kernels.len());
                Some((recorder, owners))
            }
            None => None,
        };
        let row = |(step, kernels): (&executor::Step, &Vec<Activity>)| Measurement {
            op: step.op.clone().into(),
            node: step.name.clone(),
            kernel: with_kernels(step.call.name, kernels),
            samples: Samples::default(),
            memory_bytes: None,
            status: Status::Ok,
        };
        let mut runs = ProfiledRuns {
            e2e: Samples::default(),
            operators: self.executor.steps.iter().zip(&kernels).map(row).collect(),
        };
        for repeat in 0..warmups.saturating_add(repeats) {
            let (whole, times) = self.profiled_run(launched.as_ref())?;
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

    /// Records what the device does. Only a graph cannot be timed without.
    fn recorder(&self) -> Result<Option<Recorder>, String> {
        let Some(cuda) = &self.cuda else { return Ok(None) };
        match Recorder::start(&cuda.library) {
            Ok(recorder) => Ok(Some(recorder)),
            Err(reason) if self.captured.is_some() => Err(reason),
            Err(reason) => {
                tracing::warn!("kernels have no names: {reason}");
                Ok(None)
            }
        }
    }
}

/// `linear: sm80_xmma_gemm`: what torch was asked for, and what ran on the device.
fn with_kernels(call: &str, activities: &[Activity]) -> String {
    let names: Vec<&str> = activities.iter().map(|a| a.name.as_str()).collect();
    if names.is_empty() { call.to_owned() } else { format!("{call}: {}", names.join(" + ")) }
}

impl Session for TorchSession {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        self.whole_run().map_err(|reason| self.run_error(reason))
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        self.timed_operators(warmups, repeats).map_err(|reason| self.run_error(reason))
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        let read = |executor: &Executor, names: &[String]| -> Result<Vec<OutputValues>, String> {
            let one = |(name, tensor): (&String, &Tensor)| {
                Ok(OutputValues {
                    name: name.clone(),
                    shape: tensor.strided()?.sizes,
                    values: tensor.values()?,
                })
            };
            names.iter().zip(executor.outputs()?).map(one).collect()
        };
        let run = self.submit().and_then(|()| self.wait());
        let values = run.and_then(|()| read(&self.executor, &self.outputs));
        self.clear();
        values.map_err(|reason| self.run_error(reason))
    }
}
