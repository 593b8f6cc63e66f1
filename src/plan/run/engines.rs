//! [`RunEngine`]: the engine of a processor of a plan: the one that is given, else the plan's.

use super::{PlanProcessor, RunError, RunPlan};

/// A processor of a plan as an inference engine on cores of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEngine {
    /// The processor's name.
    pub name: String,
    /// Name of the backend.
    pub backend: String,
    /// The cores it runs on; if empty, one core that no other engine has.
    pub cores: Vec<usize>,
}

impl RunPlan {
    /// An engine for each processor, in the plan's order. Unless `anywhere`, a processor whose costs
    /// are those of an engine runs on that engine.
    ///
    /// # Errors
    /// [`RunError`] naming the processor without an engine, with another one, or unknown.
    pub fn engines(&self, given: &[RunEngine], anywhere: bool) -> Result<Vec<RunEngine>, RunError> {
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

fn engine(
    processor: &PlanProcessor,
    given: &[RunEngine],
    anywhere: bool,
) -> Result<RunEngine, RunError> {
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
        (None, Some(planned)) => Ok(RunEngine {
            name: processor.name.clone(),
            backend: planned.clone(),
            cores: processor.cores.clone(),
        }),
        (None, None) => Err(RunError::NoEngine(processor.name.clone())),
    }
}
