//! [`Captured`]: all kernels of a run, recorded once as a CUDA graph and launched as a whole, as
//! `torch.cuda.CUDAGraph` does.
//!
//! The run is recorded on a stream of its own. There is no pool of memory: a run before it leaves
//! torch's allocator with blocks for every tensor of this stream, which no other stream is given.
//! They are lost where the device runs out of memory, since torch then frees what is not in use; a
//! worker whose model fails on a GPU is started anew.

use super::{cuda::Cuda, executor::Executor};
use std::{
    ffi::c_void,
    ptr,
    sync::{Mutex, PoisonError},
};

type Handle = *mut c_void;
type Status = i32;

/// `cudaStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;
/// `cudaStreamCaptureModeRelaxed`: torch's allocator may ask the device for memory meanwhile.
const RELAXED: i32 = 2;

/// Streams without a graph. Torch's allocator keeps blocks for each, so they are used again.
static IDLE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Functions of the CUDA runtime about graphs, and torch's choice of a stream.
#[derive(Clone, Copy, Debug)]
struct Functions {
    create_stream: unsafe extern "C" fn(*mut Handle, u32) -> Status,
    begin: unsafe extern "C" fn(Handle, i32) -> Status,
    end: unsafe extern "C" fn(Handle, *mut Handle) -> Status,
    instantiate: unsafe extern "C" fn(*mut Handle, Handle, u64) -> Status,
    launch: unsafe extern "C" fn(Handle, Handle) -> Status,
    destroy_graph: unsafe extern "C" fn(Handle) -> Status,
    destroy_launchable: unsafe extern "C" fn(Handle) -> Status,
    set_stream: unsafe extern "C" fn(Handle, i32, *mut Handle) -> i32,
    reset_stream: unsafe extern "C" fn(Handle) -> i32,
}

impl Functions {
    fn of(cuda: &Cuda) -> Result<Self, String> {
        let library = &cuda.library;
        // SAFETY: the signatures are those of `cuda_runtime_api.h` and of torch's C headers.
        unsafe {
            Ok(Self {
                create_stream: library.symbol("cudaStreamCreateWithFlags")?,
                begin: library.symbol("cudaStreamBeginCapture")?,
                end: library.symbol("cudaStreamEndCapture")?,
                instantiate: library.symbol("cudaGraphInstantiateWithFlags")?,
                launch: library.symbol("cudaGraphLaunch")?,
                destroy_graph: library.symbol("cudaGraphDestroy")?,
                destroy_launchable: library.symbol("cudaGraphExecDestroy")?,
                set_stream: library.symbol("aoti_torch_create_cuda_stream_guard")?,
                reset_stream: library.symbol("aoti_torch_delete_cuda_stream_guard")?,
            })
        }
    }
}

/// A recorded run. Its tensors are the executor's, whose outputs stay where they are.
pub(super) struct Captured {
    functions: Functions,
    stream: Handle,
    launchable: Handle,
}

impl Captured {
    /// Records a run of `executor`, whose results stay.
    ///
    /// # Errors
    /// A sentence, for a model with an operator that waits for the device.
    pub(super) fn record(cuda: &Cuda, executor: &mut Executor) -> Result<Self, String> {
        let functions = Functions::of(cuda)?;
        let mut captured = Self { functions, stream: idle(), launchable: ptr::null_mut() };
        if captured.stream.is_null() {
            // SAFETY: the stream has a place.
            cuda.check("stream", unsafe {
                (functions.create_stream)(&raw mut captured.stream, NON_BLOCKING)
            })?;
        }
        // Weights may still be on their way on the default stream.
        cuda.synchronize()?;
        let chosen = Chosen::stream(functions, captured.stream)?;
        executor.run()?;
        executor.clear();
        cuda.synchronize()?;
        // SAFETY: the stream is alive, and nothing is recorded on it yet.
        cuda.check("graph", unsafe { (functions.begin)(captured.stream, RELAXED) })?;
        let run = executor.run();
        let mut graph = ptr::null_mut();
        // SAFETY: the recording began above; the graph has a place.
        let status = unsafe { (functions.end)(captured.stream, &raw mut graph) };
        drop(chosen);
        let recorded = run.and_then(|()| cuda.check("graph", status)).and_then(|()| {
            // SAFETY: the graph is there, and the other has a place.
            cuda.check("graph", unsafe {
                (functions.instantiate)(&raw mut captured.launchable, graph, 0)
            })
        });
        if !graph.is_null() {
            // SAFETY: the graph is ours, destroyed once, and not needed once it can be launched.
            unsafe { (functions.destroy_graph)(graph) };
        }
        recorded.map(|()| captured).map_err(|reason| {
            format!(
                "{reason} (an operator that waits for the device cannot be recorded; measure the \
                model without the setting cuda-graph)"
            )
        })
    }

    /// Submits the run; its results are there once the device has been waited for.
    pub(super) fn launch(&self, cuda: &Cuda) -> Result<(), String> {
        // SAFETY: graph and stream are alive, as are the tensors, which the executor holds.
        cuda.check("graph", unsafe { (self.functions.launch)(self.launchable, self.stream) })
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if !self.launchable.is_null() {
            // SAFETY: it is ours and destroyed once.
            unsafe { (self.functions.destroy_launchable)(self.launchable) };
        }
        if !self.stream.is_null() {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self.stream as usize);
        }
    }
}

/// A stream that waits for a graph; null: there is none.
fn idle() -> Handle {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    idle.map_or(ptr::null_mut(), |stream| stream as Handle)
}

/// The stream that torch submits to in this thread, until this is dropped.
struct Chosen {
    functions: Functions,
    guard: Handle,
}

impl Chosen {
    fn stream(functions: Functions, stream: Handle) -> Result<Self, String> {
        let mut guard = ptr::null_mut();
        // SAFETY: the stream is alive, the guard has a place.
        match unsafe { (functions.set_stream)(stream, 0, &raw mut guard) } {
            0 => Ok(Self { functions, guard }),
            _ => Err("torch does not take a CUDA stream".to_owned()),
        }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        // SAFETY: the guard is ours and dropped once.
        unsafe { (self.functions.reset_stream)(self.guard) };
    }
}
