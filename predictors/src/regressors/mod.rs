//! Regressors of one predictor key: [`Lasso`], random forest and GBDT, all fitted to relative
//! error.
//!
//! In: rows of features, latencies in ns, and the [`Baseline`] latency of each row. Out: a latency
//! in ns. Trees learn the logarithm of the ratio to the baseline, so that forecasts follow the
//! baseline outside the range of the training rows.

pub mod baseline;
pub mod lasso;
pub mod trees;

pub use baseline::Baseline;
pub use lasso::Lasso;
pub use trees::Trees;

use crate::{elementary::powf, forest::ForestError};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Sum of products.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// What coefficients by column, ns per unit, give for a row of features, ns.
fn linear_ns(coefficients: &[(usize, f64)], x: &[f64]) -> f64 {
    coefficients.iter().map(|(column, c)| c * x.get(*column).copied().unwrap_or(0.0)).sum()
}

/// A constant, ns, or its product with the column that it is per unit of.
pub(crate) fn constant_of(constant_ns: f64, per: Option<usize>, x: &[f64]) -> f64 {
    per.map_or(constant_ns, |column| constant_ns * x.get(column).copied().unwrap_or(1.0))
}

/// Adds costs by column, ns per unit, to coefficients that have none for it.
#[cfg(feature = "train")]
fn add_costs(coefficients: &mut Vec<(usize, f64)>, costs: &[(usize, f64)]) {
    for cost in costs {
        if coefficients.iter().all(|(column, _)| *column != cost.0) {
            coefficients.push(*cost);
        }
    }
}

/// Rows to fit, row by row in one slice.
#[derive(Clone, Copy, Debug)]
pub struct FitData<'a> {
    /// Columns per row.
    pub columns: usize,
    /// Features, `rows x columns`, row by row; finite.
    pub x: &'a [f64],
    /// Latency of each row, ns; positive.
    pub y_ns: &'a [f64],
    /// Baseline latency of each row, ns; positive.
    pub baseline_ns: &'a [f64],
    /// How much each row counts; positive.
    pub weights: &'a [f64],
    /// Architecture each row comes from, or the class of its size, as a number: rows of one group
    /// are never split by cross-validation.
    pub groups: &'a [usize],
    /// Columns of work and bytes whose cost the rows cannot separate from that of others
    /// ([`Baseline::inseparable`]): linear models leave them out.
    pub inseparable: &'a [usize],
    /// The column that the constant is per unit of; `None`: the same for every row.
    pub constant_per: Option<usize>,
    /// Columns that count calls: their costs are per unit of `constant_per`, too.
    pub per_call: &'a [usize],
}

impl FitData<'_> {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.y_ns.len()
    }

    /// The natural logarithm of latency over baseline.
    #[cfg(feature = "train")]
    pub(crate) fn log_ratios(&self) -> Vec<f64> {
        self.y_ns.iter().zip(self.baseline_ns).map(|(y, b)| (y / b).ln()).collect()
    }
}

/// Which regressor to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Linear with an L1 penalty, by linfa.
    Lasso,
    /// Random forest, by smartcore.
    RandomForest,
    /// Gradient-boosted decision trees, by LightGBM.
    Gbdt,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::Lasso, Self::RandomForest, Self::Gbdt];

    /// The name in flags, files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lasso => "lasso",
            Self::RandomForest => "random-forest",
            Self::Gbdt => "gbdt",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|m| m.name() == name)
            .ok_or_else(|| format!("`{name}` is not a method: choose lasso, random-forest or gbdt"))
    }
}

/// A fitted regressor of any method.
#[derive(Clone, Debug, PartialEq)]
pub enum Fitted {
    /// The work-and-bytes baseline, if there are too few rows for a regressor.
    BaselineOnly,
    /// A linear model.
    Lasso(Lasso),
    /// Trees on the ratio to a linear model, or to the baseline where none could be fitted.
    Trees {
        /// The linear model.
        linear: Option<Lasso>,
        /// Trees on the logarithm of the ratio.
        trees: Trees,
    },
}

