//! The CUDA side: whether there is a device, waiting for it, and the time of each operator by
//! events on its stream.
//!
//! Events lie between the operators, so that the differences add up to the whole: the time of an
//! operator includes the wait for its launch while the device is idle, as in an eager run.

use super::library::{Raw, Torch};
use crate::backends::{discovery::Missing, torch::dispatch::AddFunction};
use std::ffi::{CStr, c_char, c_void};

type Event = *mut c_void;
type Status = i32;

/// Functions of the CUDA runtime and of libtorch_cuda.
#[derive(Debug)]
pub(super) struct Cuda {
    /// libtorch_cuda, through which the CUDA runtime and CUPTI are found too.
    pub library: Raw,
    /// `add` on this device.
    pub add: AddFunction,
    stream: unsafe extern "C" fn(i32, *mut *mut c_void) -> i32,
    synchronize: unsafe extern "C" fn() -> Status,
    create: unsafe extern "C" fn(*mut Event) -> Status,
    record: unsafe extern "C" fn(Event, *mut c_void) -> Status,
    elapsed: unsafe extern "C" fn(*mut f32, Event, Event) -> Status,
    destroy: unsafe extern "C" fn(Event) -> Status,
    message: unsafe extern "C" fn(Status) -> *const c_char,
}

/// Whether torch could run on a CUDA device here.
///
/// # Errors
/// [`Missing`] in the driver's own words.
pub(super) fn available(torch: &Torch) -> Result<(), Missing> {
    let no_cuda = || Missing {
        reason: format!(
            "{} has no libtorch_cuda beside it: this torch is for the CPU alone, CUDA is not in it",
            torch.library.path.display()
        ),
        hint: "install a wheel of torch with CUDA on a machine with an NVIDIA GPU".to_owned(),
    };
    let beside = torch.library.path.with_file_name("libtorch_cuda.so");
    if !beside.is_file() {
        return Err(no_cuda());
    }
    // SAFETY: these are the signatures of the CUDA runtime, which has kept them since its first
    // version.
    let (count, message) = unsafe {
        let count = torch
            .raw
            .symbol::<unsafe extern "C" fn(*mut i32) -> Status>("cudaGetDeviceCount")
            .map_err(|_| no_cuda())?;
        let message = torch
            .raw
            .symbol::<unsafe extern "C" fn(Status) -> *const c_char>("cudaGetErrorString")
            .map_err(|_| no_cuda())?;
        (count, message)
    };
    let mut devices = 0;
    // SAFETY: the number has a place.
    let status = unsafe { count(&raw mut devices) };
    if status == 0 && devices > 0 {
        return Ok(());
    }
    let reason = if status == 0 {
        "CUDA finds no device".to_owned()
    } else {
        format!("CUDA: {} (error {status})", words(message, status))
    };
    Err(Missing {
        reason,
        hint: "an NVIDIA GPU and a driver new enough for this version of torch \
        are needed; `nvidia-smi` shows both"
            .to_owned(),
    })
}

fn words(message: unsafe extern "C" fn(Status) -> *const c_char, status: Status) -> String {
    // SAFETY: the function gives a static text for every number.
    unsafe { CStr::from_ptr(message(status)) }.to_string_lossy().into_owned()
}

impl Cuda {
    /// Opens libtorch_cuda, which registers its kernels with the dispatcher.
    ///
    /// # Errors
    /// [`Missing`].
    pub(super) fn open(torch: &Torch) -> Result<Self, Missing> {
        available(torch)?;
        let beside = torch.library.path.with_file_name("libtorch_cuda.so");
        let load = || -> Result<Self, String> {
            let library = Raw::open(&beside)?;
            // SAFETY: the signatures are those of torch's C headers and of the CUDA runtime.
            unsafe {
                Ok(Self {
                    add: library.symbol("aoti_torch_cuda_add_Tensor")?,
                    stream: library.symbol("aoti_torch_get_current_cuda_stream")?,
                    synchronize: library.symbol("cudaDeviceSynchronize")?,
                    create: library.symbol("cudaEventCreate")?,
                    record: library.symbol("cudaEventRecord")?,
                    elapsed: library.symbol("cudaEventElapsedTime")?,
                    destroy: library.symbol("cudaEventDestroy")?,
                    message: library.symbol("cudaGetErrorString")?,
                    library,
                })
            }
        };
        load().map_err(|reason| Missing {
            reason: format!("{} does not load: {reason}", beside.display()),
            hint: "install torch with the nvidia packages it depends on, in versions the driver \
                supports"
                .to_owned(),
        })
    }

    pub(super) fn check(&self, what: &str, status: Status) -> Result<(), String> {
        if status == 0 {
            Ok(())
        } else {
            Err(format!("CUDA {what}: {} (error {status})", words(self.message, status)))
        }
    }

    /// Waits until the device has completed all submitted work.
    pub(super) fn synchronize(&self) -> Result<(), String> {
        // SAFETY: the function takes nothing.
        self.check("run", unsafe { (self.synchronize)() })
    }

    /// Events for `count` operators.
    pub(super) fn marks(&self, count: usize) -> Result<Marks<'_>, String> {
        let mut marks = Marks {
            cuda: self,
            events: Vec::with_capacity(count + 1),
            stream: std::ptr::null_mut(),
        };
        // SAFETY: the stream has a place; torch's current stream of device 0 lives as long as the
        // process.
        let code = unsafe { (self.stream)(0, &raw mut marks.stream) };
        if code != 0 {
            return Err("torch has no CUDA stream".to_owned());
        }
        for _ in 0..=count {
            let mut event = std::ptr::null_mut();
            // SAFETY: the event has a place.
            self.check("event", unsafe { (self.create)(&raw mut event) })?;
            marks.events.push(event);
        }
        Ok(marks)
    }
}

/// One event before the first operator and one after each.
pub(super) struct Marks<'a> {
    cuda: &'a Cuda,
    events: Vec<Event>,
    stream: *mut c_void,
}

impl Marks<'_> {
    /// Records event `index` after the work submitted so far.
    pub(super) fn set(&self, index: usize) -> Result<(), String> {
        // SAFETY: event and stream are alive.
        self.cuda.check("event", unsafe { (self.cuda.record)(self.events[index], self.stream) })
    }

    /// Nanoseconds from each event to the next; the device must have been waited for.
    pub(super) fn distances(&self) -> Result<Vec<u64>, String> {
        let distance = |pair: &[Event]| {
            let mut milliseconds = 0f32;
            // SAFETY: both events were recorded, and the number has a place.
            self.cuda.check("event", unsafe {
                (self.cuda.elapsed)(&raw mut milliseconds, pair[0], pair[1])
            })?;
            Ok((f64::from(milliseconds) * 1e6).round() as u64)
        };
        self.events.windows(2).map(distance).collect()
    }
}

impl Drop for Marks<'_> {
    fn drop(&mut self) {
        for &event in &self.events {
            // SAFETY: the event is alive and destroyed once.
            unsafe { (self.cuda.destroy)(event) };
        }
    }
}
