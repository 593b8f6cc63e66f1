//! [`Sums`]: what operators come to under each hypothesis about a device. They add up over the
//! operators of a model, and a model's forecast follows from them alone: so tables over a search
//! space hold them (`vitempo::query`).
//!
//! By hypothesis, in ns, without the cost of a run: the time, the time at the slope's centre, each
//! operator's time times its residual, and the part of each unit cost in the time.

use super::{
    adapted::{Adapted, Forecast, Hypothesis, LEVEL},
    bundle::AdaptedBundle,
    gaussian::dot,
    kernel::residual,
    resource_demand::{COSTS, ResourceDemand, UnitCost, Workload, merged, resource_demand},
    roofline::{DEMANDED, operator},
};
use crate::elementary::{exp, ln};
use vitempo_graph::{Graph, OpSpec, Prediction, PredictionError};

/// Quantile of Student's distribution with the 4 degrees of freedom that errors have, for 90 % on
/// both sides.
const STUDENT_90: f64 = 2.132;
/// Numbers of a hypothesis: three sums, and one for each unit cost.
const WIDTH: usize = 3 + COSTS;
const TIME: usize = 0;
const CENTRE: usize = 1;
const RESIDUAL: usize = 2;
const PARTS: usize = 3;
/// Relative difference of sums in another order.
const ROUNDING: f64 = 1e-12;

/// Sums over operators, ns, hypothesis after hypothesis; nothing where no operator was added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums(Box<[f64]>);

impl Sums {
    /// `other` so many times more.
    #[must_use]
    pub fn plus(mut self, other: &Self, times: f64) -> Self {
        if self.0.is_empty() {
            self.0 = vec![0.0; other.0.len()].into();
        }
        self.0.iter_mut().zip(&other.0).for_each(|(sum, value)| *sum += times * value);
        self
    }

    /// Whether they are equal but for the rounding of sums in another order.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let close = |(a, b): (&[f64], &[f64])| {
            let size = b.first().map_or(0.0, |time| time.abs());
            a.iter().zip(b).all(|(a, b)| (a - b).abs() <= ROUNDING * size.max(b.abs()))
        };
        self.0.len() == other.0.len() && self.0.chunks(WIDTH).zip(other.0.chunks(WIDTH)).all(close)
    }

    /// Bytes that they take outside of themselves.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// The unit costs of a device's hypotheses, to charge operators at.
#[derive(Debug)]
pub struct Charges<'a> {
    adapted: &'a Adapted,
    /// By hypothesis: its unit costs, and those of its slope's centre.
    costs: Vec<[Vec<f64>; 2]>,
}

impl<'a> Charges<'a> {
    fn of(adapted: &'a Adapted) -> Self {
        let costs = |logarithms: &[f64]| logarithms.iter().map(|cost| exp(*cost)).collect();
        let both = |h: &Hypothesis| [costs(&h.theta), costs(&h.slope.centre)];
        Self { adapted, costs: adapted.hypotheses.iter().map(both).collect() }
    }

    /// Of one operator.
    #[must_use]
    pub fn operator(&self, op: &OpSpec) -> Sums {
        self.demand(&resource_demand(op))
    }

    /// ns of one operator: the mean over the hypotheses.
    #[must_use]
    pub fn mean_ns(&self, op: &OpSpec) -> f64 {
        let demand = resource_demand(op);
        let mut parts = [(UnitCost::Run, 0.0); DEMANDED];
        let parts = &mut parts[..demand.len().min(DEMANDED)];
        let hypotheses = self.adapted.hypotheses.iter().zip(&self.costs);
        hypotheses.map(|(h, [costs, _])| h.weight * operator(&demand, costs, parts)).sum()
    }

    fn demand(&self, demand: &ResourceDemand) -> Sums {
        let mut sums = vec![0.0; WIDTH * self.costs.len()];
        let known = self.adapted.catalogue.covariances_of(demand);
        let mut parts = [(UnitCost::Run, 0.0); DEMANDED];
        let parts = &mut parts[..demand.len().min(DEMANDED)];
        let hypotheses = self.adapted.hypotheses.iter().zip(&self.costs);
        for (sums, (hypothesis, [costs, centre])) in sums.chunks_mut(WIDTH).zip(hypotheses) {
            sums[CENTRE] = operator(demand, centre, parts);
            let time = operator(demand, costs, parts);
            sums[TIME] = time;
            sums[RESIDUAL] = time * residual(&known, &hypothesis.operators);
            parts.iter().for_each(|(cost, part)| sums[PARTS + *cost as usize] += part);
        }
        Sums(sums.into())
    }

