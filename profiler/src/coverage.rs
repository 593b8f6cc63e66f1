//! Finds which operators of a model an NPU takes, and whether the whole model compiles there.
//!
//! Each model is compiled in a worker: compilers and emulators of NPUs can run out of memory or
//! crash, in which case the result of that model is the reason. Nothing runs and nothing is timed.

use crate::{
    RunOptions,
    backends::Capabilities,
    sweep::{self, SweepError, SweepModel},
    worker::{CoverageRequest, Reply, Request, Worker, WorkerCommand},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::atomic::AtomicBool, time::Duration};

/// One operator and who runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// The engine's name for who runs it, e.g. `QNNExecutionProvider`.
    pub provider: String,
    /// The operator's node.
    pub node: String,
    /// The operator, e.g. `Conv`.
    pub operator: String,
}

/// Which operators of a model an NPU takes. Operators are those of the model that was compiled, its
/// Q and DQ and the engine's transpositions included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Operators on the NPU.
    pub taken: Vec<Assigned>,
    /// Operators left to another processor.
    pub left: Vec<Assigned>,
}

impl Coverage {
    /// Whether the NPU runs the whole model.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.left.is_empty() && !self.taken.is_empty()
    }
}

/// How many of each operator.
#[must_use]
pub fn counts(operators: &[Assigned]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    operators.iter().for_each(|o| *counts.entry(o.operator.as_str()).or_default() += 1);
    counts
}

/// A backend whose coverage is requested, with options that it offers.
#[derive(Debug)]
pub struct Compiler<'a> {
    worker: &'a WorkerCommand,
    backend: String,
    /// How models are compiled.
    pub options: RunOptions,
    /// What the backend offers.
    pub offered: Capabilities,
}

impl<'a> Compiler<'a> {
    /// For a backend: its only processor if it has one, and its first precision if it lacks the
    /// default one.
    ///
    /// # Errors
    /// [`SweepError`] when the backend is not here or does not offer what is asked for.
    pub fn new(
        worker: &'a WorkerCommand,
        backend: &str,
        options: &RunOptions,
    ) -> Result<Self, SweepError> {
        let offered = sweep::capabilities(worker, backend, options)?;
        let mut options = options.clone();
        if let [only] = offered.devices[..] {
            options.processor = only;
        }
        if options.precision == RunOptions::default().precision
            && !offered.precisions.contains(&options.precision)
        {
            options.precision = offered.precisions.first().copied().unwrap_or(options.precision);
        }
        sweep::probe(worker, backend, &options)?;
        Ok(Self { worker, backend: backend.to_owned(), options, offered })
    }

    /// What becomes of one model.
    ///
    /// # Errors
    /// A sentence: why it does not compile.
    pub fn coverage(
        &self,
        model: &SweepModel,
        limit: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Coverage, String> {
        let request = CoverageRequest {
            backend: self.backend.clone(),
            options: self.options.clone(),
            name: model.identity.name.clone(),
            graph: model.graph.clone(),
            source: model.source.clone(),
        };
        let mut worker = Worker::start(self.worker).map_err(|e| e.to_string())?;
        match worker
            .ask(&Request::Cover(Box::new(request)), limit, interrupted)
            .map_err(|e| e.to_string())?
        {
            Reply::Covered(coverage) => Ok(coverage),
            Reply::Failed { reason, .. } => Err(reason),
            _ => Err("the worker answered another question".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_counted_and_the_whole_is_told_from_a_part() {
        let assigned = |operator: &str| Assigned {
            provider: "NPU".into(),
            node: "n".into(),
            operator: operator.into(),
        };
        let all = Coverage {
            taken: vec![assigned("Conv"), assigned("Relu"), assigned("Conv")],
            left: Vec::new(),
        };
        assert_eq!(counts(&all.taken).into_iter().collect::<Vec<_>>(), [("Conv", 2), ("Relu", 1)]);
        assert!(all.whole() && !Coverage::default().whole());
        assert!(!Coverage { left: vec![assigned("Erf")], ..all }.whole());
    }
}
