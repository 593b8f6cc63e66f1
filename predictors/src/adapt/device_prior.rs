//! [`DevicePrior`]: the hierarchical prior over devices, from the latencies of other devices: the
//! mean and the covariance of their unit costs, and the residuals of models and operators.

use super::{
    gaussian::Matrix,
    kernel::{Catalogue, Covariances},
    posterior::{Data, Posterior, Prior, condition, fit},
    resource_demand::{COSTS, Group, UnitCost, Workload},
    roofline::{LogCosts, log_latency, log_latency_by_operator},
};
use std::collections::BTreeMap;

/// Software and kind of processor of a device, given before anything is measured. Sources of the
/// same kind have a larger weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trait(pub String);

/// The latencies of one device (or of one processor and runtime of it).
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Several sources of one device count as one.
    pub device: String,
    /// Its software and kind of processor.
    pub kind: Trait,
    /// ns, by index of the model.
    pub latencies_ns: BTreeMap<usize, f64>,
}

/// One source with its fitted unit costs.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub device: String,
    pub kind: Trait,
    pub theta: LogCosts,
    /// `ln latency - ln forecast` at its own unit costs, by model.
    pub residuals: BTreeMap<usize, f64>,
    /// By operator of the prior's catalogue: the factor on its covariance, for residuals of
    /// operators.
    pub operators: Vec<f64>,
}

/// The prior that all sources give together.
#[derive(Clone, Debug)]
pub struct DevicePrior {
    pub(crate) known: Vec<Known>,
    /// The operators of the sources' models.
    pub(crate) catalogue: Catalogue,
    /// 90 % of models that no source has are forecast within this logarithm at the right unit
    /// costs.
    pub(crate) discrepancy: f64,
}

/// Variance of the logarithm of each unit cost without sources (a factor of two), and of all
/// together (a factor of e).
const BROAD: f64 = 0.5;
const BROAD_TOGETHER: f64 = 1.0;
/// Standard deviation of residuals in the first fit.
const NOISE: f64 = 0.12;
/// Relative error of a source's latencies, and variance of its operators' residuals. The pair with
/// the most evidence is used.
const ERRORS: [(f64, f64); 6] =
    [(0.02, 0.02), (0.02, 0.2), (0.05, 0.02), (0.05, 0.2), (0.12, 0.0), (0.12, 0.2)];
/// Degrees of freedom of the distribution of residuals.
pub(crate) const FREEDOM: f64 = 4.0;
/// Rounds of fitting every source's costs, then their mean and covariance.
const ROUNDS: usize = 3;
/// Variance of every unit cost in addition to what the sources show, and that of all together.
const OWN_VARIANCE: f64 = 0.05;
const COMMON_VARIANCE: f64 = 0.1;
/// Most models of a source that are used, evenly chosen.
const MOST_MODELS: usize = 200;
/// The discrepancy where there are no sources.
const UNKNOWN_DISCREPANCY: f64 = 0.7;

/// Unit costs to start from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Generic {
    /// A processor that computes about as fast as it moves data, with cheap launches and without
    /// padding.
    Cpu,
    /// A processor that computes many times as fast as it moves data, with expensive launches; it
    /// computes whole vectors and tiles.
    Accelerator,
}

impl Generic {
    pub const ALL: [Self; 2] = [Self::Accelerator, Self::Cpu];

    /// Orders of magnitude: launches of a microsecond and 20 GMAC/s, or of some microseconds and 3
    /// TMAC/s.
    pub fn log_costs(self) -> LogCosts {
        use UnitCost as U;
        let slow = |c: U| matches!(c, U::Stem | U::Depthwise | U::Grouped | U::Dynamic);
        let cost = |c: U| match (self, c.group()) {
            (Self::Cpu, Group::Launch) => 1e3,
            (Self::Cpu, Group::Compute) => {
                if slow(c) {
                    0.17
                } else {
                    0.05
                }
            }
            (Self::Cpu, Group::Traffic) if c == U::Spill => 1e-3,
            (Self::Cpu, Group::Weights | Group::Traffic) => 0.1,
            (Self::Cpu, Group::Padding) => 0.01,
            (Self::Accelerator, Group::Launch) => {
                if c == U::Run {
                    1.5e5
                } else {
                    3e3
                }
            }
            (Self::Accelerator, Group::Compute) => {
                if slow(c) {
                    3.3e-3
                } else {
                    3.3e-4
                }
            }
            (Self::Accelerator, Group::Weights) => 0.033,
            (Self::Accelerator, Group::Padding) => 1.0,
            (Self::Accelerator, Group::Traffic) => {
                if c == U::Spill {
                    0.02
                } else {
                    6.7e-3
                }
            }
        };
        UnitCost::ALL.iter().map(|&c| f64::ln(cost(c))).collect()
    }
}

