//! [`Lasso`]: a linear predictor with few columns. `fitting/lasso.rs` fits it.

use super::{constant_of, linear_ns};
use serde::{Deserialize, Serialize};

/// A linear predictor of latency in ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lasso {
    /// Constant term, ns.
    #[serde(with = "crate::bits")]
    pub constant_ns: f64,
    /// The column that the constant is per unit of; `None`: the same for every row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant_per: Option<usize>,
    /// Column and nanoseconds per unit of it for costs that are, like the constant, per unit of
    /// [`Lasso::constant_per`].
    #[serde(with = "crate::bits::by_column", default, skip_serializing_if = "Vec::is_empty")]
    pub per_call: Vec<(usize, f64)>,
    /// Column and nanoseconds per unit of it; columns that were not selected are left out.
    #[serde(with = "crate::bits::by_column")]
    pub coefficients: Vec<(usize, f64)>,
}

/// A forecast is never smaller than this share of the work-and-bytes baseline.
const FLOOR: f64 = 0.1;

impl Lasso {
    /// What a row costs per call, ns.
    #[must_use]
    pub fn constant_for(&self, x: &[f64]) -> f64 {
        constant_of(self.constant_ns + linear_ns(&self.per_call, x), self.constant_per, x)
    }

    /// Latency in ns of one row, given its baseline latency; always positive.
    #[must_use]
    pub fn predict(&self, x: &[f64], baseline_ns: f64) -> f64 {
        let ns = self.constant_for(x) + linear_ns(&self.coefficients, x);
        ns.max(FLOOR * baseline_ns)
    }

    /// Whether every number is finite and in its range for rows of `columns` features.
    #[must_use]
    pub fn is_valid(&self, columns: usize) -> bool {
        self.constant_ns.is_finite()
            && self.constant_per.is_none_or(|column| column < columns)
            && self
                .per_call
                .iter()
                .chain(&self.coefficients)
                .all(|(i, c)| *i < columns && c.is_finite())
    }
}
