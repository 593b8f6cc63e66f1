//! [`LoweringEvaluation`]: runs models with operator timing, and compares what ran with the kernels
//! that lowering predicts ([`vitempo_profiler::lowering_accuracy`]).

use crate::{campaign, models::Model};
use std::{sync::atomic::AtomicBool, time::Duration};
use vitempo_profiler::{
    MemoryRuns, Progress, RunOptions, Sweep, WorkerCommand,
    lowering_accuracy::{self, LoweringAccuracy, LoweringAccuracyError},
};

/// Longest that a model may take.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);

/// What is evaluated, and how.
#[derive(Clone, Debug)]
pub struct LoweringEvaluation {
    /// A model that is given twice runs once.
    pub models: Vec<Model>,
    /// Name of the engine.
    pub engine: String,
    /// How it runs.
    pub options: RunOptions,
    /// Runs of a model in which the operators are timed.
    pub profiled_repeats: usize,
    /// What measures.
    pub worker: WorkerCommand,
}

impl LoweringEvaluation {
    /// Runs the models and compares; `interrupted` stops the runs.
    ///
    /// # Errors
    /// [`LoweringAccuracyError`] where the engine is not here or has no rules of lowering; a model
    /// that fails is part of the result.
    pub fn evaluate(
        self,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<LoweringAccuracy, LoweringAccuracyError> {
        let sweep = Sweep {
            models: campaign::sweep_models(self.models),
            backend: self.engine,
            options: self.options,
            protocol: lowering_accuracy::protocol(self.profiled_repeats),
            only_round: None,
            budget: None,
            run_timeout: RUN_TIMEOUT,
            target: self.worker.into(),
            session: campaign::session_name(),
            beside: None,
            memory: MemoryRuns::Never,
        };
        lowering_accuracy::evaluate(&sweep, progress, interrupted)
    }
}