/// Independent spread of every unit cost, and one common to all: the device's speed. Neither of
/// padding: a device runs whole vectors and tiles or it does not.
pub(crate) fn spread(own: f64, common: f64) -> Matrix {
    let with_speed: Vec<f64> = UnitCost::ALL.iter().map(|c| c.with_speed()).collect();
    let mut out = Matrix::zeros(COSTS, COSTS);
    with_speed.iter().enumerate().for_each(|(i, w)| out.data[i * (COSTS + 1)] = own * w);
    out.add_outer(&with_speed, common);
    out
}

impl DevicePrior {
    /// Without sources.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            known: Vec::new(),
            catalogue: Catalogue::default(),
            discrepancy: UNKNOWN_DISCREPANCY,
        }
    }

    /// Fits the prior to sources. Indices of models that `workloads` lacks are left out, as are
    /// latencies that are not positive.
    #[must_use]
    pub fn learn(workloads: &[Workload], sources: &[Source]) -> Self {
        let usable: Vec<(&Source, Rows<'_>)> = sources
            .iter()
            .map(|s| (s, Rows::of(s, workloads)))
            .filter(|(_, r)| !r.models.is_empty())
            .collect();
        if usable.is_empty() {
            return Self::empty();
        }
        let mut thetas: Vec<LogCosts> = usable.iter().map(|(_, rows)| rows.first_guess()).collect();
        for _ in 1..ROUNDS {
            let prior = prior(&thetas);
            usable
                .iter()
                .zip(&mut thetas)
                .for_each(|((_, rows), theta)| *theta = fit(&prior, &rows.data(), theta).theta);
        }
        let mut catalogue = Catalogue::default();
        usable
            .iter()
            .flat_map(|(_, rows)| &rows.workloads)
            .for_each(|workload| catalogue.add(workload));
        let prior = prior(&thetas);
        let mut left_out = Vec::new();
        let mut known = Vec::new();
        for ((source, rows), theta) in usable.iter().zip(&thetas) {
            let (posterior, operators) = rows.explain(&prior, theta, &catalogue);
            left_out.extend(posterior.left_out().into_iter().map(|(error, _)| error));
            let residuals = residuals(source, workloads, &posterior.theta);
            known.push(Known {
                device: source.device.clone(),
                kind: source.kind.clone(),
                theta: posterior.theta,
                residuals,
                operators,
            });
        }
        Self { known, catalogue, discrepancy: discrepancy(&left_out) }
    }

    /// The same without the residuals of models.
    #[must_use]
    pub fn without_residuals(mut self) -> Self {
        self.known.iter_mut().for_each(|k| k.residuals.clear());
        self
    }

    /// Number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.known.len()
    }
}

/// Usable rows of one source.
struct Rows<'a> {
    models: Vec<usize>,
    workloads: Vec<&'a Workload>,
    log_ns: Vec<f64>,
}

impl<'a> Rows<'a> {
    fn of(source: &Source, workloads: &'a [Workload]) -> Self {
        let usable: Vec<(usize, &Workload, f64)> = usable(source, workloads).collect();
        let step = usable.len().div_ceil(MOST_MODELS).max(1);
        let chosen = usable.iter().step_by(step);
        Self {
            models: chosen.clone().map(|r| r.0).collect(),
            workloads: chosen.clone().map(|r| r.1).collect(),
            log_ns: chosen.map(|r| r.2).collect(),
        }
    }

