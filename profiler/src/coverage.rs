//! Finds which operators of a model an NPU takes, and whether the whole model compiles there.
//!
//! Each model is compiled in a worker: compilers and emulators of NPUs can run out of memory or
//! crash, in which case the result of that model is the reason. Nothing runs and nothing is timed.

use crate::{
    RunOptions,
    backends::availability::Capabilities,
    probe::{self, SweepError},
    sweep::SweepModel,
    worker::{CoverageRequest, Reply, Request, Worker, WorkerCommand},
};
use std::{sync::atomic::AtomicBool, time::Duration};

pub use crate::backends::coverage::{Assigned, Coverage, counts};

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
        let offered = probe::capabilities(worker, backend, options)?;
        let mut options = options.clone();
        if let [only] = offered.devices[..] {
            options.processor = only;
        }
        if options.precision == RunOptions::default().precision
            && !offered.precisions.contains(&options.precision)
        {
            options.precision = offered.precisions.first().copied().unwrap_or(options.precision);
        }
        probe::probe(worker, backend, &options)?;
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
