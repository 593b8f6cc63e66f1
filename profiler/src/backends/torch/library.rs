//! libtorch's shared library: opened at run time, its version checked, its C functions looked up.
//!
//! The functions are those that torch promises to keep for ahead-of-time compiled models and
//! extensions (`torch/csrc/inductor/aoti_torch/c/shim.h`, `torch/csrc/stable/c/shim.h`): tensors
//! are opaque handles, every function returns an error code. Two things have no C function and are
//! reached by their C++ names: `at::set_num_threads(int)`, and `operator new`, which makes the
//! optional arguments that torch deletes.

use crate::backends::discovery::{EngineLibrary, Library, Missing, at_least, wheel_version};
use std::{
    ffi::{CStr, c_char, c_void},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Where the library is.
pub const LIBRARY: EngineLibrary = EngineLibrary {
    engine: "torch",
    title: "PyTorch",
    variables: &[],
    folder: "torch/lib",
    stem: "libtorch_cpu",
    wanted: "2.10 or newer",
};

/// The first version whose C functions take lists and strings.
const LEAST: [u64; 2] = [2, 10];

/// The version whose operator schemas the calls are written for, as torch encodes it.
const SCHEMAS: u64 = 2 << 56 | 11 << 48;

/// An error code; 0: none.
type Code = i32;
/// A tensor: `at::Tensor *`.
pub(super) type TensorHandle = *mut c_void;
/// A list of values, or text.
type Handle = *mut c_void;

macro_rules! functions {
    ($($field:ident $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The C functions, by what they do.
        #[derive(Debug)]
        pub(super) struct Functions {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn of(library: &Raw) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: the signatures are those of the headers named above, which torch
                    // keeps from version to version.
                    $($field: unsafe { library.symbol($symbol)? },)*
                })
            }
        }
    };
}

functions! {
    abi_version "aoti_torch_abi_version" () -> u64;
    set_gradients "aoti_torch_grad_mode_set_enabled" (bool) -> ();
    device_cpu "aoti_torch_device_type_cpu" () -> i32;
    device_cuda "aoti_torch_device_type_cuda" () -> i32;
    dtype_f64 "aoti_torch_dtype_float64" () -> i32;
    dtype_f32 "aoti_torch_dtype_float32" () -> i32;
    dtype_f16 "aoti_torch_dtype_float16" () -> i32;
    dtype_bf16 "aoti_torch_dtype_bfloat16" () -> i32;
    dtype_i64 "aoti_torch_dtype_int64" () -> i32;
    dtype_i32 "aoti_torch_dtype_int32" () -> i32;
    dtype_i16 "aoti_torch_dtype_int16" () -> i32;
    dtype_i8 "aoti_torch_dtype_int8" () -> i32;
    dtype_u8 "aoti_torch_dtype_uint8" () -> i32;
    dtype_bool "aoti_torch_dtype_bool" () -> i32;
    empty_strided "aoti_torch_empty_strided" (i64, *const i64, *const i64, i32, i32, i32, *mut TensorHandle) -> Code;
    copy "aoti_torch_copy_" (TensorHandle, TensorHandle, i32) -> Code;
    fill "aoti_torch_aten_fill__Scalar" (TensorHandle, f64) -> Code;
    share "aoti_torch_new_tensor_handle" (TensorHandle, *mut TensorHandle) -> Code;
    delete "aoti_torch_delete_tensor_object" (TensorHandle) -> Code;
    data "aoti_torch_get_data_ptr" (TensorHandle, *mut *mut c_void) -> Code;
    rank "aoti_torch_get_dim" (TensorHandle, *mut i64) -> Code;
    sizes "aoti_torch_get_sizes" (TensorHandle, *mut *const i64) -> Code;
    strides "aoti_torch_get_strides" (TensorHandle, *mut *const i64) -> Code;
    dtype "aoti_torch_get_dtype" (TensorHandle, *mut i32) -> Code;
    call "torch_call_dispatcher" (*const c_char, *const c_char, *mut u64, u64) -> Code;
    new_list "torch_new_list_reserve_size" (usize, *mut Handle) -> Code;
    push "torch_list_push_back" (Handle, u64) -> Code;
    list_size "torch_list_size" (Handle, *mut usize) -> Code;
    list_item "torch_list_get_item" (Handle, usize, *mut u64) -> Code;
    delete_list "torch_delete_list" (Handle) -> Code;
    new_text "torch_new_string_handle" (*const c_char, usize, *mut Handle) -> Code;
    add "aoti_torch_cpu_add_Tensor" (TensorHandle, TensorHandle, f64, *mut TensorHandle) -> Code;
    subtract "aoti_torch_aten_subtract_Tensor" (TensorHandle, TensorHandle, f64, *mut TensorHandle) -> Code;
    set_threads "_ZN2at15set_num_threadsEi" (i32) -> ();
    allocate "_Znwm" (usize) -> *mut c_void;
}

/// An open shared library that is never closed: its threads and exit handlers do not survive that.
#[derive(Debug)]
pub(super) struct Raw(&'static libloading::Library);

impl Raw {
    /// Opens a library that needs `folder`'s neighbours: what the loader misses is looked for there
    /// and opened first.
    ///
    /// # Errors
    /// The loader's own words.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let mut opened = Vec::new();
        loop {
            // SAFETY: opening runs the library's initialisers; it was named by the user or has
            // torch's name in a folder for libraries.
            let error = match unsafe { libloading::Library::new(path) } {
                Ok(library) => return Ok(Self(Box::leak(Box::new(library)))),
                Err(error) => words(&error),
            };
            let missing = missing_library(&error).filter(|name| !opened.contains(name));
            let (name, file) = missing
                .and_then(|name| Some((name.clone(), neighbour(path, &name)?)))
                .ok_or_else(|| error.clone())?;
            opened.push(name);
            Self::open(&file).map_err(|reason| format!("{error} ({reason})"))?;
        }
    }

    /// A function of the library, or of one it needs.
    ///
    /// # Safety
    /// `F` must be the type of the function pointer.
    ///
    /// # Errors
    /// Where there is none of that name.
    pub(super) unsafe fn symbol<F: Copy>(&self, name: &str) -> Result<F, String> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.0.get::<F>(name.as_bytes()) };
        found.map(|f| *f).map_err(|_| format!("it has no function {name}"))
    }
}

