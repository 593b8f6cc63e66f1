//! Where ONNX Runtime's library is, and whether its version will do.
//!
//! Order: the library named in the options; `VITEMPO_ONNXRUNTIME`, then `ORT_DYLIB_PATH` (a file, or a folder that holds it; what is named
//! explicitly is taken or refused, never passed over); the wheel in `$VIRTUAL_ENV`, `$CONDA_PREFIX` and `./.venv`; vitempo's own engines folder
//! (`$VITEMPO_HOME`, `$XDG_DATA_HOME/vitempo` or `~/.local/share/vitempo`, then `engines`); the system's library folders.
//! The version is asked for before anything else is called: a library that is too old would otherwise crash or panic.

use std::{
    ffi::CStr,
    path::{Path, PathBuf},
};

/// The C API this program is written for: version 1.`API_VERSION` and later have it.
pub const API_VERSION: u32 = ort::MINOR_VERSION;

/// A library that will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its file.
    pub path: PathBuf,
    /// Its own version string.
    pub version: String,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What was found.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

impl Missing {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        let hint = format!(
            "install version 1.{API_VERSION} or newer with `python3 -m venv .venv && .venv/bin/pip install onnxruntime`, \
             or set VITEMPO_ONNXRUNTIME to the path of libonnxruntime"
        );
        Self { reason: reason.into(), hint }
    }
}

/// Finds the library. `explicit` comes from the options.
///
/// # Errors
/// [`Missing`], which names every library found and why it was refused.
pub fn find(explicit: Option<&Path>) -> Result<Library, Missing> {
    if let Some(path) = explicit.map(Path::to_owned).or_else(|| variable("VITEMPO_ONNXRUNTIME")).or_else(|| variable("ORT_DYLIB_PATH")) {
        let file = if path.is_dir() { libraries_in(&path).into_iter().next() } else { Some(path.clone()) };
        let file = file.filter(|f| f.is_file()).ok_or_else(|| Missing::new(format!("there is no ONNX Runtime library at {}", path.display())))?;
        return check(&file).map_err(Missing::new);
    }
    let mut refused = Vec::new();
    for file in folders().iter().flat_map(|folder| libraries_in(folder)) {
        match check(&file) {
            Ok(library) => return Ok(library),
            Err(reason) => refused.push(reason),
        }
    }
    Err(Missing::new(if refused.is_empty() { "no ONNX Runtime library was found".to_owned() } else { refused.join("; ") }))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for root in [variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"), Some(PathBuf::from(".venv"))].into_iter().flatten() {
        folders.extend(site_packages(&root).into_iter().map(|p| p.join("onnxruntime").join("capi")));
    }
    folders.extend(engines_folder().map(|f| f.join("onnxruntime")));
    folders.extend(engines_folder());
    folders.extend(variable("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    folders.extend(["/usr/local/lib", "/usr/lib", "/usr/lib64", "/opt/homebrew/lib"].map(PathBuf::from));
    folders.push(PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH)));
    folders
}

/// `lib/python3*/site-packages`, and `Lib/site-packages` as on Windows; the newest Python first.
fn site_packages(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = entries(&root.join("lib")).into_iter().filter(|p| file_name(p).starts_with("python3")).collect();
    found.sort_by_key(|p| std::cmp::Reverse(numbers(&file_name(p))));
    found.push(root.join("Lib"));
    found.into_iter().map(|p| p.join("site-packages")).collect()
}

/// Where vitempo keeps engines it installed.
#[must_use]
pub fn engines_folder() -> Option<PathBuf> {
    let data = || variable("XDG_DATA_HOME").or_else(|| variable("HOME").map(|h| h.join(".local").join("share"))).map(|d| d.join("vitempo"));
    variable("VITEMPO_HOME").or_else(data).map(|home| home.join("engines"))
}

/// Files in `folder` that are called like the library; the highest version first.
fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = entries(folder).into_iter().filter(|p| is_library(&file_name(p))).collect();
    found.sort_by_key(|p| std::cmp::Reverse(numbers(&file_name(p))));
    found
}

