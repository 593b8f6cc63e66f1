//! `--slo`: the SLO of one task or of all tasks.

use super::super::super::quantity;
use vitempo::plan::stitch::objectives::Objective;
use vitempo::planners::stitch::Slo;
use vitempo::zoo::tasks::asked_basis_points;

/// Parses `75%,30ms` or `TASK=75%,30ms`.
pub fn parse(text: &str) -> Result<Objective, String> {
    const EXPECTED: &str = "expected ACCURACY,LATENCY or TASK=ACCURACY,LATENCY, e.g. 75%,30ms";
    let (task, slo) =
        text.rsplit_once('=').map_or((None, text), |(task, slo)| (Some(task.to_owned()), slo));
    let (accuracy, latency) = slo.split_once(',').ok_or(EXPECTED)?;
    let percent = quantity::accuracy(accuracy).map_err(|e| format!("{e}; {EXPECTED}"))?;
    Ok(Objective {
        task,
        slo: Slo {
            accuracy_bp: asked_basis_points(percent),
            latency_ns: quantity::time_ns(latency.trim())?,
        },
    })
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
            ("75%,soon", "not a time with a unit"),
        ] {
            assert!(parse(text).is_err_and(|e| e.contains(expected)), "{text}");
        }
    }
}
