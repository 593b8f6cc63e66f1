//! GBDT by LightGBM: squared error on the logarithm of latency over baseline, which is relative error to first order.
//!
//! LightGBM's own `mape` objective divides by at least 1 and is not used. The model text is read into [`Trees`]; LightGBM never reads a file of ours.
//! The crate bins with LightGBM's defaults, which ignore columns that cannot split off 20 rows: small data is repeated until that no longer matters.

use super::{FitData, Regressor, Trees, trees::Source};
use lightgbm::{Booster, Dataset};
use serde_json::json;
use std::collections::HashMap;

const TREES: usize = 400;
const LEAVES: usize = 31;
const LEARNING_RATE: f64 = 0.05;
/// Rows are repeated until there are this many.
const ENOUGH_ROWS: usize = 600;

/// Fitted boosted trees.
#[derive(Clone, Debug, PartialEq)]
pub struct Gbdt(Trees);

impl Gbdt {
    /// The ensemble as plain trees.
    #[must_use]
    pub fn into_trees(self) -> Trees {
        self.0
    }
}

fn train(data: &FitData<'_>, seed: u64) -> Result<Booster, lightgbm::Error> {
    let rows = data.rows().max(1);
    let copies = ENOUGH_ROWS.div_ceil(rows);
    let labels: Vec<f32> = data.log_ratios().iter().map(|r| *r as f32).collect();
    let weights: Vec<f32> = data.weights.iter().map(|w| *w as f32).collect();
    let mut dataset = Dataset::from_slice(&data.x.repeat(copies), &labels.repeat(copies), data.columns as i32, true)?;
    dataset.set_weights(&weights.repeat(copies))?;
    let fewest_in_leaf = (rows / 150).clamp(3, 10);
    let parameters = json!({
        "objective": "regression",
        "num_iterations": TREES,
        "learning_rate": LEARNING_RATE,
        "num_leaves": LEAVES.min(rows / 2 + 1).max(2),
        "min_data_in_leaf": fewest_in_leaf * copies,
        "min_sum_hessian_in_leaf": 1e-6,
        "lambda_l2": 0.5 * copies as f64,
        "feature_fraction": 0.7,
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

impl Regressor for Gbdt {
    fn fit(data: &FitData<'_>, seed: u64) -> Result<Self, String> {
        let booster = train(data, seed).map_err(|e| e.to_string())?;
        let text = booster.save_string().map_err(|e| e.to_string())?;
        Ok(Self(parse(&text)?))
    }

    fn predict(&self, x: &[f64], baseline_ns: f64) -> f64 {
        self.0.predict(x, baseline_ns)
    }
}

/// One tree's lines of the model text, by name.
type Section<'a> = HashMap<&'a str, &'a str>;

fn numbers<T: std::str::FromStr>(section: &Section<'_>, name: &str) -> Result<Vec<T>, String> {
    let text = section.get(name).copied().unwrap_or_default();
    text.split_ascii_whitespace().map(|n| n.parse().map_err(|_| format!("`{name}` of a tree holds `{n}`"))).collect()
}

/// The trees of LightGBM's model text: numerical splits without missing values only.
fn parse(text: &str) -> Result<Trees, String> {
    let mut trees = Trees::new(1.0);
    let body = text.split("end of trees").next().unwrap_or_default();
    for section in body.split("\nTree=").skip(1) {
        let section: Section<'_> = section.lines().filter_map(|l| l.split_once('=')).collect();
        let leaf: Vec<f64> = numbers(&section, "leaf_value")?;
        let feature: Vec<usize> = numbers(&section, "split_feature")?;
        let threshold: Vec<f64> = numbers(&section, "threshold")?;
        let left: Vec<i64> = numbers(&section, "left_child")?;
        let right: Vec<i64> = numbers(&section, "right_child")?;
        let decisions: Vec<u8> = numbers(&section, "decision_type")?;
        if decisions.iter().any(|d| d & 0b1101 != 0) {
            return Err("LightGBM made a split that is not numerical".to_owned());
        }
        let splits = feature.len();
        let place = |child: i64| usize::try_from(child).unwrap_or(splits + usize::try_from(!child).unwrap_or(usize::MAX / 2));
        let node = |i: usize| match i.checked_sub(splits) {
            None => Some(Source::Split(*feature.get(i)?, *threshold.get(i)?, place(*left.get(i)?), place(*right.get(i)?))),
            Some(l) => leaf.get(l).map(|v| Source::Leaf(*v)),
        };
        trees.push(0, &node, splits + leaf.len())?;
    }
    Ok(trees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize) -> (Vec<f64>, Vec<f64>) {
        let x: Vec<f64> = (0..n).flat_map(|i| [(i % 23) as f64, (i % 7) as f64, i as f64]).collect();
        let y = x.chunks(3).map(|r| 1000.0 * (1.0 + 0.3 * (r[0] * 0.7).sin() + 0.05 * r[1])).collect();
        (x, y)
    }

    #[test]
    fn our_trees_say_what_lightgbm_says_and_repeat_themselves() {
        for n in [12, 60, 2000] {
            let (x, y) = rows(n);
            let baseline = vec![1000.0; n];
            let data = FitData { columns: 3, x: &x, y_ns: &y, baseline_ns: &baseline, weights: &vec![1.0; n], groups: &vec![0; n] };
            let booster = train(&data, 3).expect("trains");
            let ours = Gbdt::fit(&data, 3).expect("fits");
            let theirs = booster.predict(&x, 3, true).expect("predicts");
            for (row, expected) in x.chunks(3).zip(&theirs) {
                assert!((ours.0.log_ratio(row) - expected).abs() < 1e-9);
            }
            assert_eq!(Gbdt::fit(&data, 3), Ok(ours.clone()));
            let error: f64 = x.chunks(3).zip(&y).map(|(r, y)| (ours.predict(r, 1000.0) / y - 1.0).abs()).sum::<f64>() / n as f64;
            assert!(error < if n > 100 { 0.02 } else { 0.2 }, "{n} rows: {error}");
        }
    }

    #[test]
    fn broken_text_is_an_error() {
        for text in [
            "\nTree=0\nleaf_value=x\n",
            "\nTree=0\nsplit_feature=0\nthreshold=1\ndecision_type=2\nleft_child=0\nright_child=0\nleaf_value=1\n",
            "\nTree=0\nsplit_feature=0\nthreshold=1\ndecision_type=1\nleft_child=-1\nright_child=-2\nleaf_value=1 2\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
