//! What measured networks say of the kernels of a model.

use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::{Graph, ModelProfile, OpSpec};
use vitempo_predictors::{PredictorBundle, PredictorError, TrainingRows, refined::Correction};

/// Expected error of a measured kernel where too few kernels were measured in several networks: the
/// repeatability of single kernels across networks on shared machines.
const USUAL_LOG_ERROR: f64 = 0.05;
/// Fewest kernels in several networks for an expected error of their own.
const FEWEST: usize = 4;

/// The correction of each kernel of the model that was measured. No kernel is surer than the speed of
/// the machine: where it has changed since the bundle's data were measured (`slowdown`), by the
/// reference workload, every expected error is at least that change.
///
/// # Errors
/// [`PredictorError`] where the measurements are of several environments or without samples.
pub(super) fn of(
    bundle: &PredictorBundle,
    kernels: &Graph,
    profiles: &[ModelProfile],
    slowdown: Option<f64>,
) -> Result<Vec<(OpSpec, Correction)>, PredictorError> {
    let wanted: BTreeSet<&OpSpec> = kernels.nodes().iter().map(|node| &node.op).collect();
    let rows = TrainingRows::with_drift(profiles, bundle.drift)?;
    let mut ratios: BTreeMap<&OpSpec, Vec<f64>> = BTreeMap::new();
    for row in rows.rows.iter().filter(|row| wanted.contains(&*row.op)) {
        let forecast = bundle.predictors.estimate_unrefined(&row.op, row.working_set);
        ratios.entry(&row.op).or_default().push((row.latency_ns / forecast.latency_ns).ln());
    }
    let usual = at_least_the_change(usual_error(ratios.values()), slowdown);
    let correction = |(op, ratios): (&OpSpec, Vec<f64>)| {
        let own = deviation(&ratios).unwrap_or(0.0);
        let log_error = usual.max(own);
        (op.clone(), Correction { log_ratio: mean(&ratios), log_error, networks: ratios.len() })
    };
    Ok(ratios.into_iter().map(correction).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Mean absolute deviation of one network from the mean of several, corrected for their number.
fn deviation(ratios: &[f64]) -> Option<f64> {
    let n = ratios.len() as f64;
    let mean = mean(ratios);
    let spread = ratios.iter().map(|r| (r - mean).abs()).sum::<f64>() / n;
    (ratios.len() > 1).then(|| spread * (n / (n - 1.0)).sqrt())
}

/// How much the networks of one kernel disagree, on average over kernels in several.
fn usual_error<'r>(ratios: impl Iterator<Item = &'r Vec<f64>>) -> f64 {
    let deviations: Vec<f64> = ratios.filter_map(|ratios| deviation(ratios)).collect();
    if deviations.len() < FEWEST { USUAL_LOG_ERROR } else { mean(&deviations) }
}

fn at_least_the_change(log_error: f64, slowdown: Option<f64>) -> f64 {
    slowdown.map_or(log_error, |slowdown| log_error.max(slowdown.ln().abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_kernel_is_how_much_networks_disagree() {
        assert_eq!(deviation(&[0.3]), None);
        let two = deviation(&[0.1, 0.3]).unwrap_or_default();
        assert!((two - 0.1 * 2f64.sqrt()).abs() < 1e-12);
        let few = [vec![0.1, 0.3], vec![0.0]];
        assert_eq!(usual_error(few.iter()), USUAL_LOG_ERROR);
        let many = vec![vec![0.1, 0.3]; FEWEST];
        assert!((usual_error(many.iter()) - two).abs() < 1e-12);
    }

    #[test]
    fn no_kernel_is_surer_than_the_speed_of_the_machine() {
        assert_eq!(at_least_the_change(0.05, None), 0.05);
        assert_eq!(at_least_the_change(0.05, Some(1.02)), 0.05);
        for slowdown in [1.5, 1.0 / 1.5] {
            assert!((at_least_the_change(0.05, Some(slowdown)) - 1.5f64.ln()).abs() < 1e-12);
        }
    }
}