/// What the loader said, without the library's own prefix.
fn words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// `libcudart.so.13` in "libcudart.so.13: cannot open shared object file: No such file or
/// directory".
fn missing_library(error: &str) -> Option<String> {
    let name = error.strip_suffix(": cannot open shared object file: No such file or directory")?;
    (!name.contains('/')).then(|| name.to_owned())
}

/// A library of that name beside `path`, or in the NVIDIA packages beside torch's.
fn neighbour(path: &Path, name: &str) -> Option<PathBuf> {
    let beside = path.parent()?;
    let packages = beside.parent().and_then(Path::parent).map(|p| p.join("nvidia"));
    let nvidia = packages
        .and_then(|p| std::fs::read_dir(p).ok())
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("lib"));
    std::iter::once(beside.to_owned())
        .chain(nvidia)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// libtorch, loaded.
#[derive(Debug)]
pub(super) struct Torch {
    /// File and version.
    pub library: Library,
    /// Its functions.
    pub functions: Functions,
    /// The open library.
    pub raw: Raw,
}

static TORCH: Mutex<Option<&'static Torch>> = Mutex::new(None);

/// The library, opened by the first call: a process can hold only one.
///
/// # Errors
/// [`Missing`].
pub(super) fn torch(explicit: Option<&Path>) -> Result<&'static Torch, Missing> {
    let mut slot = TORCH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(torch) = *slot {
        let path = &torch.library.path;
        let same = |p: &Path| p.canonicalize().is_ok_and(|p| p == *path || path.starts_with(&p));
        let other = || Missing {
            hint: "use one library per process".to_owned(),
            ..LIBRARY.missing(format!("{} is loaded already", path.display()))
        };
        return if explicit.is_none_or(same) { Ok(torch) } else { Err(other()) };
    }
    let library = LIBRARY.find(explicit, version)?;
    let refused = |reason: String| {
        LIBRARY.missing(format!("{} cannot be used: {reason}", library.path.display()))
    };
    let raw = Raw::open(&library.path).map_err(|reason| refused(explained(&reason)))?;
    let functions = Functions::of(&raw).map_err(refused)?;
    // SAFETY: the function takes nothing and returns a number.
    let abi = unsafe { (functions.abi_version)() };
    let (major, minor) = (abi >> 56, abi >> 48 & 0xff);
    if [major, minor] < LEAST {
        return Err(refused(format!("it is version {major}.{minor}")));
    }
    let torch: &'static Torch = Box::leak(Box::new(Torch { library, functions, raw }));
    *slot = Some(torch);
    Ok(torch)
}

/// The version by the wheel's metadata: known before 400 MB are loaded.
fn version(file: &Path) -> Result<String, String> {
    let version = wheel_version(file, "torch")
        .or_else(|| build_version(file))
        .unwrap_or_else(|| "unknown".to_owned());
    let known = version.starts_with(|c: char| c.is_ascii_digit());
    if known && !at_least(&version, &LEAST) {
        return Err(format!(
            "{} is version {version}, but {} is needed",
            file.display(),
            LIBRARY.wanted
        ));
    }
    Ok(version)
}

/// The version in the file `build-version` that torch's C++ archives have at their root.
fn build_version(file: &Path) -> Option<String> {
    std::fs::read_to_string(file.parent()?.parent()?.join("build-version"))
        .ok()
        .map(|text| text.trim().to_owned())
}

fn explained(reason: &str) -> String {
    match missing_library(reason) {
        Some(name) => format!(
            "{name} is missing (a wheel of torch with CUDA needs the nvidia packages it depends \
            on beside it, or a wheel for the CPU alone)"
        ),
        None => reason.to_owned(),
    }
}

impl Torch {
    /// Calls an operator: the arguments are in `stack`, the results come back in it.
    pub(super) fn dispatch(&self, operator: &CStr, overload: &CStr, stack: &mut [u64]) -> Code {
        // SAFETY: both names end in NUL; the stack has a place for every argument and every result
        // of the operator's schema.
        unsafe {
            (self.functions.call)(operator.as_ptr(), overload.as_ptr(), stack.as_mut_ptr(), SCHEMAS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_words_name_what_is_missing() {
        let words = "libcudart.so.13: cannot open shared object file: No such file or directory";
        assert_eq!(missing_library(words), Some("libcudart.so.13".to_owned()));
        assert_eq!(missing_library("libx.so: undefined symbol: y"), None);
        assert!(explained(words).contains("nvidia") && explained("no").eq("no"));
    }

    #[test]
    fn libraries_beside_torch_are_found() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let torch = folder.path().join("torch/lib");
        let nvidia = folder.path().join("nvidia/cu13/lib");
        std::fs::create_dir_all(&torch)?;
        std::fs::create_dir_all(&nvidia)?;
        std::fs::write(nvidia.join("libcudart.so.13"), b"")?;
        let file = torch.join("libtorch_cpu.so");
        assert_eq!(neighbour(&file, "libcudart.so.13"), Some(nvidia.join("libcudart.so.13")));
        assert_eq!(neighbour(&file, "libother.so"), None);
        Ok(())
    }
}
