//! [`Population`]: what other devices tell of a new one. Their unit costs, how those differ from
//! device to device, and what unit costs leave unexplained of each model, which devices share.

use super::{
    alike::{Catalogue, Compared},
    charge::{COSTS, Group, UnitCost, Workload},
    gaussian::Matrix,
    posterior::{Data, Posterior, Prior, condition, fit},
    roofline::{LogCosts, log_latency, log_latency_by_operator},
};
use std::collections::BTreeMap;

/// What is known of a device's software and of the kind of processor before anything is measured:
/// sources that share it count for more.
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

/// One source, explained.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub device: String,
    pub kind: Trait,
    pub theta: LogCosts,
    /// `ln latency - ln forecast` at its own unit costs, by model.
    pub residuals: BTreeMap<usize, f64>,
    /// By operator of the population's catalogue: what to multiply likenesses with for what
    /// operators cost beyond their unit costs.
    pub operators: Vec<f64>,
}

/// All sources, explained together.
#[derive(Clone, Debug)]
pub struct Population {
    pub(crate) known: Vec<Known>,
    /// The operators of the sources' models.
    pub(crate) catalogue: Catalogue,
    /// 90 % of models that no source has are forecast within this logarithm at the right unit
    /// costs.
    pub(crate) discrepancy: f64,
}

/// Variance of the logarithm of each unit cost where nothing is known (a factor of two), and of all
/// together (a factor of e).
const BROAD: f64 = 0.5;
const BROAD_TOGETHER: f64 = 1.0;
/// What unit costs leave unexplained, as a first guess.
const NOISE: f64 = 0.12;
/// How exact a source's latencies are (relative), and how far its operators stray from their unit
/// costs (variance): the likeliest pair counts.
const ERRORS: [(f64, f64); 6] =
    [(0.02, 0.02), (0.02, 0.2), (0.05, 0.02), (0.05, 0.2), (0.12, 0.0), (0.12, 0.2)];
/// Degrees of freedom of what unit costs leave unexplained.
pub(crate) const FREEDOM: f64 = 4.0;
/// Rounds of explaining every source by its costs and all costs by their mean and covariance.
const ROUNDS: usize = 3;
/// Variance that every unit cost has beyond what the sources show, and that of all together.
const OWN_VARIANCE: f64 = 0.05;
const COMMON_VARIANCE: f64 = 0.1;
/// Models of a source that are used at most: evenly chosen.
const MOST_MODELS: usize = 200;
/// The discrepancy where there are no sources.
const UNKNOWN_DISCREPANCY: f64 = 0.7;

/// Unit costs to start from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Generic {
    /// A processor that computes about as fast as it moves data, launches for nothing, and runs no
    /// padding.
    Cpu,
    /// A processor that computes many times as fast as it moves data, and whose launches cost;
    /// whole vectors and tiles are run.
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

impl Population {
    /// Nothing but physics: no source.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            known: Vec::new(),
            catalogue: Catalogue::default(),
            discrepancy: UNKNOWN_DISCREPANCY,
        }
    }

    /// Learns from sources. Indices of models that `workloads` lacks are left out, as are latencies
    /// that are not positive.
    #[must_use]
    pub fn learn(workloads: &[Workload], sources: &[Source]) -> Self {
        let told: Vec<(&Source, Rows<'_>)> = sources
            .iter()
            .map(|s| (s, Rows::of(s, workloads)))
            .filter(|(_, r)| !r.models.is_empty())
            .collect();
        if told.is_empty() {
            return Self::empty();
        }
        let mut thetas: Vec<LogCosts> = told.iter().map(|(_, rows)| rows.first_guess()).collect();
        for _ in 1..ROUNDS {
            let prior = prior(&thetas);
            told.iter()
                .zip(&mut thetas)
                .for_each(|((_, rows), theta)| *theta = fit(&prior, &rows.data(), theta).theta);
        }
        let mut catalogue = Catalogue::default();
        told.iter()
            .flat_map(|(_, rows)| &rows.workloads)
            .for_each(|workload| catalogue.add(workload));
        let prior = prior(&thetas);
        let mut left_out = Vec::new();
        let mut known = Vec::new();
        for ((source, rows), theta) in told.iter().zip(&thetas) {
            let (posterior, operators) = rows.explain(&prior, theta, &catalogue);
            left_out.extend(posterior.left_out());
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

    /// The same without what sources say of these models beyond their unit costs.
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

    /// With operators that stray from their unit costs; also what to multiply likenesses with for
    /// how far each does.
    fn explain(
        &self,
        prior: &Prior,
        theta: &[f64],
        catalogue: &Catalogue,
    ) -> (Posterior, Vec<f64>) {
        let size = catalogue.operators();
        let of = |workload: &&Workload| {
            let compared: Compared = catalogue.compare(workload);
            let shares = log_latency_by_operator(workload, theta).2;
            (compared.weigh(&shares, size), compared.shares(&shares, size))
        };
        let (likeness, shares): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
            self.workloads.iter().map(of).unzip();
        let shares = Matrix::from_rows(&shares);
        let together = Matrix::from_rows(&likeness).times_transposed(&shares);
        let data = ERRORS.map(|(noise, straying)| {
            let mut errors = Matrix::diagonal(self.models.len(), noise * noise);
            errors.add(&together, straying);
            (
                straying,
                Data { noise: errors, heavy_tails: Some((FREEDOM, noise * noise)), ..self.data() },
            )
        });
        let likely = |data: &Data<'_>| condition(prior, data, theta).log_evidence;
        let best = data
            .iter()
            .map(|(straying, data)| (likely(data), straying, data))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, straying, data)) = best else {
            return (fit(prior, &self.data(), theta), vec![0.0; size]);
        };
        let posterior = fit(prior, data, theta);
        let operators =
            shares.transposed_times(&posterior.weighed).into_iter().map(|v| straying * v).collect();
        (posterior, operators)
    }

    /// From the generic costs that explain this source better.
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

/// What the costs of all sources say of those of one.
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
    let told = source.latencies_ns.iter().filter(|(_, ns)| **ns > 0.0 && ns.is_finite());
    told.filter_map(move |(&m, ns)| Some((m, workloads.get(m)?, ns.ln())))
}

fn residuals(source: &Source, workloads: &[Workload], theta: &[f64]) -> BTreeMap<usize, f64> {
    usable(source, workloads)
        .map(|(m, workload, log_ns)| (m, log_ns - log_latency(workload, theta).0))
        .collect()
}

/// The 90 % quantile of what is left unexplained of a model that was left out, over models and
/// sources.
fn discrepancy(left_out: &[f64]) -> f64 {
    let mut errors: Vec<f64> = left_out.iter().map(|e| e.abs()).filter(|e| e.is_finite()).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let rank = ((errors.len() + 1) * 9).div_ceil(10).min(errors.len());
    rank.checked_sub(1).and_then(|i| errors.get(i)).copied().unwrap_or(UNKNOWN_DISCREPANCY)
}
