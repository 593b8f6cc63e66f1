//! Objectives of tasks: given for one task or all, else those of the tasks file.

use super::StitchingError;
use crate::{
    quantity,
    zoo::tasks::{TaskEntry, TasksFile, asked_basis_points},
};
use vitempo_planners::stitch::Slo;

/// An objective of one task or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The task's name; `None`: all tasks.
    pub task: Option<String>,
    /// Its accuracy and latency.
    pub slo: Slo,
}

/// One objective per task: the last one given for it, else the one for all, else the file's.
///
/// # Errors
/// [`StitchingError::Zoo`] for an unknown task, [`StitchingError::NoObjective`] for one without an
/// objective.
pub fn of_tasks(file: &TasksFile, asked: &[Objective]) -> Result<Vec<Slo>, StitchingError> {
    for name in asked.iter().filter_map(|objective| objective.task.as_deref()) {
        file.task(name)?;
    }
    let said = |task: Option<&str>| {
        let of = |objective: &&Objective| objective.task.as_deref() == task;
        asked.iter().rev().find(of).map(|objective| objective.slo)
    };
    let of = |task: &TaskEntry| match said(Some(&task.name)).or_else(|| said(None)) {
        Some(slo) => Ok(slo),
        None => of_file(file, task),
    };
    file.tasks.iter().map(of).collect()
}

fn of_file(file: &TasksFile, task: &TaskEntry) -> Result<Slo, StitchingError> {
    let asks = task.slo.as_ref().ok_or_else(|| StitchingError::NoObjective {
        path: file.path.clone(),
        task: task.name.clone(),
    })?;
    let latency_ns = quantity::time_ns(&asks.latency)
        .map_err(|reason| file.refuse(&format!("task `{}`, slo", task.name), reason))?;
    Ok(Slo { accuracy_bp: asked_basis_points(asks.accuracy), latency_ns })
}
