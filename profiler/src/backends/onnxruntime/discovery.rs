//! Finds ONNX Runtime's library ([`discovery`]) and checks its version.
//!
//! The version is read before anything else is called, because a library that is too old would
//! crash or panic.

use crate::backends::discovery::{self, EngineLibrary};
pub use discovery::{Library, Missing};
use std::{ffi::CStr, path::Path};

/// The C API this program is written for: version 1.`API_VERSION` and later have it.
pub const API_VERSION: u32 = ort::MINOR_VERSION;

/// What to look for.
pub const LIBRARY: EngineLibrary = EngineLibrary {
    engine: super::NAME,
    title: "ONNX Runtime",
    variables: &["ORT_DYLIB_PATH"],
    folder: "onnxruntime/capi",
    stem: "libonnxruntime",
    wanted: "1.24 or newer",
};

/// Finds the library. `explicit` comes from the options.
///
/// # Errors
/// [`Missing`], which names every library found and why it was refused.
pub fn find(explicit: Option<&Path>) -> Result<Library, Missing> {
    LIBRARY.find(explicit, |file| {
        let version = version_of(file)?;
        gate(file, &version)?;
        Ok(version)
    })
}

fn gate(path: &Path, version: &str) -> Result<(), String> {
    if discovery::at_least(version, &[1, u64::from(API_VERSION)]) && version.starts_with("1.") {
        return Ok(());
    }
    Err(format!("{} is version {version}, but 1.{API_VERSION} or newer is needed", path.display()))
}

/// Opens the library, reads its version, and leaves it open for use.
fn version_of(path: &Path) -> Result<String, String> {
    // SAFETY: opening runs the library's initialisers; it was named by the user or has ONNX
    // Runtime's name in a folder for libraries.
    let library = unsafe { libloading::Library::new(path) }
        .map_err(|e| format!("{} cannot be opened: {e}", path.display()))?;
    // SAFETY: `OrtGetApiBase` has had this signature in every release.
    let base = unsafe {
        library.get::<unsafe extern "system" fn() -> *const ort::sys::OrtApiBase>(b"OrtGetApiBase")
    }
    .map_err(|_| format!("{} is not ONNX Runtime: it has no OrtGetApiBase", path.display()))?;
    // SAFETY: as above; the result is static.
    let base = unsafe { base().as_ref() }
        .ok_or_else(|| format!("{}: OrtGetApiBase gives nothing", path.display()))?;
    // SAFETY: the first two members of OrtApiBase are the same in every release; the string is
    // static.
    let version =
        unsafe { CStr::from_ptr((base.GetVersionString)()) }.to_string_lossy().into_owned();
    // Never closed: its threads and exit handlers do not survive that.
    std::mem::forget(library);
    Ok(version)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_too_old_is_refused() {
        let path = Path::new("/x/libonnxruntime.so");
        assert!(gate(path, "1.31.1").is_ok());
        assert!(gate(path, "1.24.0").is_ok());
        let old = gate(path, "1.20.1").unwrap_err();
        assert!(
            old.contains("/x/libonnxruntime.so") && old.contains("1.20.1") && old.contains("1.24"),
            "{old}"
        );
        assert!(gate(path, "2.0.0").is_err() && gate(path, "what").is_err());
        assert_eq!(LIBRARY.wanted, format!("1.{API_VERSION} or newer"));
    }

    #[test]
    fn what_is_no_library_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("libonnxruntime.so");
        std::fs::write(&foreign, b"not a library").unwrap();
        assert!(find(Some(&foreign)).unwrap_err().reason.contains("cannot be opened"));
        assert!(find(Some(folder.path())).unwrap_err().reason.contains("cannot be opened"));
    }
}
