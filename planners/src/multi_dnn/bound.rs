//! [`Bound`]: a lower bound on the cost of every plan.

use super::{
    candidates::{Candidates, Loaded},
    model::{MOST_PROCESSORS, Model},
    policy::Way,
    relaxation::{Demand, least_violated, most_met},
};

/// Steps of the search for weights.
const STEPS: usize = 200;
/// Margin for rounding errors of sums, so that no bound is too high.
const SLACK: f64 = 1.0 - 1e-9;

/// A lower bound on every plan of a problem, in the same cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Queries that violate their objective in every plan.
    pub violated: u64,
    /// No plan answers all waiting queries sooner, ns.
    pub saturated_ns: u64,
    /// No plan without violations answers all waiting queries sooner, ns; all ways of such a plan
    /// are accurate enough.
    pub saturated_without_violations_ns: u64,
}

impl Bound {
    pub(super) fn of(model: &Model<'_>, candidates: &[Candidates]) -> (Self, Vec<Option<Way>>) {
        let able: Vec<Vec<Loaded>> = candidates
            .iter()
            .zip(&model.problem.slos)
            .map(|(c, slo)| {
                c.accurate.iter().filter(|l| l.total() <= slo.latency_ns).copied().collect()
            })
            .collect();
        let least: Vec<Option<u64>> =
            able.iter().map(|ways| ways.iter().map(Loaded::total).min()).collect();
        let slos = &model.problem.slos;
        let demands = |scenario: &Vec<super::arrivals::Arrival>| -> Vec<Demand> {
            let demand = |arrival: &super::arrivals::Arrival| Demand {
                arrival_ns: arrival.at_ns,
                deadline_ns: arrival.at_ns.saturating_add(slos[arrival.task].latency_ns),
                least_ns: least[arrival.task],
            };
            scenario.iter().map(demand).collect()
        };
        let deadlines: Vec<u64> = slos.iter().map(|slo| slo.latency_ns).collect();
        let (met, picks) = most_met(&able, &deadlines);
        let violated = if model.at_once() {
            // Scenarios differ by the order of arrival, which the relaxation ignores.
            (slos.len() - met) as u64 * model.scenarios.len() as u64
        } else {
            let of = |scenario| least_violated(&demands(scenario), model.processors());
            model.scenarios.iter().map(of).sum()
        };
        let every = |task: usize, weights: &[f64; MOST_PROCESSORS]| {
            model.lightest(task, &|p| weights[p]).map(|(_, way)| way)
        };
        let saturated_ns = saturated(model, &every);
        let accurate = |task: usize, weights: &[f64; MOST_PROCESSORS]| {
            let weighted =
                |l: &Loaded| l.load.iter().zip(weights).map(|(&ns, w)| ns as f64 * w).sum();
            let ways = candidates[task].accurate.iter().map(|l| (weighted(l), l.way));
            ways.min_by(|a: &(f64, Way), b| a.0.total_cmp(&b.0)).map(|(_, way)| way)
        };
        let saturated_without_violations_ns = saturated(model, &accurate);
        (Self { violated, saturated_ns, saturated_without_violations_ns }, picks)
    }

    /// The lower bound for plans with this many violations, ns.
    #[must_use]
    pub const fn saturated_ns_with(&self, violated: u64) -> u64 {
        if violated == 0 { self.saturated_without_violations_ns } else { self.saturated_ns }
    }
}

/// The busiest processor is at least as busy as any weighted mean of all: for given weights, each
/// query takes the way of least weighted load. The weights move towards busy processors; every
/// choice of weights gives a bound.
fn saturated(
    model: &Model<'_>,
    lightest: &dyn Fn(usize, &[f64; MOST_PROCESSORS]) -> Option<Way>,
) -> u64 {
    let processors = model.processors();
    let mut weights = [0.0; MOST_PROCESSORS];
    weights[..processors].fill(1.0 / processors as f64);
    let mut best = 0.0f64;
    for step in 0..STEPS {
        let mut loads = [0.0; MOST_PROCESSORS];
        for task in 0..model.tasks() {
            let way = lightest(task, &weights);
            let Some(load) = way.and_then(|way| model.load(task, way)) else { return 0 };
            loads.iter_mut().zip(load).for_each(|(sum, ns)| *sum += ns as f64);
        }
        let value: f64 = loads.iter().zip(&weights).map(|(ns, weight)| ns * weight).sum();
        best = best.max(value);
        let most = loads.iter().copied().fold(1.0, f64::max);
        let rate = 0.5 / (1.0 + step as f64 / 8.0);
        for processor in 0..processors {
            weights[processor] *= (rate * loads[processor] / most).exp();
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
    }
    (best * model.problem.saturation as f64 * SLACK).floor() as u64
}
