//! [`Arrivals`]: the arrival times of each task's queries. They are expanded to scenarios: lists of
//! queries in the order of arrival.

use super::MultiDnnError;
use crate::stitch::orders;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};

/// Largest number of tasks for which every order of arrival is a scenario.
pub const MOST_PERMUTED: usize = 6;
/// Largest number of queries in a scenario.
pub const MOST_QUERIES: usize = 100_000;

/// The arrivals of all tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// One query of each task at the same time, in every order of arrival: the stitching paper's
    /// setting. Each order is a scenario of its own.
    AtOnce,
    /// Arrivals of each task, from 0 up to a time.
    Over {
        /// Queries arrive before this time, ns.
        horizon_ns: u64,
        /// Arrivals by task.
        tasks: Vec<TaskArrivals>,
    },
}

/// The arrivals of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TaskArrivals {
    /// Periodic arrivals.
    Periodic {
        /// Time between two queries, ns.
        period_ns: u64,
        /// Time of the first query, ns.
        phase_ns: u64,
    },
    /// Random arrivals, independent of each other.
    Poisson {
        /// Queries per second, on average.
        per_s: f64,
        /// Seed of the random times.
        seed: u64,
    },
    /// At these times, ns, rising.
    Trace(Vec<u64>),
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Time of its arrival, ns.
    pub at_ns: u64,
    /// Index of its task.
    pub task: usize,
}

impl Arrivals {
    /// Scenarios for tasks of these names: queries in the order of arrival. Scenarios do not
    /// overlap: each begins with idle processors.
    ///
    /// # Errors
    /// [`MultiDnnError`] naming the task or the field at fault.
    pub fn scenarios(&self, names: &[String]) -> Result<Vec<Vec<Arrival>>, MultiDnnError> {
        match self {
            Self::AtOnce if names.len() > MOST_PERMUTED => Err(MultiDnnError::TooMany {
                what: "tasks that arrive at once, in every order".to_owned(),
                count: names.len() as u128,
                most: MOST_PERMUTED as u128,
            }),
            Self::AtOnce => {
                let one = |order: Vec<usize>| {
                    order.into_iter().map(|task| Arrival { at_ns: 0, task }).collect()
                };
                Ok(orders::arrivals(names.len())?.into_iter().map(one).collect())
            }
            Self::Over { horizon_ns, tasks } => {
                if tasks.len() != names.len() {
                    return Err(MultiDnnError::invalid(
                        "arrivals",
                        format!("those of {} tasks for {} tasks", tasks.len(), names.len()),
                    ));
                }
                let mut all = Vec::new();
                for (task, (arrivals, name)) in tasks.iter().zip(names).enumerate() {
                    let times = arrivals.times(*horizon_ns, name, MOST_QUERIES - all.len())?;
                    all.extend(times.into_iter().map(|at_ns| Arrival { at_ns, task }));
                }
                if all.is_empty() {
                    let reason = format!("there is no query before {horizon_ns} ns");
                    return Err(MultiDnnError::invalid("arrivals", reason));
                }
                all.sort_unstable();
                Ok(vec![all])
            }
        }
    }
}

impl TaskArrivals {
    fn times(&self, horizon_ns: u64, name: &str, most: usize) -> Result<Vec<u64>, MultiDnnError> {
        let refuse = |reason: &str| {
            Err(MultiDnnError::invalid(format!("arrivals of task `{name}`"), reason))
        };
        let too_many = || MultiDnnError::TooMany {
            what: format!("queries, with those of task `{name}`"),
            count: MOST_QUERIES as u128 + 1,
            most: MOST_QUERIES as u128,
        };
        let mut times = Vec::new();
        match self {
            Self::Periodic { period_ns: 0, .. } => return refuse("the period is 0"),
            Self::Periodic { period_ns, phase_ns } => {
                let mut at = *phase_ns;
                while at < horizon_ns && times.len() <= most {
                    times.push(at);
                    at = at.saturating_add(*period_ns);
                }
            }
            Self::Poisson { per_s, .. } if !(per_s.is_finite() && *per_s > 0.0) => {
                return refuse("the rate is a number above 0");
            }
            Self::Poisson { per_s, seed } => {
                let mut rng = StdRng::seed_from_u64(*seed);
                let mut gap = || (-(1.0 - rng.random::<f64>()).ln() / per_s * 1e9).round() as u64;
                let mut at = gap();
                while at < horizon_ns && times.len() <= most {
                    times.push(at);
                    at = at.saturating_add(gap());
                }
            }
            Self::Trace(trace) if !trace.is_sorted() => return refuse("times are not rising"),
            Self::Trace(trace) => {
                times.extend(trace.iter().copied().take_while(|&t| t < horizon_ns).take(most + 1));
            }
        }
        if times.len() > most { Err(too_many()) } else { Ok(times) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| n.to_string()).collect()
    }

    #[test]
    fn scenarios_are_sorted_and_complete() {
        let at_once = Arrivals::AtOnce.scenarios(&names(3)).expect("orders");
        assert_eq!((at_once.len(), at_once[0].len()), (6, 3));
        let tasks = vec![
            TaskArrivals::Periodic { period_ns: 10, phase_ns: 5 },
            TaskArrivals::Poisson { per_s: 1e8, seed: 1 },
            TaskArrivals::Trace(vec![0, 7, 7, 400]),
        ];
        let over = Arrivals::Over { horizon_ns: 100, tasks };
        let found = over.scenarios(&names(3)).expect("queries").remove(0);
        let of = |task| found.iter().filter(move |a| a.task == task).count();
        assert!(found.is_sorted_by_key(|a| a.at_ns));
        assert_eq!((of(0), of(2)), (10, 3));
        assert!(of(1) > 0 && found.iter().all(|a| a.at_ns < 100));
        assert_eq!(over.scenarios(&names(3)).expect("queries")[0], found, "the same seed");
    }

    #[test]
    fn poisson_arrivals_have_the_rate_asked_for() {
        let tasks = vec![TaskArrivals::Poisson { per_s: 100.0, seed: 3 }];
        let over = Arrivals::Over { horizon_ns: 100_000_000_000, tasks };
        let count = over.scenarios(&names(1)).expect("queries")[0].len() as f64;
        assert!((count - 10_000.0).abs() < 400.0, "four standard deviations: {count}");
    }

    #[test]
    fn bad_arrivals_are_refused() {
        let over = |task| Arrivals::Over { horizon_ns: 1_000_000_000, tasks: vec![task] };
        for (task, says) in [
            (TaskArrivals::Periodic { period_ns: 0, phase_ns: 0 }, "period"),
            (TaskArrivals::Periodic { period_ns: 1, phase_ns: 0 }, "at most 100000"),
            (TaskArrivals::Poisson { per_s: f64::NAN, seed: 0 }, "rate"),
            (TaskArrivals::Poisson { per_s: 1e12, seed: 0 }, "at most 100000"),
            (TaskArrivals::Trace(vec![2, 1]), "rising"),
            (TaskArrivals::Trace(vec![]), "no query"),
        ] {
            let error = over(task).scenarios(&names(1)).map_err(|e| e.to_string());
            assert!(error.as_ref().is_err_and(|e| e.contains(says)), "{error:?}");
        }
        assert!(Arrivals::AtOnce.scenarios(&names(7)).is_err());
        let none = Arrivals::Over { horizon_ns: 1, tasks: vec![] };
        assert!(none.scenarios(&names(1)).is_err());
    }
}