    fn data(&self) -> Data<'_> {
        let noise = Matrix::diagonal(self.models.len(), NOISE * NOISE);
        Data {
            workloads: self.workloads.clone(),
            loadings: Vec::new(),
            log_ns: self.log_ns.clone(),
            noise,
            heavy_tails: Some((FREEDOM, NOISE * NOISE)),
        }
    }

    /// With residuals of operators; also the factor on each operator's covariance.
    fn explain(
        &self,
        prior: &Prior,
        theta: &[f64],
        catalogue: &Catalogue,
    ) -> (Posterior, Vec<f64>) {
        let size = catalogue.operators();
        let of = |workload: &&Workload| {
            let covariances: Covariances = catalogue.covariances(workload);
            let shares = log_latency_by_operator(workload, theta).2;
            (covariances.weighted(&shares, size), covariances.shares(&shares, size))
        };
        let (covariances, shares): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
            self.workloads.iter().map(of).unzip();
        let shares = Matrix::from_rows(&shares);
        let together = Matrix::from_rows(&covariances).times_transposed(&shares);
        let data = ERRORS.map(|(noise, residual_variance)| {
            let mut errors = Matrix::diagonal(self.models.len(), noise * noise);
            errors.add(&together, residual_variance);
            (
                residual_variance,
                Data { noise: errors, heavy_tails: Some((FREEDOM, noise * noise)), ..self.data() },
            )
        });
        let likely = |data: &Data<'_>| condition(prior, data, theta).log_evidence;
        let best = data
            .iter()
            .map(|(residual_variance, data)| (likely(data), residual_variance, data))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, residual_variance, data)) = best else {
            return (fit(prior, &self.data(), theta), vec![0.0; size]);
        };
        let posterior = fit(prior, data, theta);
        let operators = shares
            .transposed_times(&posterior.weighted)
            .into_iter()
            .map(|v| residual_variance * v)
            .collect();
        (posterior, operators)
    }

    /// Fitted from the generic costs with more evidence for this source.
    fn first_guess(&self) -> LogCosts {
        let fits = Generic::ALL.map(|generic| {
            let prior =
                Prior { mean: generic.log_costs(), covariance: spread(BROAD, BROAD_TOGETHER) };
            fit(&prior, &self.data(), &prior.mean)
        });
        let best = fits.into_iter().max_by(|a, b| a.log_evidence.total_cmp(&b.log_evidence));
        best.map_or_else(|| Generic::Accelerator.log_costs(), |posterior| posterior.theta)
    }
}

/// Mean and covariance of the sources' unit costs.
fn prior(thetas: &[LogCosts]) -> Prior {
    let share = 1.0 / thetas.len() as f64;
    let mut mean = vec![0.0; COSTS];
    for theta in thetas {
        mean.iter_mut().zip(theta).for_each(|(m, t)| *m += share * t);
    }
    let mut covariance = Matrix::zeros(COSTS, COSTS);
    for theta in thetas {
        let away: Vec<f64> = theta.iter().zip(&mean).map(|(t, m)| t - m).collect();
        covariance.add_outer(&away, share);
    }
    covariance.add(&spread(OWN_VARIANCE, COMMON_VARIANCE), 1.0);
    Prior { mean, covariance }
}

/// The positive latencies of a source whose models are known: index, workload and logarithm of ns.
fn usable<'a>(
    source: &Source,
    workloads: &'a [Workload],
) -> impl Iterator<Item = (usize, &'a Workload, f64)> {
    let positive = source.latencies_ns.iter().filter(|(_, ns)| **ns > 0.0 && ns.is_finite());
    positive.filter_map(move |(&m, ns)| Some((m, workloads.get(m)?, ns.ln())))
}

fn residuals(source: &Source, workloads: &[Workload], theta: &[f64]) -> BTreeMap<usize, f64> {
    usable(source, workloads)
        .map(|(m, workload, log_ns)| (m, log_ns - log_latency(workload, theta).0))
        .collect()
}

/// The 90 % quantile of the absolute left-out residuals, over models and sources.
fn discrepancy(left_out: &[f64]) -> f64 {
    let mut errors: Vec<f64> = left_out.iter().map(|e| e.abs()).filter(|e| e.is_finite()).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let rank = ((errors.len() + 1) * 9).div_ceil(10).min(errors.len());
    rank.checked_sub(1).and_then(|i| errors.get(i)).copied().unwrap_or(UNKNOWN_DISCREPANCY)
}
