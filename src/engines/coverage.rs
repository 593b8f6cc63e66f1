//! [`cover`]: compiles models for an NPU and lists the operators that it takes. Nothing is timed.

use crate::{campaign, models::Models};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use vitempo_graph::Precision;
use vitempo_profiler::{
    RunOptions, SweepError, WorkerCommand,
    coverage::{Compiler, Coverage},
};

/// Longest that a model may take: emulators of NPUs compile slowly.
const LIMIT: Duration = Duration::from_secs(300);

/// One model, compiled or not.
#[derive(Clone, Debug)]
pub struct CoveredModel {
    /// Its name, or its file if that cannot be read.
    pub model: String,
    /// Which operators the NPU takes; or why the model does not compile.
    pub outcome: Result<Coverage, String>,
}

/// All models on one engine.
#[derive(Clone, Debug)]
pub struct Covered {
    /// The engine with its version.
    pub engine: String,
    /// What the models were compiled for.
    pub precision: Precision,
    /// Those that cannot be read first, then in the order of the files.
    pub models: Vec<CoveredModel>,
    /// Whether the caller stopped before all models were compiled.
    pub interrupted: bool,
}

/// Why models have no usable coverage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoverError {
    /// The caller stopped the compilation.
    #[error("interrupted: some models were not compiled")]
    Interrupted,
    /// No model compiled.
    #[error("no model compiled; {0}")]
    NothingCompiled(String),
}

/// Compiles each model for the engine; a model that is given twice is compiled once. `progress`
/// receives the number of models done. `interrupted` stops the compilation; the model that it
/// interrupts is no part of the result.
///
/// # Errors
/// [`SweepError`] where the engine is not here or does not offer what is asked for; a model that
/// does not compile is part of the result.
pub fn cover(
    models: Models,
    engine: &str,
    worker: &WorkerCommand,
    options: &RunOptions,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Result<Covered, SweepError> {
    let compiler = Compiler::new(worker, engine, options)?;
    let unreadable = models.unreadable.into_iter().map(|(path, error)| CoveredModel {
        model: path.display().to_string(),
        outcome: Err(error.to_string()),
    });
    let mut covered: Vec<CoveredModel> = unreadable.collect();
    for model in campaign::sweep_models(models.read) {
        progress(covered.len());
        let outcome = compiler.coverage(&model, LIMIT, interrupted);
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        covered.push(CoveredModel { model: model.identity.name, outcome });
    }
    Ok(Covered {
        engine: format!("{engine} {}", compiler.offered.version),
        precision: compiler.options.precision,
        models: covered,
        interrupted: interrupted.load(Ordering::Relaxed),
    })
}

impl Covered {
    /// How many models run on the NPU as a whole.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.models.iter().filter(|m| m.outcome.as_ref().is_ok_and(Coverage::whole)).count()
    }

    /// Whether at least one model compiled, if there are any, and none was left out.
    ///
    /// # Errors
    /// [`CoverError::Interrupted`]; [`CoverError::NothingCompiled`] with the first reason.
    pub fn verdict(&self) -> Result<(), CoverError> {
        let compiled = self.models.iter().any(|m| m.outcome.is_ok());
        match self.models.first().map(|m| &m.outcome) {
            _ if self.interrupted => Err(CoverError::Interrupted),
            Some(Err(reason)) if !compiled => Err(CoverError::NothingCompiled(reason.clone())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_compiled_is_an_error_with_the_first_reason() {
        let failed = |reason: &str| CoveredModel {
            model: "model".to_owned(),
            outcome: Err(reason.to_owned()),
        };
        let compiled = CoveredModel {
            model: "model".to_owned(),
            outcome: Ok(Coverage { taken: Vec::new(), left: Vec::new() }),
        };
        let verdict = |models: Vec<CoveredModel>, interrupted| {
            let (engine, precision) = ("npu 1".to_owned(), Precision::I8);
            let covered = Covered { engine, precision, models, interrupted };
            covered.verdict().map_err(|error| error.to_string())
        };
        let none = "no model compiled; too large".to_owned();
        assert_eq!(verdict(vec![failed("too large"), failed("no rule")], false), Err(none));
        assert_eq!(verdict(vec![failed("too large"), compiled.clone()], false), Ok(()));
        assert_eq!(verdict(Vec::new(), false), Ok(()));
        let stopped = "interrupted: some models were not compiled".to_owned();
        assert_eq!(verdict(vec![compiled], true), Err(stopped));
    }
}
