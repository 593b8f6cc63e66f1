//! The part of LiteRT's C API that is used, resolved from the shared library by name. All `LiteRt*`
//! functions return a status, 0 for success.
//!
//! Declarations follow the public headers of LiteRT (`litert/c`, Apache-2.0) of version 2.1.6 and
//! later, in which models are created in an environment.

use std::{
    ffi::{c_char, c_int, c_void},
    path::Path,
};

/// A pointer to an object of the library.
pub(super) type Handle = *mut c_void;

/// What a call returns.
pub(super) type StatusCode = c_int;

/// `LiteRtHwAccelerators`.
pub(super) const CPU: c_int = 1;
pub(super) const GPU: c_int = 2;
pub(super) const NPU: c_int = 4;

/// `LiteRtTensorBufferLockMode`.
pub(super) const LOCK_READ: c_int = 0;
pub(super) const LOCK_WRITE: c_int = 1;

/// `LiteRtEnvOptionTag`: which accelerators to look for, and what to log at least
/// (`LiteRtLogSeverity`).
pub(super) const OPTION_ACCELERATORS: c_int = 24;
pub(super) const OPTION_SEVERITY: c_int = 25;
pub(super) const SEVERITY_INFO: i64 = 1;
pub(super) const SEVERITY_ERROR: i64 = 3;

/// `LiteRtEnvOption` with an integer as its value.
#[repr(C)]
pub(super) struct EnvironmentOption {
    tag: c_int,
    value: Any,
}

/// `LiteRtAny` that holds an integer.
#[repr(C)]
struct Any {
    kind: c_int,
    value: i64,
}

impl EnvironmentOption {
    pub(super) fn int(tag: c_int, value: i64) -> Self {
        const INT: c_int = 2;
        Self { tag, value: Any { kind: INT, value } }
    }
}

/// `LiteRtLayout` without strides: the lower seven bits of `flags` are the rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub flags: u32,
    pub dimensions: [i32; 8],
    pub strides: [u32; 8],
}

/// `LiteRtRankedTensorType`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct TensorType {
    pub element: c_int,
    pub layout: Layout,
}

/// `ProfiledEventData`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawEvent {
    pub tag: *const c_char,
    pub kind: c_int,
    pub start_us: u64,
    pub elapsed_us: u64,
    pub memory_before: [usize; 3],
    pub memory_after: [usize; 3],
    pub index: u64,
    pub more: u64,
    pub source: c_int,
}

impl RawEvent {
    pub(super) const NONE: Self = Self {
        tag: std::ptr::null(),
        kind: 0,
        start_us: 0,
        elapsed_us: 0,
        memory_before: [0; 3],
        memory_after: [0; 3],
        index: 0,
        more: 0,
        source: 0,
    };
}

/// Frees the contents of an opaque option.
pub(super) type Deleter = unsafe extern "C" fn(*mut c_void);

macro_rules! functions {
    ($($field:ident $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The library's functions. The library stays open for ever: its threads and exit handlers
        /// do not survive closing.
        #[derive(Debug)]
        pub(super) struct Api { $(pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Api {
            /// Opens the library and resolves everything.
            ///
            /// # Errors
            /// A sentence that names the file and what it lacks.
            pub(super) fn load(path: &Path) -> Result<Self, String> {
                // SAFETY: opening runs the library's initialisers; it was named by the user or has
                // LiteRT's name in a folder for libraries.
                let library = unsafe { libloading::Library::new(path) }.map_err(|e| format!("{} cannot be opened: {e}", path.display()))?;
                let lacks = |name: &str| format!("{} is no LiteRT of version 2.1.6 or newer: it \
                    has no {name}", path.display());
                // SAFETY: the signatures are those of the public headers since that version, which
                // `LiteRtCreateModelFromFd` came with.
                let api = unsafe {
                    library.get::<unsafe extern "C" fn()>(b"LiteRtCreateModelFromFd\0").map_err(|_| lacks("LiteRtCreateModelFromFd"))?;
                    Self { $($field: *library.get(concat!(stringify!($name), "\0").as_bytes()).map_err(|_| lacks(stringify!($name)))?,)* }
                };
                std::mem::forget(library);
                Ok(api)
            }
        }
    };
}

functions! {
    create_environment LiteRtCreateEnvironment(c_int, *const EnvironmentOption, *mut Handle) -> StatusCode;
    destroy_environment LiteRtDestroyEnvironment(Handle);
    create_model LiteRtCreateModelFromBuffer(Handle, *const c_void, usize, *mut Handle) -> StatusCode;
    destroy_model LiteRtDestroyModel(Handle);
    create_options LiteRtCreateOptions(*mut Handle) -> StatusCode;
    destroy_options LiteRtDestroyOptions(Handle);
    set_accelerators LiteRtSetOptionsHardwareAccelerators(Handle, c_int) -> StatusCode;
    create_opaque_options LiteRtCreateOpaqueOptions(*const c_char, *mut c_void, Option<Deleter>, *mut Handle) -> StatusCode;
    add_opaque_options LiteRtAddOpaqueOptions(Handle, Handle) -> StatusCode;
    create_compiled_model LiteRtCreateCompiledModel(Handle, Handle, Handle, *mut Handle) -> StatusCode;
    destroy_compiled_model LiteRtDestroyCompiledModel(Handle);
    input_requirements LiteRtGetCompiledModelInputBufferRequirements(Handle, usize, usize, *mut Handle) -> StatusCode;
    output_requirements LiteRtGetCompiledModelOutputBufferRequirements(Handle, usize, usize, *mut Handle) -> StatusCode;
    create_buffer LiteRtCreateManagedTensorBufferFromRequirements(Handle, *const TensorType, Handle, *mut Handle) -> StatusCode;
    destroy_buffer LiteRtDestroyTensorBuffer(Handle);
    buffer_size LiteRtGetTensorBufferSize(Handle, *mut usize) -> StatusCode;
    lock_buffer LiteRtLockTensorBuffer(Handle, *mut *mut c_void, c_int) -> StatusCode;
    unlock_buffer LiteRtUnlockTensorBuffer(Handle) -> StatusCode;
    run LiteRtRunCompiledModel(Handle, usize, usize, *mut Handle, usize, *mut Handle) -> StatusCode;
    profiler LiteRtCompiledModelGetProfiler(Handle, *mut Handle) -> StatusCode;
    start_profiler LiteRtStartProfiler(Handle) -> StatusCode;
    stop_profiler LiteRtStopProfiler(Handle) -> StatusCode;
    reset_profiler LiteRtResetProfiler(Handle) -> StatusCode;
    event_count LiteRtGetNumProfilerEvents(Handle, *mut c_int) -> StatusCode;
    events LiteRtGetProfilerEvents(Handle, c_int, *mut RawEvent) -> StatusCode;
}

/// The name of a status that is no success, as the headers have it.
pub(super) fn status_name(status: StatusCode) -> String {
    let name = match status {
        1 => "invalid argument",
        2 => "memory allocation failure",
        3 => "runtime failure",
        4 => "missing input tensor",
        5 => "unsupported",
        6 => "not found",
        8 => "wrong version",
        500 => "file I/O error",
        501 => "invalid flatbuffer",
        502 => "dynamic loading failed",
        504 => "compilation failed",
        _ => return format!("status {status}"),
    };
    format!("{name} (status {status})")
}

/// An error for a status that is no success.
///
/// # Errors
/// What was done, and the status.
pub(super) fn check(status: StatusCode, what: &str) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{what}: {}", status_name(status))) }
}
