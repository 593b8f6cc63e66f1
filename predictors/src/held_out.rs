//! Held-out forecasts of whole models and of networks, which show how wide intervals have to be.

use crate::{
    Calibration, ConformalInterval, TrainingRows, evaluate::Forecasts, interval::HeldOut, metrics,
};

/// Fewest kernels of a network that counts for the excess.
const SEVERAL: usize = 8;
/// Upper bound of the excess.
const MOST_EXCESS: f64 = 5.0;
/// The same over the interval of another machine: what cancelled out in its models need not here.
const MOST_EXCESS_ELSEWHERE: f64 = 20.0;

/// Sums over the measured kernels of each model, ns.
pub(crate) fn measured_sums(rows: &TrainingRows) -> Vec<f64> {
    let mut sums = vec![0.0; rows.models.len()];
    for row in &rows.rows {
        sums[row.model] += row.count as f64 * row.latency_ns;
    }
    sums
}

/// Held-out forecasts of whole models, end to end, and of networks of several operators, by the sum
/// of their kernels.
pub(crate) struct HeldOutForecasts {
    pub(crate) models: Vec<HeldOut>,
    networks: Vec<HeldOut>,
}

impl HeldOutForecasts {
    pub(crate) fn new(
        rows: &TrainingRows,
        measured: &[f64],
        forecasts: &Forecasts,
        calibration: &Calibration,
    ) -> Self {
        let (mut models, mut networks) = (Vec::new(), Vec::new());
        for (((model, &measured_ns), executed), lowered) in
            rows.models.iter().zip(measured).zip(&forecasts.executed).zip(&forecasts.lowered)
        {
            let tally = &lowered.as_ref().unwrap_or(executed).tally;
            match model.e2e_ns {
                Some(e2e) if tally.sum_ns > 0.0 => models.push(HeldOut {
                    actual_ns: e2e,
                    forecast_ns: tally.point_ns(calibration),
                    difficulty: tally.difficulty(),
                }),
                None if executed.tally.sum_ns > 0.0 && executed.tally.kernels() >= SEVERAL => {
                    networks.push(HeldOut {
                        actual_ns: measured_ns,
                        forecast_ns: executed.tally.sum_ns,
                        difficulty: executed.tally.difficulty(),
                    });
                }
                _ => {}
            }
        }
        Self { models, networks }
    }

    /// How much larger the scores of networks of several operators are than those of whole models.
    /// Errors of both signs cancel out in a whole model; errors at out-of-distribution sizes mostly
    /// have the same sign.
    pub(crate) fn excess(&self, level: f64) -> f64 {
        excess(width(&self.networks, level, 0.0), width(&self.models, level, 0.0), MOST_EXCESS)
    }

    /// How much larger the scores of networks of several operators are than the bounds of an
    /// interval that is another machine's.
    pub(crate) fn excess_over(&self, interval: &ConformalInterval) -> f64 {
        let networks = width(&self.networks, interval.level, interval.sensitivity);
        let bound = interval.scaled.upper.max(-interval.scaled.lower);
        excess(networks, Some(bound), MOST_EXCESS_ELSEWHERE)
    }
}

/// What share `level` of the scores does not exceed.
fn width(of: &[HeldOut], level: f64, sensitivity: f64) -> Option<f64> {
    metrics::quantile(&of.iter().map(|f| f.score(sensitivity).abs()).collect::<Vec<_>>(), level)
}

fn excess(networks: Option<f64>, models: Option<f64>, most: f64) -> f64 {
    let excess = networks.zip(models).map(|(networks, models)| networks / models);
    excess.filter(|e| e.is_finite()).map_or(1.0, |e| e.clamp(1.0, most))
}
