//! [`Adapted`]: hypotheses about a device, and what they say together of a model: a latency, how sure it is, and which costs remain unknown.

use super::{
    alike::Catalogue,
    charge::{COSTS, UnitCost, Workload},
    gaussian::{Matrix, dot},
    roofline::{LogCosts, log_latency, log_latency_by_operator},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Quantile of the standard normal for 90 % on both sides.
const NORMAL_90: f64 = 1.645;
/// Level of the intervals.
pub(crate) const LEVEL: f64 = 0.9;
/// A unit cost whose variance is still this share of what it was has not been narrowed.
const NARROWED: f64 = 0.8;
/// A unit cost with a smaller share of the time does not matter.
const MATTERS: f64 = 0.02;

/// What one hypothesis says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hypothesis {
    pub weight: f64,
    pub theta: LogCosts,
    /// Of `theta`, given the latencies.
    pub covariance: Matrix,
    /// Variance of a latency around the forecast.
    pub noise: f64,
    /// Of models that sources have: what unit costs leave unexplained, and the variance of the whole logarithm.
    pub carried: BTreeMap<usize, (f64, f64)>,
    /// By operator of the catalogue: what to multiply likenesses with for what operators cost beyond their unit costs.
    pub operators: Vec<f64>,
}

/// A device, adapted to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adapted {
    pub(crate) hypotheses: Vec<Hypothesis>,
    /// Operators of the sources' and of the measured models.
    pub(crate) catalogue: Catalogue,
    /// Variance of the logarithms of unit costs before and after measuring, by unit cost.
    pub(crate) before: Vec<f64>,
    /// Bound on what is left unexplained of a model that no source has, as [`Population`] found.
    pub(crate) discrepancy: f64,
    /// Logarithm of the probability of the latencies: which of several descriptions of the same models explains them.
    pub log_evidence: f64,
}

/// A forecast: logarithm of ns, and half the width of its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Mean of the logarithm.
    pub log_ns: f64,
    /// Logarithm of the upper bound over the point, and of the point over the lower bound.
    pub half_width: f64,
}

impl Forecast {
    /// Point, lower and upper bound, ns.
    #[must_use]
    pub fn latency_ns(&self) -> (f64, f64, f64) {
        (self.log_ns.exp(), (self.log_ns - self.half_width).exp(), (self.log_ns + self.half_width).exp())
    }
}

impl Adapted {
    /// The forecast for a workload; `model`: its index among those adapted with, where it is one of them.
    #[must_use]
    pub fn forecast(&self, workload: &Workload, model: Option<usize>) -> Forecast {
        let compared = self.catalogue.compare(workload);
        let (mut mean, mut square, mut within, mut unknown) = (0.0, 0.0, 0.0, 0.0);
        for h in &self.hypotheses {
            let (log, shares, by_operator) = log_latency_by_operator(workload, &h.theta);
            let (offset, variance) = model.and_then(|m| h.carried.get(&m)).copied().unwrap_or_else(|| {
                unknown += h.weight;
                (compared.dot(&by_operator, &h.operators), dot(&shares, &h.covariance.times(&shares)).max(0.0))
            });
            mean += h.weight * (log + offset);
            square += h.weight * (log + offset).powi(2);
            within += h.weight * (variance + h.noise);
        }
        let variance = within + (square - mean * mean).max(0.0);
        let half_width = (NORMAL_90 * NORMAL_90 * variance + unknown * self.discrepancy * self.discrepancy).sqrt();
        Forecast { log_ns: mean, half_width }
    }

    /// Unit costs that matter to these workloads and that measuring has not narrowed: their share of the forecast time, largest first.
    #[must_use]
    pub fn unconstrained(&self, workloads: &[&Workload]) -> Vec<(UnitCost, f64)> {
        let mut shares = vec![0.0; COSTS];
        let mut after = vec![0.0; COSTS];
        for h in &self.hypotheses {
            for w in workloads {
                let weight = h.weight / workloads.len() as f64;
                shares.iter_mut().zip(log_latency(w, &h.theta).1).for_each(|(s, x)| *s += weight * x);
            }
            after.iter_mut().enumerate().for_each(|(i, a)| *a += h.weight * h.covariance.at(i, i));
        }
        let loose = |i: &usize| after[*i] > NARROWED * self.before[*i] && shares[*i] > MATTERS;
        let mut out: Vec<(UnitCost, f64)> = (0..COSTS).filter(loose).map(|i| (UnitCost::ALL[i], shares[i])).collect();
        out.sort_by(|a, b| b.1.total_cmp(&a.1));
        out
    }
}
