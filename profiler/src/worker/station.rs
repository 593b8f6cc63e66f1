//! [`Station`]: a worker kept from one model run to the next, and replaced by a fresh one when its
//! state is uncertain.

use super::{Reply, Request, RunRequest, Worker, WorkerCommand, WorkerError};
use crate::model_run::ModelRun;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// What came of a model run: its samples, or why there are none.
pub type Outcome = Result<ModelRun, String>;

/// A place where model runs are made, one after the other.
#[derive(Debug)]
pub struct Station {
    command: WorkerCommand,
    worker: Option<Worker>,
}

impl Station {
    /// One whose workers are started so, when they are needed.
    #[must_use]
    pub fn new(command: WorkerCommand) -> Self {
        Self { command, worker: None }
    }

    /// The worker's answer; `None` when interrupted. A worker that crashed, took too long or has an
    /// uncertain state is ended: that is the outcome of this model run, and the next one starts
    /// another. A run in a process of its own leaves the kept worker as it is.
    ///
    /// # Errors
    /// [`WorkerError::Start`].
    pub fn run(
        &mut self,
        request: RunRequest,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Option<Outcome>, WorkerError> {
        if !request.protocol.fresh {
            return self.ask(request, timeout, interrupted);
        }
        let in_file = request.source.in_file(&request.graph, request.options.seed);
        let (source, _file) = match in_file {
            Ok(in_file) => in_file,
            Err(reason) => return Ok(Some(Err(reason))),
        };
        Self::new(self.command.clone()).ask(RunRequest { source, ..request }, timeout, interrupted)
    }

    fn ask(
        &mut self,
        request: RunRequest,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Option<Outcome>, WorkerError> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(&self.command)?,
        };
        let answer = worker.ask(&Request::Run(Box::new(request)), timeout, interrupted);
        Ok(Some(match answer {
            Ok(Reply::Ran(run)) => {
                self.worker = Some(worker);
                Ok(*run)
            }
            Ok(Reply::Failed { reason, restart }) => {
                self.worker = (!restart).then_some(worker);
                Err(reason)
            }
            Ok(_) => Err("the worker answered another question".to_owned()),
            Err(WorkerError::Interrupted) => return Ok(None),
            Err(_) if interrupted.load(Ordering::Relaxed) => return Ok(None),
            Err(error) => Err(error.to_string()),
        }))
    }
}
