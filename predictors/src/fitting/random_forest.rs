//! Random forest by smartcore on the logarithm of latency over baseline.
//!
//! The forest is converted to [`Trees`]: smartcore trains and never forecasts.

use crate::{
    forest,
    regressors::{FitData, Trees},
};
use smartcore::{
    ensemble::random_forest_regressor::{RandomForestRegressor, RandomForestRegressorParameters},
    linalg::basic::matrix::DenseMatrix,
};

const TREES: usize = 100;
const DEPTH: u16 = 20;

/// Fits a forest to relative error; the same data and seed give the same trees.
///
/// # Errors
/// A sentence from smartcore.
pub fn fit(data: &FitData<'_>, seed: u64) -> Result<Trees, String> {
    let x = DenseMatrix::new(data.rows(), data.columns, data.x.to_vec(), false)
        .map_err(|e| e.to_string())?;
    let y = data.log_ratios();
    let parameters = RandomForestRegressorParameters::default()
        .with_n_trees(TREES)
        .with_max_depth(DEPTH)
        .with_min_samples_leaf(2)
        .with_m(data.columns.div_ceil(3).max(data.columns.min(2)))
        .with_seed(seed);
    let forest = RandomForestRegressor::fit_with_weights(&x, &y, data.weights, parameters)
        .map_err(|e| e.to_string())?;
    let trees = forest::smartcore_trees(&forest).map_err(|e| e.to_string())?;
    Trees::new(&trees, data.columns, 1.0 / trees.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learns_a_step_and_repeats_itself() {
        let x: Vec<f64> = (0..200).flat_map(|i| [f64::from(i), f64::from(i % 7)]).collect();
        let y: Vec<f64> = (0..200).map(|i| if i < 100 { 1000.0 } else { 3000.0 }).collect();
        let data = FitData {
            columns: 2,
            x: &x,
            y_ns: &y,
            baseline_ns: &[1000.0; 200],
            weights: &[1.0; 200],
            groups: &[0; 200],
            inseparable: &[],
            constant_per: None,
            per_call: &[],
        };
        let forest = fit(&data, 1).expect("fits");
        assert_eq!(fit(&data, 1).as_ref(), Ok(&forest));
        assert!((forest.predict(&[20.0, 3.0], 1000.0) / 1000.0 - 1.0).abs() < 0.02);
        assert!(
            (forest.predict(&[170.0, 3.0], 2000.0) / 6000.0 - 1.0).abs() < 0.02,
            "the ratio carries over to another baseline"
        );
    }
}
