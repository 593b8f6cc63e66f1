//! The mode of the posterior of the logarithms of unit costs, and the Gaussian approximation there
//! (Laplace's approximation).
//!
//! Prior `theta ~ N(mean, covariance)`, data `ln latency = f(theta) + offset + e`, `e ~ N(0,
//! noise)`. Behind the unit costs, `theta` may hold further numbers, in which the offset is linear.
//! Gauss-Newton in the space of the data, where there are fewer latencies than unit costs: `theta =
//! mean + S J^T (J S J^T + N)^-1 (ln y - f + J (theta - mean))`. The evidence is Laplace's.

use super::{
    gaussian::{Cholesky, Matrix, dot},
    resource_demand::{COSTS, Workload},
    roofline::{LogCosts, log_latency},
};

/// Steps at most.
const STEPS: usize = 20;
/// Longest step of one logarithm.
const LONGEST: f64 = 2.0;
/// A step shorter than this is the last.
const SHORT: f64 = 1e-3;

/// Prior of a device's unit costs.
#[derive(Clone, Debug)]
pub(crate) struct Prior {
    pub mean: LogCosts,
    pub covariance: Matrix,
}

/// Latencies and the distribution of their errors.
#[derive(Clone, Debug)]
pub(crate) struct Data<'a> {
    pub workloads: Vec<&'a Workload>,
    /// By workload: the derivative of the logarithm by each number behind the unit costs.
    pub loadings: Vec<Vec<f64>>,
    /// Logarithms of ns, less the known offset of each.
    pub log_ns: Vec<f64>,
    /// Covariance of the errors.
    pub noise: Matrix,
    /// Where errors have heavy tails: degrees of freedom of Student's distribution, and the part of
    /// the variance that is each latency's own.
    pub heavy_tails: Option<(f64, f64)>,
}

/// The Gaussian at the mode.
#[derive(Clone, Debug)]
pub(crate) struct Posterior {
    pub theta: LogCosts,
    pub log_evidence: f64,
    /// Residuals weighted by the inverse of their covariance.
    pub weighted: Vec<f64>,
    /// Rows: the gradient of each latency times the prior's covariance.
    pub gains: Matrix,
    pub factor: Cholesky,
}

fn jacobian(data: &Data<'_>, theta: &[f64]) -> (Vec<f64>, Matrix) {
    let (costs, further) = theta.split_at(COSTS.min(theta.len()));
    let none = Vec::new();
    let row = |(i, workload): (usize, &&Workload)| {
        let loading = data.loadings.get(i).unwrap_or(&none);
        let (log, shares) = log_latency(workload, costs);
        (log + dot(loading, further), [shares.as_slice(), loading.as_slice()].concat())
    };
    let (logs, rows): (Vec<f64>, Vec<Vec<f64>>) =
        data.workloads.iter().enumerate().map(row).unzip();
    (logs, Matrix::from_rows(&rows))
}

/// Finds the mode from `start`.
pub(crate) fn fit(prior: &Prior, data: &Data<'_>, start: &[f64]) -> Posterior {
    let mut theta = start.to_vec();
    for step in 0..STEPS {
        let state = condition(prior, data, &theta);
        let target: Vec<f64> = prior
            .mean
            .iter()
            .zip(state.gains.transposed_times(&state.weighted))
            .map(|(m, d)| m + d)
            .collect();
        let longest = theta.iter().zip(&target).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if longest < SHORT {
            return state;
        }
        let damping = if step < STEPS / 2 { 1.0 } else { 0.5 };
        theta
            .iter_mut()
            .zip(&target)
            .for_each(|(t, to)| *t += damping * (to - *t).clamp(-LONGEST, LONGEST));
    }
    condition(prior, data, &theta)
}

/// Everything at the linearisation around `theta`.
pub(crate) fn condition(prior: &Prior, data: &Data<'_>, theta: &[f64]) -> Posterior {
    let (logs, gradient) = jacobian(data, theta);
    let residuals: Vec<f64> = data.log_ns.iter().zip(&logs).map(|(y, f)| y - f).collect();
    let gains = gradient.times_transposed(&prior.covariance);
    let mut covariance = gains.times_transposed(&gradient);
    covariance.add(&data.noise, 1.0);
    if let Some((freedom, own)) = data.heavy_tails {
        for (i, r) in residuals.iter().enumerate() {
            let factor = (freedom + r * r / data.noise.at(i, i)) / (freedom + 1.0);
            covariance.data[i * covariance.columns + i] += own * (factor - 1.0);
        }
    }
    let factor = Cholesky::new(&covariance);
    let away: Vec<f64> = theta.iter().zip(&prior.mean).map(|(t, m)| t - m).collect();
    let linearised: Vec<f64> =
        residuals.iter().enumerate().map(|(i, r)| r + dot(gradient.row(i), &away)).collect();
    let whitened = factor.forward(&linearised);
    let log_evidence = -0.5 * dot(&whitened, &whitened) - factor.half_log_determinant();
    let weighted = factor.solve(&linearised);
    Posterior { theta: theta.to_vec(), log_evidence, weighted, gains, factor }
}

