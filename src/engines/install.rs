//! [`install`]: puts engines' libraries into vitempo's own folder, and opens each one, since what is
//! installed must also run here.

use std::{collections::BTreeSet, path::PathBuf};
use vitempo_profiler::{
    Availability, RunOptions,
    backends::{self, discovery},
    install::{self as pinned, InstallError, Installed, Source, Step, pip},
};

/// An engine that was installed, now or earlier.
#[derive(Clone, Debug)]
pub struct InstalledEngine {
    /// Where it is.
    pub installed: Installed,
    /// The version that its library reports; `None` where this build has no backend for it.
    pub opened_version: Option<String>,
}

/// What happens during an installation.
#[derive(Clone, Copy, Debug)]
pub enum InstallProgress<'a> {
    /// A step of the engine's installation.
    Step(Step<'a>),
    /// The engine of this name is in its folder; with a notice on its licence, if there is one.
    Installed(&'a str, Option<&'a str>),
}

/// Why engines are not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallEnginesError {
    /// Wheels are given, but not for which of several engines.
    #[error("wheels are given for {0} engines; they go with one")]
    WheelsOfSeveral(usize),
    /// An engine that cannot be installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// An engine whose library cannot be opened.
    #[error("{engine} is installed but does not run here: {reason}")]
    DoesNotRun {
        /// Its name.
        engine: String,
        /// What its backend reports.
        reason: String,
        /// What to do about it.
        hint: String,
    },
}

/// Installs engines by name, in the order of names, from these wheels, or by pip where there are
/// none. An engine that is there already stays as it is.
///
/// # Errors
/// [`InstallEnginesError`] of the first engine that fails; those before it are installed.
pub fn install(
    names: &[String],
    wheels: &[PathBuf],
    progress: &mut dyn FnMut(InstallProgress<'_>),
) -> Result<Vec<InstalledEngine>, InstallEnginesError> {
    if names.len() > 1 && !wheels.is_empty() {
        return Err(InstallEnginesError::WheelsOfSeveral(names.len()));
    }
    let home = discovery::engines_folder().ok_or(InstallError::NoFolder)?;
    let source = || match wheels {
        [] => pip::find().map(Source::Pip),
        _ => Ok(Source::Files(wheels.to_vec())),
    };
    let mut engines = Vec::new();
    for name in names.iter().collect::<BTreeSet<_>>() {
        let engine = pinned::by_name(name)?;
        let pins = engine.wheels(std::env::consts::OS, std::env::consts::ARCH)?;
        let installed = pinned::install(engine, pins, &home, &source, &mut |step| {
            progress(InstallProgress::Step(step));
        })?;
        progress(InstallProgress::Installed(name, engine.notice));
        let opened_version = opened_version(&installed)?;
        engines.push(InstalledEngine { installed, opened_version });
    }
    Ok(engines)
}

fn opened_version(installed: &Installed) -> Result<Option<String>, InstallEnginesError> {
    let Ok(backend) = backends::by_name(&installed.engine) else { return Ok(None) };
    let options = RunOptions { library: Some(installed.library.clone()), ..RunOptions::default() };
    match backend.probe(&options) {
        Availability::Available(capabilities) => Ok(Some(capabilities.version)),
        Availability::Unavailable { reason, hint } => {
            let engine = installed.engine.clone();
            Err(InstallEnginesError::DoesNotRun { engine, reason, hint })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_go_with_one_engine() {
        let names = ["openvino", "litert"].map(str::to_owned);
        let refused = install(&names, &["one.whl".into()], &mut |_| {});
        assert!(matches!(refused, Err(InstallEnginesError::WheelsOfSeveral(2))));
    }
}
