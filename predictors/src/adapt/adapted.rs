//! [`Adapted`]: weighted hypotheses about a device, and the unit costs that the measurements do not
//! constrain. `sums.rs` has their forecast of a model.

use super::{
    gaussian::Matrix,
    kernel::Catalogue,
    resource_demand::{COSTS, Group, UnitCost, Workload},
    roofline::{LogCosts, log_latency, log_latency_by_operator},
};
use crate::elementary::exp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vitempo_graph::{Interval, Latency};

/// Level of the intervals.
pub(crate) const LEVEL: f64 = 0.9;
/// A unit cost whose posterior variance is at least this share of the prior variance is not
/// constrained.
const NARROWED: f64 = 0.8;
/// A unit cost with a smaller share of the time does not matter.
const MATTERS: f64 = 0.02;

/// One hypothesis about the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hypothesis {
    pub weight: f64,
    pub theta: LogCosts,
    pub slope: Slope,
    /// Of `theta` and the slope, given the latencies.
    pub covariance: Matrix,
    /// Variance of a latency around the forecast.
    pub noise: f64,
    /// Of models that sources have measured: the residual after unit costs and slope, and the
    /// variance of the whole logarithm.
    #[serde(rename = "carried")]
    pub residuals: BTreeMap<usize, (f64, f64)>,
    /// By operator of the catalogue: the factor on its covariance, for residuals of operators.
    #[serde(with = "single")]
    pub operators: Vec<f64>,
}

/// Exponent of the device's latencies against those of the centre: on devices whose units small
/// models do not fill, latency grows more slowly or more quickly than any sum of unit costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Slope {
    /// Unit costs of the centre.
    pub centre: LogCosts,
    /// The logarithm at the centre that the slope does not change.
    pub middle: f64,
    /// Change of the logarithm of a latency per unit of the logarithm at the centre.
    pub value: f64,
}

impl Slope {
    /// Derivative of a model's logarithm by the slope.
    pub fn loading(&self, workload: &Workload) -> f64 {
        log_latency(workload, &self.centre).0 - self.middle
    }
}

/// Stores numbers in single precision.
pub(crate) mod single {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        values.iter().map(|v| *v as f32).collect::<Vec<f32>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<f32>::deserialize(deserializer)?.into_iter().map(f64::from).collect())
    }
}

impl Hypothesis {
    /// Logarithm of the latency by unit costs and slope, without the residual; its derivative by
    /// each unit cost and the slope; shares by operator.
    pub fn log_latency(&self, workload: &Workload) -> (f64, Vec<f64>, Vec<f64>) {
        let (log, mut gradient, by_operator) = log_latency_by_operator(workload, &self.theta);
        let steep = self.slope.loading(workload);
        gradient.push(steep);
        (log + self.slope.value * steep, gradient, by_operator)
    }

    /// Rounds to the precision of a file, so that forecasts before and after writing are equal.
    pub fn round(&mut self) {
        let kept = self.operators.iter_mut().chain(&mut self.covariance.data);
        kept.for_each(|value| *value = f64::from(*value as f32));
    }

    /// Several hypotheses with one centre as one: their mean, and the variance within and between
    /// them. `None` without any.
    pub fn merged(several: &[Self]) -> Option<Self> {
        let first = several.first()?;
        let weight: f64 = several.iter().map(|h| h.weight).sum();
        let mut merged = Self {
            weight,
            theta: vec![0.0; first.theta.len()],
            slope: Slope {
                value: several.iter().map(|h| h.weight / weight * h.slope.value).sum(),
                ..first.slope.clone()
            },
            covariance: Matrix::zeros(first.covariance.rows, first.covariance.columns),
            noise: 0.0,
            residuals: BTreeMap::new(),
            operators: vec![0.0; first.operators.len()],
        };
        for (h, share) in several.iter().map(|h| (h, h.weight / weight)) {
            merged.theta.iter_mut().zip(&h.theta).for_each(|(m, t)| *m += share * t);
            merged.operators.iter_mut().zip(&h.operators).for_each(|(m, o)| *m += share * o);
            merged.noise += share * h.noise;
        }
        for (h, share) in several.iter().map(|h| (h, h.weight / weight)) {
            merged.covariance.add(&h.covariance, share);
            let mut away: Vec<f64> =
                h.theta.iter().zip(&merged.theta).map(|(t, m)| t - m).collect();
            away.push(h.slope.value - merged.slope.value);
            merged.covariance.add_outer(&away, share);
        }
        let moments = |model: &usize| {
            let of: Vec<(f64, f64, f64)> = several
                .iter()
                .filter_map(|h| h.residuals.get(model).map(|(o, v)| (h.weight / weight, *o, *v)))
                .collect();
            let offset: f64 = of.iter().map(|(share, o, _)| share * o).sum();
            (*model, (offset, of.iter().map(|(share, _, v)| share * v).sum()))
        };
        merged.residuals = first.residuals.keys().map(moments).collect();
        Some(merged)
    }
}

/// The posterior over a device's unit costs, as a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adapted {
    pub(crate) hypotheses: Vec<Hypothesis>,
    /// Operators of the sources' and of the measured models.
    pub(crate) catalogue: Catalogue,
    /// Variance of the logarithms of unit costs before and after measuring, by unit cost.
    pub(crate) before: Vec<f64>,
    /// Bound on the residual of a model that no source has, from the device prior.
    pub(crate) discrepancy: f64,
    /// Factor on the width of intervals of models that sources have; 1 in files without it.
    #[serde(default = "as_wide", skip_serializing_if = "is_as_wide")]
    pub(crate) calibration: f64,
    /// Logarithm of the probability of the latencies, to compare several descriptions of the same
    /// models.
    pub log_evidence: f64,
}

const fn as_wide() -> f64 {
    1.0
}

fn is_as_wide(calibration: &f64) -> bool {
    *calibration == as_wide()
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
    /// The latency and its 90 % interval.
    #[must_use]
    pub fn latency(&self) -> Interval<Latency> {
        let point = exp(self.log_ns);
        let lower = exp(self.log_ns - self.half_width);
        let upper = exp(self.log_ns + self.half_width);
        Interval::clamped(point, lower, upper).map(Latency::from_ns)
    }
}

impl Adapted {
    /// Whether intervals have a factor on their width.
    pub(crate) fn is_calibrated(&self) -> bool {
        !is_as_wide(&self.calibration)
    }

    /// Unit costs that matter to these workloads and that measuring has not narrowed: their share
    /// of the forecast time, largest first. Padding exponents are left out: they are no cost.
    #[must_use]
    pub fn unconstrained(&self, workloads: &[&Workload]) -> Vec<(UnitCost, f64)> {
        let mut shares = vec![0.0; COSTS];
        let mut after = vec![0.0; COSTS];
        for h in &self.hypotheses {
            for w in workloads {
                let weight = h.weight / workloads.len() as f64;
                shares
                    .iter_mut()
                    .zip(log_latency(w, &h.theta).1)
                    .for_each(|(s, x)| *s += weight * x);
            }
            after.iter_mut().enumerate().for_each(|(i, a)| *a += h.weight * h.covariance.at(i, i));
        }
        let timed = |i: &usize| UnitCost::ALL[*i].group() != Group::Padding;
        let loose =
            |i: &usize| timed(i) && after[*i] > NARROWED * self.before[*i] && shares[*i] > MATTERS;
        let mut out: Vec<(UnitCost, f64)> =
            (0..COSTS).filter(loose).map(|i| (UnitCost::ALL[i], shares[i])).collect();
        out.sort_by(|a, b| b.1.total_cmp(&a.1));
        out
    }
}