impl Posterior {
    /// Covariance of the unit costs given the latencies.
    pub fn covariance(&self, prior: &Prior) -> Matrix {
        let mut out = prior.covariance.clone();
        let size = out.rows;
        let whitened: Vec<Vec<f64>> = (0..size)
            .map(|j| {
                self.factor
                    .forward(&(0..self.gains.rows).map(|i| self.gains.at(i, j)).collect::<Vec<_>>())
            })
            .collect();
        for i in 0..size {
            for j in 0..size {
                out.data[i * size + j] -= dot(&whitened[i], &whitened[j]);
            }
        }
        out
    }

    /// Leave-one-out error of each latency, `[G^-1 r]_i / [G^-1]_ii`, and its variance, `1 /
    /// [G^-1]_ii` (Rasmussen and Williams, equation 5.12).
    pub fn left_out(&self) -> Vec<(f64, f64)> {
        let n = self.weighted.len();
        let unit = |i: usize| (0..n).map(|k| f64::from(u8::from(k == i))).collect::<Vec<f64>>();
        (0..n)
            .map(|i| {
                let precision: f64 = self.factor.forward(&unit(i)).iter().map(|v| v * v).sum();
                (self.weighted[i] / precision, 1.0 / precision)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::resource_demand::UnitCost;
    use super::*;

    #[test]
    fn finds_the_costs_that_made_the_latencies() {
        let model = |launches: f64, macs: f64| Workload {
            demands: vec![(
                vec![(UnitCost::LaunchConvolution, 1.0), (UnitCost::Spatial, macs)],
                launches,
            )],
        };
        let models: Vec<Workload> =
            [(10.0, 1e5), (100.0, 1e4), (40.0, 3e5), (5.0, 1e6)].map(|(l, m)| model(l, m)).into();
        let mut truth = vec![0.0; COSTS];
        truth[UnitCost::LaunchConvolution as usize] = 8.0;
        truth[UnitCost::Spatial as usize] = -3.0;
        let log_ns: Vec<f64> = models.iter().map(|m| log_latency(m, &truth).0).collect();
        let prior = Prior { mean: vec![0.0; COSTS], covariance: Matrix::diagonal(COSTS, 25.0) };
        let data = Data {
            workloads: models.iter().collect(),
            loadings: Vec::new(),
            log_ns,
            noise: Matrix::diagonal(4, 1e-6),
            heavy_tails: None,
        };
        let posterior = fit(&prior, &data, &prior.mean);
        for cost in [UnitCost::LaunchConvolution, UnitCost::Spatial] {
            assert!(
                (posterior.theta[cost as usize] - truth[cost as usize]).abs() < 0.01,
                "{cost:?} {}",
                posterior.theta[cost as usize]
            );
        }
        let covariance = posterior.covariance(&prior);
        let variance = |cost: UnitCost| covariance.at(cost as usize, cost as usize);
        assert!(variance(UnitCost::Spatial) < 0.01, "the latencies determine this cost");
        assert!(
            (variance(UnitCost::Dynamic) - 25.0).abs() < 1e-9,
            "a cost that they do not depend on keeps its prior variance"
        );
    }

    #[test]
    fn heavy_tails_leave_one_outlier_behind() {
        let models: Vec<Workload> =
            (1..9).map(|i| Workload::of_totals(f64::from(i) * 1e7, 1.0)).collect();
        let prior = Prior { mean: vec![-2.0; COSTS], covariance: Matrix::diagonal(COSTS, 4.0) };
        let mut log_ns: Vec<f64> =
            models.iter().map(|m| log_latency(m, &vec![-1.0; COSTS]).0).collect();
        log_ns[3] += 2.0;
        let with = |heavy_tails| {
            let data = Data {
                workloads: models.iter().collect(),
                loadings: Vec::new(),
                log_ns: log_ns.clone(),
                noise: Matrix::diagonal(8, 0.01),
                heavy_tails,
            };
            fit(&prior, &data, &prior.mean).theta[UnitCost::Spatial as usize]
        };
        assert!(
            (with(Some((4.0, 0.01))) + 1.0).abs() < 0.1 && (with(None) + 1.0).abs() > 0.2,
            "{} {}",
            with(Some((4.0, 0.01))),
            with(None)
        );
    }
}