fn is_library(name: &str) -> bool {
    let versioned = |prefix: &str, suffix: &str| {
        let middle = name.strip_prefix(prefix).and_then(|rest| if suffix.is_empty() { Some(rest) } else { rest.strip_suffix(suffix) });
        middle.is_some_and(|m| m.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    versioned("libonnxruntime.so", "") || versioned("libonnxruntime", ".dylib") || name.eq_ignore_ascii_case("onnxruntime.dll")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).map(|dir| dir.flatten().map(|e| e.path()).collect()).unwrap_or_default()
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The numbers in a name, for comparing versions: `libonnxruntime.so.1.31.1` gives 1, 31, 1.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

/// Opens the library, asks for its version, and leaves it open: it is about to be used.
fn check(file: &Path) -> Result<Library, String> {
    let path = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let version = version_of(&path)?;
    gate(&path, &version)?;
    Ok(Library { path, version })
}

fn gate(path: &Path, version: &str) -> Result<(), String> {
    let numbers = numbers(version);
    match (numbers.first(), numbers.get(1)) {
        (Some(1), Some(&minor)) if minor >= u64::from(API_VERSION) => Ok(()),
        _ => Err(format!("{} is version {version}, but 1.{API_VERSION} or newer is needed", path.display())),
    }
}

fn version_of(path: &Path) -> Result<String, String> {
    // SAFETY: opening runs the library's initialisers; it was named by the user or has ONNX Runtime's name in a folder for libraries.
    let library = unsafe { libloading::Library::new(path) }.map_err(|e| format!("{} cannot be opened: {e}", path.display()))?;
    // SAFETY: `OrtGetApiBase` has had this signature in every release.
    let base = unsafe { library.get::<unsafe extern "system" fn() -> *const ort::sys::OrtApiBase>(b"OrtGetApiBase") }
        .map_err(|_| format!("{} is not ONNX Runtime: it has no OrtGetApiBase", path.display()))?;
    // SAFETY: as above; the result is static.
    let base = unsafe { base().as_ref() }.ok_or_else(|| format!("{}: OrtGetApiBase gives nothing", path.display()))?;
    // SAFETY: the first two members of OrtApiBase are the same in every release; the string is static.
    let version = unsafe { CStr::from_ptr((base.GetVersionString)()) }.to_string_lossy().into_owned();
    // Never closed: its threads and exit handlers do not survive that.
    std::mem::forget(library);
    Ok(version)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions() {
        for name in ["libonnxruntime.so", "libonnxruntime.so.1.31.1", "libonnxruntime.1.31.1.dylib", "libonnxruntime.dylib", "onnxruntime.dll"] {
            assert!(is_library(name), "{name}");
        }
        for name in ["libonnxruntime_providers_shared.so", "libonnxruntime.so.old", "onnxruntime.py", "libfoo.so"] {
            assert!(!is_library(name), "{name}");
        }
        let path = Path::new("/x/libonnxruntime.so");
        assert!(gate(path, "1.31.1").is_ok());
        assert!(gate(path, "1.24.0").is_ok());
        let old = gate(path, "1.20.1").unwrap_err();
        assert!(old.contains("/x/libonnxruntime.so") && old.contains("1.20.1") && old.contains("1.24"), "{old}");
        assert!(gate(path, "what").is_err());
    }

    #[test]
    fn what_is_named_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let absent = find(Some(&folder.path().join("none.so"))).unwrap_err();
        assert!(absent.reason.contains("none.so") && absent.hint.contains("pip install"), "{absent:?}");
        let foreign = folder.path().join("libonnxruntime.so");
        std::fs::write(&foreign, b"not a library").unwrap();
        assert!(find(Some(&foreign)).unwrap_err().reason.contains("cannot be opened"));
        assert!(find(Some(folder.path())).unwrap_err().reason.contains("cannot be opened"));
    }

    #[test]
    fn the_newest_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libonnxruntime.so.1.9.0", "libonnxruntime.so.1.31.1", "libonnxruntime.so.1.24.2"] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        assert_eq!(file_name(&libraries_in(folder.path())[0]), "libonnxruntime.so.1.31.1");
    }
}
