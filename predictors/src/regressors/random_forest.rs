//! Random forest by smartcore on the logarithm of latency over baseline.
//!
//! smartcore's trees are private; they are read out through serde and kept as [`Trees`]. The rule is `feature <= split_value` goes to `true_child`.

use super::{FitData, Regressor, Trees, trees::Source};
use serde::Deserialize;
use smartcore::{
    ensemble::random_forest_regressor::{RandomForestRegressor, RandomForestRegressorParameters},
    linalg::basic::matrix::DenseMatrix,
};

const TREES: usize = 100;
const DEPTH: u16 = 20;

/// A fitted forest.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomForest(Trees);

#[derive(Deserialize)]
struct Exported {
    forest_regressor: ExportedForest,
}

#[derive(Deserialize)]
struct ExportedForest {
    trees: Vec<ExportedTree>,
}

#[derive(Deserialize)]
struct ExportedTree {
    nodes: Vec<ExportedNode>,
}

#[derive(Deserialize)]
struct ExportedNode {
    output: f64,
    split_feature: usize,
    split_value: Option<f64>,
    true_child: Option<usize>,
    false_child: Option<usize>,
}

impl ExportedNode {
    fn source(&self) -> Source {
        match (self.split_value, self.true_child, self.false_child) {
            (Some(threshold), Some(left), Some(right)) => Source::Split(self.split_feature, threshold, left, right),
            _ => Source::Leaf(self.output),
        }
    }
}

impl RandomForest {
    /// The forest as plain trees.
    #[must_use]
    pub fn into_trees(self) -> Trees {
        self.0
    }
}

impl Regressor for RandomForest {
    fn fit(data: &FitData<'_>, seed: u64) -> Result<Self, String> {
        let x = DenseMatrix::new(data.rows(), data.columns, data.x.to_vec(), false).map_err(|e| e.to_string())?;
        let y = data.log_ratios();
        let parameters = RandomForestRegressorParameters::default()
            .with_n_trees(TREES)
            .with_max_depth(DEPTH)
            .with_min_samples_leaf(2)
            .with_m(data.columns.div_ceil(3).max(data.columns.min(2)))
            .with_seed(seed);
        let forest = RandomForestRegressor::fit_with_weights(&x, &y, data.weights, parameters).map_err(|e| e.to_string())?;
        let json = serde_json::to_vec(&forest).map_err(|e| e.to_string())?;
        let exported: Exported = serde_json::from_slice(&json).map_err(|e| format!("the forest cannot be read out: {e}"))?;
        let mut trees = Trees::new(1.0 / exported.forest_regressor.trees.len().max(1) as f64);
        for tree in &exported.forest_regressor.trees {
            trees.push(0, &|i| tree.nodes.get(i).map(ExportedNode::source), tree.nodes.len())?;
        }
        Ok(Self(trees))
    }

    fn predict(&self, x: &[f64], baseline_ns: f64) -> f64 {
        self.0.predict(x, baseline_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learns_a_step_and_repeats_itself() {
        let x: Vec<f64> = (0..200).flat_map(|i| [f64::from(i), f64::from(i % 7)]).collect();
        let y: Vec<f64> = (0..200).map(|i| if i < 100 { 1000.0 } else { 3000.0 }).collect();
        let data = FitData { columns: 2, x: &x, y_ns: &y, baseline_ns: &[1000.0; 200], weights: &[1.0; 200], groups: &[0; 200] };
        let forest = RandomForest::fit(&data, 1).expect("fits");
        assert_eq!(RandomForest::fit(&data, 1).as_ref(), Ok(&forest));
        assert!((forest.predict(&[20.0, 3.0], 1000.0) / 1000.0 - 1.0).abs() < 0.02);
        assert!((forest.predict(&[170.0, 3.0], 2000.0) / 6000.0 - 1.0).abs() < 0.02, "the ratio carries over to another baseline");
    }
}
