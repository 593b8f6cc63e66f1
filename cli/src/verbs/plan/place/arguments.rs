//! `--arrivals`, `--slowdown`, `--slo-at` and `--power`.

use super::super::{
    super::{error::CliResult, quantity},
    twice::{refuse_task_twice, refuse_twice},
};
use super::{PlaceArgs, objectives};
use vitempo::plan::{multi_dnn::Slowdown, stitch::objectives::Objective};
use vitempo::planners::{cost::Interval, duration, multi_dnn::TaskArrivals};

/// `33ms`, `20/s`, `TASK=33ms` or `TASK=20/s`.
pub fn arrivals(text: &str) -> Result<(Option<String>, TaskArrivals), String> {
    let (task, when) =
        text.rsplit_once('=').map_or((None, text), |(task, when)| (Some(task.to_owned()), when));
    let arrivals = match when.trim().strip_suffix("/s") {
        Some(rate) => {
            let per_s: f64 = rate.trim().parse().map_err(|_| format!("`{when}` is no rate"))?;
            if !(per_s.is_finite() && per_s > 0.0) {
                return Err(format!("a rate of {per_s} is not above 0"));
            }
            TaskArrivals::Poisson { per_s, seed: 0 }
        }
        None => match quantity::time_ns(when.trim())? {
            0 => return Err("a period of 0".to_owned()),
            period_ns => TaskArrivals::Periodic { period_ns, phase_ns: 0 },
        },
    };
    Ok((task, arrivals))
}

/// `NAME/OTHER=FACTOR`.
pub fn slowdown(text: &str) -> Result<Slowdown, String> {
    const EXPECTED: &str = "expected NAME/OTHER=FACTOR, e.g. a/b=1.2";
    let (pair, factor) = text.rsplit_once('=').ok_or(EXPECTED)?;
    let (processor, beside) = pair.split_once('/').ok_or(EXPECTED)?;
    let factor: f64 = factor.trim().parse().map_err(|_| EXPECTED)?;
    if !(factor.is_finite() && factor >= 1.0) {
        return Err(format!("a factor of {factor} is not 1 or more"));
    }
    if processor == beside {
        return Err(format!("`{processor}` beside itself: {EXPECTED}"));
    }
    Ok(Slowdown { processor: processor.to_owned(), beside: beside.to_owned(), factor })
}

/// `5s=90%,20ms` or `5s=TASK=90%,20ms`.
pub fn slo_at(text: &str) -> Result<(u64, Objective), String> {
    const EXPECTED: &str = "expected TIME=[TASK=]ACCURACY,LATENCY, e.g. 5s=90%,20ms";
    let (at, objective) = text.split_once('=').ok_or(EXPECTED)?;
    let at_ns = quantity::time_ns(at.trim()).map_err(|e| format!("{EXPECTED}: {e}"))?;
    if at_ns == 0 {
        return Err("objectives from 0 on are those of --slo".to_owned());
    }
    Ok((at_ns, objectives::parse(objective)?))
}

/// `NAME=2W`.
pub fn power(text: &str) -> Result<(String, f64), String> {
    let (name, watts) = text.rsplit_once('=').ok_or("expected NAME=POWER, e.g. npu=2W")?;
    Ok((name.to_owned(), quantity::power_w(watts.trim())?))
}

impl PlaceArgs {
    /// Refuses what is given twice for the same task, processor or pair.
    pub fn refuse_twice(&self) -> CliResult {
        let slos = self.slos.iter().map(|asked| asked.task.as_deref());
        refuse_task_twice("--slo", slos)?;
        refuse_task_twice("--arrivals", self.arrivals.iter().map(|(task, _)| task.as_deref()))?;
        let at = |(at_ns, asked): &(u64, Objective)| {
            let at = duration(Interval::exact(*at_ns));
            format!("{at}={}", asked.task.as_deref().unwrap_or("all tasks"))
        };
        refuse_twice("--slo-at", &self.slo_at.iter().map(at).collect::<Vec<_>>())?;
        let pair = |slowdown: &Slowdown| format!("{}/{}", slowdown.processor, slowdown.beside);
        refuse_twice("--slowdown", &self.slowdown.iter().map(pair).collect::<Vec<_>>())?;
        let powers = self.power.iter().map(|(name, _)| name.as_str());
        refuse_twice("--power", &powers.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let periodic = TaskArrivals::Periodic { period_ns: 33_000_000, phase_ns: 0 };
        assert_eq!(arrivals("33ms"), Ok((None, periodic.clone())));
        assert_eq!(arrivals("a=33ms"), Ok((Some("a".to_owned()), periodic)));
        let poisson = TaskArrivals::Poisson { per_s: 20.0, seed: 0 };
        assert_eq!(arrivals("b=20/s"), Ok((Some("b".to_owned()), poisson)));
        for text in ["", "0ms", "-1/s", "nan/s", "many/s", "a=soon"] {
            assert!(arrivals(text).is_err(), "{text}");
        }
        let pair = slowdown("a/b=1.2").expect("a factor");
        assert_eq!((pair.processor.as_str(), pair.beside.as_str(), pair.factor), ("a", "b", 1.2));
        for text in ["a=1.2", "a/a=1.2", "a/b", "a/b=0.5", "a/b=inf", "a/b=x"] {
            assert!(slowdown(text).is_err(), "{text}");
        }
        let (at_ns, asked) = slo_at("2s=m=90%,20ms").expect("an objective");
        assert_eq!((at_ns, asked.task.as_deref()), (2_000_000_000, Some("m")));
        assert_eq!(slo_at("1s=90%,20ms").map(|(_, asked)| asked.task), Ok(None));
        for text in ["90%,20ms", "0s=90%,20ms", "1s=", "soon=90%,20ms"] {
            assert!(slo_at(text).is_err(), "{text}");
        }
        assert_eq!(power("npu=2W"), Ok(("npu".to_owned(), 2.0)));
        assert!(power("2W").is_err());
    }
}
