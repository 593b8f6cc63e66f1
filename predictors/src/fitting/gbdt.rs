//! GBDT by LightGBM: squared error on the logarithm of latency over baseline, which is relative
//! error to first order.
//!
//! LightGBM's own `mape` objective divides by at least 1 and is not used. The model text is read
//! into [`Trees`]: LightGBM trains and never forecasts. The crate bins with LightGBM's defaults,
//! which ignore columns that cannot split off 20 rows: small data sets are therefore repeated until
//! every column can split.

use crate::{
    Boosting, forest,
    regressors::{FitData, Trees},
};
use lightgbm::{Booster, Dataset};
use serde_json::json;
use std::borrow::Cow;

/// Number of trees by number of rows; few rows have few trees with a higher learning rate.
const TREES: [(usize, usize); 3] = [(1000, 400), (200, 200), (0, 100)];
const LEAVES: u32 = 31;
/// L2 penalty of the values of leaves.
const L2: f64 = 0.5;
/// Share of the columns that a tree sees.
const COLUMNS: f64 = 0.7;
/// Number of trees times the learning rate.
const LEARNING: f64 = 10.0;
/// Rows are repeated until there are this many.
const ENOUGH_ROWS: usize = 600;

fn train(data: &FitData<'_>, boosting: &Boosting, seed: u64) -> Result<Booster, lightgbm::Error> {
    let rows = data.rows().max(1);
    let copies = ENOUGH_ROWS.div_ceil(rows);
    let labels: Vec<f32> = data.log_ratios().iter().map(|r| *r as f32).collect();
    let weights: Vec<f32> = data.weights.iter().map(|w| *w as f32).collect();
    let x = if copies == 1 { Cow::Borrowed(data.x) } else { Cow::Owned(data.x.repeat(copies)) };
    let mut dataset = Dataset::from_slice(&x, &labels.repeat(copies), data.columns as i32, true)?;
    dataset.set_weights(&weights.repeat(copies))?;
    let usual = TREES.iter().find(|(fewest, _)| rows >= *fewest).map_or(1, |(_, trees)| *trees);
    let trees = boosting.trees.map_or(usual, |trees| trees as usize);
    let leaves = boosting.leaves.unwrap_or(LEAVES) as usize;
    let fewest_in_leaf =
        boosting.rows_in_leaf.map_or((rows / 150).clamp(3, 10), |fewest| fewest as usize);
    let parameters = json!({
        "objective": "regression",
        "num_iterations": trees,
        "learning_rate": boosting.learning_rate.unwrap_or((LEARNING / trees as f64).min(1.0)),
        "num_leaves": leaves.min(rows / 2 + 1).max(2),
        "min_data_in_leaf": fewest_in_leaf * copies,
        "min_sum_hessian_in_leaf": 1e-6,
        "lambda_l2": boosting.l2.unwrap_or(L2) * copies as f64,
        "feature_fraction": boosting.columns.unwrap_or(COLUMNS),
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "deterministic": true,
        "force_row_wise": true,
        "num_threads": 1,
        "seed": seed % (1 << 30),
        "verbosity": -1,
    });
    Booster::train(dataset, &parameters)
}

/// Fits boosted trees to relative error; the same data and seed give the same trees.
///
/// # Errors
/// A sentence from LightGBM.
pub fn fit(data: &FitData<'_>, boosting: &Boosting, seed: u64) -> Result<Trees, String> {
    let booster = train(data, boosting, seed).map_err(|e| e.to_string())?;
    let text = booster.save_string().map_err(|e| e.to_string())?;
    let trees = forest::lightgbm_trees(&text).map_err(|e| e.to_string())?;
    Trees::new(&trees, data.columns, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize) -> (Vec<f64>, Vec<f64>) {
        let x: Vec<f64> =
            (0..n).flat_map(|i| [(i % 23) as f64, (i % 7) as f64, i as f64]).collect();
        let y =
            x.chunks(3).map(|r| 1000.0 * (1.0 + 0.3 * (r[0] * 0.7).sin() + 0.05 * r[1])).collect();
        (x, y)
    }

    #[test]
    fn our_trees_say_what_lightgbm_says_and_repeat_themselves() {
        for n in [12, 60, 2000] {
            let (x, y) = rows(n);
            let baseline = vec![1000.0; n];
            let data = FitData {
                columns: 3,
                x: &x,
                y_ns: &y,
                baseline_ns: &baseline,
                weights: &vec![1.0; n],
                groups: &vec![0; n],
                inseparable: &[],
                constant_per: None,
                per_call: &[],
            };
            let booster = train(&data, &Boosting::USUAL, 3).expect("trains");
            let ours = fit(&data, &Boosting::USUAL, 3).expect("fits");
            let theirs = booster.predict(&x, 3, true).expect("predicts");
            // Each leaf is rounded.
            let rounding = ours.len() as f64 * 3e-8;
            for (row, expected) in x.chunks(3).zip(&theirs) {
                assert!((ours.log_ratio(row) - expected).abs() < rounding);
            }
            assert_eq!(fit(&data, &Boosting::USUAL, 3), Ok(ours.clone()));
            let few = Boosting { trees: Some(7), leaves: Some(5), ..Boosting::USUAL };
            assert_eq!(fit(&data, &few, 3).expect("fits").len(), 7);
            let error: f64 = x
                .chunks(3)
                .zip(&y)
                .map(|(r, y)| (ours.predict(r, 1000.0) / y - 1.0).abs())
                .sum::<f64>()
                / n as f64;
            assert!(error < if n > 100 { 0.02 } else { 0.2 }, "{n} rows: {error}");
        }
    }

    /// With OpenMP this crashes: one thread's `num_threads` is every other's, between making its
    /// buffers and filling them too.
    #[test]
    fn lightgbm_trains_on_several_threads_at_once() {
        const COLUMNS: usize = 40;
        const ROWS: usize = 1500;
        let x: Vec<f64> = (0..ROWS * COLUMNS)
            .map(|i| f64::from(i * 48271 % 1021 < 60) * (i % 7) as f64)
            .collect();
        let y: Vec<f32> = (0..ROWS).map(|i| (i % 13) as f32).collect();
        let parameters = json!({ "num_iterations": 2, "num_threads": 1, "verbosity": -1, "force_row_wise": true });
        let model = || {
            let dataset = Dataset::from_slice(&x, &y, COLUMNS as i32, true).expect("data");
            Booster::train(dataset, &parameters)
                .and_then(|booster| booster.save_string())
                .expect("trains")
        };
        let alone = model();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|_| assert!(model() == alone)));
            }
        });
    }
}
