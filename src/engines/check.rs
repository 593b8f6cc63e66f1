//! [`check`]: runs the conformance suite ([`vitempo_profiler::conformance`]) on one engine or on all
//! that compute, and [`Checked::verdict`] says whether all of them passed.

use std::sync::atomic::{AtomicBool, Ordering};
use vitempo_profiler::{
    BackendError, RunOptions, SweepError, WorkerCommand, backends,
    conformance::{Case, Suite},
};

/// What happens during a check.
#[derive(Clone, Copy, Debug)]
pub enum CheckProgress<'a> {
    /// An engine is left out: it is not here.
    Skipped(&'a SweepError),
    /// The check of this engine starts.
    Engine(&'static str),
    /// A case has ended.
    Case(&'a Case),
}

/// The cases of all engines.
#[derive(Clone, Debug)]
pub struct Checked {
    /// In the order in which they ran.
    pub cases: Vec<Case>,
    /// Whether the caller stopped the check before all engines were through.
    pub interrupted: bool,
}

/// Why engines were not checked, or did not pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The engine whose outputs the others are compared with does not run.
    #[error("{0}")]
    Reference(String),
    /// There is no such engine.
    #[error(transparent)]
    Unknown(#[from] BackendError),
    /// The engine asked for is not here.
    #[error(transparent)]
    Engine(#[from] SweepError),
    /// The caller stopped the check.
    #[error("interrupted: some engines were not checked")]
    Interrupted,
    /// No engine takes the options in any precision and format.
    #[error("nothing was checked: no engine takes these options on this device")]
    Nothing,
    /// Engines that do not conform.
    #[error("{failed} of {all} checks failed")]
    Failed {
        /// Cases with an error.
        failed: usize,
        /// All cases.
        all: usize,
    },
}

/// Checks the engine of this name, or every one that computes. Of all, those that are not here are
/// skipped; the one asked for has to be here.
///
/// The precision and memory format of `options` do not count: an engine is checked in all that it
/// offers. `interrupted` stops the check.
///
/// # Errors
/// [`CheckError::Reference`], [`CheckError::Unknown`] and [`CheckError::Engine`]; cases that fail
/// are part of the result.
pub fn check(
    only: Option<&str>,
    worker: &WorkerCommand,
    options: &RunOptions,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<Checked, CheckError> {
    let suite = Suite::new(worker, options, interrupted).map_err(CheckError::Reference)?;
    let mut cases = Vec::new();
    for backend in chosen(only)? {
        let offered = match suite.capabilities(backend) {
            Ok(offered) => offered,
            Err(error) if only.is_some() => return Err(error.into()),
            Err(error) => {
                progress(CheckProgress::Skipped(&error));
                continue;
            }
        };
        progress(CheckProgress::Engine(backend));
        cases.extend(suite.run(backend, &offered, |case| progress(CheckProgress::Case(case))));
    }
    Ok(Checked { cases, interrupted: interrupted.load(Ordering::Relaxed) })
}

/// The engine asked for, or all that compute.
fn chosen(only: Option<&str>) -> Result<Vec<&'static str>, BackendError> {
    match only {
        Some(name) => Ok(vec![backends::by_name(name)?.name()]),
        None => Ok(backends::that_compute()),
    }
}

impl Checked {
    /// Cases in which an engine does not conform.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.cases.iter().filter(|case| case.error.is_some()).count()
    }

    /// Cases whose operator times were not compared because another program used the processor.
    #[must_use]
    pub fn disturbed(&self) -> usize {
        self.cases.iter().filter(|case| case.disturbed).count()
    }

    /// Whether every engine passed.
    ///
    /// # Errors
    /// [`CheckError::Interrupted`], [`CheckError::Nothing`] and [`CheckError::Failed`].
    pub fn verdict(&self) -> Result<(), CheckError> {
        match self.failed() {
            _ if self.interrupted => Err(CheckError::Interrupted),
            _ if self.cases.is_empty() => Err(CheckError::Nothing),
            0 => Ok(()),
            failed => Err(CheckError::Failed { failed, all: self.cases.len() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::Precision;

    fn case(error: Option<&str>, disturbed: bool) -> Case {
        Case {
            backend: "engine".to_owned(),
            precision: Precision::F32,
            memory_format: None,
            settings: Vec::new(),
            graph: "graph".to_owned(),
            executed: None,
            apart: None,
            tolerance: 1e-3,
            operators_share: None,
            disturbed,
            kernels: 0,
            unlabelled: 0,
            error: error.map(str::to_owned),
        }
    }

    /// A disturbed case is no failure, and a check that was stopped is none that passed.
    #[test]
    fn a_verdict_counts_failures_and_nothing_else() {
        let of = |cases: &[Case], interrupted| {
            let checked = Checked { cases: cases.to_vec(), interrupted };
            checked.verdict().map_err(|error| error.to_string())
        };
        let (good, busy, bad) = (case(None, false), case(None, true), case(Some("NaN"), false));
        assert_eq!(of(&[good.clone(), busy.clone()], false), Ok(()));
        assert_eq!(of(&[good.clone(), busy, bad], false), Err("1 of 3 checks failed".to_owned()));
        let stopped = "interrupted: some engines were not checked";
        assert_eq!(of(&[good], true), Err(stopped.to_owned()));
        assert!(of(&[], false).is_err_and(|words| words.contains("nothing was checked")));
    }

    #[test]
    fn the_engine_asked_for_has_to_exist() {
        assert!(chosen(Some("abacus")).is_err_and(|error| error.to_string().contains("abacus")));
        assert!(chosen(None).is_ok_and(|all| !all.contains(&"null")));
    }
}
