//! [`adapt()`]: the new device is like the mean of the known ones, or like one of them, or like none; how much it may differ, and how exact its latencies
//! are, is not known either. Every combination is a hypothesis, fitted to the measured latencies and weighed by its evidence.
//!
//! What a hypothesis says of a model: unit costs, and for models that sources have, what those leave unexplained there, carried over with a Gaussian
//! process whose covariance between models is that over the sources. A source that is not alike gets no weight, so it does no harm.

use super::{
    adapted::{Adapted, Hypothesis},
    charge::{COSTS, Workload},
    gaussian::{Matrix, dot},
    population::{Generic, Known, Population, Trait, moments, spread},
    posterior::{Data, Posterior, Prior, fit},
    roofline::{LogCosts, log_latency},
};
use std::{collections::BTreeMap, rc::Rc};

/// One measured model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Index of its workload.
    pub model: usize,
    /// Latency, ns.
    pub ns: f64,
}

/// How far devices may differ: factors on the covariance of the sources' unit costs.
const SCALES: [f64; 2] = [0.3, 1.0];
/// Variance of every unit cost by itself.
const OWN: [f64; 3] = [0.01, 0.1, 0.5];
/// Relative error of a latency and of the model of it.
const NOISES: [f64; 4] = [0.02, 0.05, 0.1, 0.2];
/// Variance of the speed of the whole device, beyond the mean ratio, which is taken from the latencies.
const SPEED: f64 = 0.05;
/// How much more a source of the same kind counts.
const SAME_KIND: f64 = 100.0;
/// The part of the covariance over sources that is left around one source.
const NEAR_ONE: f64 = 0.1;
/// Hypotheses with less weight than this share of all are left out.
const LEAST: f64 = 2e-3;

/// Adapts to the device on which these models were measured.
///
/// Measured models whose index `workloads` lacks and latencies that are not positive are left out; without any, the forecast is that of the population.
#[must_use]
pub fn adapt(population: &Population, workloads: &[Workload], measured: &[Measured], kind: Option<&Trait>) -> Adapted {
    let usable: Vec<(usize, &Workload, f64)> =
        measured.iter().filter(|m| m.ns > 0.0 && m.ns.is_finite()).filter_map(|m| Some((m.model, workloads.get(m.model)?, m.ns.ln()))).collect();
    let mut fits = Vec::new();
    for centre in centres(population, kind) {
        let share = centre.share / (SCALES.len() * OWN.len() * NOISES.len()) as f64;
        for (scale, own, noise) in grid() {
            let mut hypothesis = centre.fit(&usable, scale, own, noise);
            hypothesis.log_weight += share.ln();
            fits.push((hypothesis, centre.residuals.clone()));
        }
    }
    let best = fits.iter().map(|(f, _)| f.log_weight).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = fits.iter().map(|(f, _)| (f.log_weight - best).exp()).sum();
    let kept = fits.iter().filter(|(f, _)| (f.log_weight - best).exp() / total > LEAST);
    let mut before = vec![0.0; COSTS];
    let mut hypotheses: Vec<Hypothesis> = Vec::new();
    for (fit, residuals) in kept {
        let weight = (fit.log_weight - best).exp() / total;
        before.iter_mut().enumerate().for_each(|(i, b)| *b += weight * fit.prior.covariance.at(i, i));
        hypotheses.push(fit.settle(weight, residuals, &usable));
    }
    let kept: f64 = hypotheses.iter().map(|h| h.weight).sum();
    hypotheses.iter_mut().for_each(|h| h.weight /= kept);
    before.iter_mut().for_each(|b| *b /= kept);
    Adapted { hypotheses, before, discrepancy: population.discrepancy, log_evidence: best + total.ln() }
}

fn grid() -> impl Iterator<Item = (f64, f64, f64)> {
    SCALES.iter().flat_map(|&s| OWN.iter().flat_map(move |&o| NOISES.iter().map(move |&n| (s, o, n))))
}

/// A place in the space of devices from which the new one may differ.
struct Centre {
    prior: Prior,
    /// Prior probability.
    share: f64,
    residuals: Rc<Residuals>,
}

/// What sources leave unexplained of models, and how that varies over sources.
#[derive(Default)]
struct Residuals {
    mean: BTreeMap<usize, f64>,
    /// By model: one number per source; the covariance between two models is the product.
    deviations: BTreeMap<usize, Vec<f64>>,
}

fn centres(population: &Population, kind: Option<&Trait>) -> Vec<Centre> {
    let known = &population.known;
    let mut centres: Vec<Centre> = Generic::ALL.iter().map(|g| Centre::generic(*g)).collect();
    if known.is_empty() {
        return centres;
    }
    let alike: Vec<bool> = known.iter().map(|k| kind.is_none_or(|kind| *kind == k.kind)).collect();
    let any = alike.contains(&true);
    let pooled = weights(known, &alike);
    centres.push(Centre::pooled(known, &pooled));
    centres.push(Centre::pooled(known, &vec![1.0; known.len()]));
    let singles: Vec<usize> = (0..known.len()).filter(|&i| alike[i] || !any).collect();
    centres.extend(singles.iter().map(|&i| Centre::single(known, &pooled, i, 1.0 / singles.len() as f64)));
    centres
}