    fn workload(&self, workload: &Workload) -> Sums {
        let none = Sums(vec![0.0; WIDTH * self.costs.len()].into());
        let demands = workload.demands.iter();
        demands.fold(none, |sums, (demand, count)| sums.plus(&self.demand(demand), *count))
    }
}

/// A model under one hypothesis.
struct Moments {
    log_ns: f64,
    variance: f64,
}

impl Hypothesis {
    /// `residual`: the offset and the variance of a model that sources have measured.
    fn moments(&self, sums: &[f64], residual: Option<(f64, f64)>) -> Moments {
        let run = exp(self.theta[UnitCost::Run as usize]);
        let time = sums[TIME] + run;
        let at_centre = sums[CENTRE] + exp(self.slope.centre[UnitCost::Run as usize]);
        let steep = ln(at_centre) - self.slope.middle;
        let (offset, variance) = residual.unwrap_or_else(|| {
            let mut gradient = sums[PARTS..].to_vec();
            gradient[UnitCost::Run as usize] += run;
            gradient.iter_mut().for_each(|part| *part /= time);
            gradient.push(steep);
            let variance = dot(&gradient, &self.covariance.times(&gradient));
            (sums[RESIDUAL] / time, variance.max(0.0))
        });
        let log_ns = ln(time) + self.slope.value * steep + offset;
        Moments { log_ns, variance: variance + self.noise }
    }
}

impl Adapted {
    /// The forecast for a workload; `model`: its index among those adapted with, where it is one of
    /// them.
    #[must_use]
    pub fn forecast(&self, workload: &Workload, model: Option<usize>) -> Forecast {
        self.settle(&Charges::of(self).workload(workload), model)
    }

    fn settle(&self, Sums(sums): &Sums, model: Option<usize>) -> Forecast {
        let (mut moments, mut unknown) = (Vec::with_capacity(self.hypotheses.len()), 0.0);
        for (index, h) in self.hypotheses.iter().enumerate() {
            let residual = model.and_then(|model| h.residuals.get(&model)).copied();
            unknown += if residual.is_none() { h.weight } else { 0.0 };
            let own = sums.get(WIDTH * index..WIDTH * (index + 1)).unwrap_or(&[0.0; WIDTH]);
            moments.push((h.weight, h.moments(own, residual)));
        }
        let log_ns: f64 = moments.iter().map(|(weight, of)| weight * of.log_ns).sum();
        let around = |of: &Moments| of.variance + (of.log_ns - log_ns).powi(2);
        let variance: f64 = moments.iter().map(|(weight, of)| weight * around(of)).sum();
        let calibrated = unknown + (1.0 - unknown) * self.calibration * self.calibration;
        let half_width = (STUDENT_90 * STUDENT_90 * calibrated * variance
            + unknown * self.discrepancy * self.discrepancy)
            .sqrt();
        Forecast { log_ns, half_width }
    }
}

impl AdaptedBundle {
    /// The operators of a model as its file has them, without those that compilers fuse into the
    /// one before.
    ///
    /// # Errors
    /// [`PredictionError`] for a model whose precision the environment does not have.
    pub fn operators(&self, graph: Graph) -> Result<Vec<OpSpec>, PredictionError> {
        self.check_precision(&graph)?;
        let merged = merged(&graph);
        let nodes = graph.into_nodes().into_iter().zip(merged);
        Ok(nodes.filter(|(_, merged)| !merged).map(|(node, _)| node.op).collect())
    }

    /// To charge operators at; they are worth keeping for several.
    #[must_use]
    pub fn charges(&self) -> Charges<'_> {
        Charges::of(&self.adapted)
    }

    /// The latency of a model of whose operators these are the sums, and which no source has
    /// measured as it is.
    #[must_use]
    pub fn end_to_end(&self, sums: &Sums) -> Prediction {
        Prediction::new(self.adapted.settle(sums, None).latency(), LEVEL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_agree_but_for_rounding() {
        let of = |time: f64, part: f64| {
            let mut values = vec![0.0; 2 * WIDTH];
            (values[WIDTH + TIME], values[2 * WIDTH - 1]) = (time, part);
            Sums(values.into())
        };
        let sum = of(1e6, 1e-3);
        assert!(sum.agrees(&sum) && of(1e6 + 1e-7, 1e-3 + 1e-7).agrees(&sum));
        assert!(!of(1e6 + 1e-5, 1e-3).agrees(&sum) && !of(1e6, 1e-3 + 1e-5).agrees(&sum));
        assert!(!Sums::default().agrees(&sum), "of another number of hypotheses");
        let twice = Sums::default().plus(&sum, 3.0).plus(&sum, -1.0);
        assert!(twice.agrees(&of(2e6, 2e-3)) && twice.heap_bytes() == 16 * WIDTH);
    }
}
