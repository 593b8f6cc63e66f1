//! The functions of OpenVINO's C library that are used here, bound when the library is opened, and
//! its message of the last error.
//!
//! Signatures follow the headers of version 2026.4 (`openvino/c/*.h`); properties go through the
//! `_props` functions, which that version brought, because a variadic C function cannot be declared
//! soundly. Every object is opaque: a pointer that one function makes and another frees
//! ([`Handle`]).

use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_void},
    path::Path,
    ptr::{self, NonNull},
};

/// An opaque object of the library.
pub type Pointer = *mut c_void;

/// Frees an opaque object.
pub type Free = unsafe extern "C" fn(Pointer);

/// `ov_property_t`: name and value, both text here.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Property {
    pub key: *const c_char,
    pub value: *const c_char,
}

/// `ov_version_t`.
#[repr(C)]
pub struct Version {
    build: *const c_char,
    description: *const c_char,
}

/// `ov_available_devices_t`.
#[repr(C)]
pub struct Devices {
    pub names: *mut *mut c_char,
    pub count: usize,
}

/// `ov_shape_t`.
#[repr(C)]
pub struct Shape {
    pub rank: i64,
    pub dims: *mut i64,
}

/// `ov_profiling_info_t`.
#[repr(C)]
pub struct ProfilingInfo {
    pub status: u32,
    pub real_time_us: i64,
    pub cpu_time_us: i64,
    pub node: *const c_char,
    pub exec_type: *const c_char,
    pub node_type: *const c_char,
}

/// `ov_profiling_info_list_t`.
#[repr(C)]
pub struct ProfilingInfos {
    pub infos: *mut ProfilingInfo,
    pub count: usize,
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        /// The functions; each gives a status, 0 being success.
        #[allow(missing_docs, reason = "functions of the C library, named as there")]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> i32,)*
            last_error: unsafe extern "C" fn() -> *const c_char,
            pub free_devices: unsafe extern "C" fn(*mut Devices),
            pub free_shape: unsafe extern "C" fn(*mut Shape) -> i32,
            pub free_profiling: unsafe extern "C" fn(*mut ProfilingInfos),
            pub free_text: unsafe extern "C" fn(*const c_char),
        }

        impl Functions {
            /// # Errors
            /// The first function that the library lacks.
            ///
            /// # Safety
            /// The library must be OpenVINO's C library, 2026.4 or newer: the functions' types are
            /// taken from its headers.
            pub unsafe fn bind(library: &Library) -> Result<Self, String> {
                macro_rules! symbol {
                    ($symbol:expr) => {
                        // SAFETY: by the contract of this function.
                        *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(|_| concat!("it has no ", $symbol).to_owned())?
                    };
                }
                Ok(Self {
                    $($name: symbol!(concat!("ov_", stringify!($name))),)*
                    last_error: symbol!("ov_get_last_err_msg"),
                    free_devices: symbol!("ov_available_devices_free"),
                    free_shape: symbol!("ov_shape_free"),
                    free_profiling: symbol!("ov_profiling_info_list_free"),
                    free_text: symbol!("ov_free"),
                })
            }
        }
    };
}

functions! {
    core_create(*mut Pointer);
    core_get_available_devices(Pointer, *mut Devices);
    core_get_property(Pointer, *const c_char, *const c_char, *mut *mut c_char);
    core_read_model(Pointer, *const c_char, *const c_char, *mut Pointer);
    core_read_model_from_memory_buffer(Pointer, *const c_char, usize, Pointer, *mut Pointer);
    core_compile_model_props(Pointer, Pointer, *const c_char, usize, *const Property, *mut Pointer);
    model_inputs_size(Pointer, *mut usize);
    model_const_input_by_index(Pointer, usize, *mut Pointer);
    port_get_any_name(Pointer, *mut *mut c_char);
    compiled_model_get_property(Pointer, *const c_char, *mut *mut c_char);
    compiled_model_create_infer_request(Pointer, *mut Pointer);
    compiled_model_get_runtime_model(Pointer, *mut Pointer);
    infer_request_get_input_tensor_by_index(Pointer, usize, *mut Pointer);
    infer_request_get_output_tensor_by_index(Pointer, usize, *mut Pointer);
    infer_request_infer(Pointer);
    infer_request_get_profiling_info(Pointer, *mut ProfilingInfos);
    tensor_data(Pointer, *mut Pointer);
    tensor_get_byte_size(Pointer, *mut usize);
    tensor_get_element_type(Pointer, *mut u32);
    tensor_get_shape(Pointer, *mut Shape);
    layout_create(*const c_char, *mut Pointer);
    preprocess_prepostprocessor_create(Pointer, *mut Pointer);
    preprocess_prepostprocessor_get_input_info_by_index(Pointer, usize, *mut Pointer);
    preprocess_prepostprocessor_build(Pointer, *mut Pointer);
    preprocess_input_info_get_tensor_info(Pointer, *mut Pointer);
    preprocess_input_info_get_model_info(Pointer, *mut Pointer);
    preprocess_input_tensor_info_set_layout(Pointer, Pointer);
    preprocess_input_model_info_set_layout(Pointer, Pointer);
}

