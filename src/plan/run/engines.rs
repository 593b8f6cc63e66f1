//! The engine of each processor of a plan: the one that is given, else the plan's.

use super::{PlanProcessor, RunError, RunPlan};
use crate::plan::live::Engine;

impl RunPlan {
    /// An engine for each processor, in the plan's order. Unless `anywhere`, a processor whose costs
    /// are those of an engine runs on that engine.
    ///
    /// # Errors
    /// [`RunError`] naming the processor without an engine, with another one, or unknown.
    pub fn engines(&self, given: &[Engine], anywhere: bool) -> Result<Vec<Engine>, RunError> {
        let names = || self.processors.iter().map(|p| p.name.as_str()).collect::<Vec<_>>();
        for (index, engine) in given.iter().enumerate() {
            if !names().contains(&engine.name.as_str()) {
                let known = names().join(", ");
                return Err(RunError::UnknownProcessor { name: engine.name.clone(), known });
            }
            if given[..index].iter().any(|before| before.name == engine.name) {
                return Err(RunError::TwoEngines(engine.name.clone()));
            }
        }
        self.processors.iter().map(|processor| engine(processor, given, anywhere)).collect()
    }

    /// Refuses a plan for another device.
    ///
    /// # Errors
    /// [`RunError::OtherMachine`].
    pub fn check_device(&self, here: &str) -> Result<(), RunError> {
        let is_other = |p: &&PlanProcessor| p.device.as_deref().is_some_and(|d| d != here);
        match self.processors.iter().find(is_other) {
            None => Ok(()),
            Some(processor) => Err(RunError::OtherMachine {
                processor: processor.name.clone(),
                planned: processor.device.clone().unwrap_or_default(),
                here: here.to_owned(),
            }),
        }
    }
}

impl PlanProcessor {
    /// With the engine and the cores on which a plan was run, if its costs are those of that engine
    /// or of none.
    #[must_use]
    pub fn on(mut self, engines: &[Engine]) -> Self {
        let found = engines.iter().find(|engine| engine.name == self.name);
        let is_it =
            |engine: &&Engine| self.engine.as_ref().is_none_or(|own| *own == engine.backend);
        if let Some(engine) = found.filter(is_it) {
            (self.engine, self.cores) = (Some(engine.backend.clone()), engine.cores.clone());
        }
        self
    }
}

fn engine(processor: &PlanProcessor, given: &[Engine], anywhere: bool) -> Result<Engine, RunError> {
    let found = given.iter().find(|engine| engine.name == processor.name);
    match (found, &processor.engine) {
        (Some(engine), Some(planned)) if engine.backend != *planned && !anywhere => {
            Err(RunError::OtherEngine {
                processor: processor.name.clone(),
                planned: planned.clone(),
                given: engine.backend.clone(),
            })
        }
        (Some(engine), _) => Ok(engine.clone()),
        (None, Some(planned)) => Ok(Engine {
            name: processor.name.clone(),
            backend: planned.clone(),
            cores: processor.cores.clone(),
        }),
        (None, None) => Err(RunError::NoEngine(processor.name.clone())),
    }
}
