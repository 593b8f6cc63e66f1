//! [`adapt()`]: a mixture of hypotheses about the new device. Each hypothesis combines a centre
//! (the mean of the sources, one source, or generic unit costs), a distance from it and the noise
//! of the latencies. Each is fitted to the measured latencies and weighted by its evidence.
//!
//! Around the mean of the sources a device may differ in the directions in which they differ:
//! `theta = mean + sum_s z_s d_s`, `z ~ N(0, 1)`, `d_s` the deviation of source `s` from the mean.
//! The same `z_s` move the residuals of models and of operators (`residuals.rs`). Sources that do
//! not resemble the device get little evidence, hence little weight. Centres that depend on sources
//! of another kind than the device's need more evidence than the others.

use super::{
    adapted::{Adapted, Hypothesis, Slope},
    calibration::{LeftOut, calibration},
    device_prior::{DevicePrior, FREEDOM, Generic, Known, Trait, spread},
    gaussian::{Matrix, dot},
    kernel::{Catalogue, Covariances},
    posterior::{Data, Posterior, Prior, fit},
    residuals::Residuals,
    resource_demand::{COSTS, UnitCost, Workload},
    roofline::{LogCosts, log_latency, log_latency_by_operator},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    rc::Rc,
};

/// One measured model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Index of its workload.
    pub model: usize,
    /// Latency, ns.
    pub ns: f64,
}

/// Factors on the covariance of the sources' unit costs. A new device is farther from the mean of a
/// few sources than they are.
const SCALES: [f64; 2] = [1.0, 3.0];
/// Variance of every unit cost by itself.
const OWN: [f64; 3] = [0.01, 0.1, 0.5];
/// Variance of the residual of every operator.
const OPERATOR_VARIANCES: [f64; 2] = [0.01, 0.2];
/// Relative error of a latency and of the model of it.
const NOISES: [f64; 4] = [0.02, 0.05, 0.1, 0.2];
/// Variance of the speed of the whole device, in addition to the mean ratio, which is taken from
/// the latencies.
const SPEED: f64 = 0.05;
/// Weight of a source of the same kind, relative to others.
const SAME_KIND: f64 = 100.0;
/// Prior probability of a centre that depends on sources of another kind, relative to the others. A
/// few coarse latencies of a narrow range hardly distinguish the two.
const OTHER_KIND: f64 = 0.03;
/// The part of the covariance over sources that is left around one source.
const NEAR_ONE: f64 = 0.1;
/// Numbers of a device that all hypotheses have: unit costs and the slope. Behind them comes `z`.
pub(crate) const MOVES: usize = COSTS + 1;
/// Variance of the slope ([`Slope`]).
const SLOPE: f64 = 0.01;
/// Hypotheses that are less likely than this share of the likeliest are left out.
const LEAST: f64 = 1e-2;

