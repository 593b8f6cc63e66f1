//! Finds OpenVINO's C library ([`crate::backends::discovery`]), checks its version, and creates the
//! one engine of a process.

use super::{api::Api, engine::Engine};
use crate::backends::discovery::{EngineLibrary, Library, Missing, at_least};
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

/// The first version that has the functions used here.
const LEAST: [u64; 2] = [2026, 4];

const OPENVINO: EngineLibrary = EngineLibrary {
    engine: super::NAME,
    title: "OpenVINO",
    variables: &[],
    folder: "openvino/libs",
    stem: "libopenvino_c",
    wanted: "2026.4 or newer",
};

/// The library as it was first loaded, and the engine in it: a process has one.
pub struct Runtime {
    pub library: Library,
    pub engine: Engine,
}

static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// The engine, started by the first call.
///
/// # Errors
/// [`Missing`], which names every library found and why it was refused.
pub fn runtime(explicit: Option<&Path>) -> Result<&'static Runtime, Missing> {
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = *slot {
        let loaded = &runtime.library.path;
        let same =
            explicit.is_none_or(|path| path.canonicalize().is_ok_and(|p| loaded.starts_with(&p)));
        let other = || Missing {
            hint: "use one library per process".to_owned(),
            ..OPENVINO.missing(format!("{} is loaded already", loaded.display()))
        };
        return if same { Ok(runtime) } else { Err(other()) };
    }
    let library = OPENVINO.find(explicit, |path| {
        version_of(path).map_err(|reason| format!("{}: {reason}", path.display()))
    })?;
    let start = || Engine::start(Api::open(&library.path)?);
    let engine = start()
        .map_err(|e| OPENVINO.missing(format!("{} does not start: {e}", library.path.display())))?;
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime { library, engine }));
    *slot = Some(runtime);
    Ok(runtime)
}

/// The version, from the part of the interface that every release has.
fn version_of(path: &Path) -> Result<String, String> {
    let version = Api::version_of(path)?;
    // Before the first dash: 2026.4.1-22982-e213a147257-releases/2026/4.
    let number = version.split('-').next().unwrap_or_default().to_owned();
    if at_least(&number, &LEAST) {
        Ok(number)
    } else {
        Err(format!("it is version {version}, but {} is needed", OPENVINO.wanted))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let find = |path: &Path| OPENVINO.find(Some(path), version_of).unwrap_err();
        let absent = find(&folder.path().join("none.so"));
        assert!(
            absent.reason.contains("none.so") && absent.hint.contains("VITEMPO_OPENVINO"),
            "{absent:?}"
        );
        let foreign = folder.path().join("libopenvino_c.so.2641");
        std::fs::write(&foreign, b"not a library").unwrap();
        assert!(find(&foreign).reason.contains("cannot be opened"));
        assert!(find(folder.path()).reason.contains("cannot be opened"));
    }
}