/// Sources of the same kind count for more; the sources of one device and kind count as one.
fn weights(known: &[Known], alike: &[bool]) -> Vec<f64> {
    let of = |i: usize| (&known[i].device, alike[i]);
    let count = |i: usize| (0..known.len()).filter(|&j| of(j) == of(i)).count() as f64;
    (0..known.len()).map(|i| if alike[i] { SAME_KIND } else { 1.0 } / count(i)).collect()
}

impl Centre {
    fn generic(generic: Generic) -> Self {
        Self { prior: Prior { mean: generic.log_costs(), covariance: spread(1.0, 0.0) }, share: 1.0, residuals: Default::default() }
    }

    fn pooled(known: &[Known], weights: &[f64]) -> Self {
        let thetas: Vec<LogCosts> = known.iter().map(|k| k.theta.clone()).collect();
        let mean = mean_residuals(known, weights);
        let deviations = deviations(known, weights, &mean, 1.0);
        Self { prior: moments(&thetas, weights), share: 1.0, residuals: Rc::new(Residuals { mean, deviations }) }
    }

    fn single(known: &[Known], pooled: &[f64], one: usize, share: f64) -> Self {
        let mut around = Self::pooled(known, pooled);
        around.prior.mean.clone_from(&known[one].theta);
        around.prior.covariance.data.iter_mut().for_each(|v| *v *= NEAR_ONE);
        let common = mean_residuals(known, pooled);
        let deviations = deviations(known, pooled, &common, NEAR_ONE);
        let mean = common.into_iter().map(|(m, r)| (m, known[one].residuals.get(&m).copied().unwrap_or(r))).collect();
        Self { share, residuals: Rc::new(Residuals { mean, deviations }), ..around }
    }

    fn fit(&self, measured: &[(usize, &Workload, f64)], scale: f64, own: f64, noise: f64) -> Fit {
        let mut covariance = spread(own, SPEED);
        covariance.add(&self.prior.covariance, scale);
        let offset = |m: &usize| self.residuals.mean.get(m).copied().unwrap_or(0.0);
        let log_ns: Vec<f64> = measured.iter().map(|(m, _, y)| y - offset(m)).collect();
        let apart: f64 = measured.iter().zip(&log_ns).map(|((_, w, _), y)| y - log_latency(w, &self.prior.mean).0).sum();
        let faster = apart / measured.len().max(1) as f64;
        let prior = Prior { mean: self.prior.mean.iter().map(|m| m + faster).collect(), covariance };
        let mut errors = Matrix::diagonal(measured.len(), noise * noise);
        for (i, (a, ..)) in measured.iter().enumerate() {
            for (j, (b, ..)) in measured.iter().enumerate() {
                errors.data[i * measured.len() + j] += self.residuals.covariance(*a, *b);
            }
        }
        let data = Data { workloads: measured.iter().map(|(_, w, _)| *w).collect(), log_ns, noise: errors, heavy_tails: None };
        let posterior = fit(&prior, &data, &prior.mean);
        Fit { log_weight: posterior.log_evidence, prior, posterior, noise }
    }
}

impl Residuals {
    fn covariance(&self, a: usize, b: usize) -> f64 {
        match (self.deviations.get(&a), self.deviations.get(&b)) {
            (Some(a), Some(b)) => dot(a, b),
            _ => 0.0,
        }
    }
}

fn mean_residuals(known: &[Known], weights: &[f64]) -> BTreeMap<usize, f64> {
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (k, w) in known.iter().zip(weights) {
        for (m, r) in &k.residuals {
            let sum = sums.entry(*m).or_default();
            *sum = (sum.0 + w * r, sum.1 + w);
        }
    }
    sums.into_iter().map(|(m, (sum, weight))| (m, sum / weight)).collect()
}

fn deviations(known: &[Known], weights: &[f64], mean: &BTreeMap<usize, f64>, factor: f64) -> BTreeMap<usize, Vec<f64>> {
    let total: f64 = weights.iter().sum();
    let of = |m: usize, middle: f64| -> Vec<f64> {
        known.iter().zip(weights).map(|(k, w)| k.residuals.get(&m).map_or(0.0, |r| (r - middle) * (factor * w / total).sqrt())).collect()
    };
    mean.iter().map(|(&m, &middle)| (m, of(m, middle))).collect()
}

/// A fitted hypothesis.
struct Fit {
    log_weight: f64,
    prior: Prior,
    posterior: Posterior,
    noise: f64,
}

impl Fit {
    fn settle(&self, weight: f64, residuals: &Residuals, measured: &[(usize, &Workload, f64)]) -> Hypothesis {
        let carry = |(&m, &mean): (&usize, &f64)| {
            let with: Vec<f64> = measured.iter().map(|(o, ..)| residuals.covariance(m, *o)).collect();
            let known = self.posterior.factor.forward(&with);
            let variance = (residuals.covariance(m, m) - dot(&known, &known)).max(0.0);
            (m, (mean + dot(&with, &self.posterior.weighed), variance))
        };
        Hypothesis {
            weight,
            theta: self.posterior.theta.clone(),
            covariance: self.posterior.covariance(&self.prior),
            noise: self.noise * self.noise,
            carried: residuals.mean.iter().map(carry).collect(),
        }
    }
}