/// The open library.
pub struct Api {
    pub functions: Functions,
    /// For symbols other than the C functions. Never closed: its threads and exit handlers do not
    /// survive that.
    pub library: Library,
}

impl Api {
    /// Opens the library, which [`Api::version_of`] has found new enough.
    ///
    /// # Errors
    /// A sentence without the file's name.
    pub fn open(path: &Path) -> Result<&'static Self, String> {
        let library = open(path)?;
        // SAFETY: the version is one that has these functions with these types.
        let functions = unsafe { Functions::bind(&library) };
        let api = functions.map(|functions| Self { functions, library })?;
        Ok(Box::leak(Box::new(api)))
    }

    /// The version of the library, e.g. `2026.4.1-22982-e213a147257-releases/2026/4`.
    ///
    /// # Errors
    /// A sentence without the file's name.
    pub fn version_of(path: &Path) -> Result<String, String> {
        let library = open(path)?;
        // SAFETY: both functions have had these types in every release with the C interface 2.0.
        let symbols = unsafe {
            let get = library
                .get::<unsafe extern "C" fn(*mut Version) -> i32>(b"ov_get_openvino_version\0");
            get.and_then(|get| {
                Ok((get, library.get::<unsafe extern "C" fn(*mut Version)>(b"ov_version_free\0")?))
            })
        };
        let (get, free) = symbols.map_err(|_| {
            "it is not OpenVINO's C library: it has no ov_get_openvino_version".to_owned()
        })?;
        let mut version = Version { build: ptr::null(), description: ptr::null() };
        // SAFETY: the first call fills the two strings, which live until the second; where it
        // fails, they stay null.
        let build = unsafe {
            let status = get(&raw mut version);
            let build = text(version.build);
            if status == 0 {
                free(&raw mut version);
            }
            build
        };
        // Never closed: its threads and exit handlers do not survive that.
        std::mem::forget(library);
        Ok(build)
    }

    /// An error for every status but success: the engine's own words.
    ///
    /// # Errors
    /// The last error's message.
    pub fn check(&self, status: i32) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the message is a C string or nothing, and stays until the next error.
        let message = unsafe { text((self.functions.last_error)()) };
        Err(if message.trim().is_empty() { format!("status {status}") } else { shorten(&message) })
    }

    /// The object that `make` writes, freed by the function of that name.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn object(
        &self,
        free: &str,
        make: impl FnOnce(*mut Pointer) -> i32,
    ) -> Result<Handle, String> {
        let mut pointer = ptr::null_mut();
        self.check(make(&raw mut pointer))?;
        let pointer = NonNull::new(pointer).ok_or_else(|| "the engine gave nothing".to_owned())?;
        // SAFETY: each function of the C interface that frees an opaque object takes it and returns
        // nothing.
        let free = *unsafe { self.library.get::<Free>(free.as_bytes()) }
            .map_err(|_| format!("it has no {free}"))?;
        Ok(Handle { pointer, free })
    }

    /// The text that `make` writes.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn text(&self, make: impl FnOnce(*mut *mut c_char) -> i32) -> Result<String, String> {
        let mut pointer = ptr::null_mut();
        self.check(make(&raw mut pointer))?;
        // SAFETY: the call above wrote a C string or nothing, which is read and then freed once;
        // null is allowed.
        Ok(unsafe {
            let value = text(pointer);
            (self.functions.free_text)(pointer);
            value
        })
    }
}

fn open(path: &Path) -> Result<Library, String> {
    // SAFETY: opening runs the library's initialisers; it was named by the user or has OpenVINO's
    // name in a folder for libraries.
    unsafe { Library::new(path) }.map_err(|e| format!("it cannot be opened: {e}"))
}

/// An object of the library, freed when dropped.
#[derive(Debug)]
pub struct Handle {
    pointer: NonNull<c_void>,
    free: Free,
}

impl Handle {
    /// For calls of the library.
    pub fn get(&self) -> Pointer {
        self.pointer.as_ptr()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by the library, owned by this handle alone, and freed by the function that
        // belongs to it.
        unsafe { (self.free)(self.pointer.as_ptr()) }
    }
}

/// A C string as text; empty for a null pointer.
///
/// # Safety
/// The pointer is null, or a string that ends with a zero byte and is not changed meanwhile.
pub unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        String::new()
    } else {
        // SAFETY: as the caller promises.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
    }
}

/// An exception's message in one line, without the places in the engine's source that it passed
/// through.
fn shorten(message: &str) -> String {
    let place = |line: &&str| line.starts_with("Exception from ") && line.ends_with(':');
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty() && !place(line));
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_lose_the_places_in_the_source() {
        let message = "Exception from src/inference/src/cpp/core.cpp:268:\nException from \
            src/x.cpp:1:\nCannot load library \"a.so\":\n no such file\n\n";
        assert_eq!(shorten(message), "Cannot load library \"a.so\": no such file");
        // SAFETY: null is allowed.
        assert_eq!(unsafe { text(ptr::null()) }, "");
    }
}
