//! What tasks have to keep: `--slo` for one task or all, else what the tasks file asks.

use super::super::super::{
    error::{CliError, CliResult},
    quantity,
    zoo::tasks::{TaskEntry, TasksFile, basis_points},
};
use vitempo::planners::stitch::Slo;

/// `--slo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// `None`: all tasks.
    pub task: Option<String>,
    pub slo: Slo,
}

/// `75%,30ms` or `TASK=75%,30ms`.
pub fn parse(text: &str) -> Result<Objective, String> {
    const EXPECTED: &str = "expected ACCURACY,LATENCY or TASK=ACCURACY,LATENCY, e.g. 75%,30ms";
    let (task, slo) =
        text.rsplit_once('=').map_or((None, text), |(task, slo)| (Some(task.to_owned()), slo));
    let (accuracy, latency) = slo.split_once(',').ok_or(EXPECTED)?;
    let percent: f64 =
        accuracy.trim().trim_end_matches('%').trim().parse().map_err(|_| EXPECTED)?;
    if !(0.0..=100.0).contains(&percent) {
        return Err(format!("an accuracy of {percent} is not between 0 and 100 %"));
    }
    Ok(Objective {
        task,
        slo: Slo {
            accuracy_bp: basis_points(percent),
            latency_ns: quantity::time_ns(latency.trim())?,
        },
    })
}

/// One objective per task: what is said for it, else what is said for all, else what the file says.
pub fn of_tasks(file: &TasksFile, asked: &[Objective]) -> CliResult<Vec<Slo>> {
    for name in asked.iter().filter_map(|objective| objective.task.as_deref()) {
        file.task(name)?;
    }
    let said = |task: Option<&str>| {
        asked
            .iter()
            .rev()
            .find(|objective| objective.task.as_deref() == task)
            .map(|objective| objective.slo)
    };
    let of = |task: &TaskEntry| match said(Some(&task.name)).or_else(|| said(None)) {
        Some(slo) => Ok(slo),
        None => of_file(file, task),
    };
    file.tasks.iter().map(of).collect()
}

fn of_file(file: &TasksFile, task: &TaskEntry) -> CliResult<Slo> {
    let of = || format!("task `{}`", task.name);
    let asks = task.slo.as_ref().ok_or_else(|| {
        CliError::from(file.refuse(&of(), "nothing is asked of it"))
            .hint(format!("--slo {}=75%,30ms", task.name))
    })?;
    let latency_ns = quantity::time_ns(&asks.latency)
        .map_err(|reason| CliError::user(format!("{}, slo: {reason}", of())))?;
    Ok(Slo { accuracy_bp: basis_points(asks.accuracy), latency_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_for_one_task_or_all() {
        let slo = Slo { accuracy_bp: 7550, latency_ns: 30_000_000 };
        assert_eq!(parse("75.5%,30ms"), Ok(Objective { task: None, slo }));
        assert_eq!(parse("a=b=75.5, 30ms"), Ok(Objective { task: Some("a=b".to_owned()), slo }));
        for (text, expected) in [
            ("75%", "ACCURACY,LATENCY"),
            ("high,30ms", "ACCURACY,LATENCY"),
            ("750%,30ms", "between 0 and 100"),
            ("75%,soon", "no time with a unit"),
        ] {
            assert!(parse(text).is_err_and(|e| e.contains(expected)), "{text}");
        }
    }
}
