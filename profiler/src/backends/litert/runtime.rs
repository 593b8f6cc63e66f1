//! The loaded library, with the environment in which models are compiled. A process has one.

use super::{
    api::{
        Api, CPU, EnvironmentOption, GPU, Handle, NPU, OPTION_ACCELERATORS, OPTION_SEVERITY,
        SEVERITY_ERROR, SEVERITY_INFO, check,
    },
    discovery::{self, LIBRARY, Library, Missing},
};
use crate::backends::capture;
use std::{
    ptr,
    sync::{Mutex, PoisonError},
};
use vitempo_graph::Processor;

/// See the module.
#[derive(Debug)]
pub(super) struct Runtime {
    pub library: Library,
    pub api: Api,
    pub environment: Environment,
}

/// An environment of the library; it is destroyed only when the process ends, except those that
/// were created to look for other processors.
#[derive(Debug)]
pub(super) struct Environment(pub Handle);

// SAFETY: the library guards its environments itself; this program only hands the handle back.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// The library, loaded by the first call.
///
/// # Errors
/// [`Missing`] when there is none, when it does not start, or when another one is loaded already.
pub(super) fn get(explicit: Option<&std::path::Path>) -> Result<&'static Runtime, Missing> {
    let mut slot = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = *slot {
        let same = explicit.is_none_or(|path| {
            discovery::find(Some(path)).is_ok_and(|library| library.path == runtime.library.path)
        });
        let loaded = || Missing {
            reason: format!("{} is loaded already", runtime.library.path.display()),
            hint: "use one library per process".to_owned(),
        };
        return if same { Ok(runtime) } else { Err(loaded()) };
    }
    let library = discovery::find(explicit)?;
    let started = Api::load(&library.path).and_then(|api| {
        environment(&api, CPU, SEVERITY_ERROR).map(|environment| (api, environment))
    });
    let (api, environment) = started
        .map_err(|e| LIBRARY.missing(format!("{} does not start: {e}", library.path.display())))?;
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime { library, api, environment }));
    *slot = Some(runtime);
    Ok(runtime)
}

fn environment(api: &Api, accelerators: i32, severity: i64) -> Result<Environment, String> {
    let options = [
        EnvironmentOption::int(OPTION_ACCELERATORS, i64::from(accelerators)),
        EnvironmentOption::int(OPTION_SEVERITY, severity),
    ];
    let mut handle = ptr::null_mut();
    check(
        // SAFETY: two options are given, which live until the call returns; `handle` is a place for
        // the result.
        unsafe { (api.create_environment)(2, options.as_ptr(), &raw mut handle) },
        "no environment",
    )?;
    Ok(Environment(handle))
}

impl Runtime {
    /// Why this program does not run LiteRT on that processor: the library's message when it looks
    /// for it.
    pub(super) fn refusal(&self, processor: Processor) -> Missing {
        let accelerators = match processor {
            Processor::Cpu => CPU,
            Processor::Gpu => GPU,
            Processor::Npu => NPU,
        };
        let looked = capture::stderr(|| environment(&self.api, accelerators, SEVERITY_INFO));
        let said = match &looked {
            Ok((Ok(environment), log)) => {
                // SAFETY: nothing was made in this environment, and its handle is not used again.
                unsafe { (self.api.destroy_environment)(environment.0) };
                complaints(log)
            }
            Ok((Err(reason), log)) => format!("{reason} {}", complaints(log)),
            Err(error) => error.to_string(),
        };
        let said = if said.trim().is_empty() {
            "an accelerator is there, but vitempo drives LiteRT on the cpu only".to_owned()
        } else {
            said
        };
        Missing { reason: format!("no {processor}: {said}"), hint: "run it on the cpu".to_owned() }
    }
}

/// Warnings and errors of a log, without where in the library they were written.
pub(super) fn complaints(log: &str) -> String {
    let message = |line: &str| {
        let rest = line.strip_prefix("WARNING: ").or_else(|| line.strip_prefix("ERROR: "))?;
        Some(rest.split_once("] ").map_or(rest, |(_, message)| message).trim().to_owned())
    };
    log.lines().filter_map(message).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_a_log() {
        let log = "INFO: [a.cc:1] fine\nWARNING: [npu_registry.cc:34] NPU accelerator could not \
            be loaded: NotFound.\nelse\nERROR: no place\n";
        assert_eq!(complaints(log), "NPU accelerator could not be loaded: NotFound. no place");
    }
}
