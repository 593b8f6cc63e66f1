//! One model compiled by the library, with buffers for its inputs and outputs.

use super::{
    api::{self, Deleter, Handle, LOCK_READ, LOCK_WRITE, Layout, RawEvent, TensorType, check},
    events::Event,
    runtime::Runtime,
};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr,
    sync::Arc,
};
use vitempo_graph::Precision;

/// An input or output as the library stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub shape: Vec<usize>,
    pub precision: Precision,
}

/// See the module. Dropping it frees everything in the library.
pub(super) struct CompiledModel {
    runtime: &'static Runtime,
    model: Handle,
    compiled: Handle,
    inputs: Vec<Handle>,
    outputs: Vec<Handle>,
    /// The library reads weights from here while it runs.
    _bytes: Arc<Vec<u8>>,
}

impl CompiledModel {
    /// Compiles a model for the CPU. `cpu` is the engine's own text of CPU options.
    ///
    /// # Errors
    /// What was tried, and the library's status.
    pub(super) fn new(
        runtime: &'static Runtime,
        bytes: &Arc<Vec<u8>>,
        cpu: &str,
        profiling: bool,
    ) -> Result<Self, String> {
        let mut this = Self {
            runtime,
            model: ptr::null_mut(),
            compiled: ptr::null_mut(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            _bytes: Arc::clone(bytes),
        };
        let (api, environment) = (&runtime.api, runtime.environment.0);
        check(
            // SAFETY: the bytes live as long as the model, of which they are a part; `model` is a
            // place for the result.
            unsafe {
                (api.create_model)(
                    environment,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    &raw mut this.model,
                )
            },
            "it cannot be read",
        )?;
        let options = Options::new(runtime)?;
        options.add(c"xnnpack", cpu)?;
        if profiling {
            options.add(c"runtime_options_string", "enable_profiling = true\n")?;
        }
        check(
            // SAFETY: environment, model and options are valid; `compiled` is a place for the
            // result.
            unsafe {
                (api.create_compiled_model)(
                    environment,
                    this.model,
                    options.handle,
                    &raw mut this.compiled,
                )
            },
            "it cannot be compiled",
        )?;
        Ok(this)
    }

    /// Makes buffers for inputs and outputs and fills the inputs.
    ///
    /// # Errors
    /// What was tried, and the library's status.
    pub(super) fn bind(
        &mut self,
        inputs: &[(Stored, Vec<u8>)],
        outputs: &[Stored],
    ) -> Result<(), String> {
        let api = &self.runtime.api;
        for (index, (stored, bytes)) in inputs.iter().enumerate() {
            let buffer = self.buffer(api.input_requirements, index, stored)?;
            self.inputs.push(buffer);
            self.locked(buffer, LOCK_WRITE, |place| {
                // SAFETY: the buffer has room for the tensor, whose size is that of `bytes`; the
                // two do not overlap.
                unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
            })?;
        }
        for (index, stored) in outputs.iter().enumerate() {
            let buffer = self.buffer(api.output_requirements, index, stored)?;
            self.outputs.push(buffer);
        }
        Ok(())
    }

    fn buffer(
        &self,
        requirements: unsafe extern "C" fn(Handle, usize, usize, *mut Handle) -> api::StatusCode,
        index: usize,
        stored: &Stored,
    ) -> Result<Handle, String> {
        let api = &self.runtime.api;
        let kind = tensor_type(stored)?;
        let (mut wanted, mut buffer, mut size) = (ptr::null_mut(), ptr::null_mut(), 0);
        check(
            // SAFETY: the compiled model is valid; the requirements stay its own; `wanted` is a
            // place for the result.
            unsafe { requirements(self.compiled, 0, index, &raw mut wanted) },
            "no requirements of a buffer",
        )?;
        check(
            // SAFETY: type and requirements are valid during the call; `buffer` is a place for the
            // result.
            unsafe {
                (api.create_buffer)(
                    self.runtime.environment.0,
                    &raw const kind,
                    wanted,
                    &raw mut buffer,
                )
            },
            "no buffer",
        )?;
        // SAFETY: the buffer was just made; `size` is a place for the result.
        let known =
            check(unsafe { (api.buffer_size)(buffer, &raw mut size) }, "a buffer without a size");
        if known.is_err() || size < size_bytes(stored) {
            // SAFETY: the buffer was just made and is not used again.
            unsafe { (api.destroy_buffer)(buffer) };
            known?;
            return Err(format!("a buffer of {size} bytes for {} bytes", size_bytes(stored)));
        }
        Ok(buffer)
    }

    fn locked<T>(
        &self,
        buffer: Handle,
        mode: c_int,
        work: impl FnOnce(*mut u8) -> T,
    ) -> Result<T, String> {
        let mut place: *mut c_void = ptr::null_mut();
        check(
            // SAFETY: the buffer is valid; `place` is a place for the result.
            unsafe { (self.runtime.api.lock_buffer)(buffer, &raw mut place, mode) },
            "a buffer cannot be locked",
        )?;
        let result = work(place.cast());
        // SAFETY: the buffer was locked above.
        check(unsafe { (self.runtime.api.unlock_buffer)(buffer) }, "a buffer cannot be unlocked")?;
        Ok(result)
    }

    /// Fills input number `index` anew; `bytes` has as many bytes as before.
    ///
    /// # Errors
    /// What was tried, and the library's status.
    pub(super) fn fill(&self, index: usize, stored: &Stored, bytes: &[u8]) -> Result<(), String> {
        let buffer = *self.inputs.get(index).ok_or_else(|| format!("there is no input {index}"))?;
        if bytes.len() != size_bytes(stored) {
            return Err(format!("it takes {} bytes, not {}", size_bytes(stored), bytes.len()));
        }
        self.locked(buffer, LOCK_WRITE, |place| {
            // SAFETY: the buffer has room for the tensor, whose size is that of `bytes`; the two do
            // not overlap.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        })
    }

    /// The bytes of output number `index`.
    ///
    /// # Errors
    /// What was tried, and the library's status.
    pub(super) fn output(&self, index: usize, stored: &Stored) -> Result<Vec<u8>, String> {
        let buffer =
            *self.outputs.get(index).ok_or_else(|| format!("there is no output {index}"))?;
        self.locked(buffer, LOCK_READ, |place| {
            // SAFETY: the buffer is at least as large as the tensor (`buffer` saw to it) and is not
            // written to while it is locked.
            unsafe { std::slice::from_raw_parts(place.cast_const(), size_bytes(stored)) }.to_vec()
        })
    }

    /// One run.
    ///
    /// # Errors
    /// The library's status.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let (inputs, outputs) = (&mut self.inputs, &mut self.outputs);
        // SAFETY: the model is valid, and so are as many buffers as are said to be there.
        let status = unsafe {
            (self.runtime.api.run)(
                self.compiled,
                0,
                inputs.len(),
                inputs.as_mut_ptr(),
                outputs.len(),
                outputs.as_mut_ptr(),
            )
        };
        check(status, "it does not run")
    }

    /// Runs `work` with the profiler on, and returns the profile.
    ///
    /// # Errors
    /// As `work`, or the library's status.
    pub(super) fn profiled<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<(T, Vec<Event>), String> {
        let api = &self.runtime.api;
        let mut profiler = ptr::null_mut();
        // SAFETY: the model is valid; the profiler stays its own; `profiler` is a place for the
        // result.
        check(unsafe { (api.profiler)(self.compiled, &raw mut profiler) }, "no profiler")?;
        // SAFETY: the profiler is valid, here and below.
        check(unsafe { (api.reset_profiler)(profiler) }, "the profiler cannot be reset")?;
        // SAFETY: as above.
        check(unsafe { (api.start_profiler)(profiler) }, "the profiler does not start")?;
        let result = work(self);
        // SAFETY: as above.
        check(unsafe { (api.stop_profiler)(profiler) }, "the profiler does not stop")?;
        let result = result?;
        let mut count = 0;
        // SAFETY: as above; `count` is a place for the result.
        check(unsafe { (api.event_count)(profiler, &raw mut count) }, "no number of events")?;
        let mut raw = vec![RawEvent::NONE; usize::try_from(count).unwrap_or(0)];
        // SAFETY: `raw` has room for `count` events.
        check(unsafe { (api.events)(profiler, count, raw.as_mut_ptr()) }, "no events")?;
        Ok((result, raw.iter().map(event).collect()))
    }
}

impl Drop for CompiledModel {
    fn drop(&mut self) {
        let api = &self.runtime.api;
        // SAFETY: each was made by the library, is destroyed once, and in the order in which they
        // depend on each other.
        unsafe {
            self.inputs
                .iter()
                .chain(&self.outputs)
                .for_each(|&buffer| (api.destroy_buffer)(buffer));
            if !self.compiled.is_null() {
                (api.destroy_compiled_model)(self.compiled);
            }
            if !self.model.is_null() {
                (api.destroy_model)(self.model);
            }
        }
    }
}

/// Options of one compilation.
struct Options {
    runtime: &'static Runtime,
    handle: Handle,
}

impl Options {
    fn new(runtime: &'static Runtime) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a place for the result.
        check(unsafe { (runtime.api.create_options)(&raw mut handle) }, "no options")?;
        let this = Self { runtime, handle };
        // SAFETY: the options were just made.
        check(unsafe { (runtime.api.set_accelerators)(handle, api::CPU) }, "no CPU")?;
        Ok(this)
    }

    /// Adds settings as TOML under the library's name.
    fn add(&self, name: &'static CStr, toml: &str) -> Result<(), String> {
        let text = CString::new(toml).map_err(|e| e.to_string())?.into_raw();
        let mut opaque = ptr::null_mut();
        let free: Deleter = free_text;
        check(
            // SAFETY: the name is static; the library owns the text from now on and frees it by
            // `free_text`, also when it refuses it.
            unsafe {
                (self.runtime.api.create_opaque_options)(
                    name.as_ptr(),
                    text.cast(),
                    Some(free),
                    &raw mut opaque,
                )
            },
            "settings are refused",
        )?;
        // SAFETY: both are valid; the options own the settings from now on.
        check(
            unsafe { (self.runtime.api.add_opaque_options)(self.handle, opaque) },
            "settings are refused",
        )
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: made by the library, destroyed once.
        unsafe { (self.runtime.api.destroy_options)(self.handle) };
    }
}

unsafe extern "C" fn free_text(text: *mut c_void) {
    if !text.is_null() {
        // SAFETY: the library hands back what `CString::into_raw` gave it.
        drop(unsafe { CString::from_raw(text.cast::<c_char>()) });
    }
}

fn event(raw: &RawEvent) -> Event {
    let tag = if raw.tag.is_null() {
        String::new()
    } else {
        // SAFETY: tags are null or C strings that live until the profiler is reset.
        unsafe { CStr::from_ptr(raw.tag) }.to_string_lossy().into_owned()
    };
    Event {
        tag,
        kind: raw.kind,
        index: usize::try_from(raw.index).unwrap_or(usize::MAX),
        elapsed_us: raw.elapsed_us,
    }
}

fn size_bytes(stored: &Stored) -> usize {
    stored.shape.iter().product::<usize>() * stored.precision.size_bytes()
}

fn tensor_type(stored: &Stored) -> Result<TensorType, String> {
    let mut dimensions = [0; 8];
    let rank = stored.shape.len();
    let places = dimensions
        .get_mut(..rank)
        .ok_or_else(|| format!("a tensor of {rank} dimensions; LiteRT takes 8 at most"))?;
    for (place, &extent) in places.iter_mut().zip(&stored.shape) {
        *place = i32::try_from(extent).map_err(|_| format!("a dimension of {extent}"))?;
    }
    Ok(TensorType {
        element: element(stored.precision)?,
        layout: Layout { flags: rank as u32, dimensions, strides: [0; 8] },
    })
}

/// `LiteRtElementType`.
fn element(precision: Precision) -> Result<c_int, String> {
    Ok(match precision {
        Precision::F32 => 1,
        Precision::I32 => 2,
        Precision::U8 => 3,
        Precision::I64 => 4,
        Precision::Bool => 6,
        Precision::I16 => 7,
        Precision::I8 => 9,
        Precision::F16 => 10,
        Precision::F64 => 11,
        Precision::Bf16 => return Err("LiteRT has no tensors of bf16".to_owned()),
    })
}
