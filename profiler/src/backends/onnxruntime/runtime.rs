//! The library, which a process can load only once, and its providers besides the CPU.

use super::discovery::{self, Library, Missing};
use ort::{environment::Environment, ep, logging::LogLevel};
use std::{
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
};

/// The library as it was first loaded.
pub(super) struct Runtime {
    pub library: Library,
    pub environment: Environment,
    /// Why CUDA is not available, if it was requested.
    cuda: OnceLock<Result<(), String>>,
}

static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// The library, loaded by the first call.
///
/// # Errors
/// [`Missing`], with what to do.
pub(super) fn runtime(explicit: Option<&Path>) -> Result<&'static Runtime, Missing> {
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = *slot {
        let same = explicit.is_none_or(|path| {
            path.canonicalize().is_ok_and(|p| {
                p == runtime.library.path || Some(p.as_path()) == runtime.library.path.parent()
            })
        });
        let loaded = || Missing {
            hint: "use one library per process".to_owned(),
            ..discovery::LIBRARY
                .missing(format!("{} is loaded already", runtime.library.path.display()))
        };
        return if same { Ok(runtime) } else { Err(loaded()) };
    }
    let library = discovery::find(explicit)?;
    let refused = |e: &dyn std::fmt::Display| {
        discovery::LIBRARY.missing(format!("{} does not start: {e}", library.path.display()))
    };
    let environment = ort::init_from(&library.path)
        .map_err(|e| refused(&e))?
        .with_name("vitempo")
        .with_telemetry(false)
        .build()
        .map_err(|e| refused(&e))?;
    environment.set_log_level(LogLevel::Error);
    let runtime: &'static Runtime =
        Box::leak(Box::new(Runtime { library, environment, cuda: OnceLock::new() }));
    *slot = Some(runtime);
    Ok(runtime)
}

impl Runtime {
    /// Whether the CUDA provider is in this library and starts; the engine's own reason where it
    /// does not.
    pub(super) fn cuda(&self) -> Result<(), String> {
        let start = || {
            let builder =
                ort::session::Session::builder(&self.environment).map_err(|e| e.to_string())?;
            builder
                .with_execution_providers([cuda_provider()])
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        self.cuda.get_or_init(start).clone()
    }
}

/// The CUDA provider as sessions use it; an absent one is an error.
pub(super) fn cuda_provider() -> ep::ExecutionProviderDispatch {
    ep::CUDA::default().build().error_on_failure()
}
