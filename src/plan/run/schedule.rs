//! The queries of a run: rounds of arrivals. Rounds do not overlap: each begins when the one before
//! has ended.

use super::{RunError, RunPlan};
use vitempo_planners::multi_dnn::{Arrival, Arrivals, MOST_QUERIES, MultiDnnError, TaskArrivals};

/// How long a run lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The arrivals of the plan, once.
    #[default]
    Plan,
    /// This many queries in all.
    Queries(usize),
    /// Arrivals up to a time, ns; where all queries arrive at once, no round begins after it.
    Time(u64),
}

/// Rounds of queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Queries by arrival since the start of their round.
    pub rounds: Vec<Vec<Arrival>>,
    /// Whether the rounds are repeated until this time has passed, ns.
    pub repeated_until_ns: Option<u64>,
}

/// The rounds of a plan.
///
/// # Errors
/// [`RunError`] where there are no queries, or too many.
pub fn schedule(plan: &RunPlan, limit: Limit) -> Result<Schedule, RunError> {
    let names: Vec<String> = plan.tasks.iter().map(|task| task.name.clone()).collect();
    if let Limit::Queries(count) = limit
        && count > MOST_QUERIES
    {
        let (what, count) = ("queries".to_owned(), count as u128);
        let most = MOST_QUERIES as u128;
        return Err(MultiDnnError::TooMany { what, count, most }.into());
    }
    let (rounds, repeated_until_ns) = match (&plan.arrivals, limit) {
        (Arrivals::AtOnce, limit) => {
            let rounds = Arrivals::AtOnce.scenarios(&names)?;
            match limit {
                Limit::Plan => (rounds, None),
                Limit::Queries(count) => (first(rounds, count), None),
                Limit::Time(ns) => (rounds, Some(ns)),
            }
        }
        (Arrivals::Over { horizon_ns, tasks }, limit) => {
            let of = |horizon_ns: u64| over(horizon_ns, tasks).scenarios(&names);
            match limit {
                Limit::Plan => (of(*horizon_ns)?, None),
                Limit::Time(ns) => (of(ns)?, None),
                Limit::Queries(count) => (vec![longer(*horizon_ns, tasks, &names, count)?], None),
            }
        }
    };
    if rounds.iter().all(Vec::is_empty) {
        return Err(RunError::NoQueries);
    }
    Ok(Schedule { rounds, repeated_until_ns })
}

/// Rounds with this many queries in all, the given ones again and again.
fn first(rounds: Vec<Vec<Arrival>>, count: usize) -> Vec<Vec<Arrival>> {
    let mut taken: Vec<Vec<Arrival>> = Vec::new();
    let mut left = count;
    for round in rounds.iter().cycle().take_while(|round| !round.is_empty()) {
        if left == 0 {
            break;
        }
        let round: Vec<Arrival> = round.iter().take(left).copied().collect();
        left -= round.len();
        taken.push(round);
    }
    taken
}

fn over(horizon_ns: u64, tasks: &[TaskArrivals]) -> Arrivals {
    Arrivals::Over { horizon_ns, tasks: tasks.to_vec() }
}

/// The first queries, over as long a time as that takes; a trace may have fewer.
fn longer(
    horizon_ns: u64,
    tasks: &[TaskArrivals],
    names: &[String],
    count: usize,
) -> Result<Vec<Arrival>, RunError> {
    let mut horizon_ns = horizon_ns.max(1);
    let mut found: Vec<Arrival> = Vec::new();
    let mut ends = false;
    while found.len() < count && !ends {
        match over(horizon_ns, tasks).scenarios(names) {
            Ok(scenarios) => found = scenarios.into_iter().flatten().collect(),
            // More than a scenario may have: what was found before is all.
            Err(MultiDnnError::TooMany { .. }) if !found.is_empty() => break,
            Err(MultiDnnError::Invalid { .. }) if horizon_ns < u64::MAX / 2 => {}
            Err(error) => return Err(error.into()),
        }
        ends = horizon_ns == u64::MAX
            || tasks.iter().all(|task| matches!(task, TaskArrivals::Trace(times) if times.last().is_none_or(|last| *last < horizon_ns)));
        horizon_ns = horizon_ns.saturating_mul(2);
    }
    found.truncate(count);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(times: &[(u64, usize)]) -> Vec<Arrival> {
        times.iter().map(|&(at_ns, task)| Arrival { at_ns, task }).collect()
    }

    #[test]
    fn as_many_queries_as_are_asked_for() {
        let round = arrivals(&[(0, 0), (0, 1)]);
        let other = arrivals(&[(0, 1), (0, 0)]);
        let rounds = vec![round.clone(), other.clone()];
        assert_eq!(first(rounds.clone(), 5), [round.clone(), other, arrivals(&[(0, 0)])]);
        assert_eq!(first(rounds, 2), [round]);
        assert!(first(vec![vec![]], 3).is_empty());
        let names = ["a".to_owned(), "b".to_owned()];
        let periodic = TaskArrivals::Periodic { period_ns: 10, phase_ns: 0 };
        let trace = TaskArrivals::Trace(vec![3, 40]);
        let found = longer(5, &[periodic, trace.clone()], &names, 6).expect("queries");
        assert_eq!(found, arrivals(&[(0, 0), (3, 1), (10, 0), (20, 0), (30, 0), (40, 0)]));
        let found = longer(5, &[trace], &names[..1], 6).expect("queries");
        assert_eq!(found, arrivals(&[(3, 0), (40, 0)]), "a trace has no more");
    }
}