/// Adapts to the device on which these models were measured.
///
/// Measured models whose index `workloads` lacks and latencies that are not positive are left out;
/// without any, the forecast is that of the prior.
#[must_use]
pub fn adapt(
    prior: &DevicePrior,
    workloads: &[Workload],
    measured: &[Measured],
    kind: Option<&Trait>,
) -> Adapted {
    let mut catalogue = prior.catalogue.clone();
    let usable: Vec<(usize, &Workload, f64)> = measured
        .iter()
        .filter(|m| m.ns > 0.0 && m.ns.is_finite())
        .filter_map(|m| Some((m.model, workloads.get(m.model)?, m.ns.ln())))
        .collect();
    usable.iter().for_each(|(_, workload, _)| catalogue.add(workload));
    let rows: Vec<Row<'_>> = usable
        .into_iter()
        .map(|(model, workload, log_ns)| Row {
            model,
            workload,
            log_ns,
            covariances: catalogue.covariances(workload),
        })
        .collect();
    let centres = centres(prior, kind);
    let fits: Vec<Fit<'_>> = centres
        .iter()
        .flat_map(|centre| centre.fits(&rows, &catalogue))
        .filter(|f| f.log_weight.is_finite())
        .collect();
    let best = fits.iter().map(|f| f.log_weight).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = fits.iter().map(|f| (f.log_weight - best).exp()).sum();
    let left_out: Vec<LeftOut> = fits
        .iter()
        .map(|f| LeftOut {
            weight: (f.log_weight - best).exp() / total,
            errors: f.posterior.left_out(),
        })
        .collect();
    let known: Vec<(usize, &Workload, Covariances)> = models(&prior.known)
        .into_iter()
        .filter_map(|m| workloads.get(m).map(|w| (m, w, catalogue.covariances(w))))
        .collect();
    let likely = |f: &&Fit<'_>| (f.log_weight - best).exp() > LEAST;
    let mut before = vec![0.0; COSTS];
    let mut hypotheses = Vec::new();
    for of_centre in fits.chunk_by(|a, b| std::ptr::eq(a.centre, b.centre)) {
        let settled: Vec<Hypothesis> = of_centre
            .iter()
            .filter(likely)
            .map(|f| f.settle((f.log_weight - best).exp() / total, &known, catalogue.operators()))
            .collect();
        for (hypothesis, fit) in settled.iter().zip(of_centre.iter().filter(likely)) {
            before
                .iter_mut()
                .enumerate()
                .for_each(|(i, b)| *b += hypothesis.weight * fit.prior.covariance.at(i, i));
        }
        hypotheses.extend(Hypothesis::merged(&settled));
    }
    let sum: f64 = hypotheses.iter().map(|h| h.weight).sum();
    hypotheses.iter_mut().for_each(|h| h.weight /= sum);
    before.iter_mut().for_each(|b| *b /= sum);
    Adapted {
        hypotheses,
        catalogue,
        before,
        discrepancy: prior.discrepancy,
        calibration: calibration(&left_out),
        log_evidence: best + total.ln(),
    }
}

/// Models that some source has measured.
fn models(known: &[Known]) -> BTreeSet<usize> {
    known.iter().flat_map(|k| k.residuals.keys().copied()).collect()
}

/// A measured model.
struct Row<'a> {
    model: usize,
    workload: &'a Workload,
    log_ns: f64,
    covariances: Covariances,
}

/// A point in the space of unit costs around which the new device is sought.
struct Centre<'a> {
    mean: LogCosts,
    /// Variance of every unit cost without sources.
    variance: f64,
    /// Deviation of each source's unit costs.
    directions: Vec<LogCosts>,
    /// Prior probability.
    share: f64,
    residuals: Residuals<'a>,
}

fn centres<'a>(prior: &'a DevicePrior, kind: Option<&Trait>) -> Vec<Centre<'a>> {
    let known = &prior.known;
    let generic = |g: &Generic| Centre {
        mean: g.log_costs(),
        variance: 1.0,
        directions: Vec::new(),
        share: 1.0,
        residuals: Residuals::none(),
    };
    let mut centres: Vec<Centre<'a>> = Generic::ALL.iter().map(generic).collect();
    if known.is_empty() {
        return centres;
    }
    let same_kind: Vec<bool> =
        known.iter().map(|k| kind.is_none_or(|kind| *kind == k.kind)).collect();
    let any = same_kind.contains(&true);
    let pooled = weights(known, &same_kind);
    let equal = weights(known, &vec![true; known.len()]);
    let share_if = |of_its_kind: bool| if of_its_kind { 1.0 } else { OTHER_KIND };
    let (share, of_all) = (share_if(any), share_if(!same_kind.contains(&false)));
    centres.push(Centre { share, ..Centre::pooled(known, &pooled) });
    centres.push(Centre { share: of_all, ..Centre::pooled(known, &equal) });
    let singles: Vec<usize> = (0..known.len()).filter(|&i| same_kind[i] || !any).collect();
    centres.extend(
        singles.iter().map(|&i| Centre::single(known, &pooled, i, share / singles.len() as f64)),
    );
    centres
}

