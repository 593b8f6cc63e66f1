//! What to measure next: the models whose latencies reduce the variance of all forecasts most.

use super::{
    adapted::Adapted,
    gaussian::{Matrix, dot},
    mixture::MOVES,
    resource_demand::Workload,
};

impl Adapted {
    /// Indices of up to `count` of `workloads`, without those `skip` names, best first. Each is
    /// chosen to lower the summed variance of all forecasts most, given that those before it are
    /// measured.
    #[must_use]
    pub fn suggest(&self, workloads: &[Workload], skip: &[usize], count: usize) -> Vec<usize> {
        let n = workloads.len();
        let mut covariance = self.joint(workloads);
        let noise: f64 = self.hypotheses.iter().map(|h| h.weight * h.noise).sum::<f64>()
            + (self.discrepancy / 2.0).powi(2);
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let gain = |i: usize| {
                dot(covariance.row(i), covariance.row(i)) / (covariance.at(i, i) + noise)
            };
            let free =
                (0..n).filter(|i| !skip.contains(i) && !chosen.contains(i)).map(|i| (gain(i), i));
            let Some((_, best)) = free.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            let column = covariance.row(best).to_vec();
            let scale = -1.0 / (covariance.at(best, best) + noise);
            covariance.add_outer(&column, scale);
            chosen.push(best);
        }
        chosen
    }

    /// Covariance of the forecasts' logarithms: within and between hypotheses.
    fn joint(&self, workloads: &[Workload]) -> Matrix {
        let n = workloads.len();
        let mut out = Matrix::zeros(n, n);
        let mut mean = vec![0.0; n];
        let mut all = Vec::new();
        for h in &self.hypotheses {
            let (logs, gradients): (Vec<f64>, Vec<Vec<f64>>) = workloads
                .iter()
                .map(|w| h.log_latency(w))
                .map(|(log, gradient, _)| (log, gradient))
                .unzip();
            let gradient =
                if n == 0 { Matrix::zeros(0, MOVES) } else { Matrix::from_rows(&gradients) };
            out.add(
                &gradient.times_transposed(&h.covariance).times_transposed(&gradient),
                h.weight,
            );
            mean.iter_mut().zip(&logs).for_each(|(m, l)| *m += h.weight * l);
            all.push((h.weight, logs));
        }
        for (weight, logs) in all {
            let away: Vec<f64> = logs.iter().zip(&mean).map(|(l, m)| l - m).collect();
            out.add_outer(&away, weight);
        }
        out
    }
}