impl Fitted {
    /// The linear model, if there is one.
    #[must_use]
    pub fn linear(&self) -> Option<&Lasso> {
        match self {
            Self::BaselineOnly => None,
            Self::Lasso(linear) => Some(linear),
            Self::Trees { linear, .. } => linear.as_ref(),
        }
    }

    /// Takes costs, ns per unit, of columns that have none; what trees learned stays relative to
    /// the whole.
    #[cfg(feature = "train")]
    pub(crate) fn add(&mut self, costs: &[(usize, f64)], per_call: &[(usize, f64)]) {
        match self {
            Self::Lasso(lasso) | Self::Trees { linear: Some(lasso), .. } => {
                add_costs(&mut lasso.coefficients, costs);
                add_costs(&mut lasso.per_call, per_call);
            }
            Self::BaselineOnly | Self::Trees { linear: None, .. } => {}
        }
    }

    /// Latency in ns of one row; positive. `blend_weight`, 0 to 1: the weight of the trees'
    /// logarithm against that of the linear model.
    #[must_use]
    pub fn predict(&self, x: &[f64], baseline_ns: f64, blend_weight: f64) -> f64 {
        let [linear_ns, tree_ns] = self.linear_and_tree_ns(x, baseline_ns);
        match self {
            Self::BaselineOnly | Self::Lasso(_) => linear_ns,
            Self::Trees { .. } => blended(linear_ns, tree_ns, blend_weight),
        }
    }

    /// Latencies in ns of one row by the linear model alone and by trees alone; equal if there is
    /// only one of them.
    pub(crate) fn linear_and_tree_ns(&self, x: &[f64], baseline_ns: f64) -> [f64; 2] {
        match self {
            Self::BaselineOnly => [baseline_ns; 2],
            Self::Lasso(lasso) => [lasso.predict(x, baseline_ns); 2],
            Self::Trees { linear, trees } => {
                let linear_ns =
                    linear.as_ref().map_or(baseline_ns, |linear| linear.predict(x, baseline_ns));
                [linear_ns, trees.predict(x, linear_ns)]
            }
        }
    }

    /// Latencies in ns of rows of `columns` features that lie one after the other, exactly those of
    /// [`Fitted::predict`]; a baseline and a blend weight per row.
    ///
    /// # Errors
    /// [`ForestError::Shape`] unless there are as many rows as baselines.
    pub fn predict_batch(
        &self,
        x: &[f64],
        columns: usize,
        baseline_ns: &[f64],
        blend_weights: &[f64],
    ) -> Result<Vec<f64>, ForestError> {
        let rows = baseline_ns.len();
        if rows.checked_mul(columns) != Some(x.len()) {
            return Err(ForestError::Shape { values: x.len(), rows, features: columns });
        }
        match self {
            Self::BaselineOnly => Ok(baseline_ns.to_vec()),
            Self::Lasso(lasso) => Ok(base(Some(lasso), x, columns, baseline_ns)),
            Self::Trees { linear, trees } => {
                let linear_ns = base(linear.as_ref(), x, columns, baseline_ns);
                let tree_ns = trees.predict_batch(x, &linear_ns)?;
                Ok(linear_ns
                    .iter()
                    .zip(tree_ns)
                    .zip(blend_weights)
                    .map(|((linear, tree), weight)| blended(*linear, tree, *weight))
                    .collect())
            }
        }
    }
}

/// Weighted geometric mean: shrinkage of the trees' forecast towards the linear model.
fn blended(linear_ns: f64, tree_ns: f64, weight: f64) -> f64 {
    if weight < 1.0 { linear_ns * powf(tree_ns / linear_ns, weight) } else { tree_ns }
}

/// The latency that trees are relative to, ns by row: the linear model if there is one, else the
/// baseline.
pub(crate) fn base(
    linear: Option<&Lasso>,
    x: &[f64],
    columns: usize,
    baseline_ns: &[f64],
) -> Vec<f64> {
    let Some(linear) = linear else { return baseline_ns.to_vec() };
    x.chunks_exact(columns.max(1))
        .zip(baseline_ns)
        .map(|(row, b)| linear.predict(row, *b))
        .collect()
}