/// Weights of the sources: larger for the same kind; the sources of one device and kind share the
/// weight of one. They add up to one.
fn weights(known: &[Known], same_kind: &[bool]) -> Vec<f64> {
    let of = |i: usize| (&known[i].device, same_kind[i]);
    let count = |i: usize| (0..known.len()).filter(|&j| of(j) == of(i)).count() as f64;
    let weights: Vec<f64> =
        (0..known.len()).map(|i| if same_kind[i] { SAME_KIND } else { 1.0 } / count(i)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

impl<'a> Centre<'a> {
    fn pooled(known: &'a [Known], weights: &[f64]) -> Self {
        let mut mean = vec![0.0; COSTS];
        known
            .iter()
            .zip(weights)
            .for_each(|(k, w)| mean.iter_mut().zip(&k.theta).for_each(|(m, t)| *m += w * t));
        let deviation = |(k, w): (&Known, &f64)| {
            k.theta.iter().zip(&mean).map(|(t, m)| w.sqrt() * (t - m)).collect()
        };
        let directions = known.iter().zip(weights).map(deviation).collect();
        Self {
            variance: 0.0,
            directions,
            share: 1.0,
            residuals: Residuals::pooled(known, weights),
            mean,
        }
    }

    fn single(known: &'a [Known], pooled: &[f64], one: usize, share: f64) -> Self {
        let mut around = Self::pooled(known, pooled);
        around.mean.clone_from(&known[one].theta);
        around.directions.iter_mut().flatten().for_each(|d| *d *= NEAR_ONE.sqrt());
        Self { share, residuals: around.residuals.around(one, NEAR_ONE.sqrt()), ..around }
    }

    /// Of unit costs, the slope and `z`.
    fn covariance(&self, scale: f64, own: f64, slope: f64) -> Matrix {
        let size = MOVES + self.directions.len();
        let mut out = Matrix::zeros(size, size);
        out.add_corner(&spread(own + scale * self.variance, SPEED));
        out.data[COSTS * size + COSTS] = slope;
        for (s, direction) in self.directions.iter().enumerate() {
            let mut column = direction.clone();
            column.resize(size, 0.0);
            column[MOVES + s] = 1.0;
            out.add_outer(&column, scale);
        }
        out
    }

    /// One hypothesis for every scale, variance and noise.
    fn fits(&self, rows: &[Row<'_>], catalogue: &Catalogue) -> Vec<Fit<'_>> {
        let size = catalogue.operators();
        let shares: Vec<Vec<f64>> =
            rows.iter().map(|r| log_latency_by_operator(r.workload, &self.mean).2).collect();
        let covariances: Vec<Vec<f64>> =
            rows.iter().zip(&shares).map(|(r, s)| r.covariances.weighted(s, size)).collect();
        let offsets: Vec<(f64, Vec<f64>)> =
            rows.iter().zip(&covariances).map(|(r, c)| self.residuals.offset(r.model, c)).collect();
        let operators: Vec<Vec<f64>> =
            rows.iter().zip(&shares).map(|(r, s)| r.covariances.shares(s, size)).collect();
        let operators = Matrix::from_rows(&operators);
        let together = Matrix::from_rows(&covariances).times_transposed(&operators);
        let log_ns: Vec<f64> =
            rows.iter().zip(&offsets).map(|(r, (offset, _))| r.log_ns - offset).collect();
        let at_centre: Vec<f64> =
            rows.iter().map(|r| log_latency(r.workload, &self.mean).0).collect();
        let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let middle = mean_of(&at_centre);
        let faster = mean_of(&log_ns) - middle;
        let mut mean: Vec<f64> = self
            .mean
            .iter()
            .zip(UnitCost::ALL)
            .map(|(m, cost)| m + cost.with_speed() * faster)
            .collect();
        mean.resize(MOVES + self.directions.len(), 0.0);
        let mut data = Data {
            workloads: rows.iter().map(|r| r.workload).collect(),
            loadings: at_centre
                .iter()
                .zip(offsets)
                .map(|(log, (_, loading))| iter::once(log - middle).chain(loading).collect())
                .collect(),
            log_ns,
            noise: Matrix::default(),
            heavy_tails: None,
        };
        // Without latencies the slope has no pivot.
        let slope = if rows.is_empty() { 0.0 } else { SLOPE };
        let combinations = SCALES.len() * OWN.len() * OPERATOR_VARIANCES.len() * NOISES.len();
        let log_share = (self.share / combinations as f64).ln();
        let mut fits = Vec::with_capacity(combinations);
        for (scale, own) in SCALES.iter().flat_map(|&s| OWN.iter().map(move |&o| (s, o))) {
            let prior = Rc::new(Prior {
                mean: mean.clone(),
                covariance: self.covariance(scale, own, slope),
            });
            for (operator_variance, noise) in
                OPERATOR_VARIANCES.iter().flat_map(|&s| NOISES.iter().map(move |&n| (s, n)))
            {
                data.noise = Matrix::diagonal(rows.len(), noise * noise);
                data.noise.add(&together, operator_variance);
                data.heavy_tails = Some((FREEDOM, noise * noise));
                let posterior = fit(&prior, &data, &prior.mean);
                let operator_residuals = operators
                    .transposed_times(&posterior.weighted)
                    .into_iter()
                    .map(|v| operator_variance * v)
                    .collect();
                fits.push(Fit {
                    centre: self,
                    log_weight: posterior.log_evidence + log_share,
                    prior: Rc::clone(&prior),
                    posterior,
                    operator_residuals,
                    noise,
                    middle,
                });
            }
        }
        fits
    }
}

/// A fitted hypothesis.
struct Fit<'a> {
    centre: &'a Centre<'a>,
    log_weight: f64,
    prior: Rc<Prior>,
    posterior: Posterior,
    /// By operator: the factor on its covariance, for residuals of the measured models that the
    /// sources do not explain.
    operator_residuals: Vec<f64>,
    noise: f64,
    /// Mean of the logarithms at the centre of the measured models.
    middle: f64,
}

impl Fit<'_> {
    fn settle(
        &self,
        weight: f64,
        models: &[(usize, &Workload, Covariances)],
        size: usize,
    ) -> Hypothesis {
        let (costs, moves) = self.posterior.theta.split_at(MOVES);
        let (theta, slope) = costs.split_at(COSTS);
        let slope =
            Slope { centre: self.centre.mean.clone(), middle: self.middle, value: slope[0] };
        let covariance = self.posterior.covariance(&self.prior);
        let mut operators = self.centre.residuals.operators(moves);
        operators.resize(size, 0.0);
        operators.iter_mut().zip(&self.operator_residuals).for_each(|(o, s)| *o += s);
        let residual = |(m, workload, covariances): &(usize, &Workload, Covariances)| {
            let (_, mut gradient, shares) = log_latency_by_operator(workload, theta);
            let (offset, loading) =
                self.centre.residuals.offset(*m, &covariances.weighted(&shares, size));
            let offset =
                offset + dot(&loading, moves) + covariances.dot(&shares, &self.operator_residuals);
            gradient.push(slope.loading(workload));
            gradient.extend(loading);
            (*m, (offset, dot(&gradient, &covariance.times(&gradient)).max(0.0)))
        };
        let residuals = if self.centre.directions.is_empty() {
            BTreeMap::new()
        } else {
            models.iter().map(residual).collect()
        };
        let covariance = covariance.corner(MOVES);
        Hypothesis {
            weight,
            theta: theta.to_vec(),
            slope,
            covariance,
            noise: self.noise * self.noise,
            residuals,
            operators,
        }
    }
}
